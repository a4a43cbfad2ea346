"""Which format a name or the first bytes of an input speak of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from fastcep.errors import ValidationError

__all__ = ["ENDINGS", "FORMATS", "Format", "check_format", "compression_of", "of_name", "sniff"]

FORMATS = ("csv", "jsonl", "parquet", "arrow")
ENDINGS = {
    ".csv": "csv", ".tsv": "csv",
    ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow", ".arrows": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


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
    """

    name: str
    compression: str | None = None
    delimiter: str = ","


def of_name(name: str) -> Format | None:
    """Tell the format by the ending of a file's name, None if the ending is unknown."""
    file = PurePath(name)
    compression = COMPRESSIONS.get(file.suffix.lower())
    ending = (PurePath(file.stem) if compression else file).suffix.lower()
    if ending not in ENDINGS or (compression and ENDINGS[ending] == "parquet"):
        return None
    return Format(ENDINGS[ending], compression, "\t" if ending == ".tsv" else ",")


def compression_of(head: bytes) -> str | None:
    """Tell by its first bytes how data is compressed, None if it is not."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def sniff(head: bytes) -> str:
    """Tell the format of uncompressed data by its first bytes; what looks like nothing else is CSV."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    return "jsonl" if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{" else "csv"


def check_format(name: str | None) -> None:
    """Refuse a format that there is not.

    Raises
    ------
    ValidationError
        If it is neither None nor one of `FORMATS`.
    """
    if name is not None and name not in FORMATS:
        raise ValidationError(f"format {name!r}: expected one of {', '.join(FORMATS)}")
