"""`ParallelEngine`: its calls, options and errors. The matrix compares its matches for drawn queries."""

from __future__ import annotations

import itertools
import json
import signal
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from parallel.streams import (
    QUERY,
    SCHEMA,
    batches,
    joined,
    joined_with_interrupts,
    of_one_engine,
    stream,
    without_answers,
)
from reference.user_functions import own_registry
from support.match_records import check_records

import fastcep as fc
from fastcep.parallel import ParallelEngine


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Forget the functions that a test registers."""
    with own_registry():
        yield


def threads(query: object, **options: object) -> ParallelEngine:
    return ParallelEngine(query, workers="threads", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("instances", range(1, 9))
def test_matches_of_a_single_engine(instances: int) -> None:
    table = stream(4_000)
    expected = of_one_engine(QUERY, table, 100)
    with threads(QUERY, instances=instances, slice_events=250) as engine:
        found = joined([*(engine.process(batch) for batch in batches(table, 100)), engine.flush()])
        metrics = engine.metrics()
    assert len(expected) > 100
    assert found.equals(expected)
    assert metrics["events"] == 4_000
    assert metrics["slices"] > 5
    assert 0 < metrics["overlap"] < 1
    assert metrics["kept_events"] == metrics["kept_bytes"] == metrics["waiting_events"] == 0
    assert metrics["peak_partial_matches"] > 0


def test_several_queries_and_a_sequence_column() -> None:
    schema = fc.Schema({"A": {"k": "int64"}, "B": {"k": "int64"}}, time="ts", type="type", sequence="number")
    queries = [
        fc.parse("QUERY one PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 30ns", schema),
        fc.parse("QUERY two PATTERN SEQ(B b, A a) WITHIN 9 EVENTS SELECT last", schema),
        fc.parse("QUERY three PATTERN SEQ(A a, NEG B b) WITHIN 12ns", schema),
    ]
    random = np.random.default_rng(3)
    table = pa.table({
        "ts": np.cumsum(random.integers(0, 4, 3_000)), "type": random.choice(["A", "B"], 3_000),
        "number": np.cumsum(random.integers(1, 5, 3_000)), "k": random.integers(0, 9, 3_000),
    })  # fmt: skip
    with threads(queries, instances=3, slice_events=100) as engine:
        found = [*(engine.process(batch) for batch in batches(table, 77)), engine.flush()]
    single = fc.Engine(queries)
    expected = [*(single.process(batch) for batch in batches(table, 77)), single.flush()]
    for query in queries:
        one = joined(part.query(query.name) for part in found)
        assert len(one)
        assert one.equals(joined(part.query(query.name) for part in expected))
    every = joined(found)
    assert every.drop_columns("query").equals(joined(expected).drop_columns("query"))
    assert every["query"].to_pylist() == joined(expected)["query"].to_pylist()


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_matches_are_objects(workers: Any) -> None:
    table = stream(400)
    pattern = "PATTERN SEQ(A a, B? b, A+ c[])"
    queries = [
        fc.parse(f"QUERY plain {pattern} WITHIN 9 EVENTS RETURN c[].k, a.time", SCHEMA),
        fc.parse(f"QUERY windows {pattern} WINDOW OPEN ON A o CLOSE AFTER 5ns RETURN SUM(c[].k) AS total", SCHEMA),
    ]
    one = fc.Engine(queries)
    expected = [*one.process(table), *one.flush()]
    found = []
    with ParallelEngine(queries, workers=workers, instances=2, slice_events=50) as engine:
        for matches in [*(engine.process(batch) for batch in batches(table, 100)), engine.flush()]:
            check_records(matches)
            assert "<table>" in matches._repr_html_() or not len(matches)
            found += [matches[place] for place in range(len(matches))]
    assert found == expected and {match.query for match in found} == {"plain", "windows"}


def test_send_and_poll() -> None:
    """Events that come one by one are answered as soon as the instances have no other work."""
    with threads(QUERY, instances=2) as engine:
        found = 0
        for number in range(30):
            found += len(engine.send("ABC"[number % 3], ts=number, k=1, name="x", price=float(number)))
        while not found:
            found += len(engine.poll("1s"))
        assert found + len(engine.flush()) == len(of_one_engine(QUERY, small(30), 30))


def small(events: int) -> pa.Table:
    numbers = range(events)
    return pa.table({
        "ts": list(numbers), "type": ["ABC"[number % 3] for number in numbers], "k": [1] * events,
        "name": ["x"] * events, "price": [float(number) for number in numbers],
    })  # fmt: skip


def test_instances_come_and_go_while_it_runs() -> None:
    table = stream(6_000, seed=2)
    sizes = iter([1, 4, 2, 7, 1, 3])
    found = []
    with threads(QUERY, instances=3, slice_events=100) as engine:
        for number, batch in enumerate(batches(table, 200)):
            if number % 5 == 4:
                size = next(sizes)
                engine.resize(size)
                staying = [item for item in engine.metrics()["instances"] if not item["leaving"]]
                assert len(staying) == size
            found.append(engine.process(batch))
        found.append(engine.flush())
        assert all(not item["slices"] for item in engine.metrics()["instances"])
    assert joined(found).equals(of_one_engine(QUERY, table, 200))


def test_the_queue_is_limited() -> None:
    """A call waits until at most `queue_limit` events are outstanding."""
    with threads(QUERY, instances=2, slice_events=50, queue_limit=100) as engine:
        for batch in batches(stream(3_000), 500):
            engine.process(batch)
            assert engine.metrics()["waiting_events"] <= 100
            assert engine.metrics()["kept_events"] < 3_000


@pytest.mark.thorough
def test_slices_of_one_event() -> None:
    """A message has a limited number of feeds."""
    query = fc.parse("PATTERN SEQ(A a) WITHIN 0us", SCHEMA)
    table = stream(20_000)
    with threads(query, slice_events=1) as engine:
        found = joined([engine.process(table), engine.flush()])
        assert engine.metrics()["slices"] > 1_000
    assert found.equals(of_one_engine(query, table, 20_000))


def test_an_empty_stream() -> None:
    with threads(QUERY) as engine:
        assert len(engine.process(stream(0))) == 0
        table = engine.flush().to_arrow()
        assert table.schema == of_one_engine(QUERY, stream(0), 1).schema
        assert engine.metrics()["overlap"] == 0.0


def test_a_user_function_runs_in_threads() -> None:
    @fc.function("float64(float64)", replace=True)
    def double(value: float) -> float:
        return 2 * value

    query = fc.parse("PATTERN SEQ(A a, B b) WHERE double(a.price) > b.price WITHIN 9us", SCHEMA)
    with pytest.raises(fc.ValidationError, match=r"calls 'double', a function .* this process only; use workers="):
        ParallelEngine(query)
    table = stream(2_000)
    with threads(query, slice_events=100) as engine:
        assert joined([engine.process(table), engine.flush()]).equals(of_one_engine(query, table, 2_000))




def test_windows_that_events_close() -> None:
    """Vehicles that overtake another one: the window of each is open until the same vehicle arrives."""
    schema = fc.Schema({"Pos1": {"id": "int64"}, "Pos2": {"id": "int64", "since": "int64"}}, time="ts", type="type")
    query = fc.parse(OVERTAKING, schema)
    random = np.random.default_rng(5)
    starts = np.cumsum(random.integers(1, 20, 800))
    ends = starts + random.integers(50, 90, 800)
    numbers = np.arange(800)
    table = pa.table({
        "ts": np.concatenate([starts, ends]), "type": ["Pos1"] * 800 + ["Pos2"] * 800,
        "id": np.concatenate([numbers, numbers]), "since": np.concatenate([starts, starts]),
    }).sort_by("ts")  # fmt: skip
    with pytest.raises(fc.ValidationError, match=r"cannot be cut by time: CLOSE ON .* give longest_window, such as"):
        threads(query)
    with threads(query, longest_window="90ns", slice_events=50, instances=3) as engine:
        found = joined([*(engine.process(batch) for batch in batches(table, 64)), engine.flush()])
    assert len(found) > 300
    assert found.equals(of_one_engine(query, table, 64))
    with threads(query, longest_window="80ns", slice_events=50) as engine:
        with pytest.raises(fc.InstanceError, match=r"not closed within longest_window='80ns'; increase it"):
            [engine.process(table), engine.flush()]
        with pytest.raises(fc.ValidationError, match="the engine is closed"):
            engine.flush()


def test_windows_that_functions_open_and_close() -> None:
    """The predicates of the paper, which open and close a selection, are conditions of WINDOW, also in Python."""

    @fc.function("bool(float64)", replace=True)
    def is_high(value: float) -> bool:
        return value > 1.5

    @fc.function("bool(float64, float64)", replace=True)
    def is_lower(value: float, other: float) -> bool:
        return value < other - 3.5

    query = fc.parse(
        "PATTERN SEQ(B b, C c) WHERE b.k = c.k WINDOW OPEN ON A w WHERE is_high(w.price) "
        "CLOSE ON (A|B|C) z WHERE is_lower(z.price, w.price)", SCHEMA,
    )  # fmt: skip
    table = stream(30_000, seed=4)
    with threads(query, longest_window="2ms", slice_events=50, instances=3) as engine:
        found = joined([*(engine.process(batch) for batch in batches(table, 3_333)), engine.flush()])
        assert engine.metrics()["slices"] > 2
    assert len(found) > 50
    assert found.equals(of_one_engine(query, table, 333))


OVERTAKING = """
PATTERN SEQ(Pos1 a, Pos2 b) WHERE a.id = b.id
WINDOW OPEN ON Pos1 w CLOSE ON Pos2 z WHERE z.id = w.id
STRATEGY skip_till_any
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SEQ(A a, B b) WITHIN UNBOUNDED", r"WITHIN UNBOUNDED .*; run it in one engine, fastcep.Engine"),
        ("SEQ(A a, B b) WHERE [k] WITHIN UNBOUNDED", r"WITHIN UNBOUNDED .*; use Engine\(…, threads=…\)"),
        ("SEQ(A a, B b) WITHIN 9ns CONSUME consumed", "CONSUME consumed"),
        ("SEQ(A a, B b) WITHIN 9ns AFTER MATCH SKIP PAST LAST", "AFTER MATCH SKIP PAST LAST"),
    ],
)
@pytest.mark.filterwarnings("ignore:query")
def test_queries_that_cannot_be_cut(text: str, reason: str) -> None:
    query = fc.parse(f"QUERY q PATTERN {text}", SCHEMA)
    with pytest.raises(fc.ValidationError, match=f"query 'q' cannot be cut by time: {reason}"):
        threads(query)


