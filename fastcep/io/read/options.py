"""Options for reading an input."""

from __future__ import annotations

from dataclasses import dataclass

from fastcep.errors import ValidationError
from fastcep.io.formats import check_format

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """Options for reading an input; None selects the default.

    Attributes
    ----------
    format
        One of `fastcep.io.formats.FORMATS`; by default detected from the ending or, for standard input, from the first
        bytes.
    delimiter
        Field separator of CSV; by default a comma, or a tab for ``.tsv``.
    encoding
        Encoding of CSV and JSON lines; by default UTF-8.
    chunk_rows
        Number of rows of a batch.

    Raises
    ------
    ValidationError
        If an option is invalid.
    """

    format: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    chunk_rows: int = 65_536

    def __post_init__(self) -> None:
        check_format(self.format)
        if self.chunk_rows < 1:
            raise ValidationError(f"chunk_rows={self.chunk_rows}: expected at least 1")
        delimiter = self.delimiter
        if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
            raise ValidationError(
                f"delimiter {delimiter!r}: expected one ASCII character that is not a quote or line end, such as ';'"
            )
