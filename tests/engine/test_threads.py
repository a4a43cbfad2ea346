"""Several threads: large batches at once, limits, errors, and threads that end with the engine."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from support.waiting import LIMIT, LIMIT_TEXT, wait_for

import fastcep as fc
from fastcep.engine import parallel_match
from fastcep.engine import thread_pool as pool
from fastcep.errors import MemoryLimitError, QueryError, SnapshotError, ValidationError

ATTRIBUTES = {"k": "int64", "v": "int64", "s": "string", "x": "float64"}
SCHEMA = fc.Schema(dict.fromkeys("ABC", ATTRIBUTES), type="type", time_unit="ns")
KEYED = {
    "plain": "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.v < b.v WITHIN 300ns RETURN a.s AS s, b.v + c.v AS v",
    "kleene": "PATTERN SEQ(A a, B+ b[], C c) WHERE [s] AND b[i].v < b[i+1].v WITHIN 400ns",
    "floats": "PATTERN SEQ(A? a, B b) WHERE [x] AND b.v > 2 WITHIN 200ns",
    "negation": "PATTERN SEQ(A a, B b, NEG C c) WHERE [k] AND c.v > a.v WITHIN 150ns",
    "ticks": "PATTERN PERIODIC(A a, 20ns, C c) WHERE [s] WITHIN 150ns",
    "windows": "PATTERN SEQ(A a, B b, NEG C n) WHERE [k] WINDOW OPEN ON C o CLOSE ON C c WHERE c.v = o.v",
    "counted": "PATTERN SEQ(A a, B b, NEG C n) WHERE [k] WINDOW EVERY 50 EVENTS CLOSE AFTER 120 EVENTS",
    "shared": "PATTERN SEQ(A a, B b, C c) WHERE [s] WINDOW EVERY 90ns CLOSE AFTER 200ns",
    "last": "PATTERN SEQ(A a, B b, C c) WHERE [k] WITHIN 300ns SELECT last CONSUME consumed",
    "contiguous": "PATTERN SEQ(A a, (B|C) b) WITHIN 400ns PARTITION BY k STRATEGY partition_contiguity",
}


def stream(batches: int, rows: int, seed: int = 1) -> list[pa.Table]:
    draw = np.random.default_rng(seed)
    nulls = np.array([0.0, -0.0, 1.0, 2.5, np.nan])
    return [
        pa.table({
            "type": draw.choice(list("ABC"), rows),
            "k": pa.array(draw.integers(0, 20, rows), mask=draw.random(rows) < 0.05),
            "v": draw.integers(0, 6, rows),
            "s": pa.array(np.array(["", "x", "é", "why", "zz"], object)[draw.integers(0, 5, rows)], pa.string()),
            "x": nulls[draw.integers(0, 5, rows)],
            "ts": np.sort(draw.integers(0, rows * 4, rows)) + number * rows * 4,
        })
        for number in range(batches)
    ]  # fmt: skip


def query(name: str) -> fc.Query:
    return fc.parse(KEYED[name], SCHEMA, name=name)


def run(engine: fc.Engine, batches: list[Any]) -> list[pa.Table]:
    return [engine.process(batch).to_arrow() for batch in batches] + [engine.flush().to_arrow()]


@contextmanager
def helped() -> Iterator[list[str]]:
    """Return the names of the threads that took part; the calling one waits until another has come to help."""
    names: list[str] = []
    taken = parallel_match._process

    def recorded(*arguments: Any) -> Any:
        names.append(threading.current_thread().name)
        wait_for(lambda: any(name.startswith("fastcep") for name in names), "thread that helps")
        return taken(*arguments)

    with patch.object(parallel_match, "_process", recorded):
        yield names


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("name", KEYED)
def test_large_batches_at_once(name: str, threads: int) -> None:
    batches = stream(3, 4_000)
    one, several = fc.Engine(query(name)), fc.Engine(query(name), threads=threads)
    with helped() as names:
        for own, other in zip(run(one, batches), run(several, batches), strict=True):
            other.validate(full=True)
            assert own.equals(other)
    assert any(name.startswith("fastcep") for name in names)
    assert one.metrics()["matches"] == several.metrics()["matches"] > 50


@pytest.mark.thorough
def test_many_queries_and_such_without_a_key() -> None:
    queries = [query(name) for name in KEYED if name != "windows"]
    queries.append(fc.parse("PATTERN SEQ(A a, B b) WHERE a.v + b.v = 3 WITHIN 30ns", SCHEMA, name="whole"))
    batches = stream(2, 70_000)  # more than a slice of shared filters
    one, several = fc.Engine(queries, store="rows"), fc.Engine(queries, threads=3)
    for batch in batches:
        own, other = one.process(batch), several.process(batch)
        for item in queries:
            assert own.query(item.name).to_arrow().equals(other.query(item.name).to_arrow())
    metrics = several.metrics()
    parts = {name: metrics["queries"][name]["parts"] for name in ("whole", "plain")}
    assert metrics["threads"] == 3 and parts == {"whole": 1, "plain": 3}
    for counter in ("relevant_events", "rows_created", "live_partial_matches", "arithmetic_nulls", "matches_by_query"):
        assert metrics[counter] == one.metrics()[counter]


@pytest.mark.thorough
def test_timed_out_partial_matches() -> None:
    batches = stream(2, 5_000)
    for name in ("plain", "kleene", "windows", "counted"):
        one, several = (fc.Engine(query(name), timed_out=True, threads=n) for n in (1, 2))
        run(one, batches), run(several, batches)
        own = one.timed_out()
        assert len(own) > 100 and own.equals(several.timed_out())


def test_the_state_goes_from_any_number_of_threads_to_any_other() -> None:
    batches = stream(6, 2_500)
    for name in ("plain", "kleene", "negation", "windows", "contiguous"):
        one, engine = fc.Engine(query(name), store="rows"), fc.Engine(query(name), threads=3)
        for threads, batch in zip([1, 4, 2, 2, 1, 64], batches, strict=True):
            assert one.process(batch).to_arrow().equals(engine.process(batch).to_arrow())
            groups = engine.extract(range(7, 30))
            engine.merge(groups)
            engine = fc.Engine.restore(engine.snapshot(), threads=threads)
            assert engine.metrics()["threads"] == threads
            one.snapshot()  # removes partial matches that contiguity has cut off
            assert one.metrics()["live_partial_matches"] == engine.metrics()["live_partial_matches"] > 0
        assert one.flush().to_arrow().equals(engine.flush().to_arrow())


def test_generated_kernels(kernels: None) -> None:
    batches = stream(2, 5_000)
    one, several = fc.Engine(query("kleene")), fc.Engine(query("kleene"), threads=2)
    assert several.compile(LIMIT_TEXT)
    kernel_metrics = several.metrics()["kernels"]
    assert kernel_metrics["generated"] == kernel_metrics["total"] > 0
    for own, other in zip(run(one, batches), run(several, batches), strict=True):
        assert own.equals(other)


def test_single_events() -> None:
    one, several = fc.Engine(query("plain")), fc.Engine(query("plain"), threads=2)
    found = 0
    for number in range(300):
        values = {"k": number % 7, "v": number % 4, "s": "", "x": None, "time": number}
        own, other = (engine.send("ABC"[number // 7 % 3], **values).to_arrow() for engine in (one, several))
        assert own.equals(other)
        found += len(own)
    assert found > 10


# ----------------------------------------------------------------------- options


@pytest.mark.parametrize("threads", [0, -1, 65, True, 2.0, "2", None])
def test_no_number_of_threads(threads: Any) -> None:
    with pytest.raises(ValidationError, match=r"threads=.*an int from 1 to 64"):
        fc.Engine(query("plain"), threads=threads)
    with pytest.raises(ValidationError, match=r"threads=.*an int from 1 to 64"):
        fc.Engine.restore(fc.Engine(query("plain")).snapshot(), threads=threads)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("PATTERN SEQ(A a, B b) WHERE a.v + b.v = 3 WITHIN 30ns", "no attribute is equal in all variables"),
        ("PATTERN SEQ(A a, B b) WHERE [k] WINDOW EVERY 9ns CLOSE AFTER 20ns LIMIT 5 PER WINDOW", "LIMIT counts"),
    ],
)
def test_nothing_for_a_second_thread(text: str, why: str) -> None:
    alone = fc.parse(text, SCHEMA, name="alone")
    with pytest.raises(ValidationError) as caught:
        fc.Engine(alone, threads=2)
    assert "threads=2" in str(caught.value) and "'alone'" in str(caught.value) and why in str(caught.value)
    with pytest.raises(SnapshotError, match="threads=2"):
        fc.Engine.restore(fc.Engine(alone).snapshot(), threads=2)
    engine = fc.Engine([alone, query("plain")], threads=2)
    text = engine.explain()
    assert f"threads     one of 2 matches the whole query: {why}" in text
    assert "threads     2, each with some of the keys" in text
    assert "threads " not in fc.Engine([alone, query("plain")]).explain()


# ----------------------------------------------------------------------- limits and faults


def limited(at_once: bool, threads: int = 2) -> list[Any]:
    """Return the results of a query that needs more than its share, and of one beside it that does not."""
    large = fc.parse("PATTERN SEQ(A a, B b, C c) WHERE [k] AND b.v < c.v WITHIN 1h", SCHEMA, name="large")
    engine = fc.Engine([large, query("plain")], memory_limit="5MiB", threads=threads)
    alone = fc.Engine(query("plain"))
    report: list[Any] = []
    with patch.object(parallel_match, "PARALLEL_FROM", 1 if at_once else 1 << 60):
        for batch in stream(10, 2_500):
            expected = alone.process(batch)
            try:
                found = engine.process(batch)
            except MemoryLimitError as error:
                assert [item.query for item in error.over] == ["large"]
                report.append(error.over)
                found = error.matches
            assert found.query("plain").to_arrow().equals(expected.to_arrow())
            metrics = engine.metrics()
            assert metrics["memory_bytes"] <= metrics["memory_limit"]
            report.append(found.query("large").to_arrow())
        report.append(metrics["dropped_partial_matches"])
    return report


def test_a_part_without_memory_does_not_depend_on_timing() -> None:
    report = limited(at_once=False)
    assert report[-1] > 0
    for _ in range(2):
        again = limited(at_once=True)
        assert len(report) == len(again)
        for one, other in zip(report, again, strict=True):
            assert one.equals(other) if isinstance(one, pa.Table) else one == other


@pytest.mark.thorough
def test_only_the_part_without_memory_sits_out() -> None:
    """All matches of the other keys are found."""
    pattern = "PATTERN SEQ(A a, B b, C c) WHERE [k] AND b.v < c.v WITHIN 1h"
    whole, engine = (fc.Engine(fc.parse(pattern, SCHEMA), threads=2, memory_limit=m) for m in (None, "1MiB"))
    rows = 800
    draw = np.random.default_rng(3)
    keys = np.where(draw.random(rows) < 0.97, 1, draw.integers(2, 9, rows))  # one key fills its part
    batch = {"type": draw.choice(list("ABC"), rows, p=[0.49, 0.49, 0.02]), "k": keys, "v": draw.integers(0, 5, rows),
             "s": [""] * rows, "x": np.zeros(rows), "ts": np.arange(rows)}  # fmt: skip
    truth = whole.process(batch).to_arrow()
    with pytest.raises(MemoryLimitError) as caught:
        engine.process(batch)
    assert len(caught.value.over) == 1 and 0 < caught.value.over[0].event < rows
    lost = {match["c"] for match in truth.to_pylist()} - {
        match["c"] for match in caught.value.matches.to_arrow().to_pylist()
    }
    full = {key for key in range(9) if part_of(key) == part_of(1)}
    assert lost and {int(keys[at]) for at in lost} <= full


def part_of(key: int) -> int:
    from fastcep._core.state.key_partition import parts_of

    return int(parts_of(np.array([key]), 2, False)[0])


def test_a_part_that_fails_is_a_query_that_fails() -> None:
    engine = fc.Engine([query("plain"), query("kleene")], threads=2)
    alone, batches = fc.Engine(query("kleene")), stream(2, 3_000)
    failing = engine._stream.queries.running[0].matcher.parts[1]
    taken = parallel_match._process

    def fails(part: Any, *arguments: Any) -> Any:
        return OSError("broken") if part is failing else taken(part, *arguments)

    with patch.object(parallel_match, "_process", fails), pytest.raises(QueryError) as caught:
        engine.process(batches[0])
    assert "'plain'" in str(caught.value) and "broken" in str(caught.value)
    own = alone.process(batches[0]).to_arrow()
    assert caught.value.matches.query("kleene").to_arrow().equals(own)
    assert engine.metrics()["queries"]["plain"]["live_partial_matches"] == 0
    assert engine.process(batches[1]).query("kleene").to_arrow().equals(alone.process(batches[1]).to_arrow())


# ----------------------------------------------------------------------- threads


def workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("fastcep_")]


def wait_until_gone() -> None:
    wait_for(lambda: not workers(), "end of the threads", lambda: str(workers()))


def test_threads_come_when_they_are_needed_and_go_with_the_engine() -> None:
    gc.collect()
    wait_until_gone()
    engine = fc.Engine(query("plain"), threads=3)
    engine.process(stream(1, 1_000)[0])
    assert not workers()
    engine.process(stream(2, 5_000)[1])
    assert workers()
    del engine
    gc.collect()
    wait_until_gone()


def test_few_relevant_events_wake_nobody() -> None:
    before = set(threading.enumerate())  # with those of engines of other tests
    rare = fc.parse("PATTERN SEQ(A a, B b) WHERE [k] AND a.v = 99 AND b.v = 99 WITHIN 300ns", SCHEMA)
    engine = fc.Engine(rare, threads=2)
    for batch in (stream(1, 100)[0], *stream(3, 5_000)[1:]):
        engine.process(batch)
    assert not [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("fastcep_")]


def test_threads_go_when_the_stream_ends() -> None:
    engine = fc.Engine(query("plain"), threads=2)
    engine.process(stream(1, 5_000)[0])
    assert workers()
    engine.flush()
    wait_until_gone()
    assert engine.metrics()["threads"] == 2


def test_a_call_that_fails_is_told_when_all_are_done() -> None:
    done: list[int] = []

    def call(number: int) -> Any:
        def act() -> int:
            time.sleep(0.01)
            done.append(number)
            if number == 0:
                raise OSError("broken")
            return number

        return act

    three = pool.ThreadPool(3)
    with pytest.raises(OSError, match="broken"):
        three.run([call(number) for number in range(6)])
    assert sorted(done) == list(range(6))
    assert three.run([call(number) for number in range(1, 6)]) == [1, 2, 3, 4, 5]
    three.close()


SCRIPT = """
import atexit, os, sys, warnings
import numpy as np
import fastcep as fc

warnings.simplefilter("ignore")  # of fork beside threads, which is meant
schema = fc.Schema({{"A": {{"k": "int64"}}, "B": {{"k": "int64"}}}}, type="type", time_unit="ns")
engine = fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 1us", schema), threads=2)

def found(start):
    rows = np.arange(start, start + 10_000)
    return len(engine.process({{"type": np.where(rows % 2, "B", "A"), "k": rows // 2 % 5, "ts": rows}}))

first = found(0)
assert first > 0
{rest}
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "rest",
    [
        "child = os.fork()\nsecond = found(10_000)\nassert second >= first\n"
        "if child == 0:\n    os._exit(0)\nsys.exit(os.waitpid(child, 0)[1])",
        "atexit.register(lambda: print(found(10_000) >= first))",
        "global_engine = engine",
    ],
    ids=["fork", "interpreter exit", "alive at exit"],
)
def test_processes(rest: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(rest=rest)], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("", "True") and done.stderr == ""
