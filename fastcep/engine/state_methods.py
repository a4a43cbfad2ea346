"""The methods of `Engine` that store, restore and move its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Self

import pyarrow as pa

from fastcep._core.matcher.send import HasEventLoop
from fastcep.engine.queries import Buildable
from fastcep.engine.state_transfer import StateTransfer
from fastcep.engine.stored_engine import (
    changed_queries,
    first_queries,
    make_like,
    name_model_steps,
    read_snapshot,
    stored_auto,
)
from fastcep.engine.thread_pool import make_pool
from fastcep.errors import ValidationError
from fastcep.overload.protocols import Detector, Shedder
from fastcep.query import ast

__all__ = ["StateMethods"]


class StateMethods(HasEventLoop):
    """Base class of `Engine`: snapshots and key groups."""

    _transfer: StateTransfer

    @property
    def groups(self) -> tuple[int, ...]:
        """The key groups whose events the engine takes: all of them, except those removed by `extract`."""
        return self._transfer.groups

    def __reduce__(self) -> NoReturn:
        """Raise `TypeError`: an engine cannot be pickled or copied."""
        raise TypeError(
            "an engine cannot be pickled or copied; take a snapshot() and create another one with Engine.restore()"
        )

    def partial_matches(self) -> pa.Table:
        """Return a table of the live partial matches, such as to choose which key groups to move first.

        Matches that wait for time to pass, for a trailing ``NEG`` or a tick, are not included.

        Returns
        -------
        pyarrow.Table
            A row per partial match, with the columns ``query``, ``variable`` (string: the one bound last), ``started``,
            ``created`` (int64: positions in the stream of its first and last event), ``key_group`` (uint8; null if the
            query has no key), ``bytes`` (int64: in memory, without lists of Kleene variables, which it shares with
            others), ``class`` (int32: of the shedder, 0 without classes) and ``utility`` (float64: larger values are
            dropped later; null if there is no shedder that knows it, see `Shedder.utility`). While the overload
            control sleeps, there are neither classes nor utilities.

        Raises
        ------
        ValidationError
            If a query uses the factorised store, or while another thread uses the engine.
        """
        return self._transfer.partial_matches()

    def snapshot(self, groups: Iterable[int] | None = None) -> bytes:
        """Return the engine's state; the engine itself does not change.

        Parameters
        ----------
        groups
            Only the state of these key groups, which `merge` can add to another engine: partial matches, the events
            that they bind, the events kept for ``NEG``, and open windows. Counters, late events and timed-out partial
            matches are not included; they stay here. None: the whole state.

        Returns
        -------
        bytes
            See docs/reliability.md.

        Raises
        ------
        ValidationError
            If the engine does not have such a group, if the state of a query cannot be divided by key, if the engine
            has no queries, after :meth:`flush`, or while another thread uses the engine.
        """
        return self._transfer.snapshot(groups)

    def extract(self, groups: Iterable[int]) -> bytes:
        """Remove the state of key groups and return it; the engine ignores events of these groups from now on.

        The ignored events still count as events of the stream. So another engine that gets the same events, and these
        groups by `merge`, finds the matches that this one would have found.

        Parameters
        ----------
        groups
            As for `snapshot`.

        Raises
        ------
        ValidationError, MemoryLimitError
            As `snapshot`; also if there is no room to rebuild the remaining state. Nothing has changed then.
        """
        return self._transfer.extract(groups)

    def merge(self, snapshot: bytes | bytearray | memoryview) -> None:
        """Add the key groups of a snapshot, with their state, to this engine.

        Engine and snapshot must have reached the same event of the same stream, and the engine must have none of the
        snapshot's groups. Counters, late events and timed-out partial matches stay in the other engine: take them
        there.

        Parameters
        ----------
        snapshot
            Result of `extract` or `snapshot` of an engine with the same queries.

        Raises
        ------
        SnapshotError
            The snapshot is damaged, of another version, of other queries, of another place in the stream, or has groups
            that this engine already has. Nothing has changed then.
        MemoryLimitError
            A query would need more than its share. Nothing has changed then.
        """
        self._transfer.merge(snapshot)

    @classmethod
    def restore(
        cls,
        snapshot: bytes | bytearray | memoryview,
        queries: ast.Query | Buildable | Sequence[ast.Query | Buildable] | None = None,
        *,
        clock: str | Callable[[], int] | None = None,
        memory_limit: str | int | None = "same",
        threads: int = 1,
        shedder: Shedder | str | None = "same",
        model: Any = None,
        detector: Detector | Sequence[Detector] | None = None,
        on_change: str = "error",
    ) -> Self:
        """Create an engine that continues where a snapshot was taken.

        Parameters
        ----------
        snapshot
            Result of `snapshot` or `extract`. The engine has its groups.
        queries
            The queries that the engine is to have; None: those of the snapshot, which contains them.
        clock
            As for the engine that took the snapshot; None: the same clock. Other options come from the snapshot.
        memory_limit
            As for an engine; ``"same"``: the limit of the engine that took the snapshot.
        threads
            As for an engine. It may differ from the engine that took the snapshot: a snapshot does not depend on it.
        shedder, model, detector
            As for the engine that took the snapshot, with the same options; what they have learned is in the snapshot.
            ``"same"``: ``"auto"`` if the engine had it, with its options; otherwise none.
            An engine that is restored from key groups may have others, which start without history.
        on_change
            If `queries` are others than those of the snapshot: ``"error"`` raises an error; ``"replace"`` continues
            queries of the same name and text, which call functions of the same signatures, with their state, and drops
            the state of the others. New and changed queries see the events from now on, as with `add`. The order of
            `queries` may differ in both cases.

        Raises
        ------
        SnapshotError
            The snapshot is damaged, of another version, of another schema, of other queries with ``"error"``, or of
            queries that this version plans differently or cannot read; functions that they call must be registered.
        MemoryLimitError
            A query would need more than its share.
        ValidationError
            `threads` or `on_change` is invalid, a new query cannot run, see `Engine`, or the shedder needs a model of
            it; the message then has the steps to take.
        """
        if on_change not in ("error", "replace"):
            raise ValidationError(f"found on_change={on_change!r}, expected 'error' or 'replace'")
        stored = read_snapshot(snapshot)
        first, wanted = first_queries(stored.header, queries, on_change)
        replaces = on_change == "replace" and first is not None and wanted is not None
        changed = changed_queries(stored.header, first or (), wanted or ()) if replaces else []
        with name_model_steps(stored.header, changed):
            engine = cls._planned_like(
                stored.header, first, clock=clock, memory_limit=memory_limit, threads=threads, shedder=shedder,
                model=model, detector=detector, replaces=replaces,
            )  # fmt: skip
        engine._transfer.resume(stored)
        if wanted is not None:
            with name_model_steps(stored.header, changed):
                engine._transfer.change_queries(wanted, changed)
        return engine

    def _suspend(self, reason: str) -> None:
        """Refuse all calls with this reason, while another host has the state; ``""``: accept them again."""
        self._transfer.suspend(reason)

    @classmethod
    def _planned_like(
        cls,
        header: dict[str, Any],
        queries: ast.Query | Buildable | Sequence[ast.Query | Buildable] | None = None,
        *,
        clock: str | Callable[[], int] | None = None,
        memory_limit: str | int | None = "same",
        threads: int = 1,
        shedder: Shedder | str | None = "same",
        model: Any = None,
        detector: Detector | Sequence[Detector] | None = None,
        replaces: bool = False,
    ) -> Self:
        """Create an engine without state that plans its queries as in the engine of a snapshot with this header.

        ``replaces``: the signatures of functions may be others, because the queries that call them start anew.
        """
        make_pool(threads)  # raises for an invalid number of threads
        if isinstance(shedder, str) and shedder == "same":
            shedder = stored_auto(header)
        options: dict[str, Any] = {"threads": threads, "shedder": shedder, "model": model, "detector": detector}
        if memory_limit != "same":
            options["memory_limit"] = memory_limit
        if clock is not None:
            options["clock"] = clock
        engine = make_like(cls, header, queries, options)
        engine._transfer.prepare(header, replaces)
        return engine
