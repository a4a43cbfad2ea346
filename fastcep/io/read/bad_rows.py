"""Rows that cannot be taken: what is wrong with them, and the file that they go to."""

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


@dataclass(frozen=True, slots=True)  # a megabyte of text may hold half a million of them
class BadRow:
    """A row of an input that cannot be taken.

    Attributes
    ----------
    file
        The input's name.
    row
        Number of the row, from 0, not counting a header.
    column
        Name or number of the column at fault, None if it is the whole row.
    found, expected, mend
        What there is, what there should be, and what to do.
    values
        The values of the columns that the schema reads, by name; None where the row could not be split.
    line
        Of a text file, the line on which it begins, from 1, where that is known.
    raw
        The row's text where it could not be split, else None; its beginning is shown behind `mend`.
    """

    file: str
    row: int
    column: str | int | None
    found: str
    expected: str
    mend: str
    values: Mapping[str, Any] | None = None
    raw: str | None = None
    line: int | None = None

    def error(self) -> DataError:
        """Return the error for a row that goes nowhere else."""
        line = "" if self.line is None else f"line {self.line}, "
        place = f"{self.file}, {line}row {self.row}" + ("" if self.column is None else f", column {self.column!r}")
        raw = "" if self.raw is None else f" {self.raw[:80]!r}"
        return DataError(f"{place}: found {self.found}, expected {self.expected}; {self.mend}{raw}")

    def as_json(self) -> str:
        """Return one line of JSON: file, line (if it is known), row, column, found, expected, and values or raw."""
        data: dict[str, Any] = {
            "file": self.file, **({} if self.line is None else {"line": self.line}), "row": self.row,
            "column": self.column, "found": self.found, "expected": self.expected,
        }  # fmt: skip
        data |= {"values": dict(self.values)} if self.values is not None else {"raw": self.raw}
        return json.dumps(data, ensure_ascii=False, default=_plain)


def _plain(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


class BadRows:
    """A file of JSON lines that takes bad rows and counts them.

    Parameters
    ----------
    path
        The file; an existing one is replaced, and it is there even if no row is bad.

    Attributes
    ----------
    count
        How many there were.

    Raises
    ------
    ValidationError
        If the file cannot be written.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = fspath(path)
        self.count = 0
        with self._told():
            self._file: TextIO = open(path, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115

    def add(self, rows: Iterable[BadRow]) -> None:
        """Write and count rows."""
        with self._told():
            for row in rows:
                self._file.write(row.as_json() + "\n")
                self.count += 1

    def close(self) -> None:
        """Close the file; it is complete then."""
        with self._told():
            self._file.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ValidationError(
                f"cannot write bad rows to {self.path!r}: {error.strerror}; give another path"
            ) from None


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of an input: a batch of those that are right, and the others, ascending.

    Attributes
    ----------
    batch
        The columns that the schema needs.
    bad
        Rows that are not in the batch.
    start
        Number of the first row, right or not.
    lines
        Where its rows stand in a text file, if that is known.
    """

    batch: pa.RecordBatch
    bad: tuple[BadRow, ...] = ()
    start: int = 0
    lines: Lines | None = None

    def __len__(self) -> int:
        return self.batch.num_rows + len(self.bad)

    def at(self, start: int) -> Piece:
        """Return the piece as it is when its first row has the number `start`."""
        if start == self.start:
            return self
        bad = tuple(replace(row, row=row.row - self.start + start) for row in self.bad)
        return replace(self, bad=bad, start=start)

    def rows(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the rows of the batch, int64[n]."""
        if not self.bad:
            return np.arange(self.start, self.start + self.batch.num_rows)
        here = np.ones(len(self), dtype=bool)
        here[[row.row - self.start for row in self.bad]] = False
        return np.flatnonzero(here) + self.start

    def without(self, keep: npt.NDArray[np.bool_], bad: Iterable[BadRow]) -> Piece:
        """Return the piece with the rows of the batch where `keep` is false moved to `bad`."""
        batch = self.batch.take(from_numpy(np.flatnonzero(keep)))
        return replace(self, batch=batch, bad=tuple(sorted((*self.bad, *bad), key=lambda row: row.row)))

    def told(self) -> Iterator[BadRow]:
        """Give the bad rows with their lines, if these are known."""
        if self.lines is None or not self.bad:
            yield from self.bad
            return
        lines = self.lines.of(np.array([row.row - self.start for row in self.bad])).tolist()
        for row, line in zip(self.bad, lines, strict=True):
            yield replace(row, line=line)

    def before_the_first_bad(self) -> pa.RecordBatch:
        """Return the right rows before the first bad one."""
        return self.batch.slice(0, self.bad[0].row - self.start) if self.bad else self.batch
