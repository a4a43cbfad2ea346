"""The input queue: real threads, and clocks that the tests control."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.waiting import LIMIT, wait_for

import fastcep as fc
from fastcep.arrivals.input_queue import InputQueue
from fastcep.datasets import ds1
from fastcep.errors import DataError, QueueFullError, ValidationError

COLUMNS = dict.fromkeys(("ID", "V"), "int64")
SCHEMA = fc.Schema(dict.fromkeys("ABCD", COLUMNS), time="ts", type="type", time_unit="us")
TEXT = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 2ms"
QUERY = fc.parse(TEXT, SCHEMA)
STREAM = ds1(5000)


class Clock:
    """Clock that the test sets."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class Spy(fc.Engine):
    """Engine that records the arguments of its calls."""

    def process(self, data: Any, **options: Any) -> fc.Matches:
        calls = self.__dict__.setdefault("calls", [])
        control = self._stream.queries.control
        waiting = None if control is None or control.waiting is None else control.waiting(control.clock.now())
        calls.append((data, options, waiting))
        return super().process(data, **options)

    @property
    def sizes(self) -> list[int]:
        return [len(data) for data, _, _ in self.__dict__.get("calls", [])]

    @property
    def arrivals(self) -> list[int]:
        return [time for _, options, _ in self.__dict__["calls"] for time in options["arrivals"].tolist()]

    @property
    def ids(self) -> list[int]:
        return [number for data, _, _ in self.__dict__["calls"] for number in data["ID"].to_pylist()]


def spy(now: int = 0, query: Any = QUERY, **options: Any) -> tuple[Spy, Clock]:
    clock = Clock(now)
    return Spy(query, clock=clock, latency_bound="1ms", shedder=None, **options), clock


def columns(events: int, first: int = 0) -> dict[str, Any]:
    numbers = np.arange(first, first + events)
    return {"type": ["A"] * events, "ID": numbers, "V": numbers, "ts": numbers}


