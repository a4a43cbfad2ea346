"""Remedies for values and files that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

__all__ = ["binary_format", "missing_column", "other_file", "value_remedy"]

_OTHER = "fix the value or declare another type"
_MISSING = ("na", "n/a", "nan", "null", "none", "nil", "-", "?", "missing")
_BOOLS = {
    "yes": "true",
    "y": "true",
    "on": "true",
    "t": "true",
    "no": "false",
    "n": "false",
    "off": "false",
    "f": "false",
}
_BINARY = {b"PAR1": "parquet", b"ARROW1": "arrow"}


def value_remedy(found: str | None, expected: str) -> str:
    """Return the remedy for a value that does not have the expected dtype; the value as text, None: unknown."""
    text = "" if found is None else found.strip().strip('"').lower()
    if expected == "UTF-8 text":
        return "give the encoding of the file, such as latin-1 (--encoding), or fix the value"
    if expected == "float64" and re.fullmatch(r"[+-]?\d+,\d+", text):
        return "write a decimal point, or declare string"
    if text in _MISSING and expected in ("int64", "float64", "bool"):
        return "leave the field empty for null, or declare string"
    if text in _BOOLS and expected == "bool":
        return f"write {_BOOLS[text]}, or declare string"
    return _OTHER


def missing_column(use: str, names: Sequence[str]) -> str:
    """Return the remedy for a missing column of a file, given its use and the names of the columns that there are."""
    if any(re.fullmatch(r"[+-]?\d+(\.\d+)?", name.strip()) for name in names):
        return "if the first line is an event, declare NO HEADER (header=False) and give numbers of columns"
    word = use.removeprefix("the ")
    if word in ("time", "type"):
        return f"name the right one: {word.upper()} 'column' ({word}='column')"
    return (
        f"name the right one: {use.partition('.')[2]} … FROM 'column' (sources=…)"
        if "." in use
        else "name the right one"
    )


def binary_format(head: bytes) -> str | None:
    """Return the remedy for a text file whose first bytes are those of a binary format; None if they are not."""
    for magic, name in _BINARY.items():
        if head.startswith(magic):
            return f"found {name} data; give format='{name}' (--format {name}), or rename the file to .{name}"
    if head.startswith(b"PK\x03\x04"):
        return "found a zip archive or an Excel file; unpack it, or save the table as CSV"
    return None


def other_file(name: str) -> str:
    """Return the remedy for a file whose ending is not known."""
    ending = PurePath(name).suffix.lower()
    if ending in (".xlsx", ".xls", ".ods"):
        return "save the table as CSV"
    if ending == ".json":
        return "for one object on each line give format='jsonl' (--format jsonl)"
    return "or give the format, such as format='csv' (--format csv)"
