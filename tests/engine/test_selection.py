"""Conditions on single events: comparisons with constants, before and after other conditions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.shedding.drop_plans import Quiet, controlled, made

import fastcep as fc
from fastcep.shedding import DropPlan

Event = dict[str, Any]
ATTRIBUTES = {"i": "int64", "x": "float64", "s": "string"}
COLUMNS = {"i": pa.int64(), "x": pa.float64(), "s": pa.string()}
#: A condition on variable ``v`` and what it means; only the last ones are not comparisons with a constant.
CONDITIONS: list[tuple[str, Callable[[Event], bool]]] = [
    ("v.i = 3", lambda event: event["i"] == 3),
    ("v.i != 3", lambda event: event["i"] != 3),
    ("v.i < 3", lambda event: event["i"] < 3),
    ("3 = v.i", lambda event: event["i"] == 3),
    ("3 != v.i", lambda event: event["i"] != 3),
    ("3 >= v.i", lambda event: event["i"] <= 3),
    ("3 < v.i AND v.i <= 6", lambda event: 3 < event["i"] <= 6),
    ("v.x > 0.0 AND v.i >= 2", lambda event: event["x"] > 0 and event["i"] >= 2),
    ("0.0 > v.x", lambda event: event["x"] < 0),
    ("v.x != 1.5 AND 1.5 >= v.x", lambda event: event["x"] != 1.5 and event["x"] <= 1.5),
    ("v.s = 'u'", lambda event: event["s"] == "u"),
    ("v.i > 1 AND v.i % 2 = 0 AND v.x < 2.0", lambda event: event["i"] > 1 and event["i"] % 2 == 0 and event["x"] < 2),
    ("v.i % 2 = 0 AND v.i > 1", lambda event: event["i"] % 2 == 0 and event["i"] > 1),
    ("v.x IS NULL", lambda event: event["x"] is None),
]


def holds(number: int, event: Event) -> bool:
    """Return whether a condition holds; a comparison with null does not."""
    text, condition = CONDITIONS[number]
    if "NULL" not in text and any(f"v.{name}" in text and event[name] is None for name in COLUMNS):
        return False
    return condition(event)


def schema_of(n_types: int) -> fc.Schema:
    return fc.Schema({f"T{number}": ATTRIBUTES for number in range(n_types)}, time="ts", type="type")


def stream(n_types: int, count: int) -> list[Event]:
    draw = random.Random(n_types)
    return [
        {
            "type": f"T{draw.randrange(n_types)}", "ts": position, "i": draw.choice([*range(9), None]),
            "x": draw.choice([-1.5, -0.0, 0.0, 1.5, 3.0, math.nan, None]), "s": draw.choice(["u", "v", None]),
        }
        for position in range(count)
    ]  # fmt: skip


def batch(events: list[Event]) -> pa.Table:
    columns = {"type": pa.string(), "ts": pa.int64(), **COLUMNS}
    return pa.table({name: pa.array([event[name] for event in events], kind) for name, kind in columns.items()})


def alternatives(schema: fc.Schema, types: range, first: int) -> tuple[fc.Query, dict[str, int]]:
    """Return a query for the events that pass the condition of their type, and the number of the condition by type."""
    numbers = {f"T{number}": (first + place) % len(CONDITIONS) for place, number in enumerate(types)}
    patterns = ", ".join(f"T{number} v{number}" for number in types)
    tests = " AND ".join(CONDITIONS[number][0].replace("v.", f"v{name[1:]}.") for name, number in numbers.items())
    pattern = f"OR({patterns})" if len(types) > 1 else f"SEQ({patterns})"
    return fc.parse(f"PATTERN {pattern} WHERE {tests} WITHIN 1ns", schema, name=f"q{first}"), numbers


@pytest.mark.sample(12)
@pytest.mark.parametrize("size", [1, 50, 1_000], ids="{} a batch".format)
@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("n_types", [4, 40, 300], ids="{} types".format)
@pytest.mark.parametrize("width", [1, 3], ids="{} alternatives".format)
def test_events_that_pass_are_found(width: int, n_types: int, queries: int, size: int) -> None:
    schema, events = schema_of(n_types), stream(n_types, 3_000 if size > 1 else 700)
    table = batch(events)
    for number in range(len(CONDITIONS)):
        drawn = [alternatives(schema, range(width), number + 5 * other) for other in range(queries)]
        engine = fc.Engine([query for query, _ in drawn])
        found: dict[str, int] = {query.name: 0 for query, _ in drawn}
        for first in range(0, len(events), size):
            matches = engine.process(table.slice(first, size))
            for name in found:
                found[name] += len(matches.query(name))
        for query, numbers in drawn:
            expected = sum(event["type"] in numbers and holds(numbers[event["type"]], event) for event in events)
            metrics = engine.metrics()["queries"][query.name]
            assert (found[query.name], metrics["relevant_events"]) == (expected, expected)


@pytest.mark.parametrize("queries", [1, 2])
def test_only_events_that_pass_the_comparisons_before_it_reach_a_condition(queries: int) -> None:
    """An overflow is counted for an event that all conditions before it have let through."""
    schema, events = schema_of(3), stream(3, 500)
    text = "PATTERN SEQ(T0 a, T1 b) WHERE a.i > 4 AND 7 > a.i AND a.i // (a.i - a.i) = 1 AND b.i = 1 WITHIN 1ns"
    engine = fc.Engine([fc.parse(text, schema, name=f"q{number}") for number in range(queries)])
    engine.process(batch(events))
    expected = sum(event["type"] == "T0" and event["i"] is not None and 4 < event["i"] < 7 for event in events)
    assert {metrics["arithmetic_nulls"] for metrics in engine.metrics()["queries"].values()} == {expected}


@pytest.mark.parametrize("width", [1, 3], ids="{} alternatives".format)
def test_dropped_events_are_counted_before_any_condition(width: int) -> None:
    schema, events = schema_of(4), stream(4, 500)
    query, numbers = alternatives(schema, range(width), 0)
    engine = made(query, Quiet())
    controlled(engine).apply(DropPlan(events=np.array([1.0, 0.0, 0.0, 1.0])), 0)
    found = len(engine.process(batch(events)))
    dropped = controlled(engine).shedding.counted()["dropped_events"].tolist()
    assert dropped == [sum(event["type"] == "T0" for event in events), 0, 0, 0], "T3 is not relevant"
    left = [event for event in events if event["type"] in set(numbers) - {"T0"}]
    assert found == sum(holds(numbers[event["type"]], event) for event in left)


def test_no_event_passes_a_comparison_with_a_null_constant() -> None:
    with pytest.warns(fc.QueryWarning, match="always unknown"):
        query = fc.parse("PATTERN SEQ(T0 a) WHERE a.i = NULL WITHIN 1ns", schema_of(1), name="q")
    assert len(fc.Engine(query).process(batch(stream(1, 100)))) == 0


@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("conditions", [("a.i > 5", "b.x = 1.5"), ("a.i > 5", "b.i % 2 = 0"), ("a.i > 5", "true")])
def test_one_type_for_variables_with_different_conditions(conditions: tuple[str, str], queries: int) -> None:
    events = stream(1, 1_000)
    text = f"PATTERN SEQ(T0 a, T0 b) WHERE {' AND '.join(conditions)} WITHIN 1ns"
    engine = fc.Engine([fc.parse(text, schema_of(1), name=f"q{number}") for number in range(queries)])
    passes: dict[str, Callable[[Event], bool]] = {
        "b.x = 1.5": lambda event: event["x"] == 1.5,
        "b.i % 2 = 0": lambda event: event["i"] is not None and event["i"] % 2 == 0,
        "true": lambda event: True,
    }
    pairs = itertools.pairwise(events)
    expected = sum(a["i"] is not None and a["i"] > 5 and passes[conditions[1]](b) for a, b in pairs)
    matches = engine.process(batch(events))
    assert [len(matches.query(f"q{number}")) for number in range(queries)] == [expected] * queries
