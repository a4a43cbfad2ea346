"""File formats, and their detection from the ending of a name or the first bytes."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePath
from typing import Literal

from fastcep.errors import ValidationError

__all__ = ["ENDINGS", "FORMATS", "Format", "check_format", "compression_of", "of_name", "sniff"]

Compression = Literal["gzip", "zstd"]

FORMATS = ("csv", "jsonl", "parquet", "arrow")
ENDINGS = {
    ".csv": "csv", ".tsv": "csv",
    ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow", ".arrows": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}
MAGIC: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True)
class Format:
    """A file format and its variant.

    Attributes
    ----------
    name
        One of `FORMATS`.
    compression
        ``"gzip"``, ``"zstd"`` or None.
    delimiter
        Field separator of CSV.
    stream
        True to write Arrow in the stream format. Readers detect it from the first bytes.
    """

    name: str
    compression: Compression | None = None
    delimiter: str = ","
    stream: bool = False


def of_name(name: str, format: str | None = None) -> Format | None:
    """Return the format for the ending of a file name, None if the ending is unknown; `format` overrides it."""
    file = PurePath(name)
    compression = COMPRESSIONS.get(file.suffix.lower())
    ending = (PurePath(file.stem) if compression else file).suffix.lower()
    form = format or ENDINGS.get(ending)
    if form is None or (compression and form == "parquet"):
        return None
    return Format(form, compression, "\t" if ending == ".tsv" else ",", ending == ".arrows")


def compression_of(head: bytes) -> Compression | None:
    """Detect the compression of data from its first bytes; None if it is not compressed."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def sniff(head: bytes) -> str:
    """Detect the format of uncompressed data from its first bytes; CSV if nothing else matches."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    return "jsonl" if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{" else "csv"


def check_format(name: str | None, direction: str = "input") -> None:
    """Check the name of an input or output format.

    Raises
    ------
    ValidationError
        If it is neither None nor one of `FORMATS`.
    """
    if name is not None and name not in FORMATS:
        close = get_close_matches(str(name).lower(), FORMATS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValidationError(f"unknown {direction} format {name!r}; expected one of {', '.join(FORMATS)}{hint}")
