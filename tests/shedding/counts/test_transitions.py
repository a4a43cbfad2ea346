"""Transition counts agree with a simulation, event by event, and pieces add up to the whole stream."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from reference.counts import Shape, numbered, numbers_matter, transitions
from reference.matcher import Event
from strategies.queries import Case, cases, time_windows
from strategies.whole_cases import query_cases
from support import harness
from support.state_transfer import quiet

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.errors import ValidationError
from fastcep.plan import INDEXES
from fastcep.query import ast
from fastcep.shedding.counts import (
    added_transitions,
    matrix,
    mean_times,
    position_counts,
    state_names,
    transition_counts,
    window_size,
    window_sizes,
)  # fmt: skip
from fastcep.shedding.lineage import observe

SCHEMA = fc.Schema({name: {"k": "int64"} for name in "ABC"}, time="ts", type="type", time_unit="ns")
ENDS = ("start", "gone", "match")
TABLE = fc.CostTable("mixed", event=3, relevant=5.001, visited=7, created=11, match=13)
WINDOWS = (
    "WITHIN 4ns", "WITHIN 9ns", "WITHIN 0ns", "WITHIN 5 EVENTS", "WITHIN 1 EVENTS", "WITHIN UNBOUNDED",
    "WINDOW OPEN ON A o CLOSE AFTER 5ns", "WINDOW OPEN ON (A|B) o WHERE o.k > 0 CLOSE AFTER 6 EVENTS",
    "WINDOW OPEN EVERY 3 EVENTS CLOSE AFTER 7 EVENTS", "WINDOW OPEN EVERY 4ns CLOSE AFTER 6ns",
    "WINDOW OPEN EVERY 4ns CLOSE AFTER 5 EVENTS", "WINDOW OPEN EVERY 5 EVENTS CLOSE AFTER 2ns",
    "WINDOW OPEN ON A o CLOSE ON C z", "WINDOW OPEN ON A o CLOSE ON C z WHERE z.k = o.k",
)  # fmt: skip


@st.composite
def shapes(draw: Any) -> Shape:
    types = draw(st.text("ABC", min_size=1, max_size=3))
    return Shape(types, tuple(draw(st.sampled_from([False, False, True])) for _ in types), draw(st.booleans()))


@st.composite
def streams(draw: Any, most: int = 14) -> list[Event]:
    time, events = draw(st.integers(-3, 5)), []
    for seq in range(draw(st.integers(0, most))):
        time += draw(st.sampled_from([0, 1, 1, 2, 3]))
        events.append(Event(draw(st.sampled_from("ABC")), time, seq, {"k": draw(st.integers(0, 1))}))
    return events


def counted(query: ast.Query, events: list[Event], **options: Any) -> pa.Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # windows that nothing closes are intended
        return transition_counts(query, harness.batch(query.schema, events), **options)


def as_query(shape: Shape, window: str, strategy: str) -> ast.Query:
    return fc.parse(shape.text(window, strategy), SCHEMA, name="q")


def pairs(table: pa.Table, column: str) -> dict[tuple[str, str], int]:
    rows = zip(*(table[name].to_pylist() for name in ("source_name", "target_name", column)), strict=True)
    return {(source, target): value for source, target, value in rows if value}


@given(
    shapes(), st.sampled_from(WINDOWS), st.sampled_from(["skip_till_any", "skip_till_next"]), streams(),
    st.sampled_from(INDEXES), st.tuples(st.integers(0, 14), st.integers(0, 14)),
)  # fmt: skip
def test_as_simulated(
    shape: Shape, window: str, strategy: str, events: list[Event], index: str, own: tuple[int, int]
) -> None:
    query = as_query(shape, window, strategy)
    first, last = sorted(min(at, len(events)) for at in own)
    if window == "WITHIN UNBOUNDED":
        first, last = 0, len(events)
    owned = None if (first, last) == (0, len(events)) else (first, last)
    found = counted(query, events, index=index, owned=owned)
    observed, stayed, met = transitions(shape, query, events, first, last)
    event(f"matches: {min(2, sum(n for (_, target), n in observed.items() if target == 'match'))}")
    assert pairs(found, "observations") == dict(observed)
    assert pairs(found, "stayed") == dict(stayed)
    assert pairs(found, "met") == dict(met)


def before(query: ast.Query, events: list[Event], first: int) -> int:
    """Return the first event needed by a piece that owns the events from ``first`` on."""
    window, times = query.window, [one.time for one in events]
    if first == len(events):
        return first
    if isinstance(window, ast.CountWindow):
        return max(0, first - window.events + 1)
    if isinstance(window, ast.TimeWindow):
        return bisect.bisect_left(times, times[first] - window.nanoseconds)
    assert isinstance(window, ast.ExplicitWindow)
    if window.closing.types:
        return 0
    at = max(0, first - (window.closing.events or 1) + 1)
    return bisect.bisect_left(times, times[at] - (window.closing.nanoseconds or 0) - (window.opening.nanoseconds or 0))


@given(
    shapes(), st.sampled_from([window for window in WINDOWS if "UNBOUNDED" not in window]),
    st.sampled_from(["skip_till_any", "skip_till_next"]), streams(24), st.lists(st.integers(0, 24), max_size=3),
)  # fmt: skip
def test_pieces_add_up(shape: Shape, window: str, strategy: str, events: list[Event], cuts: list[int]) -> None:
    """Pieces have only the documented context, and none after the owned events."""
    query = as_query(shape, window, strategy)
    assert in_pieces(query, events, cuts).equals(counted(query, events), check_metadata=True)


def in_pieces(query: ast.Query, events: list[Event], cuts: list[int]) -> pa.Table:
    places = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    tables = []
    for first, last in itertools.pairwise(places):
        begin = before(query, events, first)
        piece = numbered(query, events[begin:last])
        tables.append(counted(query, piece, owned=(first - begin, last - begin), base=begin))
    return added_transitions(tables[::-1])


@pytest.mark.thorough
@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(query_cases("windows", "policies"), st.lists(st.integers(0, 9), max_size=3))
def test_pieces_of_any_query_add_up(case: Case, cuts: list[int]) -> None:
    assume(not isinstance(case.query.window, ast.Unbounded) and not numbers_matter(case.query))
    try:
        whole = counted(case.query, case.events)
        added = in_pieces(case.query, case.events, cuts)
    except ValidationError:
        assume(False)
    event(f"rows: {min(4, len(whole))}")
    assert added.equals(whole, check_metadata=True)


@given(st.one_of(cases(), query_cases("policies"), query_cases("windows")), st.sampled_from(INDEXES))
def test_any_query(case: Case, index: str) -> None:
    """All matches and all costs are counted; unsupported queries are rejected with a reason."""
    assume(case.events)
    try:
        found = counted(case.query, case.events, cost_table=TABLE, index=index)
    except ValidationError as error:
        event(f"refused: {str(error).partition('query')[2][:40]}")
        assert "times, and" not in str(error)  # lifetimes are as in the engine
        return
    batch = harness.batch(case.query.schema, case.events)
    engine = quiet(fc.Engine, case.query)
    matches = len(engine.process(batch)) + len(engine.flush())
    event(f"matches: {min(matches, 2)}")
    assert sum(n for (_, target), n in pairs(found, "observations").items() if target == "match") == matches
    if not isinstance(case.query.window, ast.ExplicitWindow):
        costs = quiet(observe, case.query, batch, cost_table=TABLE, index=index).costs
        assert sum(found["time"].to_pylist()) == pytest.approx(costs.sum(), abs=1e-6)


@given(
    cases(st.one_of(time_windows(), st.sampled_from([8, 5, 3]).map(ast.CountWindow))),
    st.sampled_from(["skip_till_next", "skip_till_any"]), st.sampled_from(INDEXES),
)  # fmt: skip
def test_live_partial_matches(case: Case, strategy: str, index: str) -> None:
    """After each event, the counts give the engine's number of live partial matches: those that stayed, and new."""
    query = dataclasses.replace(case.query, strategy=strategy)
    try:
        counted(query, case.events, index=index)
        engine = fc.Engine(query, store="rows", index=index)
    except ValidationError:
        assume(False)
    live = []
    for number, one in enumerate(case.events):
        engine.process(harness.batch(query.schema, [one]))
        live.append(engine.metrics()["live_partial_matches"])
        found = counted(query, case.events, index=index, owned=(number, number + 1))
        there = [n for (_, target), n in pairs(found, "observations").items() if target not in ENDS]
        assert sum(there) == live[-1], (number, pairs(found, "observations"))
    event(f"{strategy}, live: {min(3, max(live, default=0))}")


