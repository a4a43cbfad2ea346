"""Identities of matches, compared with sets of tuples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shedding.shed_runs import SCHEMA, engine, found, query

import fastcep as fc
from fastcep.engine.results.match_identity import count_found, identities, identities_of
from fastcep.shedding import RandomEvents

MIXED = query("PATTERN SEQ(A a, B? b, C+ c[], D* d[]) WITHIN 1s RETURN a.V AS twice")
NUMBERS = st.integers(0, 3)
LISTS = st.lists(NUMBERS, max_size=3)
ROWS = st.lists(st.tuples(st.none() | NUMBERS, NUMBERS, st.none() | NUMBERS, LISTS, LISTS), max_size=30)


def table(rows: list[tuple[Any, ...]], chunk: int) -> pa.Table:
    """Return matches of the mixed query: window, a, b (may be null), two lists, and a column of RETURN."""
    kinds = [pa.int64()] * 3 + [pa.large_list(pa.int64())] * 2
    columns = {
        name: pa.array([row[position] for row in rows], kind)
        for position, (name, kind) in enumerate(zip(("window_id", "a", "b", "c", "d"), kinds, strict=True))
    }
    complete = pa.table(columns | {"twice": pa.array(range(len(rows)), pa.int64())})
    return pa.concat_tables([complete.slice(0, chunk), complete.slice(chunk)])


def as_set(rows: list[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    return {tuple(tuple(cell) if isinstance(cell, list) else cell for cell in row) for row in rows}


@given(ROWS, ROWS, st.integers(0, 30))
def test_numbers_are_as_equal_as_matches(one: list[Any], two: list[Any], chunk: int) -> None:
    truth, other = as_set(one), as_set(two)
    numbers = np.unique(identities_of(table(one, chunk), MIXED))
    others = np.unique(identities_of(table(two, chunk), MIXED))
    assert (len(numbers), len(others)) == (len(truth), len(other))
    assert count_found(others, numbers) == len(truth & other)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ((0, 1, 2, [3], []), (None, 1, 2, [3], [])),
        ((None, 1, 2, [3], []), (None, 2, 1, [3], [])),
        ((None, 1, 0, [3], []), (None, 1, None, [3], [])),
        ((None, 1, 2, [3, 4], []), (None, 1, 2, [4, 3], [])),
        ((None, 1, 2, [3, 4], []), (None, 1, 2, [3], [4])),
        ((None, 1, 2, [0], []), (None, 1, 2, [0, 0], [])),
        ((None, 1, 2, [], []), (None, 1, 2, [0], [])),
        ((None, 1, 2, [None, 1], []), (None, 1, 2, [0, 1], [])),
    ],
)
def test_what_makes_a_difference(one: tuple[Any, ...], two: tuple[Any, ...]) -> None:
    first, second = identities_of(table([one, two], 0), MIXED)
    assert first != second


def test_a_query_is_part_of_it() -> None:
    rows = table([(None, 1, 2, [3], [])], 0)
    assert identities_of(rows, MIXED, 0) != identities_of(rows, MIXED, 1)


def test_nothing_is_in_nothing() -> None:
    none = np.empty(0, np.uint64)
    some = np.array([5, 7], np.uint64)
    assert (count_found(none, none), count_found(some, none), count_found(none, some)) == (0, 0, 0)
    assert count_found(some, some) == 2


def test_matches_of_several_queries_and_of_runs_that_shed() -> None:
    queries = [query("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 100us", "one"),
               query("PATTERN SEQ(A x, C+ y[]) WHERE x.ID = y[i].ID WITHIN 200us", "two")]  # fmt: skip
    rng = np.random.default_rng(3)
    events = {
        "type": rng.choice(list("ABCD"), 2000).tolist(), "ts": np.arange(2000) * 10,
        "ID": rng.integers(0, 4, 2000), "V": rng.integers(0, 4, 2000),
    }  # fmt: skip
    truth = engine(queries).process(events)
    shed = engine(queries, RandomEvents(), bound=1.0).process(events)
    true = [(name, match) for name in ("one", "two") for match in found(truth, name)]
    shed_matches = [(name, match) for name in ("one", "two") for match in found(shed, name)]
    assert 0 < len(shed_matches) < len(true) and min(truth.counts().values()) > 100
    numbers = np.sort(identities(truth, queries))
    assert len(np.unique(numbers)) == len(set(true)) == len(true)
    assert count_found(identities(shed, queries), numbers) == len(set(shed_matches) & set(true)) == len(shed_matches)


def test_ticks_distinguish_matches_of_periodic() -> None:
    periodic = fc.parse("PATTERN PERIODIC(A a, 10us, C c) WITHIN 1ms", SCHEMA, name="p")
    live = fc.Engine(periodic)
    parts = [live.process({"type": ["A", "C"], "ts": [0, 50], "ID": [1, 1], "V": [1, 1]}), live.flush()]
    numbers = np.concatenate([identities(part, [periodic]) for part in parts])
    assert len(np.unique(numbers)) == len(numbers) == sum(map(len, parts)) > 2


def test_variables_of_an_any_that_may_change_places() -> None:
    """The way in which interchangeable variables bind the same events does not count; other bindings do."""
    any_query = query("PATTERN SEQ(B x, ANY(2, A a, A b, C c)) WITHIN 1ms")

    def number(x: int, a: int | None, b: int | None, c: int | None) -> int:
        columns = {"window_id": [None], "x": [x], "a": [a], "b": [b], "c": [c]}
        table = pa.table({name: pa.array(of, pa.int64()) for name, of in columns.items()})
        return int(identities_of(table, any_query)[0])

    assert number(1, 2, 3, None) == number(1, 3, 2, None) != number(1, 2, 4, None)
    assert number(1, 2, None, 3) == number(1, None, 2, 3)
    assert number(1, 2, 3, None) != number(2, 1, 3, None)
    conjunction = query("PATTERN AND(A a, A b) WITHIN 1ms")
    two = pa.table({"window_id": pa.nulls(2, pa.int64()), "a": [1, 2], "b": [2, 1]})
    assert len(set(identities_of(two, conjunction).tolist())) == 2