@contextmanager
def thread(*steps: Any) -> Iterator[list[BaseException]]:
    """Run the steps in a thread that ends before the block does; yield the list of errors that they raise."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for step in steps:
                step()
        except BaseException as error:
            errors.append(error)

    worker = Thread(target=work, daemon=True)
    worker.start()
    try:
        yield errors
    finally:
        worker.join(LIMIT)
        assert not worker.is_alive()


@pytest.mark.sample(3)
@pytest.mark.parametrize("bound", [None, "1ms"])
@pytest.mark.parametrize(("block", "capacity", "stretch"), [(7, 16, 5), (700, 50, 4096), (1, 10_000, 64), (5000, 1, 1)])
def test_matches_are_those_of_the_whole_stream(block: int, capacity: int, stretch: int, bound: str | None) -> None:
    stream = STREAM.slice(0, 300) if capacity == 1 else STREAM
    queue = InputQueue(fc.Engine(QUERY, latency_bound=bound, shedder=None), capacity=capacity, stretch=stretch)
    parts = [stream.slice(first, block) for first in range(0, len(stream), block)]
    with thread(*[lambda part=part: queue.put(part) for part in parts], queue.close) as errors:
        results = list(queue.run())
    assert errors == []
    expected = fc.Engine(QUERY).process(stream)
    assert pa.concat_tables(matches.to_arrow() for matches in results).equals(expected.to_arrow())
    metrics = queue.metrics()
    assert (metrics["put"], metrics["taken"], metrics["waiting"]) == (len(stream), len(stream), 0)
    assert 0 < metrics["longest"] <= capacity


def test_engine_knows_when_events_arrived_and_how_many_wait() -> None:
    engine, clock = spy(100)
    queue = InputQueue(engine, stretch=4)
    queue.put(columns(6))
    clock.now = 200
    queue.put(columns(3, 6), arrivals=[150, 160, 1000])
    steps = queue.run()
    next(steps)
    next(steps)
    assert [waiting for _, _, waiting in engine.__dict__["calls"]] == [4, 0]  # the last has not arrived
    assert queue.metrics() | {"waits": 0, "waited_ns": 0} == {
        "waiting": 1, "capacity": 65_536, "put": 9, "taken": 8, "longest": 8, "waits": 0, "waited_ns": 0,
    }  # fmt: skip
    clock.now = 1000
    queue.close()
    assert len(list(steps)) == 1
    assert engine.arrivals == [100] * 6 + [150, 160, 1000]
    control = engine._stream.queries.control
    assert control is not None and control.waiting is None
    latencies = engine.metrics()["shedding"]["event_latency"]
    assert (latencies["count"], latencies["max"]) == (1, 100)  # one of 16 on this clock


def test_an_event_is_not_taken_before_it_arrives() -> None:
    class Ticking(Clock):
        def __call__(self) -> int:
            self.now += 7_000
            return self.now

    engine = Spy(QUERY, clock=Ticking(), latency_bound="1s", shedder=None)
    latencies: list[float] = []
    engine.listen(lambda processing, event: latencies.extend(event.tolist()))
    queue = InputQueue(engine)
    arrivals = np.arange(1, 301) * 10_000
    queue.put(STREAM.slice(0, 300), arrivals=arrivals)
    queue.close()
    matches = sum(map(len, queue.run()))
    assert len(latencies) == 300 and min(latencies) >= 0
    assert len(engine.sizes) > 10  # processed as they arrive
    assert matches == len(fc.Engine(QUERY).process(STREAM.slice(0, 300)))


def test_small_batches_are_joined_and_large_ones_cut() -> None:
    engine, _ = spy()
    queue = InputQueue(engine, stretch=400)
    for number in range(1000):
        queue.put(STREAM.slice(number, 1))
    queue.put(STREAM.slice(1000, 1000))
    queue.close()
    results = list(queue.run())
    assert engine.sizes == [400] * 5
    assert [options["first_row"] for _, options, _ in engine.__dict__["calls"]] == [0, 400, 800, 1200, 1600]
    assert sum(map(len, results)) == len(fc.Engine(QUERY).process(STREAM.slice(0, 2000)))


def test_inputs_of_all_kinds_one_after_the_other() -> None:
    parts = [STREAM.slice(first, 100) for first in range(0, 700, 100)]
    encoded = [part.set_column(0, "type", part["type"].combine_chunks().dictionary_encode()) for part in parts]
    inputs: list[Any] = [
        parts[0],
        parts[1].combine_chunks().to_batches()[0],
        {name: parts[2][name].to_numpy() for name in parts[2].column_names},
        pa.concat_tables([parts[3].slice(0, 30), parts[3].slice(30)]),
        parts[4].select(["ts", "V", "ID", "type"]),
        encoded[5].slice(0, 50),
        encoded[5].slice(50),
        parts[6].slice(0, 0),
        encoded[6].slice(0, 1),  # another dictionary of the same Arrow schema
        encoded[6].slice(1),
    ]
    engine, _ = spy()
    queue = InputQueue(engine)
    for part in inputs:
        queue.put(part)
    queue.close()
    matches = sum(map(len, queue.run()))
    assert engine.ids == STREAM["ID"].to_pylist()[:700]
    assert matches == len(fc.Engine(QUERY).process(STREAM.slice(0, 700)))
    assert len(engine.sizes) < len(inputs)


def test_a_slow_consumer_holds_the_producer_back() -> None:
    engine, _ = spy()
    queue = InputQueue(engine, capacity=10, stretch=4)
    with thread(lambda: queue.put(columns(25)), queue.close) as errors:
        steps = queue.run()
        taken = 0
        while taken < 25:
            wait_for(lambda taken=taken: queue.metrics()["waiting"] == min(10, 25 - taken), "events in the queue")
            assert queue.metrics()["put"] == min(25, taken + 10)
            next(steps)
            taken += min(4, 25 - taken)
            assert queue.metrics()["taken"] == taken
        assert list(steps) == []
    assert errors == []
    assert engine.ids == list(range(25))
    metrics = queue.metrics()
    assert metrics["longest"] == 10
    assert metrics["waits"] >= 1 and metrics["waited_ns"] > 0


def test_a_timeout_reports_what_was_taken() -> None:
    engine, _ = spy(5000)
    queue = InputQueue(engine, capacity=10)
    events, arrivals = pa.table(columns(25)), np.arange(25)
    steps = queue.run()
    done = 0
    for taken in (10, 10, 5):
        if done + taken < 25:
            message = rf"capacity=10, and {taken} of the {25 - done} events of the batch are in it; put the others"
            with pytest.raises(QueueFullError, match=message) as caught:
                queue.put(events.slice(done), arrivals[done:], timeout="1ms")
            assert caught.value.taken == taken
        else:
            queue.put(events.slice(done), arrivals[done:], timeout="0s")
        done += taken
        next(steps)
    queue.close()
    assert list(steps) == []
    assert (engine.ids, engine.arrivals) == (list(range(25)), list(range(25)))


def test_a_batch_arrives_when_put_is_called_not_when_there_is_room() -> None:
    engine, clock = spy(1000)
    queue = InputQueue(engine, capacity=4, stretch=4)
    queue.put(columns(4))
    with thread(lambda: queue.put(columns(6, 4)), queue.close) as errors:
        wait_for(lambda: len(queue._line) == 1, "producer that waits")
        clock.now = 9000
        list(queue.run())
    assert errors == []
    assert engine.arrivals == [1000] * 10


def test_a_closed_queue_refuses_more() -> None:
    engine, _ = spy()
    queue = InputQueue(engine, capacity=4)
    queue.put(columns(3))
    with thread(lambda: queue.put(columns(5, 3))) as errors:
        wait_for(lambda: queue.metrics()["put"] == 4, "four events that were put")
        queue.close()
    (error,) = errors
    assert isinstance(error, ValidationError)
    assert "the queue was closed: 1 of the 5 events of the batch are in it" in str(error)
    with pytest.raises(ValidationError, match="the queue was closed: 0 of the 2 events"):
        queue.put(columns(2))
    assert sum(1 for _ in queue.run()) == 1
    assert engine.ids == [0, 1, 2, 3]
    assert list(queue.run()) == []


def test_a_producers_error_comes_after_what_it_has_put() -> None:
    engine, _ = spy()
    queue = InputQueue(engine)
    queue.put(columns(3))
    queue.fail(OSError("the line is dead"))
    queue.fail(OSError("so it is"))
    steps = queue.run()
    next(steps)
    assert engine.ids == [0, 1, 2]
    for again in (steps, queue.run()):
        with pytest.raises(OSError, match="the line is dead"):
            next(again)
    with pytest.raises(ValidationError, match="closed after an error"):
        queue.put(columns(1))


def test_an_error_of_the_engine_names_the_row_and_another_run_goes_on() -> None:
    engine, _ = spy()
    queue = InputQueue(engine, stretch=3)
    queue.put(columns(3))
    queue.put({**columns(3, 3), "type": ["A", "X", "A"]})
    queue.put(columns(2, 6))
    queue.close()
    steps = queue.run()
    next(steps)
    with pytest.raises(DataError, match=r"queue, row 4.*undeclared event type 'X'"):
        next(steps)
    assert queue.metrics()["taken"] == 6
    assert sum(1 for _ in queue.run()) == 1
    assert engine.ids == list(range(8))
    assert engine.metrics()["events"] == 5


def test_rows_of_other_types_are_no_events() -> None:
    schema = fc.Schema({"A": COLUMNS, "B": COLUMNS}, time="ts", type="type", time_unit="us", other_types="ignore")
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms", schema)
    engine, _ = spy(1000, query)
    latencies: list[float] = []
    engine.listen(lambda processing, event: latencies.extend(event.tolist()))
    queue = InputQueue(engine)
    queue.put({**columns(5), "type": ["X", "A", "X", "B", "X"]}, arrivals=[100, 200, 300, 400, 500])
    queue.close()
    list(queue.run())
    assert latencies == [800, 600]
    batch = {**columns(4, 5), "type": ["X", "A", "B", "X"]}
    engine.process(batch, rows=np.array([2, 3, 5, 8]), arrivals=[600, 700, 900, 950])
    assert latencies[2:] == [300, 100]
    engine.process(columns(2, 9), rows=np.array([2, 3]), arrivals=[950, 990])
    assert latencies[4:] == [50, 10]


def test_several_producers() -> None:
    """Batches of several producers do not mix, and keep the order of each producer, although they enter in parts."""
    engine = Spy(fc.parse("PATTERN SEQ(A a) WITHIN 1ms", SCHEMA))
    queue = InputQueue(engine, capacity=8, stretch=5)
    batches = [
        [{**columns(12, 12 * (20 * producer + k)), "ts": np.zeros(12, int)} for k in range(20)]
        for producer in range(4)
    ]

    def put_all(batches: list[Any]) -> None:
        for batch in batches:
            queue.put(batch)

    workers = [Thread(target=put_all, args=(of_producer,), daemon=True) for of_producer in batches]

    def finish() -> None:
        for worker in workers:
            worker.join(LIMIT)
        queue.close()

    for worker in workers:
        worker.start()
    with thread(finish):
        matches = sum(map(len, queue.run()))
    assert matches == 960
    taken = np.array(engine.ids).reshape(80, 12)
    assert (np.diff(taken, axis=1) == 1).all()
    for producer in range(4):
        firsts = taken[taken[:, 0] // 240 == producer, 0]
        assert firsts.tolist() == sorted(firsts.tolist()) and len(firsts) == 20


@pytest.mark.parametrize(
    ("arrivals", "message"),
    [
        ([1, 2], "arrivals: expected 3 times, integers of ns"),
        ([1.0, 2.0, 3.0], "arrivals: expected 3 times, integers"),
        ([3, 2, 1], "arrivals: event 1 of the batch arrived before the one before it"),
        ([49, 60, 70], "begins at 49 ns, before the last event that was put \\(50 ns\\)"),
    ],
)
def test_wrong_arrivals(arrivals: list[Any], message: str) -> None:
    engine, clock = spy(50)
    queue = InputQueue(engine)
    queue.put(columns(1))
    with pytest.raises(ValidationError, match=message):
        queue.put(columns(3), arrivals=arrivals)
    assert queue.metrics()["put"] == 1
    clock.now = 10
    queue.put(columns(1))  # after the others, although the clock is behind them
    clock.now = 50
    queue.close()
    list(queue.run())
    assert engine.arrivals == [50, 50]


def test_one_consumer() -> None:
    queue = InputQueue(fc.Engine(QUERY))
    queue.put(columns(2))
    first, second = queue.run(), queue.run()
    next(first)
    with pytest.raises(ValidationError, match="already running"):
        next(second)
    first.close()  # type: ignore[attr-defined]
    queue.close()
    assert list(queue.run()) == []


@pytest.mark.parametrize("option", ["capacity", "stretch"])
def test_wrong_options(option: str) -> None:
    with pytest.raises(ValidationError, match=f"{option}=0: expected at least 1"):
        InputQueue(fc.Engine(QUERY), **{option: 0})


def test_engines_that_cannot_have_one() -> None:
    with pytest.raises(ValidationError, match="clock='virtual': pass arrival times"):
        InputQueue(fc.Engine(QUERY, clock="virtual"))
    with pytest.raises(ValidationError, match="allowed_lateness"):
        InputQueue(fc.Engine(QUERY, latency_bound="1ms", allowed_lateness="1s"))
    with pytest.raises(ValidationError, match="arrivals do not go with allowed_lateness"):
        fc.Engine(QUERY, latency_bound="1ms", allowed_lateness="1s").process(columns(1), arrivals=[0])
    queue = InputQueue(fc.Engine(QUERY, allowed_lateness="1s"))
    queue.put(STREAM.slice(0, 500))
    queue.close()
    engine = queue.engine
    matches = sum(map(len, queue.run())) + len(engine.flush())
    assert matches == len(fc.Engine(QUERY).process(STREAM.slice(0, 500)))
