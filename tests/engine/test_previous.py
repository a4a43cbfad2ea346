"""Attributes of earlier events, ``prev(x.a, k)``."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from support import harness
from support.worked import SCHEMA, found

import fastcep as fc
from fastcep.parallel import ParallelEngine
from fastcep.query import functions, parse, seq, to_text

SMALL = fc.Schema({"A": {"k": "int64", "v": "int64", "s": "string"}, "B": {"v": "int64"}}, time="ts", type="type")
STREAM = "A(k=1,v=1,s='x') B(k=2,v=5) A(k=1,v=3,s='y') D(k=1) A(k=2,v=9) B(k=1,v=2) A(v=4,k=2,s='x')"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SEQ(A x) WHERE x.v > prev(x.v) WITHIN 9ns", ["x6"]),  # D has no v
        ("SEQ(A x) WHERE prev(x.v) IS NULL WITHIN 9ns", ["x0", "x4"]),
        ("SEQ(A x) WHERE x.v > prev(x.v, 2) WITHIN 9ns", ["x2", "x4"]),
        ("SEQ(A x) WHERE prev(x.type) = 'B' WITHIN 9ns", ["x2", "x6"]),
        ("SEQ(A x) WHERE x.time - prev(x.time, 3) = 3ns WITHIN 9ns", ["x4", "x6"]),
        ("SEQ(A x) WHERE x.v > prev(x.v) WITHIN 9ns PARTITION BY k", ["x2", "x4"]),
        ("SEQ(A x, B y) WHERE prev(y.s) = x.s WITHIN 9ns PARTITION BY k", []),
        ("SEQ(A x, B y) WHERE prev(y.s, 2) = x.s WITHIN 9ns PARTITION BY k", ["x2 y5"]),
        ("SEQ(A x, NEG B n, A y) WHERE prev(n.v) > 5 WITHIN 9ns", ["x0 y2", "x0 y4", "x2 y4"]),
        ("SEQ(A+ x[], B y) WHERE prev(x[i+1].v) > x[i].v WITHIN 9ns", ["x0 y1", "x0 y5", "x2 y5", "x0,2 y5", "x4 y5"]),
        ("SEQ((SEQ(B b, A a)){2} g[]) WHERE prev(g[i].a.v) = g[i].b.v WITHIN 9ns", ["g.b1,5 g.a2,6"]),
        ("SEQ(A x, A? y, B z) WHERE prev(y.v) = 5 WITHIN 9ns",
         ["x0 y- z1", "x0 y2 z5", "x0 y- z5", "x2 y- z5", "x4 y- z5"]),
    ],
)  # fmt: skip
def test_worked(text: str, expected: list[str]) -> None:
    assert sorted(found(text, STREAM)) == sorted(expected)
    query = parse(f"PATTERN {text} RETURN 1 AS one", SCHEMA, name="q")
    assert parse(to_text(query), SCHEMA) == query
    events = harness.stream(SCHEMA, STREAM)
    for sizes in ([7], [1], [2, 3]):
        harness.assert_same(query, events, harness.rows(query, None, events, sizes), f"batches of {sizes}")
    harness.assert_same(query, events, harness.rows_by_send(query, None, events), "send")


def line(first: int, n: int, **columns: list[Any]) -> dict[str, Any]:
    """Return a batch of n events of type A, one ns apart."""
    numbers = list(range(first, first + n))
    return {"type": ["A"] * n, "ts": numbers, "k": [1] * n, "v": numbers, "s": ["x"] * n, **columns}


def test_a_snapshot_has_the_values_of_earlier_events() -> None:
    """Also after a query with other columns was removed, and with strings that only these values use."""
    other = parse("PATTERN SEQ(A x) WHERE prev(x.s, 2) = 'w' AND prev(x.v, 3) = 1 WITHIN 9ns", SMALL, name="other")
    query = parse("PATTERN SEQ(A x, A y) WITHIN 1ns PARTITION BY k RETURN prev(y.s, 2) AS s, prev(x.v) AS v", SMALL)
    engine = fc.Engine([other, query])
    engine.remove("other")
    engine.process(line(0, 3, s=["a", "b", "c"]))
    again = fc.Engine.restore(engine.snapshot(), query)
    rows = [one.process(line(3, 1, s=["d"])).to_arrow().select(["s", "v"]).to_pylist() for one in (engine, again)]
    assert rows[0] == rows[1] == [{"s": "b", "v": 1}]


def test_an_added_query_sees_no_earlier_events() -> None:
    engine = fc.Engine(parse("PATTERN SEQ(A x) WHERE x.v < 0 WITHIN 9ns", SMALL, name="q"))
    engine.process(line(0, 3))
    engine.add(parse("PATTERN SEQ(A x) WHERE prev(x.v) IS NULL WITHIN 9ns", SMALL, name="r"))
    assert engine.process(line(3, 3)).to_arrow()["x"].to_pylist() == [3]


def test_the_order_is_that_of_time() -> None:
    query = parse("PATTERN SEQ(A x) WITHIN 9ns RETURN prev(x.v) AS before", SMALL)
    engine = fc.Engine(query, allowed_lateness="5ns")
    data = line(0, 3, ts=[2, 1, 3], v=[20, 10, 30])
    rows = [*engine.process(data).to_arrow().to_pylist(), *engine.flush().to_arrow().to_pylist()]
    assert [row["before"] for row in rows] == [None, 10, 20]


def test_events_that_are_shed_are_earlier_events_all_the_same() -> None:
    query = parse("PATTERN SEQ(A x, A y) WHERE prev(y.v) = y.v - 1 WITHIN 9ns", SMALL)
    truth = set(map(str, fc.Engine(query).process(line(0, 400)).to_arrow().to_pylist()))
    engine = fc.Engine(query, clock="virtual", cost_table="paper", latency_bound=1.0, shedder="ri")
    shed: set[str] = set()
    for first in range(0, 400, 50):
        shed |= set(map(str, engine.process(line(first, 50)).to_arrow().to_pylist()))
    assert shed < truth and len(truth) == 9 * 400 - 45


def test_memory_is_bounded_by_the_partitions() -> None:
    query = parse("PATTERN SEQ(A x) WHERE prev(x.v, 3) > x.v WITHIN 9ns PARTITION BY k", SMALL)
    engine = fc.Engine(query)
    sizes = []
    for first in range(0, 4000, 1000):
        engine.process(line(first, 1000, k=[number % 7 for number in range(1000)]))
        sizes.append(engine.metrics()["prev_bytes"])
    assert 0 < sizes[0] == sizes[-1] < 2000
    engine.process(line(4000, 1000, k=list(range(1000))))
    assert engine.metrics()["prev_bytes"] > 100 * sizes[0] // 7


def test_memory_is_released_with_the_query() -> None:
    engine = fc.Engine([parse(f"PATTERN SEQ(A x) {where} WITHIN 9ns", SMALL, name=name)
                        for where, name in (("WHERE prev(x.v) > 1", "q"), ("", "r"))])  # fmt: skip
    engine.process(line(0, 2))
    assert engine.metrics()["prev_bytes"] > 0
    engine.remove("q")
    assert engine.metrics()["prev_bytes"] == 0


def test_builder() -> None:
    x = SMALL.A("x")
    built = seq(x).where(functions.prev(x.v) < x.v, functions.prev(x.v, 2) < x.v).within("9ns").build()
    assert built == parse("PATTERN SEQ(A x) WHERE prev(x.v, 1) < x.v AND prev(x.v, 2) < x.v WITHIN 9ns", SMALL)
    assert "prev(x.v) < x.v AND" in to_text(built).replace("\n ", "")
    for wrong in (0, -1, 1.0, True, 1001):
        with pytest.raises(fc.ValidationError, match="prev counts places from 1 to 1,000"):
            functions.prev(x.v, wrong)
    with pytest.raises(fc.ValidationError, match="prev needs an attribute of a variable"):
        functions.prev(x.v + 1)
    with pytest.raises(fc.ValidationError, match="built-in function"):
        fc.function("int64(int64)", name="prev")(lambda v: v)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SEQ(A x) WHERE prev(x.w) = 1 WITHIN 9ns", "unknown attribute 'w' in prev"),
        ("SEQ(A x) WHERE prev(y.v) = 1 WITHIN 9ns", "unknown variable 'y'"),
        ("SEQ(A x) WHERE prev(x.v, 0) = 1 WITHIN 9ns", "places from 1 to 1,000, not 0"),
        ("SEQ(A x) WHERE prev(x.v, 1001) = 1 WITHIN 9ns", "places from 1 to 1,000, not 1001"),
        ("SEQ(A x) WHERE prev(x.v, x.k) = 1 WITHIN 9ns", r"a whole number from 1 on, as in prev\(x.price, 2\)"),
        ("SEQ(A x) WHERE prev(x.v + 1) = 1 WITHIN 9ns", r"as in prev\(x.price\) or prev\(x.price, 2\)"),
        ("SEQ(A x) WHERE prev() = 1 WITHIN 9ns", r"as in prev\(x.price\) or prev\(x.price, 2\)"),
        ("SEQ(A x) WHERE prev(x.seq) = 1 WITHIN 9ns", r"prev has no sequence number; write prev\(x.time\)"),
        ("SEQ(A+ x[]) WHERE prev(x.v) = 1 WITHIN 9ns", "x holds several events"),
        ("SEQ(A x) WHERE prev(x.s) > 1 WITHIN 9ns", "is a string"),
        ("SEQ(A x) WINDOW OPEN ON B o WHERE prev(o.v) = 1 CLOSE AFTER 9ns", r"OPEN ON … WHERE has no prev\(o.v\)"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(fc.ParseError, match=message):
        parse(f"PATTERN {text}", SMALL)


def test_one_dtype() -> None:
    types = {"A": {"v": "int64"}, "B": {"v": "float64"}}
    schema = fc.Schema(types, time="ts", type="type", sources={"B": {"v": "w"}})
    with pytest.raises(fc.ParseError, match=r"with the same dtype \(A has int64, B has float64\); declare it with one"):
        parse("PATTERN SEQ(A x) WHERE prev(x.v) > 1 WITHIN 9ns", schema)


def test_explain() -> None:
    query = parse("PATTERN SEQ(A x, A y) WHERE prev(y.v) > x.v WITHIN 9ns RETURN prev(x.s, 2) AS s", SMALL)
    text = fc.Engine(query).explain()
    assert "prev(y.v) > x.v" in text or "x.v < prev(y.v)" in text
    assert "prev(s, 2)" in text


def test_several_processes_cannot_run_it() -> None:
    query = parse("PATTERN SEQ(A x) WHERE prev(x.v) > 1 WITHIN 9ns", SMALL)
    with warnings.catch_warnings(), pytest.raises(
        fc.ValidationError, match=r"prev\(x.v\) reads an event that may lie any time before; .*run it in one engine"
    ):
        warnings.simplefilter("ignore")
        ParallelEngine(query, instances=2, workers="threads")


@pytest.mark.parametrize(
    ("condition", "starts"), [("y.v > prev(x.v)", [0, 1, 2, 3]), ("y.v = prev(x.v) + 9", [1, 2, 3])]
)
def test_partial_matches_time_out(condition: str, starts: list[int]) -> None:
    """One whose key is null is not stored, because it meets no event."""
    query = parse(f"PATTERN SEQ(A x, A y) WHERE {condition} AND y.v > 99 WITHIN 9ns", SMALL)
    engine = fc.Engine(query, timed_out=True)
    engine.process(line(1, 4))
    engine.flush()
    assert engine.timed_out()["x"].to_pylist() == starts


def test_values_of_partitions_count_towards_the_memory_limit() -> None:
    query = parse("PATTERN SEQ(A x) WHERE prev(x.v, 10) = 1 WITHIN 9ns PARTITION BY k", SMALL)
    engine = fc.Engine(query, memory_limit="4MiB")
    with pytest.raises(fc.MemoryLimitError, match="no room for 5,000 more events"):
        for first in range(0, 100_000, 5_000):
            engine.process(line(first, 5_000, k=list(range(first, first + 5_000))))
    assert engine.metrics()["prev_bytes"] > 2 << 20


def test_engines_that_share_the_keys_are_joined_again() -> None:
    """The snapshot of one has no values of the other's keys, of which it has not seen all events."""
    query = fc.parse("PATTERN SEQ(A a) WITHIN 9ns PARTITION BY k RETURN prev(a.v, 2) AS value", SMALL, name="q")
    keys = list(range(20))

    def events(time: int) -> dict[str, list[object]]:
        values = [100 * time + key for key in keys]
        return {"type": ["A"] * 20, "ts": [time] * 20, "k": keys, "v": values, "s": [""] * 20}

    engine = fc.Engine(query)
    engine.process(events(0))
    other = fc.Engine.restore(engine.extract(range(32)))
    for one in (engine, other):
        one.process(events(1))
    engine.merge(other.snapshot())
    assert engine.process(events(2)).to_arrow()["value"].to_pylist() == keys