#: Q3 and Q4 of pSPICE, and other queries in which a condition on all elements decides whether to take an event.
TAKEN = (
    "SEQ(A s, ANY(2, B d[] DISTINCT k)) WITHIN 9 EVENTS",
    "SEQ(A s, ANY(3, B d[] DISTINCT v)) WHERE d[i].k = s.k WITHIN 9 EVENTS",
    "ANY(2, B d[] DISTINCT v) WITHIN 9 EVENTS PARTITION BY k",
    "SEQ(ANY(2, B d[] DISTINCT v), C c) WHERE d[first].k = c.k WITHIN 9 EVENTS",
    "SEQ(A a, B+ b[], C c, A d) WHERE b[i].v < c.v AND a.k = d.k WITHIN 9 EVENTS",
    "SEQ(A a, NEG B b, C c, A d) WHERE b.v = a.v AND c.k = d.k WITHIN 9 EVENTS",
)


@given(st.sampled_from(TAKEN), streams(20), st.lists(st.integers(0, 1), min_size=20, max_size=20),
       st.sampled_from(INDEXES))  # fmt: skip
def test_taken_or_not(text: str, events: list[Event], values: list[int], index: str) -> None:
    """An event that a condition on all elements rejects uses up nothing."""
    schema = fc.Schema({name: {"k": "int64", "v": "int64"} for name in "ABC"}, time="ts", type="type", time_unit="ns")
    query = fc.parse(f"PATTERN {text} STRATEGY skip_till_next", schema, name="q")
    events = [dataclasses.replace(one, values={**one.values, "v": v}) for one, v in zip(events, values, strict=False)]
    engine, matches = fc.Engine(query, store="rows", index=index), 0
    for number, one in enumerate(events):
        matches = len(engine.process(harness.batch(schema, [one])))
        found = pairs(counted(query, events, index=index, owned=(number, number + 1)), "observations")
        assert sum(n for (_, end), n in found.items() if end == "match") == matches
        assert sum(n for (_, end), n in found.items() if end not in ENDS) == engine.metrics()["live_partial_matches"]
    event(f"{text[:14]}: {min(matches, 1)}")


