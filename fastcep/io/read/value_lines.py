"""Read text files with one value per line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fastcep.errors import DataError, ValidationError

__all__ = ["read_value_lines"]

Value = TypeVar("Value")


def read_value_lines(path: Path, parse: Callable[[str], Value], expected: str) -> list[Value]:
    """Read a text file with one value per line; empty lines are left out.

    Parameters
    ----------
    path
        Path of a UTF-8 file.
    parse
        Converts a line without the space around it; raises a ValidationError if it is no value.
    expected
        Name of the values, for messages, such as ``"one time per line, such as 12.5ms"``.

    Returns
    -------
    list
        At least one value.

    Raises
    ------
    DataError
        If the file is no text or has no values, or a line is no value; the message names the file and the line.
    OSError
        If the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; expected {expected}") from None
    except ValueError:
        raise DataError(
            f"{str(path)!r}: a null byte in the name of the file; expected a file with {expected}"
        ) from None
    values = []
    for number, line in enumerate(lines, 1):
        if text := line.strip():
            try:
                values.append(parse(text))
            except ValidationError as error:
                raise DataError(f"{path}, line {number}: {error}") from None
    if not values:
        raise DataError(f"{path}: no values; expected {expected}")
    return values
