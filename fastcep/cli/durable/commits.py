"""Commits of a durable run: matches, input position and engine state, written atomically."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fastcep.cli.durable.record import Part, Record
from fastcep.cli.durable.segments import Segments

if TYPE_CHECKING:
    from fastcep.cli.durable.folder import Folder
    from fastcep.cli.durable.progress import CountingEngine
    from fastcep.cli.summary import Summary

__all__ = ["Commits"]


class Commits:
    """Writer of the commits of a run; a context manager that, on an error, removes uncommitted files.

    Parameters
    ----------
    folder
        Folder of the run.
    settings
        Settings to store in each record.
    every
        Seconds between two commits.
    before
        Last commit of the previous run, None if there is none.
    late
        Whether late events are kept.

    Attributes
    ----------
    matches, late
        Writers of the matches and late events since the last commit; ``late`` is None if late events are not kept.
    rows
        Number of input rows in the last commit.
    seconds
        Total time spent on commits.
    """

    def __init__(
        self, folder: Folder, settings: Mapping[str, Any], every: float, before: Record | None, *, late: bool
    ) -> None:
        self._folder, self._settings, self._every, self._before = folder, settings, every, before
        self._number = 1 if before is None else before.number + 1
        self.matches = Segments(folder, "matches", () if before is None else before.matches, self._number)
        self.late = Segments(folder, "late", () if before is None else before.late, self._number) if late else None
        self.rows = 0 if before is None else before.rows
        self.seconds = 0.0
        self._last = perf_counter()

    def __enter__(self) -> Commits:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.matches.abandon()
            if self.late is not None:
                self.late.abandon()

    @property
    def due(self) -> bool:
        """True if the time between two commits has passed."""
        return perf_counter() - self._last >= self._every

    def commit(
        self, engine: CountingEngine, summary: Summary, *, finished: bool = False, bad_rows: Part | None = None
    ) -> Record:
        """Commit the position in the input, the engine state and the matches so far.

        Parameters
        ----------
        engine
            Engine of the run, with its position in the input.
        summary
            Counts of the run so far.
        finished
            Whether the input has ended and the engine was flushed.
        bad_rows
            File of bad rows.

        Raises
        ------
        ValidationError
            If a file cannot be written; the previous commit stays valid.
        """
        start = perf_counter()
        number = self._number
        self.matches.cut()
        if self.late is not None:
            self.late.cut()
        state = None if finished else self._folder.write(f"state-{number}.fcs", engine.engine.snapshot())
        late = () if self.late is None else self.late.parts
        record = Record(
            number, self._settings, engine.rows, engine.digest, state, self.matches.parts, late, bad_rows, finished, {},
            asdict(summary),
        )  # fmt: skip
        self._folder.commit(record, self._before)
        self._before, self._number, self.rows = record, number + 1, engine.rows
        self._last = perf_counter()
        self.seconds += self._last - start
        return record
