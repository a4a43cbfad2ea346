"""Numbers and times at their limits: the engine agrees with the reference matcher."""

from __future__ import annotations

import math
import pickle
import warnings
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.matcher import Event
from support import harness

import fastcep as fc
from fastcep.query import parse

MIN, MAX = -(2**63), 2**63 - 1
INTS = [MIN, MIN + 1, -(2**62), -(2**53) - 1, -7, -2, -1, 0, 1, 2, 7, 2**31, 2**53 + 1, 2**62, MAX - 1, MAX, None]
FLOATS = [
    -math.inf, -1.7976931348623157e308, -(2.0**63), -2.5, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 2.5, 2.0**53, 2.0**63,
    1.7976931348623157e308, math.inf, math.nan, None,
]  # fmt: skip
SCHEMA = fc.Schema(
    {"A": {"i": "int64", "f": "float64"}, "B": {"i": "int64", "f": "float64"}}, time="ts", type="type"
)  # fmt: skip
TIMES = [MIN, MIN + 1, MIN + 2, -(2**62), -1, 0, 1, 2**62, MAX - 2, MAX - 1, MAX]
SPANS = [0, 1, 2, 2**62, 2**63 - 3, MAX - 1, MAX]


def pairs(key: str) -> list[Event]:
    """Return an A for each edge value, then a B for each."""
    edges: list[Any] = INTS if key == "i" else FLOATS
    other = "f" if key == "i" else "i"
    cells = [(kind, value) for kind in "AB" for value in edges]
    return [Event(kind, at, at, {key: value, other: 1}) for at, (kind, value) in enumerate(cells)]


def mixed() -> list[Event]:
    """Return integers in A, floats in B."""
    cells = [("A", {"i": value, "f": None}) for value in INTS] + [("B", {"i": None, "f": value}) for value in FLOATS]
    return [Event(kind, at, at, values) for at, (kind, values) in enumerate(cells)]


