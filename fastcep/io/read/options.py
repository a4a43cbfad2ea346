"""How an input is to be read."""

from __future__ import annotations

from dataclasses import dataclass

from fastcep.errors import ValidationError
from fastcep.io.formats import check_format

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """What a caller may say about an input; None is the default.

    Attributes
    ----------
    format
        One of `fastcep.io.formats.FORMATS`; by default the ending or, for standard input, the first bytes tell.
    delimiter
        The character between the fields of CSV; by default a comma, a tab for ``.tsv``.
    encoding
        Of CSV and JSON lines; by default UTF-8.
    chunk_rows
        Rows of a batch.

    Raises
    ------
    ValidationError
        If one of them cannot be.
    """

    format: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    chunk_rows: int = 65_536

    def __post_init__(self) -> None:
        check_format(self.format)
        if self.chunk_rows < 1:
            raise ValidationError(f"chunk_rows={self.chunk_rows}: expected at least 1")
        mark = self.delimiter
        if mark is not None and (len(mark) != 1 or not mark.isascii() or mark in '"\r\n'):
            raise ValidationError(f"delimiter {mark!r}: expected one ASCII character that is no quote or line end")
