"""Collect partial matches that have timed out, with the variables that they bind and those that they wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.engine.partitioned_matcher import AnyMatcher
from fastcep.engine.results.matches import Layout, Matches
from fastcep.engine.results.output import numbered
from fastcep.engine.results.query_matches import QueryMatches
from fastcep.engine.results.returns import Bindings
from fastcep.engine.state.validation import check_columns, check_within
from fastcep.errors import ValidationError
from fastcep.events import EventRing
from fastcep.plan import Plan
from fastcep.plan.ir import PREVIOUS
from fastcep.query.patterns import pattern_variables
from fastcep.stored import Misfit

__all__ = ["TimedOut", "take_timed_out"]

Ints = npt.NDArray[np.int64]
#: Columns of `Engine.timed_out` that a table of matches does not have.
_COLUMNS = ("bound", "waits_for")
#: Columns of the table of partial matches in a snapshot.
_FACTS = ("states", "times", "windows", "bound")


@dataclass(frozen=True, slots=True)
class _Part:
    """Partial matches that have timed out in one call.

    Attributes
    ----------
    bindings
        The bound events, by sequence number.
    states
        State of each partial match, int64[n].
    times
        Time when its window ended, int64[n], ns.
    windows
        Its explicit window, int64[n].
    bound
        Number of bound variables, int64[n].
    """

    bindings: Bindings
    states: Ints
    times: Ints
    windows: Ints
    bound: Ints


class TimedOut:
    """Partial matches of one query that have timed out since the last call of `take_timed_out`.

    Parameters
    ----------
    plan
        Plan of the query.

    Raises
    ------
    ValidationError
        A variable has the name of a column, or the query requires contiguity.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._variables = pattern_variables(plan.query.pattern)
        self._parts: list[_Part] = []
        for variable in self._variables:
            if variable.name in _COLUMNS:
                raise ValidationError(
                    f"timed_out=True: query {plan.query.name!r} has a variable {variable.name!r}, which is the name of "
                    "a column of timed_out(); rename the variable"
                )
        if any(column.column == PREVIOUS for column in plan.columns):
            raise ValidationError(
                f"timed_out=True: query {plan.query.name!r} requires contiguity, so nearly every partial match ends at "
                "the next event and not with its window; leave out timed_out or the contiguity"
            )

    def __len__(self) -> int:
        return sum(part.bindings.n for part in self._parts)

    @property
    def _empty(self) -> _Part:
        """A part without rows."""
        empty = np.empty(0, np.int64)
        lengths = [empty if repeated else None for repeated in self._plan.repeated]
        return _Part(Bindings(0, [empty] * len(lengths), lengths), empty, empty, empty, empty)

    def add(self, matcher: AnyMatcher, numbers: EventRing | None) -> None:
        """Take the partial matches that a call has timed out; ``numbers`` as for ``take_matches``."""
        values, lengths, facts = matcher.take_timed_out()
        if len(facts) == 0:
            return
        states, times, windows = facts.T
        events = values if numbers is None else [numbered(positions, numbers) for positions in values]
        bindings = Bindings(len(facts), events, lengths)
        positive = [number for number, variable in enumerate(self._variables) if not variable.negated]
        bound = sum((_is_bound(values[number], lengths[number]) for number in positive), np.zeros(len(facts), np.int64))
        self._parts.append(_Part(bindings, states, times, windows, bound))

    def _as_matches(self, part: _Part) -> QueryMatches:
        columns = {"bound": pa.array(part.bound, pa.int64()), "waits_for": self._waits_for(part.states)}
        ones = np.ones(len(part.states), np.int64)
        ids = np.ascontiguousarray(part.windows) if self._plan.windows is not None else None
        times = np.ascontiguousarray(part.times)
        return QueryMatches(self._plan.query, part.bindings, ones, ones, times, columns, ids, partial=True)

    def _waits_for(self, states: Ints) -> pa.Array[Any]:
        """Return the names of the variables that the pattern allows next, for each state."""
        following: dict[int, set[int]] = {}
        for edge in self._plan.edges:
            following.setdefault(edge.source, set()).add(edge.variable)
        names = [[self._variables[number].name for number in sorted(following[state])] for state in states.tolist()]
        return pa.array(names, pa.list_(pa.string()))

    @property
    def waiting(self) -> list[QueryMatches]:
        """The partial matches that wait to be taken, after a part without rows."""
        return [self._as_matches(part) for part in (self._empty, *self._parts)]

    def forget(self) -> None:
        """Drop the partial matches that wait."""
        self._parts = []

    def columns(self) -> Iterator[tuple[str, dict[str, Ints]]]:
        """Yield tables for a snapshot: the waiting partial matches, and for each variable its events and lengths."""
        parts = self._parts
        if parts:
            facts = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _FACTS}
            yield "", facts
        for number, variable in enumerate(self._variables if parts else ()):
            if variable.negated:
                continue
            yield f"events {number}", {"event": np.concatenate([part.bindings.values[number] for part in parts])}
            if variable.repeated:
                lengths = [part.bindings.lengths[number] for part in parts]
                yield f"lengths {number}", {"length": np.concatenate([sizes for sizes in lengths if sizes is not None])}

    @property
    def tables(self) -> list[str]:
        """The names of the tables of `columns`."""
        positive = [(number, variable) for number, variable in enumerate(self._variables) if not variable.negated]
        lengths = [f"lengths {number}" for number, variable in positive if variable.repeated]
        return ["", *(f"events {number}" for number, _ in positive), *lengths]

    def put(self, tables: Mapping[str, Mapping[str, Ints]], prefix: str) -> None:
        """Restore the waiting partial matches from the tables of `columns`; in messages ``prefix`` precedes the name.

        Raises
        ------
        Misfit
            The tables do not fit together, or do not fit the query.
        """
        for table, columns in tables.items():
            expected = _FACTS if not table else ("event",) if table.startswith("events") else ("length",)
            check_columns(prefix + table, columns, dict.fromkeys(expected, np.int64))
        if "" not in tables:
            for table in tables:
                raise Misfit(f"table {prefix + table!r}", "events", "none, as no partial match has timed out")
            return
        facts = tables[""]
        rows = len(facts["states"])
        states_with_edges = {edge.source for edge in self._plan.edges}
        for state in np.unique(facts["states"]).tolist():
            if state < 0 or state not in states_with_edges:
                raise Misfit(f"table {prefix!r}, states", str(state), "a state that waits for a variable")
        check_within(f"table {prefix!r}, bound", facts["bound"], 0, len(self._variables))
        values: list[Ints] = []
        lengths: list[Ints | None] = []
        empty = np.empty(0, np.int64)
        for number, variable in enumerate(self._variables):
            events_table, lengths_table = f"events {number}", f"lengths {number}"
            values.append(tables[events_table]["event"] if events_table in tables else empty)
            lengths.append(tables.get(lengths_table, {}).get("length", empty) if variable.repeated else None)
            if not variable.negated:
                self._check_events(values[number], lengths[number], rows, prefix + events_table, prefix + lengths_table)
        self._parts = [_Part(Bindings(rows, values, lengths), **{fact: facts[fact] for fact in _FACTS})]

    @staticmethod
    def _check_events(values: Ints, lengths: Ints | None, rows: int, events_table: str, lengths_table: str) -> None:
        """Check that a variable has as many events as its partial matches bind."""
        expected = rows
        if lengths is not None:
            if len(lengths) != rows:
                raise Misfit(f"table {lengths_table!r}", f"{len(lengths)} rows", f"{rows}")
            check_within(f"table {lengths_table!r}, length", lengths, 0, len(values))
            expected = int(lengths.sum())
        if len(values) != expected:
            raise Misfit(f"table {events_table!r}", f"{len(values)} rows", f"{expected}")


def _is_bound(values: Ints, lengths: Ints | None) -> Ints:
    """Return 1 for each partial match that binds a variable, otherwise 0."""
    if lengths is None:
        return (values >= 0).astype(np.int64)
    ends = np.cumsum(lengths)
    counts = np.concatenate([[0], np.cumsum(values >= 0)])
    return np.asarray(counts[ends] > counts[ends - lengths], np.int64)


def take_timed_out(queries: Sequence[TimedOut]) -> pa.Table:
    """Take the partial matches of several queries as one table, by time, then query; nothing is taken on an error."""
    parts = [part for query in queries for part in query.waiting]
    table = Matches(parts, Layout(parts)).to_arrow()
    for query in queries:
        query.forget()
    names = ["timed_out_at" if name == "detected_at" else name for name in table.column_names]
    table = table.rename_columns(names)
    first = ["query", "window_id", "timed_out_at", *_COLUMNS]
    return table.select([*first, *(name for name in names if name not in first)])