def run(text: str, events: list[Event]) -> list[harness.Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        query = parse(text, SCHEMA)
        found = harness.rows(query, None, events)
    harness.assert_same(query, events, found, "one batch")
    return found


# ---------------------------------------------------------------------- numbers


@pytest.mark.thorough
@pytest.mark.parametrize("operator", ["+", "-", "*", "//", "%", "/"])
@pytest.mark.parametrize("kind", ["i", "f", "mixed"])
def test_arithmetic(operator: str, kind: str) -> None:
    """In RETURN, in a condition on a pair, and as a key."""
    left, right = ("a.i", "b.f") if kind == "mixed" else (f"a.{kind}", f"b.{kind}")
    events = mixed() if kind == "mixed" else pairs(kind)
    expression = f"{left} {operator} {right}"
    found = run(f"PATTERN SEQ(A a, B b) WITHIN UNBOUNDED RETURN {expression} AS r, ({expression}) > 0 AS big", events)
    assert len(found) == len(INTS) * len(INTS if kind == "i" else FLOATS)
    for comparison in ("> 0", "<= 1", "!= 1", "= 0"):
        run(f"PATTERN SEQ(A a, B b) WHERE {expression} {comparison} WITHIN UNBOUNDED", events)
    run(f"PATTERN SEQ(A a, B b) WHERE {left} {operator} 2 = {right} WITHIN UNBOUNDED", events)
    run(f"PATTERN SEQ(A a, B b) WHERE {left} {operator} -1 = {right} WITHIN UNBOUNDED", events)


@pytest.mark.parametrize("operator", ["+", "-", "*", "//", "%"])
def test_integer_faults_are_counted(operator: str) -> None:
    query = parse(f"PATTERN SEQ(A a, B b) WITHIN 1s RETURN a.i {operator} b.i AS r", SCHEMA)
    engine = fc.Engine(query)
    table = engine.process(harness.batch(SCHEMA, pairs("i"))).to_arrow()
    unknown = 2 * len(INTS) - 1
    assert table["r"].null_count > unknown
    assert engine.metrics()["arithmetic_nulls"] == table["r"].null_count - unknown


@pytest.mark.parametrize("function", ["-{}", "abs({})", "floor({})", "sqrt({})", "min({}, 1)", "max({}, 0)"])
@pytest.mark.parametrize("key", ["i", "f"])
def test_functions_of_one(function: str, key: str) -> None:
    expression = function.format(f"a.{key}")
    events = pairs(key)
    run(f"PATTERN SEQ(A a) WITHIN 1s RETURN {expression} AS r", events)
    for comparison in ("< 0", ">= 0", "!= 0"):
        run(f"PATTERN SEQ(A a) WHERE {expression} {comparison} WITHIN 1s", events)


def test_sums_that_overflow_are_null_from_then_on() -> None:
    for values in ([MAX, 1, -5], [MIN, -1, MAX], [MAX, None, 0], [-1, MIN]):
        events = [Event("A", at, at, {"i": value}) for at, value in enumerate(values)]
        text = "PATTERN SEQ(A+ a[]) WITHIN 1s RETURN SUM(a[].i) AS total, AVG(a[].i) AS mean, MIN(a[].i) AS low"
        run(text, events)
        run("PATTERN SEQ(A+ a[]) WHERE SUM(a[].i) <= 0 WITHIN 1s", events)


@pytest.mark.sample(2)
@pytest.mark.parametrize("comparison", ["=", "!=", "<", "<=", ">", ">="])
def test_comparisons(comparison: str) -> None:
    """NaN equals nothing, zeros are equal, an int is compared with a float as a float; as keys and otherwise."""
    for left, right, events in (("f", "f", pairs("f")), ("i", "i", pairs("i")), ("i", "f", mixed())):
        run(f"PATTERN SEQ(A a, B b) WHERE a.{left} {comparison} b.{right} WITHIN UNBOUNDED", events)
        run(f"PATTERN SEQ(A a, B b) WHERE NOT a.{left} {comparison} b.{right} WITHIN UNBOUNDED", events)


@pytest.mark.parametrize("key", ["i", "f"])
def test_keys(key: str) -> None:
    found = run(f"PATTERN SEQ(A a, B b) WITHIN UNBOUNDED PARTITION BY {key} RETURN a.{key} AS x, b.{key} AS y",
                pairs(key))  # fmt: skip
    zeros = [row[1] for row in found if row[1]["x"] == 0]
    assert len(zeros) == (4 if key == "f" else 1), "both zeros are one key"
    assert not any(row[1]["x"] is None or math.isnan(row[1]["x"]) for row in found)
    assert len(found) == (len(FLOATS) - 2 + 2 if key == "f" else len(INTS) - 1)
    run(f"PATTERN SEQ(A a, A b, B c) WHERE [{key}] WITHIN UNBOUNDED", pairs(key))


# ------------------------------------------------------------------------ times


def windows() -> st.SearchStrategy[str]:
    """Draw windows whose edges are near or beyond the limits of time."""
    return st.sampled_from([*(f"{span}ns" for span in SPANS), "106751d", "2 EVENTS", "UNBOUNDED"])


@st.composite
def limits(draw: Any) -> list[Event]:
    times = sorted(draw(st.lists(st.sampled_from(TIMES), min_size=2, max_size=8)))
    return [Event(draw(st.sampled_from("AB")), time, seq, {"i": 1, "f": 1.0}) for seq, time in enumerate(times)]


@given(limits(), windows(), st.integers(1, 4))
def test_windows_at_the_limits_of_time(events: list[Event], window: str, size: int) -> None:
    """last.time - first.time never overflows, for any batch boundaries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        query = parse(f"PATTERN SEQ(A a, B+ b[]) WITHIN {window}", SCHEMA)
        found = harness.rows(query, None, events, [size])
    harness.assert_same(query, events, found, f"batches of {size}")


@given(limits(), st.sampled_from(SPANS), st.sampled_from(SPANS), st.randoms(use_true_random=False), st.integers(1, 4))
def test_lateness_at_the_limits_of_time(events: list[Event], window: int, span: int, order: Any, size: int) -> None:
    """The largest time less the lateness never overflows."""
    arrivals = list(events)
    order.shuffle(arrivals)
    arrivals = [Event(one.type, one.time, seq, one.values) for seq, one in enumerate(arrivals)]
    query = parse(f"PATTERN SEQ(A a, B+ b[]) WITHIN {window}ns", SCHEMA)
    engine = fc.Engine(query, allowed_lateness=f"{span}ns")
    accepted, late, largest = [], [], MIN
    for one in arrivals:
        (late if one.time < largest - span else accepted).append(one)
        largest = max(largest, one.time)
    found = []
    for data in harness.batches(SCHEMA, arrivals, [size]):
        found += harness.table_rows(query, engine.process(data).to_arrow())
    found += harness.table_rows(query, engine.flush().to_arrow())
    accepted.sort(key=lambda one: (one.time, one.seq))
    harness.assert_same(query, accepted, found, f"lateness {span}")
    assert engine.late()["seq"].to_pylist() == [one.seq for one in late]


def test_arithmetic_with_times() -> None:
    """A difference of times that does not fit is null, and so unknown."""
    for first, last in product(TIMES, TIMES):
        if first <= last:
            events = [Event("A", first, 0, {"i": 0}), Event("B", last, 1, {"i": 1})]
            run("PATTERN SEQ(A a, B b) WITHIN UNBOUNDED RETURN b.time - a.time AS gap, a.time + 1 AS up, -a.time AS n",
                events)  # fmt: skip
            run("PATTERN SEQ(A a, B b) WHERE b.time - a.time > 5ns WITHIN UNBOUNDED", events)
            run("PATTERN SEQ(A a, B b) WHERE b.time = a.time + 1 WITHIN 1ns", events)


def test_the_clock_at_the_limits() -> None:
    engine = fc.Engine(parse(f"PATTERN SEQ(A a, B b) WITHIN {MAX}ns", SCHEMA))
    engine.send("A", ts=MIN)
    engine.advance(-2)
    assert engine.metrics()["live_partial_matches"] == 1
    engine.advance(-1)
    assert engine.metrics()["live_partial_matches"] == 1, "the window includes its end"
    engine.advance(0)
    assert engine.metrics()["live_partial_matches"] == 0
    engine.send("A", ts=MAX)
    assert len(engine.send("B", ts=MAX)) == 1
    with pytest.raises(fc.ValidationError, match="outside the range of int64"):
        engine.advance(MAX + 1)


@pytest.mark.parametrize(
    ("unit", "value"), [("us", 2**60), ("ms", -(2**60)), ("s", 9_223_372_037), ("min", MIN), ("h", MAX), ("d", 106_752)]
)
def test_times_that_do_not_fit_name_their_row(unit: str, value: int) -> None:
    schema = fc.Schema({"A": {}, "B": {}}, type="type", time_unit=unit, other_types="ignore")
    engine = fc.Engine(parse("PATTERN SEQ(A a) WITHIN 1s", schema))
    data = {"type": ["A", "X", "A", "X", "B"], "ts": [0, MAX, 1, MIN, value]}
    message = rf"file, row 14, column 'ts': .*time {value} {unit}.* int64 nanoseconds"
    with pytest.raises(fc.DataError, match=message):
        engine.process(data, origin="file", first_row=10)
    assert engine.metrics()["events"] == 0
    with pytest.raises(fc.DataError, match=message.replace("14", "29")):
        engine.process(data, origin="file", first_row=10, rows=np.array([0, 1, 7, 18, 19]))
    with pytest.raises(fc.ValidationError, match="file: found 2 row numbers for 5 rows"):
        engine.process(data, origin="file", rows=np.array([0, 1]))
    assert engine.process(data | {"ts": [0, MAX, 1, MIN, 106]}).counts() == {"query": 2}


def test_disorder_names_its_row_where_rows_were_left_out() -> None:
    schema = fc.Schema({"A": {}, "B": {}}, type="type", other_types="ignore")
    engine = fc.Engine(parse("PATTERN SEQ(A a) WITHIN 1s", schema))
    data = {"type": ["A", "X", "A", "B"], "ts": [5, 0, 6, 4]}
    with pytest.raises(fc.OrderError, match=r"batch, row 8, column 'ts'.*; sort the input") as caught:
        engine.process(data, rows=np.array([0, 3, 5, 8]))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_timestamps_that_do_not_fit_name_their_row(unit: str) -> None:
    schema = fc.Schema({"A": {}})
    engine = fc.Engine(parse("PATTERN SEQ(A a) WITHIN 1s", schema))
    with pytest.raises(fc.DataError, match="row 1, column 'ts'"):
        engine.process({"ts": pa.array([0, 2**62], pa.timestamp(unit))})


@pytest.mark.parametrize(
    ("zone", "when", "hours"),
    [
        ("Pacific/Auckland", MIN, None),
        ("Pacific/Auckland", MAX, -12),
        ("America/Los_Angeles", MIN, 8),
        ("America/Los_Angeles", MAX, None),
    ],
)
def test_zones_at_the_limits(zone: str, when: int, hours: int | None) -> None:
    """A local time that does not fit int64 in UTC is rejected, not wrapped around."""
    engine = fc.Engine(parse("PATTERN SEQ(A a) WITHIN 1s", fc.Schema({"A": {}}, time_zone=zone)))
    data = {"ts": pa.array([when], pa.timestamp("ns"))}
    if hours is None:
        with pytest.raises(fc.DataError, match=f"row 7, column 'ts': .*time {when} ns of {zone}.* int64"):
            engine.process(data, first_row=7)
        return
    engine.process(data)
    assert abs(engine.metrics()["watermark"] - when - hours * 3600 * 10**9) <= 3600 * 10**9


def test_conditions_that_only_look_alike() -> None:
    """Equal conditions of several variables are evaluated once; 0.0 and -0.0 are equal, but not in a denominator."""
    schema = fc.Schema({"A": {"f": "float64"}, "B": {"f": "float64"}}, type="type")
    conditions = "a.f / 0.0 > 1 AND b.f / -0.0 > 1 AND c.f / 0.0 > 1"
    query = fc.parse(f"PATTERN SEQ(A a, B b, (A|B) c) WHERE {conditions} WITHIN 1h", schema)
    data = {"type": ["A", "A", "B", "B", "B", "A"], "f": [-1.0, 1.0, 1.0, -1.0, 1.0, -1.0], "ts": range(6)}
    assert fc.Engine(query).process(data).to_arrow().select(["a", "b", "c"]).to_pylist() == [{"a": 1, "b": 3, "c": 4}]