def test_not_known_whether_used_up() -> None:
    """C is used up if b[i].k < c.k holds for all, even if its null joins no D; the lineage does not show which."""
    text = "PATTERN SEQ(A a, B+ b[], C c, A d) WHERE b[i].k < c.k AND c.k = d.k WITHIN 9 EVENTS STRATEGY skip_till_next"
    query, events = fc.parse(text, SCHEMA, name="q"), harness.stream(SCHEMA, "A(k=null) B(k=5) C(k=1) A(k=1)")
    with pytest.raises(ValidationError, match=r"every event bound to 'c' whether .*; count with index='off'"):
        counted(query, events)
    assert pairs(counted(query, events, index="off"), "observations")["b", "b"] == 2
    without = harness.stream(SCHEMA, "A(k=0) B(k=5) C(k=1) A(k=1)")
    assert pairs(counted(query, without), "observations")["b", "b"] == 2


def test_time_of_a_step() -> None:
    """Visits count with the pair in which the partial match stayed or moved; children count with their source."""
    events = harness.stream(SCHEMA, "A(k=1) A(k=2) B(k=2) B(k=3) C(k=2)")
    query = fc.parse("PATTERN SEQ(A a, B b, C c) WHERE a.k=b.k AND a.k=c.k WITHIN 9 EVENTS", SCHEMA, name="q")
    found = counted(query, events, cost_table=TABLE, index="off")
    assert pairs(found, "time") == {
        ("start", "start"): 5 * 3 + 5 * 5.001,
        ("start", "a"): 2 * 11,
        ("a", "a"): 4 * 7,  # two met by each B
        ("a", "b"): 11,
        ("b", "b"): 7,
        ("b", "match"): 13,
    }
    moving = fc.parse(f"{fc.to_text(query)} STRATEGY skip_till_next", SCHEMA, name="q")
    found = counted(moving, events, cost_table=TABLE, index="off")
    assert pairs(found, "time") == {
        ("start", "start"): 5 * 3 + 5 * 5.001,
        ("start", "a"): 2 * 11,
        ("a", "a"): 2 * 7,  # the first by both B
        ("a", "b"): 7 + 11,
        ("b", "match"): 7 + 13,
    }
    assert mean_times(found)[1, 2] == 18
    names = state_names(found)
    assert names == ("start", "a", "b", "c", "gone", "match")