def test_windows_of_two_kinds_of_period() -> None:
    queries = [
        fc.parse(f"QUERY {name} PATTERN SEQ(A a, B b) WINDOW EVERY {every} CLOSE AFTER 9us", SCHEMA)
        for name, every in (("one", "3us"), ("two", "3 EVENTS"))
    ]
    with pytest.raises(fc.ValidationError, match=r"'one' opens a window every so often and 'two' every so many events"):
        threads(queries)


def test_the_longest_window_is_for_windows_that_events_open_and_close() -> None:
    """Other windows that events close stay refused, and queries without such windows do not matter."""
    closed = fc.parse("QUERY one PATTERN SEQ(A a, B b) WINDOW OPEN ON A w CLOSE ON C z", SCHEMA)
    periodic = fc.parse("QUERY two PATTERN SEQ(A a, B b) WINDOW EVERY 4us CLOSE ON C z", SCHEMA)
    within = fc.parse("QUERY three PATTERN SEQ(A a, B b) WITHIN 4us", SCHEMA)
    threads([closed, within], longest_window="9us").close()
    with pytest.raises(fc.ValidationError, match="'two' cannot be cut by time: CLOSE ON an event"):
        threads([closed, periodic], longest_window="9us")
    with pytest.raises(fc.ValidationError, match="longest_window='9us': no query has windows that open and close"):
        threads([within, fc.parse("QUERY four PATTERN SEQ(A a, B b) WITHIN 4us", SCHEMA)], longest_window="9us")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"instances": 0}, "instances=0: expected a whole number from 1 to 256"),
        ({"instances": 1.5}, r"instances=1\.5: expected a whole number"),
        ({"queue_limit": 0}, "queue_limit=0: expected a whole number"),
        ({"slice_events": True}, "slice_events=True: expected a whole number"),
        ({"workers": "fibers"}, "workers='fibers': expected 'processes' or 'threads'"),
        ({"longest_window": "1s"}, "longest_window='1s': query .* has no windows that open and close on events"),
        ({"store": "columns"}, "store"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        ParallelEngine(QUERY, **{"workers": "threads", **options})  # type: ignore[arg-type]


def test_a_bad_batch_is_rejected_as_a_whole() -> None:
    table = stream(500)
    with threads(QUERY, slice_events=50) as engine:
        first = engine.process(table)
        backward = pa.table({**{name: table[name] for name in table.column_names}, "ts": table["ts"].to_pylist()[::-1]})
        with pytest.raises(fc.DataError, match=r"input\.csv, row \d+, column 'ts': time .* is before"):
            engine.process(backward, origin="input.csv", first_row=7)
        with pytest.raises(fc.SchemaError, match="column 'k'"):
            engine.process(table.drop_columns("k"))
        assert joined([first, engine.flush()]).equals(of_one_engine(QUERY, table, 500))


def test_after_the_end() -> None:
    engine = threads(QUERY)
    engine.flush()
    assert len(engine.flush()) == 0, "it can be repeated"
    with pytest.raises(fc.ValidationError, match=r"has ended with flush\(\)"):
        engine.process(stream(5))
    engine.close()
    engine.close()
    for call in (engine.flush, engine.poll, lambda: engine.process(stream(5)), lambda: engine.resize(3)):
        with pytest.raises(fc.ValidationError, match="the engine is closed"):
            call()


def test_a_stream_that_breaks_off() -> None:
    """Matches that wait for a time after the last event are lost, as in a single engine."""
    query = fc.parse("PATTERN SEQ(A a, NEG B b) WITHIN 50us", SCHEMA)
    table = stream(1_000)
    single = fc.Engine(query)
    expected = joined([single.process(table), single.flush(complete=False)])
    with threads(query, slice_events=100) as engine:
        found = joined([engine.process(table), engine.flush(complete=False)])
    assert found.equals(expected)
    assert len(found) < len(of_one_engine(query, table, 1_000))


def test_the_page_has_the_stored_results() -> None:
    """After a change: ``python -m bench.parallel --page``."""
    from bench import parallel
    from bench.queries import RESULTS

    results = json.loads((RESULTS / "parallel.json").read_text(encoding="utf-8"))
    stored = parallel.SECTION.page.read_text(encoding="utf-8")
    assert parallel.SECTION.page_with(parallel.page(results)) == stored


@pytest.mark.thorough
def test_interrupts_lose_nothing() -> None:
    """Handlers that raise end calls inside of fastcep; each batch is taken once, and each match returned once."""
    table = stream(20_000, seed=6)
    with threads(QUERY, instances=2, slice_events=200, queue_limit=1_000) as engine:
        found = joined_with_interrupts(engine, table, 300, 0.005)
    assert found.equals(of_one_engine(QUERY, table, 300))


def test_an_interrupt_before_matches_are_taken_repeats_none() -> None:
    class Interrupted:
        def __enter__(self) -> None:
            raise KeyboardInterrupt

        def __exit__(self, *_: object) -> None:
            raise AssertionError

    table, found = stream(4_000), []
    with threads(QUERY, instances=2, slice_events=250, queue_limit=10) as engine:
        for part in batches(table, 500):
            found.append(engine.process(part))
            with patch.object(engine, "_signals", Interrupted()), pytest.raises(KeyboardInterrupt):
                engine._next_matches()
        assert sum(map(len, found))
        found.append(engine.flush())
    assert joined(found).equals(of_one_engine(QUERY, table, 500))


def leave_matches_ready(engine: ParallelEngine, table: pa.Table) -> fc.Matches:
    """Process the table; when this returns, some matches are ready for the next call."""
    with without_answers(engine):
        first = engine.process(table)
    while not any(map(len, itertools.chain(*engine._merger._ready))):
        engine._scheduler.receive(None)
    return first


def test_a_handler_may_call_the_engine_and_gets_the_matches() -> None:
    class Calling:
        torn = False
        calls = 0

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            self.calls += 1
            if self.calls == 1:
                found.append(engine._next_matches())

    table, found = stream(4_000), []
    with threads(QUERY, instances=2, slice_events=250) as engine:
        found.append(leave_matches_ready(engine, table))
        with patch.object(engine, "_signals", Calling()):
            assert len(engine._next_matches()) == 0
        assert len(found[-1])
        found.append(engine.flush())
    assert joined(found).equals(of_one_engine(QUERY, table, 500))


def test_an_interrupt_that_replaces_the_error_of_an_instance_closes_the_engine() -> None:
    def fail(timeout: float | None) -> None:
        with ExitStack() as stack:
            stack.callback(signal.default_int_handler, signal.SIGINT, None)
            raise fc.InstanceError("instance 0: it failed", None)

    with threads(QUERY) as engine:
        with patch.object(engine._scheduler, "receive", fail), pytest.raises(KeyboardInterrupt):
            engine.process(stream(10))
        with pytest.raises(fc.ValidationError, match="the engine is closed"):
            engine.flush()


def test_an_interrupt_after_matches_are_taken_loses_none() -> None:
    class Interrupted:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            raise KeyboardInterrupt

    table, found = stream(4_000), []
    with threads(QUERY, instances=2, slice_events=250) as engine:
        found.append(leave_matches_ready(engine, table))
        with patch.object(engine, "_signals", Interrupted()), pytest.raises(KeyboardInterrupt):
            engine._next_matches()
        found.append(engine.flush())
    assert joined(found).equals(of_one_engine(QUERY, table, 500))


def test_slices_leave_the_filters_of_warnings_alone() -> None:
    """They belong to the whole process; two threads that change and restore them would exchange them for good."""
    table = stream(1_000)
    unused = patch.object(warnings, "catch_warnings", side_effect=AssertionError)
    with unused, threads(QUERY, instances=2, slice_events=250) as engine:
        found = joined([engine.process(table), engine.flush()])
    assert found.equals(of_one_engine(QUERY, table, 500))


def test_explain() -> None:
    with threads(QUERY) as engine:
        assert engine.explain() == fc.Engine(QUERY).explain()
