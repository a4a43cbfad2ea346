"""The formats of files, read and written, and what tells them: a name's ending, the first bytes."""

from __future__ import annotations

from dataclasses import dataclass
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
    """A format and how it is packed.

    Attributes
    ----------
    name
        One of `FORMATS`.
    compression
        ``"gzip"``, ``"zstd"`` or None.
    delimiter
        The character between the fields of CSV.
    stream
        Of Arrow: whether it is written in the stream format; when read, the first bytes tell.
    """

    name: str
    compression: Compression | None = None
    delimiter: str = ","
    stream: bool = False


def of_name(name: str, format: str | None = None) -> Format | None:
    """Tell the format by the ending of a file's name, None if the ending is unknown; `format` overrules it."""
    file = PurePath(name)
    compression = COMPRESSIONS.get(file.suffix.lower())
    ending = (PurePath(file.stem) if compression else file).suffix.lower()
    form = format or ENDINGS.get(ending)
    if form is None or (compression and form == "parquet"):
        return None
    return Format(form, compression, "\t" if ending == ".tsv" else ",", ending == ".arrows")


def compression_of(head: bytes) -> Compression | None:
    """Tell by its first bytes how data is compressed, None if it is not."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def sniff(head: bytes) -> str:
    """Tell the format of uncompressed data by its first bytes; what looks like nothing else is CSV."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    return "jsonl" if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{" else "csv"


def check_format(name: str | None, of: str = "input") -> None:
    """Refuse a format that there is not; `of` says in the message what was to have it.

    Raises
    ------
    ValidationError
        If it is neither None nor one of `FORMATS`.
    """
    if name is not None and name not in FORMATS:
        raise ValidationError(f"unknown {of} format {name!r}; expected one of {', '.join(FORMATS)}")
