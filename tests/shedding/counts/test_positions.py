"""Position counts agree with the reference matcher, and pieces add up to the whole stream."""

from __future__ import annotations

import bisect
import itertools
import warnings
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from reference import matcher as naive
from reference import windows as naive_windows
from reference.counts import numbered, numbers_matter
from reference.matcher import Event
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness

import fastcep as fc
from fastcep.errors import ValidationError
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables, positive_variables
from fastcep.shedding.counts import added_positions, position_counts, size_counts, window_sizes

SCHEMA = fc.Schema({name: {"k": "int64"} for name in "ABC"}, time="ts", type="type", time_unit="ns")


def counted(query: ast.Query, events: list[Event], **options: Any) -> pa.Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # windows that nothing closes are intended
        return position_counts(query, harness.batch(query.schema, events), **options)


def defined(
    query: ast.Query, events: list[Event], bins: int, first: int, last: int
) -> tuple[dict[tuple[str, int], tuple[int, int]], dict[int, int]]:
    """Return the numbers of events and matched events by type and bin, and windows by size, for owned windows."""
    there, matched, sizes = Counter[tuple[str, int]](), Counter[tuple[str, int]](), Counter[int]()
    place = {one.seq: position for position, one in enumerate(events)}
    windows = [window for window in naive_windows.windows(query, events) if first <= window.start < last]
    for window in windows:
        sizes[window.stop - window.start] += 1
        for position in range(window.start, window.stop):
            there[events[position].type, (position - window.start) // bins] += 1
    for match in naive.find_matches(query, events):
        assert match.window_id is not None
        start = place[match.window_id]
        if not first <= start < last:
            continue
        bound = [match.bindings[variable.name] for variable in positive_variables(query.pattern)]
        flat = [number for cell in bound for number in (cell if isinstance(cell, list) else [cell])]
        for number in {number for number in flat if number is not None}:
            matched[events[place[number]].type, (place[number] - start) // bins] += 1
    assert matched.keys() <= there.keys()
    return {key: (count, matched[key]) for key, count in there.items()}, dict(sizes)


def rows(table: pa.Table) -> dict[tuple[str, int], tuple[int, int]]:
    return {(row["type"], row["position"]): (row["events"], row["matched"]) for row in table.to_pylist()}


often_refused = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def sizes_of(table: pa.Table) -> dict[int, int]:
    return {row["size"]: row["windows"] for row in window_sizes(table).to_pylist()}


@often_refused
@given(
    query_cases("windows"),
    st.integers(1, 3),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_by_definition(case: Case, bins: int, own: tuple[int, int]) -> None:
    """Counts agree with the definition for any query over explicit windows, with any policies."""
    query, events = case.query, case.events
    assume(isinstance(query.window, ast.ExplicitWindow) and is_planned(query))
    first, last = sorted(min(at, len(events)) for at in own)
    found = counted(query, events, bins=bins, owned=(first, last))
    there, sizes = defined(query, events, bins, first, last)
    event(f"matched: {min(2, sum(count for _, count in there.values()))}")
    assert rows(found) == there
    assert sizes_of(found) == sizes
    order = [(query.schema.type_names.index(kind), position) for kind, position in rows(found)]
    assert order == sorted(order)


@often_refused
@given(query_cases("windows"), st.lists(st.integers(0, 9), max_size=3), st.integers(1, 3))
def test_pieces_add_up(case: Case, cuts: list[int], bins: int) -> None:
    """Pieces have only the documented context."""
    query, events = case.query, case.events
    assume(isinstance(query.window, ast.ExplicitWindow) and is_planned(query) and not numbers_matter(query))
    assert isinstance(query.window, ast.ExplicitWindow)
    times, opening = [one.time for one in events], query.window.opening
    places = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    tables = []
    for first, last in itertools.pairwise(places):
        begin, end = first, last
        if opening.nanoseconds is not None and first < len(events):
            begin = bisect.bisect_left(times, times[first] - opening.nanoseconds)
        for window in naive_windows.windows(query, events):
            if first <= window.start < last:
                end = max(end, window.stop)
        if query.window.closing.nanoseconds is not None and last > first:  # equal times are never split
            end = bisect.bisect_right(times, times[last - 1] + query.window.closing.nanoseconds)
        piece = numbered(query, events[begin:end])
        own = (first - begin, last - begin)
        tables.append(counted(query, piece, bins=bins, owned=own, base=begin))
    assert added_positions(tables[::-1]).equals(counted(query, events, bins=bins), check_metadata=True)


def test_a_match_counts_once_for_each_of_its_events() -> None:
    """A1 B3 and A2 B3 are two matches with B3; positions count all events, dropped or not."""
    query = fc.parse("PATTERN SEQ(A a, B b) WINDOW OPEN ON C o CLOSE AFTER 5 EVENTS", SCHEMA, name="q")
    found = counted(query, harness.stream(SCHEMA, "C A A B C A B"))
    assert rows(found) == {
        ("A", 1): (2, 2), ("A", 2): (1, 1), ("B", 2): (1, 1), ("B", 3): (1, 2), ("C", 0): (2, 0), ("C", 4): (1, 0),
    }  # fmt: skip
    assert sizes_of(found) == {5: 1, 3: 1}
    assert rows(counted(query, harness.stream(SCHEMA, "C A A B C A B"), bins=4)) == {
        ("A", 0): (3, 3), ("B", 0): (2, 3), ("C", 0): (2, 0), ("C", 1): (1, 0),
    }  # fmt: skip


def test_only_reported_matches_count() -> None:
    """SELECT and LIMIT as in the queries of the paper."""
    window = "WINDOW OPEN ON C o CLOSE AFTER 5 EVENTS"
    query = fc.parse(f"PATTERN SEQ(A a, B b) {window} SELECT first LIMIT 1 PER WINDOW", SCHEMA, name="q")
    found = rows(counted(query, harness.stream(SCHEMA, "C A A B B")))
    assert found == {("A", 1): (1, 1), ("A", 2): (1, 0), ("B", 3): (1, 1), ("B", 4): (1, 0), ("C", 0): (1, 0)}


def test_undeclared_types_are_no_part_of_the_stream() -> None:
    """Positions count events of declared types, even if a piece begins before its first window."""
    schema = fc.Schema({"A": {}, "B": {}}, time="ts", type="type", time_unit="ns", other_types="ignore")
    query = fc.parse("PATTERN SEQ(A a, B b) WINDOW OPEN EVERY 3 EVENTS CLOSE AFTER 2 EVENTS", schema, name="q")
    piece = pa.table({"type": list("xBxxAxBxA"), "ts": range(9)})
    found = position_counts(query, piece, owned=(1, 3), base=2)  # B | A B A
    assert rows(found) == {("A", 0): (1, 1), ("B", 1): (1, 1)}
    assert len(position_counts(query, piece, owned=(0, 1), base=2)) == 0


def test_numbers_of_the_stream() -> None:
    """Windows and matches are identified by a sequence column."""
    schema = fc.Schema({"A": {}, "B": {}}, time="ts", type="type", time_unit="ns", sequence="no")
    query = fc.parse("PATTERN SEQ(A a, B+ b[]) WINDOW OPEN ON A o CLOSE AFTER 3 EVENTS", schema, name="q")
    found = position_counts(query, {"type": list("AAB"), "ts": [1, 2, 3], "no": [7, 10, 500]})
    assert rows(found) == {("A", 0): (2, 2), ("A", 1): (1, 1), ("B", 1): (1, 1), ("B", 2): (1, 2)}


@pytest.mark.parametrize("clause", ["5 EVENTS", "5ns", "UNBOUNDED"])
def test_within_is_refused(clause: str) -> None:
    query = fc.parse(f"PATTERN SEQ(A a, B b) WITHIN {clause}", SCHEMA, name="q")
    with pytest.raises(ValidationError, match=rf"query 'q' has WITHIN {clause[0]}.*; expected explicit windows, such"):
        counted(query, [])


def test_refused_options() -> None:
    query, other = (
        fc.parse(f"PATTERN SEQ(A a, B b) WINDOW OPEN ON A o CLOSE AFTER {n} EVENTS", SCHEMA, name="q") for n in (5, 6)
    )
    with pytest.raises(ValidationError, match="position_counts: bins=0; expected a whole number, at least 1"):
        counted(query, [], bins=0)
    with pytest.raises(ValidationError, match=r"owned=\(0, 1\); expected two positions"):
        counted(query, [], owned=(0, 1))
    with pytest.raises(ValidationError, match="tables differ in bins: 1 and 2"):
        added_positions([counted(query, []), counted(query, [], bins=2)])
    with pytest.raises(ValidationError, match="tables differ in query"):
        added_positions([counted(query, []), counted(other, [])])
    with pytest.raises(ValidationError, match="expected a table of position_counts, with its metadata"):
        window_sizes(pa.table({"type": ["A"]}))


# ------------------------------------------------------------ positions=, bindable=


@often_refused
@given(query_cases("windows"), st.integers(1, 3), st.integers(1, 7))
def test_windows_are_scaled_by_definition(case: Case, bins: int, positions: int) -> None:
    """The event at offset i of n is counted at (i + 1/2) * positions / n, rounded down; and so are matches."""
    query, events = case.query, case.events
    assume(isinstance(query.window, ast.ExplicitWindow) and is_planned(query))
    found = counted(query, events, bins=bins, positions=positions)
    there, matched = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    place = {one.seq: position for position, one in enumerate(events)}
    ends = {}

    def bin_of(start: int, position: int) -> int:
        return int((position - start + 0.5) * positions / (ends[start] - start)) // bins

    for window in naive_windows.windows(query, events):
        ends[window.start] = window.stop
        for position in range(window.start, window.stop):
            there[events[position].type, bin_of(window.start, position)] += 1
    for match in naive.find_matches(query, events):
        assert match.window_id is not None
        start = place[match.window_id]
        bound = [match.bindings[variable.name] for variable in positive_variables(query.pattern)]
        flat = [number for cell in bound for number in (cell if isinstance(cell, list) else [cell])]
        for number in {number for number in flat if number is not None}:
            matched[events[place[number]].type, bin_of(start, place[number])] += 1
    assert rows(found) == {key: (count, matched[key]) for key, count in there.items()}
    assert sizes_of(found) == sizes_of(counted(query, events)) == sizes_of(sizes_alone(query, events))
    assert all(position * bins < positions for _, position in there)


def sizes_alone(query: ast.Query, events: list[Event]) -> pa.Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return size_counts(query, harness.batch(query.schema, events))


@often_refused
@given(query_cases("windows"))
def test_bindable_events_are_all_that_matches_bind(case: Case) -> None:
    """Only events are left out that are in no match; without conditions, those of types without a variable."""
    query, events = case.query, case.events
    assume(isinstance(query.window, ast.ExplicitWindow) and is_planned(query))
    every, bindable = rows(counted(query, events)), rows(counted(query, events, bindable=True))
    assert {key for key, (_, matched) in every.items() if matched} <= bindable.keys() <= every.keys()
    for key, (number, matched) in bindable.items():
        assert number <= every[key][0] and matched == every[key][1]
    if query.where is None:
        types = {name for variable in pattern_variables(query.pattern) for name in variable.declaration.types}
        assert bindable == {key: counts for key, counts in every.items() if key[0] in types}


def test_conditions_on_an_event_alone_decide_what_can_be_bound() -> None:
    window = "WINDOW OPEN ON C o CLOSE AFTER 5 EVENTS"
    where = "WHERE a.k > 1 AND b.k >= a.k AND (x.k = 7 OR x.k = a.k) AND y[i].k > 1"
    query = fc.parse(f"PATTERN SEQ(A a, A x, B b, B+ y[]) {where} {window}", SCHEMA, name="q")
    events = pa.table({"type": list("CAAAB"), "ts": range(5), "k": [9, 0, 1, 2, 0]})
    assert set(rows(position_counts(query, events, bindable=True))) == {("A", 1), ("A", 2), ("A", 3), ("B", 4)}
    query = fc.parse(f"PATTERN SEQ(A a, NEG B x, A b) WHERE a.k > 0 AND b.k > 1 AND x.k = 3 {window}", SCHEMA, name="q")
    assert set(rows(position_counts(query, events, bindable=True))) == {("A", 2), ("A", 3)}
    events = pa.table({"type": list("CAABA"), "ts": range(5), "k": [9, 0, 1, 3, 2]})
    assert set(rows(position_counts(query, events, bindable=True))) == {("A", 2), ("A", 4), ("B", 3)}


def test_wrong_positions() -> None:
    query = fc.parse("PATTERN SEQ(A a, B b) WINDOW OPEN ON C o CLOSE AFTER 5 EVENTS", SCHEMA, name="q")
    with pytest.raises(ValidationError, match="position_counts: positions=0; expected a whole number, at least 1"):
        counted(query, harness.stream(SCHEMA, "C A B"), positions=0)
    tables = [counted(query, harness.stream(SCHEMA, "C A B"), positions=number) for number in (3, 4)]
    with pytest.raises(ValidationError, match="tables differ in positions: 3 and 4"):
        added_positions(tables)
