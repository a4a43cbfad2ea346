"""Partial matches that have timed out: what they bound and what they waited for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.engine.matches import Layout, Matches, QueryMatches
from fastcep.engine.output import numbered
from fastcep.engine.partitioned_matcher import Matching
from fastcep.engine.returns import Bindings
from fastcep.engine.state.validation import check_columns, check_within
from fastcep.errors import ValidationError
from fastcep.events import EventRing
from fastcep.plan import Plan
from fastcep.plan.ir import PREVIOUS
from fastcep.query.patterns import leaves_of
from fastcep.stored import Misfit

__all__ = ["TimedOut", "take_timed_out"]

Ints = npt.NDArray[np.int64]
_COLUMNS = ("bound", "waits_for")


_FACTS = ("states", "times", "windows", "bound")


@dataclass(frozen=True, slots=True)
class _Part:
    """Those of one call: what they bind, by sequence number; state, time, window, number of variables of each."""

    bindings: Bindings
    states: Ints
    times: Ints
    windows: Ints
    bound: Ints


class TimedOut:
    """Those of one query since they were taken last.

    Raises
    ------
    ValidationError
        A variable has the name of a column, or the query asks for contiguity.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._leaves = leaves_of(plan.query.pattern)
        self._parts: list[_Part] = []
        for leaf in self._leaves:
            if leaf.name in _COLUMNS:
                raise ValidationError(
                    f"timed_out=True: query {plan.query.name!r} has a variable {leaf.name!r}, which is the name of a "
                    "column of timed_out(); rename the variable"
                )
        if any(column.column == PREVIOUS for column in plan.columns):
            raise ValidationError(
                f"timed_out=True: query {plan.query.name!r} asks for contiguity, so nearly every partial match ends at "
                "the next event and not with its window; leave timed_out or the contiguity"
            )

    def __len__(self) -> int:
        return sum(part.bindings.n for part in self._parts)

    @property
    def nothing(self) -> _Part:
        """A part without rows."""
        empty = np.empty(0, np.int64)
        lengths = [empty if repeated else None for repeated in self._plan.repeated]
        return _Part(Bindings(0, [empty] * len(lengths), lengths), empty, empty, empty, empty)

    def add(self, matcher: Matching, numbers: EventRing | None) -> None:
        """Take what has timed out in a call; ``numbers`` as for ``take_matches``."""
        values, lengths, facts = matcher.take_timed_out()
        if len(facts) == 0:
            return
        states, times, windows = facts.T
        named = values if numbers is None else [numbered(positions, numbers) for positions in values]
        bindings = Bindings(len(facts), named, lengths)
        positive = [m for m, leaf in enumerate(self._leaves) if not leaf.negated]
        bound = sum((_holds(values[m], lengths[m]) for m in positive), np.zeros(len(facts), np.int64))
        self._parts.append(_Part(bindings, states, times, windows, bound))

    def _told(self, part: _Part) -> QueryMatches:
        more = {"bound": pa.array(part.bound, pa.int64()), "waits_for": self._waits_for(part.states)}
        each = np.ones(len(part.states), np.int64)
        ids = np.ascontiguousarray(part.windows) if self._plan.windows is not None else None
        times = np.ascontiguousarray(part.times)
        return QueryMatches(self._plan.query, part.bindings, each, each, times, more, ids, partial=True)

    def _waits_for(self, states: Ints) -> pa.Array[Any]:
        """The variables that the pattern allows next."""
        members: dict[int, set[int]] = {}
        for edge in self._plan.edges:
            members.setdefault(edge.source, set()).add(edge.member)
        names = [[self._leaves[member].name for member in sorted(members[state])] for state in states.tolist()]
        return pa.array(names, pa.list_(pa.string()))

    @property
    def waiting(self) -> list[QueryMatches]:
        """Those that wait to be taken, behind a part without rows."""
        return [self._told(part) for part in (self.nothing, *self._parts)]

    def forget(self) -> None:
        """Drop what waits."""
        self._parts = []

    def columns(self) -> Iterator[tuple[str, dict[str, Ints]]]:
        """What waits, as tables for a snapshot: the partial matches, and per variable the events and their number."""
        parts = self._parts
        if parts:
            facts = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _FACTS}
            yield "", facts
        for m, leaf in enumerate(self._leaves if parts else ()):
            if leaf.negated:
                continue
            yield f"events {m}", {"event": np.concatenate([part.bindings.values[m] for part in parts])}
            lengths = [part.bindings.lengths[m] for part in parts]
            if leaf.repeated:
                yield f"lengths {m}", {"length": np.concatenate([own for own in lengths if own is not None])}

    @property
    def tables(self) -> list[str]:
        """The names of the tables of `columns`."""
        positive = [(m, leaf) for m, leaf in enumerate(self._leaves) if not leaf.negated]
        return ["", *(f"events {m}" for m, _ in positive), *(f"lengths {m}" for m, leaf in positive if leaf.repeated)]

    def put(self, tables: Mapping[str, Mapping[str, Ints]], name: str) -> None:
        """Take over what waits from tables of `columns`; in messages ``name`` stands before theirs.

        Raises
        ------
        Misfit
            They do not fit together, or not the query.
        """
        for table, columns in tables.items():
            wanted = _FACTS if not table else ("event",) if table.startswith("events") else ("length",)
            check_columns(name + table, columns, dict.fromkeys(wanted, np.int64))
        if "" not in tables:
            for table in tables:
                raise Misfit(f"table {name + table!r}", "events", "none, as no partial match has timed out")
            return
        facts = tables[""]
        rows = len(facts["states"])
        waits = {edge.source for edge in self._plan.edges}
        for state in np.unique(facts["states"]).tolist():
            if state < 0 or state not in waits:
                raise Misfit(f"table {name!r}, states", str(state), "one of a state in which something is waited for")
        check_within(f"table {name!r}, bound", facts["bound"], 0, len(self._leaves))
        values: list[Ints] = []
        lengths: list[Ints | None] = []
        empty = np.empty(0, np.int64)
        for m, leaf in enumerate(self._leaves):
            values.append(tables[f"events {m}"]["event"] if f"events {m}" in tables else empty)
            lengths.append(tables.get(f"lengths {m}", {}).get("length", empty) if leaf.repeated else None)
            if not leaf.negated:
                self._check_events(values[m], lengths[m], rows, f"{name}events {m}", f"{name}lengths {m}")
        self._parts = [_Part(Bindings(rows, values, lengths), **{fact: facts[fact] for fact in _FACTS})]

    @staticmethod
    def _check_events(values: Ints, lengths: Ints | None, rows: int, name: str, counted: str) -> None:
        """Refuse another number of events of a variable than its partial matches have."""
        expected = rows
        if lengths is not None:
            if len(lengths) != rows:
                raise Misfit(f"table {counted!r}", f"{len(lengths)} rows", f"{rows}")
            check_within(f"table {counted!r}, length", lengths, 0, len(values))
            expected = int(lengths.sum())
        if len(values) != expected:
            raise Misfit(f"table {name!r}", f"{len(values)} rows", f"{expected}")


def _holds(values: Ints, lengths: Ints | None) -> Ints:
    """Per row 1 if it binds a variable."""
    if lengths is None:
        return (values >= 0).astype(np.int64)
    ends = np.cumsum(lengths)
    found = np.concatenate([[0], np.cumsum(values >= 0)])
    return np.asarray(found[ends] > found[ends - lengths], np.int64)


def take_timed_out(queries: Sequence[TimedOut]) -> pa.Table:
    """Take what several queries have as one table, by time, then query; if that fails, nothing is taken."""
    parts = [part for query in queries for part in query.waiting]
    table = Matches(parts, Layout(parts)).to_arrow()
    for query in queries:
        query.forget()
    names = ["timed_out_at" if name == "detected_at" else name for name in table.column_names]
    table = table.rename_columns(names)
    first = ["query", "window_id", "timed_out_at", *_COLUMNS]
    return table.select([*first, *(name for name in names if name not in first)])
