"""Matches, order and counts are the same with generated kernels, without them, and with a swap in between."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from reference.conditions import Event
from reference.values import INT_MAX
from support import harness
from support.waiting import LIMIT_TEXT

import fastcep as fc
from fastcep.kernels import Kernels

pytestmark = pytest.mark.thorough

SCHEMA = fc.Schema(
    {
        "A": {"k": "int64", "v": "int64", "x": "float64", "s": "string", "p": "bool"},
        "B": {"k": "int64", "v": "int64", "x": "float64", "s": "string"},
        "C": {"k": "int64", "v": "int64", "x": "float64"},
    },
    time="ts",
    type="type",
    time_unit="ns",
)
QUERIES = {
    "edges": "SEQ(A a, B b, C c) WHERE a.k = b.k AND a.v < b.v AND b.v * 2 < c.v AND c.x - a.x > 0.2 WITHIN 40ns "
    "RETURN a.v + c.v AS total, b.x / c.x AS ratio",
    "lost": "SEQ(A a, B b) WHERE a.v < 5 AND a.v // b.v < 3 AND a.v * b.v != 6 WITHIN 20ns RETURN a.v * b.v AS v",
    "kleene": "SEQ(A a, B+ r[], C c) WHERE r[i].v > a.v AND SUM(r[].v) < c.v + 9 AND r[last].x <= c.x WITHIN 10ns "
    "RETURN SUM(r[].v) AS s, AVG(r[].x) AS m, STDDEV(r[].v) AS d, MIN(r[].x) AS low",
    "for all": "SEQ(A a, B{2,4} r[], C c) WHERE r[i+1].v != r[i].v AND r[i].x <= c.x AND r[i].v + c.v > a.v "
    "WITHIN 16ns",
    "optional": "SEQ(A a, B? b, C c) WHERE b.v > a.v AND c.v > b.v + 1 AND c.x != a.x WITHIN 12ns RETURN b.v AS v",
    "strings": "SEQ(A a, B b) WHERE a.s != b.s AND (a.p OR a.v > b.v) AND NOT a.s = 'u' WITHIN 9ns RETURN b.s AS s",
    "computed key": "SEQ(A a, B b, C c) WHERE a.v + b.v = c.v AND a.x = b.x AND abs(c.x) < 3.0 WITHIN 40ns",
    "negation": "SEQ(A a, NEG B n, C c) WHERE n.v > a.v AND n.x + c.x < 3.0 AND n.s != a.s AND c.v != a.v WITHIN 12ns "
    "RETURN c.v AS v",
    "negation of elements": "SEQ(A a, B{1,3} r[], NEG A n, C c) WHERE n.v < r[i].v AND n.k = a.k AND n.x <= c.x "
    "WITHIN 9ns",
    "trailing": "SEQ(A a, B b, NEG C n) WHERE n.v < a.v + b.v AND n.x != b.x AND a.v < b.v WITHIN 7ns RETURN b.x AS x",
    "and, or": "AND(A a, OR(B b, SEQ(C c, A d))) WHERE a.v < b.v AND c.v <= d.v AND a.x != d.x WITHIN 8ns",
    "any": "ANY(2, A a, (A|B) b, C c) WHERE a.v < b.v AND b.x < c.x WITHIN 9ns RETURN a.v + b.v AS v",
    "distinct": "ANY(3, A r[] DISTINCT v) WHERE r[i+1].x >= r[i].x WITHIN 16ns",
    "group": "SEQ((SEQ(A a, B b))+ g[], C c) WHERE g[i].a.v < g[i].b.v AND g[i+1].a.x >= g[i].a.x "
    "AND SUM(g[].b.v) != c.v WITHIN 12ns RETURN AVG(g[].a.x) AS m, g[last].b.v AS v",
    "group with negation": "SEQ((SEQ(A a, NEG C n, B b))+ g[], A d) WHERE g[i].n.v > g[i].a.v AND d.v < 6 WITHIN 8ns",
    "aperiodic": "APERIODIC(A a, B b, C n) WHERE n.v > a.v AND b.x > a.x AND n.x != b.x WITHIN 12ns "
    "RETURN b.v - a.v AS v",
    "periodic": "PERIODIC(A a, 3ns, C n) WHERE a.v < 6 AND n.v > a.v AND n.x != a.x WITHIN 14ns RETURN a.x AS x",
    "union": "SEQ((A|B) e, C c) WHERE e.v < c.v AND e.x < c.x AND e.k + c.k > 0 WITHIN 12ns RETURN e.type AS kind",
}


def stream(seed: int, n: int = 150) -> list[Event]:
    draw = random.Random(seed)
    events = []
    for number in range(n):
        kind = draw.choice("AABBC")
        pools: dict[str, list[Any]] = {
            "int64": [*range(-1, 10), *range(4), None, INT_MAX],
            "float64": [0.0, 0.5, 1.0, 2.5, 4.0, 0.5, 1.0, None, float("nan"), float("inf")],
            "string": ["u", "v", "w", None],
            "bool": [True, False, None],
        }
        values = {name: draw.choice(pools[dtype]) for name, dtype in SCHEMA.attributes(kind).items()}
        values["k"] = draw.randrange(2)
        events.append(Event(kind, number, number, values))
    return events


def result(engine: fc.Engine, query: Any, data: list[Any], *, last: bool = True) -> tuple[str, int]:
    results = [engine.process(part) for part in data] + ([engine.flush()] if last else [])
    rows = [row for part in results for row in harness.table_rows(query, part.to_arrow())]
    return repr(rows), engine.metrics()["arithmetic_nulls"]


@pytest.mark.parametrize("name", QUERIES)
def test_tiers_agree(name: str, kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = fc.parse(f"PATTERN {QUERIES[name]}", SCHEMA, name="q")
    generated = fc.Engine(query)
    assert generated.compile(LIMIT_TEXT), generated.metrics()["kernels"]
    monkeypatch.setenv("FASTCEP_JIT", "0")
    for seed in range(3):
        events = stream(seed)
        batches = list(harness.batches(SCHEMA, events))
        cut = list(harness.batches(SCHEMA, events, [1, 30, 17]))
        interpreted, nulls = result(fc.Engine(query), query, batches)
        assert interpreted.count("), ") > 3, "the streams hold matches"
        harness.assert_same(query, events, harness.rows(query, None, events), "tier 0")
        assert result(fc.Engine(query), query, cut) == (interpreted, nulls), "counts do not depend on the batches"
        for data in (batches, cut):
            monkeypatch.setenv("FASTCEP_JIT", "1")
            assert result(ready(query), query, data) == (interpreted, nulls), "generated"
            monkeypatch.setenv("FASTCEP_JIT", "0")
        swapped = fc.Engine(query)
        before, _ = result(swapped, query, cut[:4], last=False)
        monkeypatch.setenv("FASTCEP_JIT", "1")
        swapped._stream.queries.kernels = Kernels(swapped._stream.queries.kernels._users)
        assert swapped.metrics()["kernels"]["generated"] == swapped.metrics()["kernels"]["total"] > 0
        after, count = result(swapped, query, cut[4:])
        monkeypatch.setenv("FASTCEP_JIT", "0")
        together = "[" + ", ".join(part[1:-1] for part in (before, after) if len(part) > 2) + "]"
        assert (together, count) == (interpreted, nulls), "swapped in the middle"


def ready(query: Any) -> fc.Engine:
    engine = fc.Engine(query)
    assert engine.metrics()["kernels"]["pending"] == 0, "they are loaded"
    return engine


def test_a_rejected_row_does_not_count(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``a.v // b.v`` divides by zero for every row, but only rows that pass ``a.v < b.x`` before it count."""
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.v // b.v < 3 WITHIN 1s", SCHEMA)
    data = {
        "type": ["A"] * 300 + ["B"],
        "ts": list(range(301)),
        "v": [1] * 300 + [0],
        "x": [float(n) for n in range(300)] + [100.0],
    }
    for jit in "01":
        monkeypatch.setenv("FASTCEP_JIT", jit)
        engine = fc.Engine(query)
        engine.compile(LIMIT_TEXT)
        engine.process({name: data.get(name, [None] * 301) for name in ("type", "ts", "k", "v", "x", "s", "p")})
        assert engine.metrics()["arithmetic_nulls"] == 100
