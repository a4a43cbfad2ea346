"""Limits in small steps refuse every allocation once: matches found are true, and nothing is left behind."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings

import fastcep as fc
from fastcep.engine.results.matches import Matches
from fastcep.errors import MemoryLimitError

TEXTS = fc.Schema({name: {"k": "int64", "v": "int64", "s": "string"} for name in "ABCD"}, type="type")
PLAIN = fc.Schema({name: {"k": "int64"} for name in "ABCD"}, type="type")
FAULTS = {  # several queries of an engine; a stream of A, B and C fills the budget at every place sooner or later
    "joins": ["PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.v < c.v WITHIN 1ms"],
    "returns": ["PATTERN SEQ(A a, B b, C c) WHERE a.s = b.s WITHIN 1ms RETURN a.s AS s, b.v + c.v AS v"],
    "forall": ["PATTERN SEQ(A a, B+ b[], C c) WHERE a.k = b[i].k AND b[i].v <= b[i+1].v WITHIN 1ms"],
    "optional": ["PATTERN SEQ(A? a, B b, C? c) WHERE a.k = b.k AND b.v < c.v WITHIN 200 EVENTS"],
    "first": [
        "PATTERN SEQ(A+ a[], (B|C) b) WHERE a[i].k = b.k AND a[i].v < a[i+1].v WITHIN 1ms RETURN COUNT(a[].v) AS n"
    ],
    "negation": [
        "PATTERN SEQ(NEG B m, A a, A d, NEG B n, C c) WHERE n.k = d.k AND n.v < c.v AND m.k = c.k AND a.v = d.v "
        "WITHIN 1ms RETURN c.s AS s"
    ],
    "waiting": [
        "PATTERN SEQ(A a, C b, NEG B n) WHERE a.k = b.k AND n.s = a.s WITHIN 1ms",
        "PATTERN PERIODIC(A a, 20us, C c) WHERE c.k = a.k WITHIN 1ms RETURN a.s AS s",
    ],
    "contiguity": [
        "PATTERN SEQ(A a, (B|C) b) WITHIN 1ms PARTITION BY s, k STRATEGY partition_contiguity",
        "PATTERN SEQ(A a, NEXT B+ b[] CONSECUTIVE, C c) WHERE a.v < c.v WITHIN 1ms PARTITION BY k",
    ],
    "nested": [
        "PATTERN AND((SEQ(A a, B b))+ g[], OR(C c, ANY(2, A x, A y, C z))) WHERE g[i].a.k = g[i].b.k AND x.k = y.k "
        "WITHIN 4us"
    ],
    "shared": [
        "PATTERN SEQ(A a, B+ b[], C c) WHERE a.k = b[i].k AND b[i].v <= b[i+1].v WINDOW EVERY 20us CLOSE AFTER 50us",
        "PATTERN SEQ(A a, B b) WHERE a.k = b.k WINDOW OPEN ON C o CLOSE ON (B|D) c WHERE c.type = 'D' OR c.v < o.k",
    ],
    "isolated": [
        "PATTERN SEQ(NEG C n, A a, B b) WHERE n.k = b.k AND a.k = b.k WINDOW EVERY 20us CLOSE AFTER 50us",
        "PATTERN SEQ(A a, B b, NEG C n) WHERE n.s = b.s WINDOW OPEN ON C o CLOSE ON (B|D) c "
        "WHERE c.type = 'D' OR c.v < o.k RETURN b.s AS s",
    ],
    "runs": [
        "PATTERN SEQ(A a, B+ b[], C c) WHERE a.k = c.k AND a.v = c.v WITHIN 1ms STRATEGY skip_till_next",
        "PATTERN SEQ(A a, B b, C c) WHERE a.v <= b.v WINDOW EVERY 20us CLOSE AFTER 50us STRATEGY skip_till_next",
    ],
    "policies": [  # dropped partial matches leave others to select: see WIDER
        "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k WITHIN 1ms SELECT last CONSUME consumed",
        "PATTERN SEQ(A a, B+ b[]) WHERE a.k = b[i].k WINDOW EVERY 20us CLOSE AFTER 50us AFTER MATCH SKIP PAST LAST",
        "PATTERN SEQ(A a, B b, NEG C n) WHERE a.k = b.k AND n.k = a.v WINDOW OPEN ON C o CLOSE ON (B|D) c "
        "WHERE c.type = 'D' OR c.v < o.k LIMIT 3 PER WINDOW",
        "PATTERN SEQ(A a, B b) WHERE a.v < b.v WINDOW EVERY 20us CLOSE AFTER 50us LIMIT 2 PER WINDOW",
    ],
    "several": [
        "PATTERN SEQ(A a, C c) WHERE a.k = c.k WITHIN 10us",
        "PATTERN SEQ(A a, A b, C c) WHERE a.s = b.s AND b.v < c.v WITHIN 1ms RETURN c.s AS s",
        "PATTERN SEQ(A a, B+ b[], C c) WHERE a.k = b[i].k AND a.k = c.k WITHIN 1ms",
    ],
}
#: Clauses of "policies" that select among the matches.
CHOICE = re.compile(r" (SELECT|AFTER MATCH|LIMIT) .*")


def dense(rows: int, start: int, seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    return {
        "type": draw.choice(list("ABC"), rows, p=[0.5, 0.4, 0.1]),
        "k": draw.integers(0, 12, rows),
        "v": np.where(draw.random(rows) < 0.1, np.nan, draw.integers(0, 4, rows)),
        "s": draw.choice([None, *(f"text {n}" for n in range(20))], rows),
        "ts": start + np.arange(rows) * 500,
    }


def pause() -> pa.Table:
    """Return as many events as no window holds, which no query binds."""
    return arrow(dense(200, 10**8, 3) | {"type": ["D"] * 200})


def cut(data: dict[str, Any], size: int) -> list[pa.Table]:
    table = arrow(data)
    return [table.slice(at, size) for at in range(0, len(table), size)]


def segments(rows: int, size: int) -> tuple[list[pa.Table], list[pa.Table]]:
    """Return batches that fill the budget, a pause that decides all waiting matches, and a few much later events."""
    return [*cut(dense(rows, 0, 1), size), pause()], cut(dense(15, 10**9, 2), 20)


def arrow(data: dict[str, Any]) -> pa.Table:
    values = {key: pa.array(value) for key, value in data.items()}
    return pa.table(values | {"v": pa.array(data["v"], pa.int64(), from_pandas=True)})


def counted(found: Matches, name: str) -> Counter[str]:
    return Counter(str(row) for row in found.query(name).to_arrow().to_pylist())


def engine_of(name: str, **options: Any) -> fc.Engine:
    """Return an engine without a trial of the other store, as one with a memory limit."""
    queries = [fc.parse(text, TEXTS, name=f"q{n}") for n, text in enumerate(FAULTS[name])]
    return fc.Engine(queries, store="rows", **options)


@cache
def truth(name: str, rows: int) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]], int]:
    """Return the matches of a dense segment and of one long after it, and the maximum number of bytes in use."""
    engine = engine_of(name)
    parts: list[dict[str, Counter[str]]] = []
    most = 0
    for segment in segments(rows, 20):
        total: dict[str, Counter[str]] = {}
        for data in segment:
            found = engine.process(data)
            most = max(most, engine.metrics()["memory_bytes"])
            for query in found.counts():
                total[query] = total.get(query, Counter()) + counted(found, query)
        parts.append(total)
    return parts[0], parts[1], most


@cache
def possible(name: str, rows: int) -> dict[str, Counter[str]]:
    """Return the possible matches of the first segment after partial matches were dropped, if no policy selects."""
    if name != "policies":
        return truth(name, rows)[0]
    texts = [CHOICE.sub("", text) for text in FAULTS[name]]
    engine = fc.Engine([fc.parse(text, TEXTS, name=f"q{n}") for n, text in enumerate(texts)])
    parts = [engine.process(data) for data in segments(rows, rows)[0]]
    return {query: sum((counted(found, query) for found in parts), Counter()) for query in parts[0].counts()}


def check_limit(name: str, limit: int, size: int, rows: int) -> bool:
    """Run an engine under a limit and compare; return True if there was an error."""
    first, second, most = truth(name, rows)
    engine = engine_of(name, memory_limit=limit)
    empty = engine.metrics()["memory_by_query"]
    errors = 0
    total: dict[str, Counter[str]] = {query: Counter() for query in first}
    crowded, beyond = segments(rows, size)
    for data in crowded:
        try:
            found = engine.process(data)
        except MemoryLimitError as error:
            errors += 1
            assert all(item.dropped >= 0 for item in error.over)
            if error.matches is None:
                continue
            found = error.matches
        for query in first:
            total[query] += counted(found, query)
        assert engine.metrics()["memory_bytes"] <= limit
    for query in first:
        assert not total[query] - possible(name, rows)[query]
        assert errors or total[query] == first[query]
    # the matches beyond the window are as if nothing had happened
    again: dict[str, Counter[str]] = {query: Counter() for query in first}
    at = engine.metrics()["events"]
    for data in beyond:
        try:
            found = engine.process(data)
        except MemoryLimitError:
            assert limit < most, "it is not enough for the second segment alone"
            return True
        for query in first:
            again[query] += counted(found, query)
    if at == rows + 200:  # otherwise events have other numbers
        assert again == second
    assert {query: sum(found.values()) for query, found in again.items()} == {
        query: sum(found.values()) for query, found in second.items()
    }
    try:
        engine.flush()
    except MemoryLimitError:
        assert limit < 2 * most, "what waits is decided by then, and takes room in the output"
    assert engine.metrics()["memory_by_query"] == empty
    return errors > 0


@pytest.mark.thorough
@pytest.mark.parametrize("name", FAULTS)
def test_wherever_the_memory_ends(name: str) -> None:
    """Limits in small steps refuse an allocation at every place, one after the other."""
    metrics = engine_of(name).metrics()
    least = metrics["memory_bytes"] + sum(metrics["memory_by_query"].values())
    most = truth(name, 240)[2]
    steps = max(4, settings().max_examples // 20)
    errors = [check_limit(name, int(limit), 60, 240) for limit in np.linspace(least, 2 * most, steps)]
    assert any(errors) and not check_limit(name, 10 * most, 60, 240)


def test_what_was_lost_may_have_been_negated() -> None:
    """A leading NEG is not taken for granted after events that were lost, whether or not one of its key is stored."""
    query = fc.parse("PATTERN SEQ(NEG B n, A a, C c) WHERE n.k = c.k WITHIN 1s", PLAIN, name="q")
    engine = fc.Engine(query, memory_limit=fc.Engine(query).metrics()["memory_bytes"] + 100_000)
    lost = {"type": ["A"] * 5_000 + ["B"], "k": [1] * 5_001, "ts": range(5_001)}
    with pytest.raises(MemoryLimitError):
        engine.process(lost)
    assert len(engine.process({"type": ["A", "C", "C"], "k": [1, 1, 2], "ts": [6_000, 6_001, 6_002]})) == 0
    later = 2 * 10**9
    assert len(engine.process({"type": ["A", "C"], "k": [1, 1], "ts": [later, later + 1]})) == 1


def test_no_room_for_what_the_last_event_decides() -> None:
    """An event that no variable binds may decide many matches at once; losing these is an error."""
    query = fc.parse("PATTERN SEQ(A a, NEG B n) WITHIN 1us", PLAIN, name="q")
    waiting = {"type": ["A"] * 2_000, "k": [0] * 2_000, "ts": [0] * 2_000}
    free = fc.Engine(query)
    free.process(waiting)
    engine = fc.Engine(query, memory_limit=free.metrics()["memory_bytes"] + 5_000)
    engine.process(waiting)
    passing = {"type": ["D"], "k": [0], "ts": [5_000]}
    assert len(free.process(passing)) == 2_000
    with pytest.raises(MemoryLimitError) as error:
        engine.process(passing)
    assert error.value.matches is not None
    assert engine.metrics()["live_partial_matches"] == engine.metrics()["waiting_matches"] == 0
    assert len(engine.process({"type": ["A", "D"], "k": [0, 0], "ts": [6_000, 9_000]})) == 1
