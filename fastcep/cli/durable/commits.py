"""One commit after the other: what a run has found, where it stands and what its engine holds, as one."""

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
    """Makes the commits of a run; a context manager that removes what was written but not committed.

    Parameters
    ----------
    folder
        Where to.
    settings
        What belongs into each record.
    every
        Seconds between two commits.
    before
        The last commit of the run before, None if there was none.
    late
        Whether late events are kept.

    Attributes
    ----------
    matches, late
        Take what is found until the next commit; ``late`` is None if late events are not kept.
    rows
        Of the input, up to the last commit.
    seconds
        That the commits took, in all.
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
        """Whether it is time for the next."""
        return perf_counter() - self._last >= self._every

    def commit(
        self, taker: CountingEngine, summary: Summary, *, finished: bool = False, bad_rows: Part | None = None
    ) -> Record:
        """Commit what was taken and found so far.

        Parameters
        ----------
        taker
            The engine, and how far it has got.
        summary
            The counts.
        finished
            Whether this is the end; the engine has been flushed then.
        bad_rows
            The file of bad rows.

        Raises
        ------
        ValidationError
            If something cannot be written; the commit before counts on.
        """
        start = perf_counter()
        number = self._number
        self.matches.cut()
        if self.late is not None:
            self.late.cut()
        state = None if finished else self._folder.write(f"state-{number}.fcs", taker.engine.snapshot())
        late = () if self.late is None else self.late.parts
        record = Record(
            number, self._settings, taker.rows, taker.digest, state, self.matches.parts, late, bad_rows, finished, {},
            asdict(summary),
        )  # fmt: skip
        self._folder.commit(record, self._before)
        self._before, self._number, self.rows = record, number + 1, taker.rows
        self._last = perf_counter()
        self.seconds += self._last - start
        return record