def test_used_up() -> None:
    """A null key joins nothing: under skip_till_next the partial match is gone."""
    schema = fc.Schema({name: {"k": "int64", "v": "int64"} for name in "ABC"}, time="ts", type="type", time_unit="ns")
    query = fc.parse(
        "PATTERN SEQ(A a, B b, C c) WHERE b.v = c.v WITHIN 9 EVENTS STRATEGY skip_till_next", schema, name="q"
    )
    found = counted(query, harness.stream(schema, "A C B(v=null) B(v=1) C(v=1)"))
    assert pairs(found, "observations") == {
        ("start", "start"): 4, ("start", "a"): 1, ("a", "a"): 1, ("a", "gone"): 1,
    }  # fmt: skip
    gone = matrix(found)[1]
    assert gone.tolist() == [0, 0.5, 0, 0, 0.5, 0]


def test_before_the_first_window_of_a_piece() -> None:
    """Events in no window still have a cost, even if the piece is read from its first window on."""
    query = as_query(Shape("A", (False,), False), "WINDOW OPEN EVERY 5 EVENTS CLOSE AFTER 2 EVENTS", "skip_till_any")
    events = harness.stream(SCHEMA, "A A A B A A A")
    found = counted(query, events[2:], cost_table=TABLE, owned=(0, 4), base=2)
    assert pairs(found, "observations") == {("start", "start"): 1, ("start", "match"): 1}
    assert pairs(found, "time") == {("start", "start"): pytest.approx(4 * 3 + 3 * 5.001), ("start", "match"): 13}


# ------------------------------------------------------------------------------------------------------- the matrices

#: Completion from s1, s2, s3 by number of events left, probability 1/3 per step; ALGORITHMS, section 2, Exact checks.
EXACT = {
    1: (0, 0, 1 / 3),
    2: (0, 1 / 9, 5 / 9),
    5: (0.20988, 0.53909, 0.86831),
    50: (0.9999995, 0.99999996, 1 - 1.6e-9),
}


def by_hand(like: pa.Table, observed: dict[tuple[int, int], int]) -> pa.Table:
    columns = {name: [] for name in like.column_names}
    for (source, target), count in observed.items():
        met = sum(number for (one, _), number in observed.items() if one == source) if source == target else 0
        row = (source, target, "", "", count, count if source == target else 0, met, 0.0)
        for name, value in zip(columns, row, strict=True):
            columns[name].append(value)
    return pa.table(columns, schema=like.schema)


def completion(counts: pa.Table, n: int) -> list[float]:
    return [float(value) for value in np.linalg.matrix_power(matrix(counts), n)[:3, -1]]


def test_the_papers_numbers() -> None:
    query = as_query(Shape("ABC", (False,) * 3, False), "WITHIN 9 EVENTS", "skip_till_next")
    counts = by_hand(counted(query, []), {
        (-1, -1): 200, (-1, 0): 100, (0, 0): 20, (0, 1): 10, (1, 1): 2, (1, -3): 1,
    })  # fmt: skip
    for n, expected in EXACT.items():
        assert completion(counts, n) == pytest.approx(expected, abs=5e-6 if n < 50 else 5e-8)
    assert completion(counts, 50)[2] == pytest.approx(1 - (2 / 3) ** 50, abs=1e-15)
    assert matrix(counts).sum(axis=1).tolist() == [1] * 6


