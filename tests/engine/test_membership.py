"""``IN`` with many values is a look-up in a hash set, for the same values as the equivalent comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.matcher import Event
from support import harness
from support.waiting import LIMIT_TEXT

import fastcep as fc
from fastcep.plan.translate import FEW_VALUES
from fastcep.query import ast
from fastcep.query.printer import expression_text

SCHEMA = fc.Schema({"A": {"i": "int64", "x": "float64", "s": "string"}}, time="ts", type="type")
BIG = 2**53
INTS = [0, 1, -1, 7, BIG, BIG + 1, BIG + 2, 2**63 - 1, -(2**63) + 1]
FLOATS = [0.0, -0.0, 0.5, 1.0, -1.0, 7.0, float(BIG), float(BIG + 2), 1e300, 2.0**63]
TEXTS = ["", "u", "v", "w", "ü", "a longer text"]
OTHERS: dict[str, list[Any]] = {
    "i": list(range(100, 100 + FEW_VALUES)),
    "x": [100.5 + number for number in range(FEW_VALUES)],
    "s": [f"other {number}" for number in range(FEW_VALUES)],
}
POOLS: dict[str, list[Any]] = {"i": INTS, "x": [*FLOATS, float("nan"), float("inf")], "s": TEXTS}


def query_of(attribute: str, values: list[Any], negated: bool) -> ast.Query:
    test = ast.Membership(ast.Attribute("a", attribute), tuple(map(ast.Literal, values)), negated)
    return fc.parse(f"PATTERN SEQ(A a) WHERE {expression_text(test)} WITHIN 1s", SCHEMA, name="q")


def values_of(attribute: str) -> st.SearchStrategy[list[Any]]:
    pool = TEXTS if attribute == "s" else [*INTS, *FLOATS]
    some = st.lists(st.sampled_from([*pool, None]), min_size=1, max_size=6, unique_by=repr)
    return st.tuples(some, st.booleans()).map(lambda drawn: drawn[0] + OTHERS[attribute] * drawn[1])


def events_of(attribute: str) -> list[Event]:
    """Return one event for each value that a set may have, for some that none has, and for null."""
    pool = [*POOLS[attribute], *OTHERS[attribute][:2], None]
    return [
        Event("A", number, number, {name: value if name == attribute else None for name in "ixs"})
        for number, value in enumerate(pool)
    ]


@pytest.mark.parametrize("attribute", "ixs")
@given(data=st.data(), negated=st.booleans())
def test_same_as_comparisons(attribute: str, data: st.DataObject, negated: bool) -> None:
    query = query_of(attribute, data.draw(values_of(attribute)), negated)
    events = events_of(attribute)
    harness.assert_same(query, events, harness.rows(query, None, events), "IN")


@pytest.mark.thorough
@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("attribute", "ixs")
def test_same_with_kernels(attribute: str, negated: bool, kernels: Path) -> None:
    pool = TEXTS if attribute == "s" else [*INTS, *FLOATS]
    events = events_of(attribute)
    for values in ([*pool, *OTHERS[attribute]], [*pool[::2], None, *OTHERS[attribute]], OTHERS[attribute] + pool[1:2]):
        query = query_of(attribute, values, negated)
        engine = fc.Engine(query)
        assert engine.compile(LIMIT_TEXT), engine.metrics()["kernels"]
        found = [engine.process(harness.batch(SCHEMA, events)), engine.flush()]
        rows = [row for part in found for row in harness.table_rows(query, part.to_arrow())]
        harness.assert_same(query, events, rows, "IN by a kernel")


@pytest.mark.thorough
@pytest.mark.parametrize("jit", ["0", "1"])
@pytest.mark.parametrize("attribute", "ixs")
def test_a_hundred_thousand_values(
    attribute: str, jit: str, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTCEP_JIT", jit)
    values = {
        "i": [3 * number for number in range(100_000)],
        "x": [number + 0.5 for number in range(100_000)],
        "s": [f"w{number}" for number in range(100_000)],
    }[attribute]
    query = query_of(attribute, values, negated=False)
    engine = fc.Engine(query)
    assert engine.compile(LIMIT_TEXT) == (jit == "1")
    others = {"i": [1, 299_999], "x": [1.0, 100_000.5], "s": ["w", "w100000"]}[attribute]
    events = [
        Event("A", number, number, {name: value if name == attribute else None for name in "ixs"})
        for number, value in enumerate([*values[::1000], *others, None])
    ]
    restored = fc.Engine.restore(engine.snapshot(), query)
    for one in (engine, restored):
        found = one.process(harness.batch(SCHEMA, events)).to_arrow().num_rows + one.flush().to_arrow().num_rows
        assert found == 100
    assert "99,997 omitted" in engine.explain(), "the text shows some of the values"
