"""Replay on the virtual clock against a plain simulation, and on the wall clock with threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastcep as fc
from fastcep.arrivals.generated_sources import ds1_blocks
from fastcep.arrivals.prefetch import Prefetch
from fastcep.arrivals.replay import Replay, _ReplayQueue
from fastcep.arrivals.replay_stats import ReplayStats
from fastcep.datasets import ds1
from fastcep.errors import DataError, ValidationError
from fastcep.overload.control import Control
from fastcep.overload.costs import CostTable
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.protocols import Detector, QueryView, Shedder

COLUMNS = dict.fromkeys(("ID", "V"), "int64")
SCHEMA = fc.Schema(dict.fromkeys("ABCD", COLUMNS), time="ts", type="type", time_unit="us")
TEXT = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 2ms"
QUERY = fc.parse(TEXT, SCHEMA)
TABLE = CostTable("test", event=2, relevant=15.5, visited=2.25, created=19, refused=2, match=12, decision=100)
EVENTS = 6000
STREAM = ds1(EVENTS)


class QueueLimit(Detector):
    """Detector that limits the queue length, and records its calls."""

    name, statistic = "test", "mean"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.seen: list[tuple[int, int]] = []
        self.control: Control | None = None

    def read(self, load: Load) -> DetectorReading:
        assert self.control is not None
        self.seen.append((self.control.monitor.count, load.queue))
        return DetectorReading(0.0, amount=0.5 if load.queue > self.limit else 0.0, why="queue")

    def spec(self) -> dict[str, Any]:
        return {"name": self.name}


class DropEvents(Shedder):
    """Shedder that drops events of all types with the demanded probability."""

    name, seed = "test", 3

    def detector(self, of: str) -> QueueLimit:
        return QueueLimit(1000)

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        return [DropPlan(events=np.full(4, demand)) for _ in views]

    def spec(self) -> dict[str, Any]:
        return {"name": self.name}


def control_of(engine: fc.Engine) -> Control:
    control = engine._stream.queries.control
    assert control is not None
    return control


def virtual(**options: Any) -> fc.Engine:
    defaults: dict[str, Any] = {"clock": "virtual", "latency_bound": "20us", "cost_table": TABLE, "shedder": None}
    return fc.Engine(QUERY, **defaults | options)


def shedding(limit: int, **options: Any) -> tuple[fc.Engine, QueueLimit]:
    detector = QueueLimit(limit)
    engine = virtual(shedder=DropEvents(), detector=detector, **options)
    detector.control = control_of(engine)
    return engine, detector


def costs(stream: pa.Table = STREAM) -> list[int]:
    """Return the processing time of each event in picoseconds."""
    engine, picoseconds = virtual(), list[int]()
    engine.listen(lambda processing, event: picoseconds.extend(np.rint(processing * 1000).astype(int).tolist()))
    engine.process(stream)
    return picoseconds


MAXIMUM = EVENTS / sum(costs()) * 1e12


def simulate(arrivals: list[int], spent: list[int]) -> tuple[list[int], list[int]]:
    """Simulate a single server; return the latency of each event (ps), and the queue length when it is done."""
    time, latencies, queues, arrived = 0, [], [], 0
    for number, (arrival, cost) in enumerate(zip(arrivals, spent, strict=True)):
        time = max(time, arrival * 1000) + cost
        latencies.append(time - arrival * 1000)
        while arrived < len(arrivals) and arrivals[arrived] * 1000 <= time:
            arrived += 1
        queues.append(arrived - number - 1)
    return latencies, queues


def blocks(size: int, stream: pa.Table = STREAM) -> Iterator[pa.Table]:
    for first in range(0, len(stream), size):
        yield stream.slice(first, size)


RATES = [
    fc.Rate.constant(0.7 * MAXIMUM),
    fc.Rate.constant(1.5 * MAXIMUM),
    fc.Rate.bursts(0.4 * MAXIMUM, 10, every="400us", length="40us"),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize("size", [1, 97, EVENTS])
@pytest.mark.parametrize("rate", RATES, ids=["below", "above", "bursts"])
def test_latencies_are_those_of_a_single_server(rate: fc.Rate, size: int) -> None:
    stream = STREAM.slice(0, 600 if size == 1 else EVENTS)
    count, skip = len(stream), 0.1
    spent = costs(stream)
    latencies, queues = simulate(rate.arrivals(0, count).tolist(), spent)
    results: list[fc.Matches] = []
    result = fc.replay(virtual(), blocks(size, stream), rate, events=count, skip=skip, collect=results.append)
    counted = latencies[int(skip * count) :]
    assert (result.clock, result.events, result.counted) == ("virtual", count, len(counted))
    assert result.over == sum(latency > 20_000_000 for latency in counted)
    assert result.share_over_bound == result.over / result.counted
    assert result.mean_event == sum(counted) / (len(counted) * 1000)
    assert result.mean_processing == sum(spent[int(skip * count) :]) / (len(counted) * 1000)
    assert (result.longest_event, result.event_latency["max"]) == (max(counted) / 1000, max(latencies) / 1000)
    assert result.longest_queue == max(queues)
    assert result.seconds == pytest.approx((rate.arrivals(count - 1, 1)[0] * 1000 + latencies[-1]) / 1e12, abs=2e-9)
    assert result.reached == pytest.approx(count / result.seconds)
    expected = fc.Engine(QUERY).process(stream)
    assert result.matches == len(expected)
    assert pa.concat_tables(matches.to_arrow() for matches in results).equals(expected.to_arrow())
    assert result.stalls.count == 0
    assert result.check() is result


@pytest.mark.parametrize("known", [True, False])
def test_detectors_see_how_many_wait_whatever_the_blocks(known: bool) -> None:
    """If the number of events is unknown, it is known when the prefetched blocks reach the end of the stream."""
    readings = []
    for size in (50, 777, EVENTS):
        engine, detector = shedding(10**9)
        rate = RATES[1]
        result = fc.replay(engine, blocks(size), rate, events=EVENTS if known else None, must_shed=False)
        assert not result.fired
        assert control_of(engine).waiting is None and control_of(engine).listeners == []
        _, queues = simulate(rate.arrivals(0, EVENTS).tolist(), costs())
        if known or size > 50:  # eight blocks of 50 are less than what waits
            assert [queue for _, queue in detector.seen] == [queues[count - 1] for count, _ in detector.seen]
            readings.append(detector.seen)
    assert len(readings[0]) > 10 and max(queue for _, queue in readings[0]) > 1000
    assert all(seen == readings[0] for seen in readings)


def test_a_run_that_sheds_is_a_result_and_another_is_not() -> None:
    results = []
    for size in (64, 999):
        engine, _ = shedding(500)
        results.append(fc.replay(engine, blocks(size), RATES[1], events=EVENTS, skip=0.2, maximum=MAXIMUM).check())
        assert results[-1].fired and results[-1].shedder == "test"
        assert results[-1].metrics["shedding"]["dropped_events"] > 0
    assert replace(results[0], metrics={}) == replace(results[1], metrics={})
    _, queues = simulate(RATES[1].arrivals(0, EVENTS).tolist(), costs())
    assert 500 < results[0].longest_queue < max(queues) / 2
    engine, _ = shedding(500)
    result = fc.replay(engine, STREAM, RATES[0], maximum=MAXIMUM, must_shed=False)
    assert not result.fired
    message = rf"never shed.* at {RATES[0].mean:,.0f} events/s .*reached, {MAXIMUM:,.0f} at most.*use a rate above"
    with pytest.raises(ValidationError, match=message):
        result.check()
    with pytest.raises(ValidationError, match=message):
        fc.replay(shedding(500)[0], STREAM, RATES[0], maximum=MAXIMUM)


def test_an_engine_goes_on_where_it_was() -> None:
    engine = virtual()
    first = fc.replay(engine, STREAM.slice(0, 2000), RATES[0])
    again = fc.replay(engine, STREAM.slice(2000), RATES[0])
    assert (first.events, again.events) == (2000, 4000)
    assert again.longest_event < 20_000  # nothing waits since the first replay
    assert first.matches + again.matches == len(fc.Engine(QUERY).process(STREAM))


def test_sources() -> None:
    expected = fc.replay(virtual(), STREAM, RATES[1], skip=0.5)
    of_list = fc.replay(virtual(), [STREAM.slice(0, 10), STREAM.slice(10, 0), STREAM.slice(10)], RATES[1], skip=0.5)
    generated = fc.replay(virtual(), ds1_blocks(EVENTS, 500), RATES[1], skip=0.5)
    cut = fc.replay(virtual(), ds1_blocks(EVENTS + 900, 500), RATES[1], events=EVENTS, skip=0.5)
    as_dict = fc.replay(virtual(), {name: STREAM[name] for name in STREAM.column_names}, RATES[1], skip=0.5)
    by_number = fc.replay(virtual(), STREAM, RATES[1].mean, skip=0.5)
    assert expected.counted == EVENTS // 2
    for other in (of_list, generated, as_dict, by_number):
        assert replace(other, metrics={}) == replace(expected, metrics={})
    assert cut.events == EVENTS and cut.counted == EVENTS // 2
    assert pa.Table.from_batches(ds1_blocks(1000, 64, seed=3)).equals(ds1(1000, 3))
    assert pa.Table.from_batches(ds1_blocks(1000, 64, c_values=(2, 10))).equals(ds1(1000, c_values=(2, 10)))
    assert list(ds1_blocks(100, 64)) == list(ds1_blocks(100, 64))
    empty = fc.replay(virtual(), [], RATES[0])
    assert (empty.events, empty.seconds, empty.reached, empty.share_over_bound) == (0, 0, 0, 0)


# ---------------------------------------------------------------------------------------------------------- wall clock


@pytest.mark.parametrize(("size", "capacity", "stretch"), [(64, 100, 32), (EVENTS, 65_536, 4096)])
def test_a_wall_run_has_the_matches_of_the_stream(size: int, capacity: int, stretch: int) -> None:
    results: list[fc.Matches] = []
    engine = fc.Engine(QUERY, latency_bound="1h", shedder=None)
    sizes = {"events": EVENTS, "capacity": capacity, "stretch": stretch}
    result = fc.replay(engine, blocks(size), 200_000, skip=0.25, collect=results.append, **sizes)
    expected = fc.Engine(QUERY).process(STREAM)
    assert pa.concat_tables(matches.to_arrow() for matches in results).equals(expected.to_arrow())
    assert (result.clock, result.events, result.matches) == ("wall", EVENTS, len(expected))
    assert EVENTS * 3 // 4 - result.stalls.events <= result.counted <= EVENTS * 3 // 4
    assert result.over == 0 and 0 < result.longest_queue <= EVENTS
    assert result.seconds >= (EVENTS - 1) / 200_000
    assert result.mean_event >= result.mean_processing > 0
    assert not producers()


def test_an_overloaded_wall_run_sheds() -> None:
    detector = QueueLimit(100)
    engine = fc.Engine(QUERY, latency_bound="1ms", shedder=DropEvents(), detector=detector)
    detector.control = control_of(engine)
    result = fc.replay(engine, STREAM, 1e9).check()  # all at once
    assert result.events == EVENTS
    assert result.metrics["shedding"]["dropped_events"] > 0


def producers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "fastcep-replay"]


def test_an_error_of_the_source_is_raised() -> None:
    def source() -> Iterator[pa.Table]:
        yield from blocks(100, STREAM.slice(0, 300))
        raise OSError("the disk is gone")

    taken: list[fc.Matches] = []
    for engine in (virtual(), fc.Engine(QUERY, latency_bound="1s", shedder=None)):
        with pytest.raises(OSError, match=r"the disk is gone"):
            fc.replay(engine, source(), 1e6, collect=taken.append)
        assert control_of(engine).waiting is None and control_of(engine).listeners == []
    assert engine.metrics()["events"] == 300
    assert not producers()


def test_an_error_of_the_engine_ends_the_producer() -> None:
    def source() -> Iterator[Any]:
        yield STREAM.slice(0, 100)
        while True:
            yield {"type": ["X"], "ID": [1], "V": [1], "ts": [10**9]}

    with pytest.raises(DataError, match=r"queue, row 100.*undeclared event type"):
        fc.replay(fc.Engine(QUERY, latency_bound="1s", shedder=None), source(), 1e6, capacity=500)
    assert not producers()


def test_events_that_wait_for_room_count_in_the_queue() -> None:
    clock = Moved()
    engine = fc.Engine(QUERY, clock=clock, latency_bound="1s", shedder=None)
    blocks, rate = Prefetch(STREAM.slice(0, 500), None, 1), fc.Rate.constant(1e7)
    queue = _ReplayQueue(engine, 10, 4096, blocks, rate, ReplayStats(0, None, None))
    queue.start = 1000
    queue.put(STREAM.slice(0, 10), 1000 + rate.arrivals(0, 10))
    queue.close()
    assert [queue.arrived(now) for now in (0, 1000, 1100, 20_000)] == [0, 1, 2, 191]
    clock.now = 20_000
    list(queue.run())
    assert queue.metrics()["longest"] == 191
    assert [queue.arrived(now) for now in (20_000, 10**9)] == [181, 490]


def test_a_stall_is_found_where_there_was_room() -> None:
    clock = Moved()
    engine = fc.Engine(QUERY, clock=clock, latency_bound="1s", shedder=None)
    tally = ReplayStats(0, 1e9, None)
    queue = _ReplayQueue(engine, 10, 4096, Prefetch(STREAM, None, 1), fc.Rate.constant(1e7), tally)

    def put(arrivals: list[int], now: int) -> list[int]:
        clock.now = now
        queue.put(STREAM.slice(queue.metrics()["put"], len(arrivals)), arrivals)
        return list(queue._blocks[-1].arrivals.tolist())

    assert put([100, 200], 0) == [100, 200]
    assert put([300, 400], 300) == [300, 400]  # just in time
    assert queue.stalls.count == 0
    assert put([500, 600, 700], 650) == [650, 650, 700]
    assert (queue.stalls.count, queue.stalls.total, queue.stalls.longest, queue.stalls.events) == (1, 150, 150, 2)
    assert put([800, 900, 1000], 800) == [800, 900, 1000]  # now it is full
    steps = queue.run()
    clock.now = 2000
    next(steps)
    assert put([1500, 2100], 2200) == [1500, 2200]  # the first had to wait for room: not the replay's fault
    assert (queue.stalls.count, queue.stalls.total, queue.stalls.longest, queue.stalls.events) == (2, 250, 150, 3)
    assert put([2150, 2250, 2300], 2200) == [2200, 2250, 2300]
    assert put([2400, 2500, 2600, 2700, 2800], 2400)[-1] == 2800  # full again, after a stall
    assert queue.stalls.events == 4
    clock.now = 5000
    next(steps)
    assert put([2900, 5100], 6000) == [2900, 6000]
    clock.now = 7000
    next(steps)
    assert put([5500, 6500], 7000) == [7000, 7000]
    assert (queue.stalls.count, queue.stalls.total, queue.stalls.longest, queue.stalls.events) == (5, 2700, 1500, 7)
    queue._room_since = 9000  # two of the next could have come in time, but for the stall until 7000
    assert queue._arrive(np.array([6600, 6700, 8000, 9100]), 9200).tolist() == [7000, 7000, 8000, 9200]
    assert (queue.stalls.count, queue.stalls.events) == (6, 10)
    assert list(tally.late) == [(4, 6), (11, 12), (12, 13), (21, 22), (22, 23), (23, 24), (24, 26), (27, 28)]


class Moved:
    now = 0

    def __call__(self) -> int:
        return self.now


def test_the_tally_excludes_late_events_in_batches_of_any_size() -> None:
    late, skip, event = [(3, 5), (7, 20), (22, 23), (40, 41)], 4, np.arange(50, dtype=np.float64)
    kept = [k for k in range(skip, 50) if not any(first <= k < last for first, last in late)]
    for size in (1, 2, 7, 11, 50):
        tally = ReplayStats(skip, 30.0, None)
        tally.late.extend(late)
        for first in range(0, 50, size):
            part = event[first : first + size]
            tally(part * 0.5, part)
        assert tally.results() == {
            "counted": len(kept), "over": sum(k > 30 for k in kept), "mean_processing": sum(kept) / len(kept) / 2,
            "mean_event": sum(kept) / len(kept), "longest_processing": 24.5, "longest_event": 49.0,
        }  # fmt: skip


# -------------------------------------------------------------------------------------------------------- what is wrong


def test_wrong_calls() -> None:
    with pytest.raises(ValidationError, match=r"latency_bound='…'\), or clock='virtual'"):
        fc.replay(fc.Engine(QUERY), STREAM, 1e6)
    with pytest.raises(ValidationError, match=r"allowed_lateness"):
        fc.replay(virtual(allowed_lateness="1s"), STREAM, 1e6)
    with pytest.raises(ValidationError, match=r"skip=1: expected a share"):
        fc.replay(virtual(), STREAM, 1e6, skip=1)
    with pytest.raises(ValidationError, match=r"skip=0.1 needs the number of events: pass events=…"):
        fc.replay(virtual(), blocks(100), 1e6, skip=0.1)
    with pytest.raises(ValidationError, match=r"events=0: expected at least 1"):
        fc.replay(virtual(), blocks(100), 1e6, events=0)
    with pytest.raises(ValidationError, match=r"expected an iterable of batches of events, found int"):
        fc.replay(virtual(), 5, 1e6)
    with pytest.raises(ValidationError, match=r"rate -3.0"):
        fc.replay(virtual(), STREAM, -3)


@pytest.mark.parametrize("options", [{"clock": "virtual"}, {"latency_bound": "1s"}])
def test_rows_that_are_no_events_are_refused(options: dict[str, Any]) -> None:
    schema = fc.Schema({"A": COLUMNS, "B": COLUMNS}, time="ts", type="type", time_unit="us", other_types="ignore")
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WITHIN 1ms", schema), **options)
    with pytest.raises(ValidationError, match=r"of the first [\d,]+ rows .* types that the schema ignores"):
        fc.replay(engine, STREAM, 1e9, stretch=EVENTS)
    assert not producers()


def test_maximum_rate() -> None:
    assert fc.maximum_rate(virtual, blocks(100)) == pytest.approx(MAXIMUM)
    assert fc.maximum_rate(lambda: fc.Engine(QUERY), [STREAM], "wall") > 0
    stream = ds1_blocks(1000, 100)
    assert fc.maximum_rate(lambda: fc.Engine(QUERY, latency_bound="1ms", shedder=None), stream, "wall") > 0


def test_maximum_rate_refuses() -> None:
    with pytest.raises(ValidationError, match=r"needs 3 runs, but a generator can be iterated only once"):
        fc.maximum_rate(lambda: fc.Engine(QUERY), blocks(100), "wall")
    for clock in ("wall", "virtual"):
        other = {"virtual": virtual, "wall": lambda: fc.Engine(QUERY)}["wall" if clock == "virtual" else "virtual"]
        with pytest.raises(ValidationError, match=f"clock='{clock}', but the engine has another"):
            fc.maximum_rate(other, [STREAM], clock)
    with pytest.raises(ValidationError, match=r"clock='sun': expected 'wall' or 'virtual'"):
        fc.maximum_rate(virtual, [STREAM], "sun")
    with pytest.raises(ValidationError, match=r"shedder='test', expected an engine with shedder=None"):
        fc.maximum_rate(lambda: shedding(5)[0], [STREAM])
    with pytest.raises(ValidationError, match=r"0 events"):
        fc.maximum_rate(virtual, [])


def test_the_representation_of_a_result() -> None:
    result = fc.replay(virtual(), STREAM, RATES[0], maximum=MAXIMUM)
    assert isinstance(result, Replay)
    assert "metrics" not in repr(result) and "counted=6000" in repr(result)