def uniform(events: int) -> pa.Table:
    rng = np.random.default_rng(11)
    kinds = rng.choice(list("ABC"), events)
    return pa.table({"type": kinds, "k": np.zeros(events, np.int64), "ts": np.arange(events)})


@pytest.mark.parametrize("window", ["WITHIN 40 EVENTS", "WINDOW OPEN EVERY 20 EVENTS CLOSE AFTER 40 EVENTS"])
def test_the_papers_numbers_from_a_stream(window: str) -> None:
    """Each step has 10,000 events or more, so its probability is within 0.015 of 1/3, and completion within 0.03."""
    query = as_query(Shape("ABC", (False,) * 3, False), window, "skip_till_next")
    counts = transition_counts(query, uniform(40_000))
    for n, expected in EXACT.items():
        assert completion(counts, n) == pytest.approx(expected, abs=0.03)


def test_mean_offspring() -> None:
    """Under skip_till_any a partial match stays: A[i, i] is 1, and powers count what completes."""
    query = as_query(Shape("ABC", (False,) * 3, False), "WITHIN 40 EVENTS", "skip_till_any")
    counts = transition_counts(query, uniform(20_000))
    found = matrix(counts)
    assert np.diagonal(found).tolist() == [1] * 5
    assert found[[0, 1, 2], [1, 2, 4]] == pytest.approx([1 / 3] * 3, abs=0.02)
    assert completion(counts, 5)[1:] == pytest.approx([10 / 9, 5 / 3], abs=0.1)
    repeated = as_query(Shape("ABC", (False, True, False), False), "WITHIN 6 EVENTS", "skip_till_any")
    again = matrix(transition_counts(repeated, uniform(5_000)))
    assert again[2, 2] == pytest.approx(4 / 3, abs=0.05)  # it stays, and every third event creates another one


def test_a_match_that_goes_on() -> None:
    """Under skip_till_next an event may both complete a match and extend it; it counts as one event that was met."""
    query = fc.parse("PATTERN SEQ(A a, B+ b[]) WITHIN 40 EVENTS STRATEGY skip_till_next", SCHEMA, name="q")
    found = matrix(transition_counts(query, uniform(20_000)))
    assert found[2] == pytest.approx([0, 0, 1, 0, 1 / 3], abs=0.02)
    limited = fc.parse("PATTERN SEQ(A a, ANY(2, B b[])) WITHIN 40 EVENTS STRATEGY skip_till_next", SCHEMA, name="q")
    counts = transition_counts(limited, uniform(20_000))
    assert state_names(counts) == ("start", "a", "b (1 of 2 b)", "b (2 of 2 b)", "gone", "match")
    assert matrix(counts)[2, 5] == pytest.approx(1 / 3, abs=0.02)


# ---------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("pattern", "clauses", "message"),
    [
        ("SEQ(A a, B b)", "WITHIN 5ns STRATEGY strict_contiguity", "STRATEGY strict_contiguity, which cannot be"),
        ("SEQ(A a, B b)", "WITHIN 5ns SELECT first", "SELECT first, .* take SELECT each"),
        ("SEQ(A a, B b)", "WITHIN 5ns CONSUME consumed", "CONSUME consumed, .* take CONSUME zero"),
        ("SEQ(A a, B b)", "WINDOW OPEN ON A o CLOSE AFTER 5ns LIMIT 1 PER WINDOW", "LIMIT 1 PER WINDOW, .* leave it"),
        ("SEQ(A a, B b)", "WITHIN 5ns AFTER MATCH SKIP PAST LAST", "AFTER MATCH SKIP PAST LAST, .* NO SKIP"),
        ("SEQ(A a, NEG B b)", "WITHIN 5ns", "NEG at the end of the pattern, .* leave NEG out"),
        ("SEQ(NEG B b, A a)", "WINDOW OPEN ON A o CLOSE AFTER 5ns", "NEG at the edge of the window, .* leave NEG out"),
        ("PERIODIC(A a, 2ns, B b)", "WITHIN 5ns", "PERIODIC, which cannot be counted yet; take a pattern"),
        ("SEQ(A a, NEXT B b)", "WITHIN 5ns", "NEXT or CONSECUTIVE, .* leave it out"),
    ],
)
def test_refused(pattern: str, clauses: str, message: str) -> None:
    query = fc.parse(f"PATTERN {pattern} {clauses}", SCHEMA, name="q")
    with pytest.raises(ValidationError, match=f"transition_counts: query 'q' has {message}"):
        counted(query, [])


