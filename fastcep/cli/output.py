"""Matches written to a file while the run goes on, so that memory does not grow with the result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.io import sinks

__all__ = ["MatchWriter", "check_output"]

_SUFFIXES = (".parquet", ".csv", ".arrow")


def check_output(path: Path) -> None:
    """Refuse an output that cannot work, before the run starts.

    Raises
    ------
    ValidationError
        If the suffix is none of ``.parquet .csv .arrow`` or the folder does not exist.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise ValidationError(f"cannot write matches to '{path}': the name must end in {', '.join(_SUFFIXES)}")
    if not path.parent.is_dir():
        raise ValidationError(f"cannot write matches to '{path}': there is no folder '{path.parent}'; make it first")


class MatchWriter:
    """Appends tables of matches to one Parquet, CSV or Arrow file.

    The file is complete and readable after the ``with`` block, also when the block ends with an error.

    Parameters
    ----------
    path
        Ends in ``.parquet`` (zstd), ``.csv`` (lists as text, ``[1 2]``) or ``.arrow`` (IPC file format).
    """

    def __init__(self, path: Path) -> None:
        check_output(path)
        self._path = path
        self._suffix = path.suffix.lower()
        self._writer: Any = None

    def __enter__(self) -> MatchWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, matches: pa.Table) -> None:
        """Append ``matches``; the first call, which may hold no rows, decides the columns."""
        if self._suffix == ".csv":
            matches = sinks.flat(matches)  # the same text for lists as write_matches
        if self._writer is None:
            self._writer = self._open()(matches.schema)
        if len(matches):
            self._writer.write_table(matches)

    def _open(self) -> Callable[[pa.Schema], Any]:
        path = str(self._path)
        if self._suffix == ".parquet":
            from pyarrow import parquet

            return lambda schema: parquet.ParquetWriter(path, schema, compression="zstd")
        if self._suffix == ".csv":
            from pyarrow import csv

            return lambda schema: csv.CSVWriter(path, schema)
        return lambda schema: pa.ipc.new_file(path, schema)
