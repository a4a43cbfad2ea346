"""Plans that a process keeps: the same plan as a new one, for the same query only, and unchanged by engines."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import pytest

import fastcep as fc
from fastcep.plan import Plan, make, make_plan
from fastcep.plan.earlier import EarlierColumns

SCHEMA = fc.Schema({kind: {"id": "int64", "v": "float64"} for kind in "ABC"}, type="type")
TEXT = "PATTERN SEQ(A a, B b, C c) WHERE [id] AND a.v + b.v = c.v AND b.v > 2 WITHIN 1 ms"
WINDOWS = "PATTERN SEQ(A a, B b) WINDOW OPEN ON A o CLOSE AFTER 10 EVENTS"
OPTIONS: list[dict[str, Any]] = [
    {}, {"timed_out": True}, {"store": "rows"}, {"store": "factorised"}, {"index": "key"}, {"isolated": True},
    {"observed": True}, {"weighed": True},
]  # fmt: skip


def parts(plan: Plan) -> dict[str, Any]:
    """Return what a plan consists of, without its query."""
    return {item.name: getattr(plan, item.name) for item in fields(plan) if item.name not in ("query", "other")}


@pytest.fixture(autouse=True)
def no_plans() -> None:
    make._kept.cache_clear()


def test_planned_once() -> None:
    first, second = fc.parse(TEXT, SCHEMA), fc.parse(TEXT, SCHEMA)
    plans = make_plan(first), make_plan(second)
    assert make._kept.cache_info()[:2] == (1, 1)  # one hit, one miss
    assert plans[0].edges is plans[1].edges
    for plan, query in zip(plans, (first, second), strict=True):
        assert plan.query is query
        assert plan.other is not None and plan.other.query is query
    assert plans[0] is not plans[1] and plans[0].other is not plans[1].other


@pytest.mark.parametrize("text", [TEXT, WINDOWS])
@pytest.mark.parametrize("options", OPTIONS, ids=repr)
def test_each_option_has_its_own_plan(options: dict[str, Any], text: str) -> None:
    query = fc.parse(text, SCHEMA)
    alone = parts(make_plan(query, **options))
    make._kept.cache_clear()
    for others in OPTIONS:
        make_plan(query, **others)
    assert parts(make_plan(query, **options)) == alone


def test_equal_queries_with_other_results() -> None:
    """``0.0 == -0.0``, so that these queries are equal, but only one of them has a match."""
    queries = [fc.parse(f"PATTERN SEQ(A a) WHERE a.v / {zero} > 0 WITHIN 1 ms", SCHEMA) for zero in ("0.0", "-0.0")]
    assert queries[0] == queries[1]
    found = [len(fc.Engine(query).process({"type": ["A"], "ts": [1], "id": [1], "v": [1.0]})) for query in queries]
    assert found == [1, 0]


def test_an_engine_does_not_change_a_plan() -> None:
    query = fc.parse(TEXT, SCHEMA)
    before = pickle.dumps(parts(make_plan(query)))
    for options in ({}, {"latency_bound": "1ms", "shedder": "ri"}, {"timed_out": True}):
        engine = fc.Engine(query, **options)
        for name in "ABC":
            engine.send(name, ts=1, id=1, v=3.0 + 3.0 * (name == "C"))
        assert engine.metrics()["matches"] == 1
    assert pickle.dumps(parts(make_plan(query))) == before


def test_plans_that_depend_on_more_are_made_anew() -> None:
    query = fc.parse(TEXT, SCHEMA)
    previous = fc.parse("PATTERN SEQ(A a) WHERE a.v > prev(a.v) WITHIN 1 ms", SCHEMA)
    columns = EarlierColumns(SCHEMA)
    assert make_plan(previous, earlier=columns).earlier  # the engine's columns now have one more
    assert make_plan(query, earlier=columns).earlier and not make_plan(query).earlier
    assert make_plan(query, classes={}).sheds and not make_plan(query).sheds


def test_a_process_keeps_a_limited_number() -> None:
    for number in range(make.KEPT_PLANS + 9):
        make_plan(fc.parse(f"PATTERN SEQ(A a) WHERE a.id = {number} WITHIN 1 ms", SCHEMA))
    assert make._kept.cache_info().currsize == make.KEPT_PLANS


@pytest.mark.thorough
def test_plans_of_large_queries_are_not_kept() -> None:
    constants = ", ".join(map(str, range(20_000)))
    make_plan(fc.parse(f"PATTERN SEQ(A a) WHERE a.id IN {{{constants}}} WITHIN 1 ms", SCHEMA))
    assert make._kept.cache_info().currsize == 0


@pytest.mark.parametrize(("parts", "kept"), [(4, True), (6, False)])
def test_plans_with_many_states_are_not_kept(parts: int, kept: bool) -> None:
    """An AND has a state for each subset of its parts."""
    text = f"PATTERN AND({', '.join(f'A a{number}' for number in range(parts))}) WITHIN 1 ms"
    first, second = (make_plan(fc.parse(text, SCHEMA)) for _ in range(2))
    assert (first.edges is second.edges) == kept
