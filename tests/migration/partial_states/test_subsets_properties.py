"""An engine that is built from some partial states continues with these, and with the partial matches that begin later.

The oracle is the old engine, which continues with all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from reference.matcher import Event, Value
from strategies.moving_cases import fewer, keyed, some
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness
from support.partial_states import assert_exact_sizes, send, ways
from support.state_transfer import quiet

import fastcep as fc
from fastcep.migration.partial_states.assembly import EngineAssembly
from fastcep.migration.partial_states.engine_partition import EnginePartition, partition
from fastcep.plan.plan import KeyPlan
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables

Rows = list[harness.Row]


class Cut:
    """A case whose stream is cut at a random event, where the state is cut in each possible way.

    Attributes
    ----------
    at
        Number of the events before the cut.
    parts
        By the way: three equal partitions, because a partition sends each state once; and the table of partial matches.
    """

    def __init__(self, data: st.DataObject, case: Case, store: str) -> None:
        self.case = case
        self.at = data.draw(st.integers(0, len(case.events)), "cut")
        self.choices = data.draw(st.randoms(use_true_random=False), "choices")
        self.engine = quiet(fc.Engine, case.query, store=store)
        self._process(self.engine, case.events[: self.at])
        (self.running,) = self.engine._stream.queries
        self.parts = {by: self._cut(by) for by in ways(self.engine)}

    def _cut(self, by: str) -> tuple[list[EnginePartition], pa.Table | None]:
        tables: list[pa.Table] = []

        def utility(table: pa.Table) -> Any:
            tables.append(table)
            return np.ones(len(table))

        used = "count" if self.running.plan.kept else utility
        return [partition(self.engine, by, used) for _ in range(3)], tables[0] if tables else None

    def some_states(self, count: int) -> tuple[list[int], list[int]]:
        """Return the numbers of some states, and those of the others, both in random order."""
        numbers = self.choices.sample(range(count), count)
        first = self.choices.randint(0, count)
        return numbers[:first], numbers[first:]

    def _process(self, engine: fc.Engine, events: Sequence[Event]) -> Rows:
        rows: Rows = []
        for batch in harness.batches(self.case.query.schema, events, self.case.batch_sizes):
            rows += harness.table_rows(self.case.query, engine.process(batch).to_arrow())
        return rows

    def later(self, engine: fc.Engine) -> Rows:
        """Return the matches that an engine reports after the cut."""
        rows = self._process(engine, self.case.events[self.at :])
        return rows + harness.table_rows(self.case.query, engine.flush().to_arrow())

    def with_states(self, parts: EnginePartition, numbers: Sequence[int]) -> Rows:
        """Return the later matches of an engine that has received some states."""
        assembly = EngineAssembly(parts.base())
        send(parts, assembly, list(numbers), self.choices)
        return self.later(assembly.build())

    def positions(self, row: harness.Row) -> list[int]:
        """Return the positions of the events of a match, in order."""
        bound: list[Any] = [value for name, value in row[0].items() if name != "window_id"]
        numbers = [number for value in bound for number in (value if isinstance(value, list) else [value])]
        place = {each.seq: at for at, each in enumerate(self.case.events)}
        return sorted(place[number] for number in numbers if number is not None)

    def key(self, row: harness.Row) -> Value:
        """Return the key of a match; None: null or NaN."""
        key = self.running.plan.key
        assert isinstance(key, KeyPlan)
        events = {each.seq: each for each in self.case.events}
        names = [variable.name for variable in pattern_variables(self.case.query.pattern)]
        for name, attribute in zip(names, key.attributes, strict=True):
            bound: Any = row[0].get(name)
            first = bound[0] if isinstance(bound, list) and bound else bound
            if isinstance(first, int):
                value = events[first].values[attribute]
                return None if value is None or value != value else value
        raise AssertionError(row)


def is_independent(query: ast.Query) -> bool:
    """Return True if partial matches have no effect on each other."""
    policies = query.select == "each", query.consume == "zero", query.limit is None, query.after_match == "no skip"
    return all(policies)


def counted(*parts: Rows) -> Counter[str]:
    return Counter(repr(row) for rows in parts for row in rows)


def assert_part_of(rows: Rows, whole: Rows, how: str) -> None:
    """Check that rows are some of the others, in the same order."""
    rest = iter(map(repr, whole))
    assert all(row in rest for row in map(repr, rows)), f"{rows}\nof {whole}\n{how}"


@pytest.mark.thorough
@some
@given(st.data())
def test_independent_partial_matches(data: st.DataObject) -> None:
    """The matches of some states and those of the others add up, and each match belongs to the right state."""
    case = data.draw(query_cases(), "case")
    case = keyed(case) if data.draw(st.booleans(), "keyed") else case
    assume(is_planned(case.query) and is_independent(case.query))
    cut = Cut(data, case, data.draw(st.sampled_from(["rows", "rows", "auto"]), "store"))
    every = cut.later(cut.engine)
    for by, (equal, table) in cut.parts.items():
        how = f"{by}, cut at {cut.at}, {case!r}"
        numbers, others = cut.some_states(len(equal[0].states))
        event(f"{by}: {'some' if numbers and others else 'none or all'}")
        none = cut.with_states(equal[0], [])
        found, remaining = cut.with_states(equal[1], numbers), cut.with_states(equal[2], others)
        for rows in (none, found, remaining):
            assert_part_of(rows, every, how)
        assert counted(found, remaining) == counted(every, none), how
        if by == "partial match" and table is not None:
            check_origins(cut, table, set(numbers), (every, none, found), how)


def check_origins(cut: Cut, table: pa.Table, received: set[int], rows: tuple[Rows, Rows, Rows], how: str) -> None:
    """Check that a match is found if the partial match that it grew from was received: by its first and last event."""
    every, none, found = (counted(each) for each in rows)
    states: dict[tuple[int, int], set[int]] = {}
    for origin in table.select(["started", "created", "state"]).to_pylist():
        states.setdefault((origin["started"], origin["created"]), set()).add(origin["state"])
    for row in rows[0]:
        positions = cut.positions(row)
        before = [position for position in positions if position < cut.at]
        if not before or len(before) == len(positions) or every[repr(row)] > 1:
            continue
        origins = states.get((before[0], before[-1]), set())
        assert origins, (row, how)
        if origins <= received:
            assert found[repr(row)], (row, how)
        elif not origins & received:
            assert not found[repr(row)] and not none[repr(row)], (row, how)


@some
@given(st.data())
def test_keys(data: st.DataObject) -> None:
    """All matches of the received keys are found, whatever the policies of the query are."""
    case = keyed(data.draw(query_cases(), "case"))
    assume(is_planned(case.query))
    cut = Cut(data, case, data.draw(st.sampled_from(["rows", "auto"]), "store"))
    assume("key group" in cut.parts)
    every = cut.later(cut.engine)
    (parts, *_), _ = cut.parts["key group"]
    numbers, _ = cut.some_states(len(parts.states))
    received = set(parts.states.key[numbers].tolist())
    missing = set(parts.states.key.tolist()) - received
    event("some" if received and missing else "none or all")
    found = cut.with_states(parts, numbers)

    def of_groups(rows: Rows) -> Rows:
        return [row for row in rows if fc.key_group(cut.key(row)) not in missing]

    assert repr(of_groups(found)) == repr(of_groups(every)), f"{received} of {parts.states.key}, {case!r}"
    if is_independent(case.query):
        lost = [row for row in every if row not in of_groups(every) and cut.positions(row)[0] < cut.at]
        assert counted(found, lost) == counted(every), repr(case)


@fewer
@given(st.data())
def test_sizes(data: st.DataObject) -> None:
    case = data.draw(query_cases(), "case")
    case = keyed(case) if data.draw(st.booleans(), "keyed") else case
    assume(is_planned(case.query))
    cut = Cut(data, case, data.draw(st.sampled_from(["rows", "auto"]), "store"))
    for by, ((parts, *_), _) in cut.parts.items():
        count = len(parts.states)
        assert_exact_sizes(cut.engine, by, np.array(cut.choices.sample(range(count), min(count, 4)), np.int64))