def test_refused_options() -> None:
    query = as_query(Shape("AB", (False, False), False), "WITHIN UNBOUNDED", "skip_till_any")
    with pytest.raises(ValidationError, match=r"WITHIN UNBOUNDED, so a piece .* \(owned=None\), or give a window"):
        counted(query, [], owned=(0, 0))
    query = as_query(Shape("AB", (False, False), False), "WITHIN 5ns", "skip_till_any")
    for owned in ((0, 2), (-1, 1), (1, 0), (1, 2, 3), 4):
        with pytest.raises(ValidationError, match=r"owned=.*; expected two positions \(first, last\)"):
            counted(query, harness.stream(SCHEMA, "A"), owned=owned)
    with pytest.raises(ValidationError, match="base=-1; expected a whole number"):
        counted(query, [], base=-1)


def test_only_what_belongs_together_is_added() -> None:
    one, other = (
        counted(as_query(Shape("AB", (False, False), False), window, "skip_till_any"), [])
        for window in ("WITHIN 5ns", "WITHIN 6ns")
    )
    with pytest.raises(ValidationError, match=r"tables differ in query: .* expected counts of one query"):
        added_transitions([one, other])
    with pytest.raises(ValidationError, match="no tables; expected at least one"):
        added_transitions([])
    with pytest.raises(ValidationError, match="expected a table of transition_counts, with its metadata"):
        added_transitions([one.replace_schema_metadata(None)])
    assert added_transitions([one]).equals(one, check_metadata=True)


LETTERS = fc.Schema({key: {"ID": "int64", "V": "int64"} for key in "ABCD"}, time="ts", type="type", time_unit="us")


@pytest.mark.parametrize("strategy", ["skip_till_any", "skip_till_next"])
@pytest.mark.parametrize(
    "window",
    ["WITHIN 1ms", "WITHIN 60 EVENTS", "WINDOW OPEN ON A o WHERE o.V = 1 CLOSE AFTER 60 EVENTS",
     "WINDOW OPEN EVERY 70 EVENTS CLOSE AFTER 1ms", "WINDOW OPEN EVERY 1ms CLOSE AFTER 800us"],
)  # fmt: skip
def test_sizes_of_windows(window: str, strategy: str) -> None:
    """Rate times duration, number of events, or the mean of `window_sizes`."""
    query = fc.parse(f"PATTERN SEQ(A a, B b) WHERE [ID] {window} STRATEGY {strategy}", LETTERS, name="q")
    events = ds1(events=4_000, seed=3)
    counts = transition_counts(query, events)
    times = events["ts"].to_numpy()
    if isinstance(query.window, ast.ExplicitWindow):
        sizes = window_sizes(position_counts(query, events))
        expected = np.average(sizes["size"].to_numpy(), weights=sizes["windows"].to_numpy())
    else:
        expected = 60 if "EVENTS" in window else 1_000 * (len(times) - 1) / (times[-1] - times[0])
    assert window_size(query, counts) == pytest.approx(expected)
    cut = 70 * 30  # windows open every 70 events
    pieces = [
        transition_counts(query, events.slice(0, cut), owned=(0, cut)),
        transition_counts(query, events, owned=(cut, len(events))),
    ]
    assert window_size(query, added_transitions(pieces[::-1])) == pytest.approx(expected)
