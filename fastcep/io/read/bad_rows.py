"""Invalid rows of an input, and the file that collects them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.errors import DataError, ValidationError
from fastcep.events.convert import from_numpy
from fastcep.io.read.lines import Lines

__all__ = ["BadRow", "BadRows", "Piece"]


@dataclass(frozen=True, slots=True)  # a megabyte of text can hold half a million
class BadRow:
    """An invalid row of an input.

    Attributes
    ----------
    file
        Name of the input.
    row
        Number of the row, from 0, not counting a header.
    column
        Name or number of the column at fault, None if the whole row is invalid.
    found, expected, remedy
        Description of the value, of valid values, and of the remedy.
    values
        Values of the columns that the schema reads, by name; None if the row could not be split.
    line
        Line of a text file on which the row begins, from 1; None if unknown.
    raw
        Text of the row if it could not be split, otherwise None. The message ends with its first characters.
    """

    file: str
    row: int
    column: str | int | None
    found: str
    expected: str
    remedy: str
    values: Mapping[str, Any] | None = None
    raw: str | None = None
    line: int | None = None

    def error(self) -> DataError:
        """Return the error for this row."""
        line = "" if self.line is None else f"line {self.line}, "
        place = f"{self.file}, {line}row {self.row}" + ("" if self.column is None else f", column {self.column!r}")
        raw = "" if self.raw is None else f" {self.raw[:80]!r}"
        return DataError(f"{place}: found {self.found}, expected {self.expected}; {self.remedy}{raw}")

    def as_json(self) -> str:
        """Return one line of JSON: file, line (if known), row, column, found, expected, and values or raw."""
        data: dict[str, Any] = {
            "file": self.file, **({} if self.line is None else {"line": self.line}), "row": self.row,
            "column": self.column, "found": self.found, "expected": self.expected,
        }  # fmt: skip
        data |= {"values": dict(self.values)} if self.values is not None else {"raw": self.raw}
        return json.dumps(data, ensure_ascii=False, default=_plain)


def _plain(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


class BadRows:
    """A file of JSON lines that collects bad rows and counts them.

    Parameters
    ----------
    path
        Path of the file. It replaces an existing file, and is created even if no row is bad.

    Attributes
    ----------
    count
        Number of bad rows.

    Raises
    ------
    ValidationError
        If the file cannot be written.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path: str = fspath(path)
        self.count: int = 0
        with self._with_path_in_errors():
            self._file: TextIO = open(path, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115

    def add(self, rows: Iterable[BadRow]) -> None:
        """Append rows."""
        with self._with_path_in_errors():
            for row in rows:
                self._file.write(row.as_json() + "\n")
                self.count += 1

    def close(self) -> None:
        """Close the file, which is then complete."""
        with self._with_path_in_errors():
            self._file.close()

    @contextmanager
    def _with_path_in_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ValidationError(
                f"cannot write bad rows to {self.path!r}: {error.strerror}; give another path"
            ) from None


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of an input: a batch of the valid ones, and the bad ones in ascending order.

    Attributes
    ----------
    batch
        Valid rows, with the columns that the schema needs.
    bad
        Rows that are not in the batch.
    start
        Number of the first row, valid or bad.
    lines
        Line numbers of the rows in a text file; None if unknown.
    """

    batch: pa.RecordBatch
    bad: tuple[BadRow, ...] = ()
    start: int = 0
    lines: Lines | None = None

    def __len__(self) -> int:
        return self.batch.num_rows + len(self.bad)

    def starting_at(self, start: int) -> Piece:
        """Return the piece with its rows numbered from `start`."""
        if start == self.start:
            return self
        bad = tuple(replace(row, row=row.row - self.start + start) for row in self.bad)
        return replace(self, bad=bad, start=start)

    def rows(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the rows of the batch, int64[n]."""
        if not self.bad:
            return np.arange(self.start, self.start + self.batch.num_rows)
        valid = np.ones(len(self), dtype=bool)
        valid[[row.row - self.start for row in self.bad]] = False
        return np.flatnonzero(valid) + self.start

    def without(self, keep: npt.NDArray[np.bool_], bad: Iterable[BadRow]) -> Piece:
        """Return the piece without the rows of the batch where `keep` is false, and with these bad rows added."""
        batch = self.batch.take(from_numpy(np.flatnonzero(keep)))
        return replace(self, batch=batch, bad=tuple(sorted((*self.bad, *bad), key=lambda row: row.row)))

    def bad_with_lines(self) -> Iterator[BadRow]:
        """Yield the bad rows with their line numbers, if these are known."""
        if self.lines is None or not self.bad:
            yield from self.bad
            return
        lines = self.lines.of_rows(np.array([row.row - self.start for row in self.bad])).tolist()
        for row, line in zip(self.bad, lines, strict=True):
            yield replace(row, line=line)

    def before_first_bad(self) -> pa.RecordBatch:
        """Return the valid rows before the first bad row."""
        return self.batch.slice(0, self.bad[0].row - self.start) if self.bad else self.batch
