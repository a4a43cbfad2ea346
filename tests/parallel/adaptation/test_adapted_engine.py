"""`ParallelEngine` with a number of instances that follows the load."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from parallel.adapted import SECOND, Clock, adapted, options
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

import fastcep as fc
from fastcep.engine.instance_pool import InstanceCounts, InstancePool
from fastcep.parallel import ParallelEngine
from fastcep.parallel.channel import SharedMemoryError
from fastcep.parallel.instances import Instance, Starter
from fastcep.parallel.queueing.distributions import Deterministic
from fastcep.parallel.queueing.instance_count import Degree


def rates() -> Iterator[int]:
    """Return the rate of the stream in each second."""
    yield from [400] * 3 + [800] * 4 + [400] * 6


def run(engine: ParallelEngine, clock: Clock, table: pa.Table) -> tuple[list[fc.Matches], list[int]]:
    """Process a stream in batches, four a second; return the matches, and the numbers asked for."""
    found, wanted, at = [], [], 0
    for rate in rates():
        for _ in range(4):
            clock.now += SECOND // 4
            found.append(engine.process(table.slice(at, rate // 4)))
            at += rate // 4
        counts = engine.counts()
        wanted.append(engine.metrics()["adaptation"]["wanted_instances"])
        assert counts.ready + counts.starting == wanted[-1]
    assert at == len(table)
    return found, wanted


@pytest.mark.sample("processes")
@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_the_number_of_instances_follows_the_load(clock: Clock, workers: str) -> None:
    """It goes from 1 to 2 and back to 1, after the horizon; the matches are those of one engine."""
    table = stream(sum(rates()))
    with adapted(workers, buffer_limit=20, samples=400) as engine:
        assert isinstance(engine, InstancePool)
        assert engine.metrics()["adaptation"] == {
            "wanted_instances": 1, "rate": None, "forecast": None, "forecast_method": None, "service_ns": None,
            "probability": None, "problem": "",
        }  # fmt: skip
        found, wanted = run(engine, clock, table)
        metrics = engine.metrics()["adaptation"]
        started = engine._scheduler._starter._started
        found.append(engine.flush())
        assert engine.metrics()["kept_events"] == 0
        alive = {item.name for item in threading.enumerate() if item.name.startswith("fastcep-instance")}
        assert len(alive) <= 1, "those that left have ended"
    assert wanted == [1] * 3 + [2] * 6 + [1] * 4
    assert started == 2
    assert metrics["rate"] == pytest.approx(400, rel=0.01)
    assert metrics["forecast"] == pytest.approx(metrics["rate"])
    assert (metrics["forecast_method"], metrics["problem"]) == ("naive", "")
    assert metrics["service_ns"] > 1e6, "events of two slices count twice"
    assert metrics["probability"] >= 0.95
    assert joined(found).equals(of_one_engine(QUERY, table, 1_000))


def test_without_a_profile_the_instances_measure_the_service_time(clock: Clock) -> None:
    table = stream(3_000)
    with adapted(profile=None, buffer_limit=400) as engine:
        found = []
        for batch in batches(table, 300):
            clock.now += SECOND
            found.append(engine.process(batch))
            while engine.metrics()["waiting_events"]:
                found.append(engine.poll("1s"))
        metrics = engine.metrics()["adaptation"]
        assert metrics["service_ns"] > 0
        found.append(engine.flush())
    assert joined(found).equals(of_one_engine(QUERY, table, 300))


def forced(engine: ParallelEngine, clock: Clock, number: int) -> None:
    """Let the loop want a number of instances: it takes effect at the next call."""
    assert engine._adaptation is not None
    engine._adaptation._loop._wanted.extend([(clock.now, number), (clock.now, number)])


@pytest.mark.thorough
def test_an_instance_that_leaves_is_used_again(clock: Clock) -> None:
    table = stream(4_000)
    with adapted(most=3) as engine:
        found = [engine.process(table.slice(0, 500))]
        engine.resize(3)
        while engine.counts() != InstanceCounts(3) or engine.metrics()["waiting_events"]:
            found.append(engine.poll("10ms"))
        with without_answers(engine):  # no slice ends meanwhile
            found.append(engine.process(table.slice(500, 300)))
            assert all(item["slices"] for item in engine.metrics()["instances"])
            engine.resize(1)
            assert sum(item["leaving"] for item in engine.metrics()["instances"]) == 2
            started = engine._scheduler._starter._started
            engine.resize(3)
            assert not any(item["leaving"] for item in engine.metrics()["instances"])
            assert engine._scheduler._starter._started == started
        found += [engine.process(table.slice(800)), engine.flush()]
    assert joined(found).equals(of_one_engine(QUERY, table, 500))


def test_instances_that_start_leave_first() -> None:
    """One that is ready stays, and nothing waits for one that starts."""
    with ParallelEngine(QUERY, instances=1) as engine:
        engine.process(stream(1_000))
        while engine.metrics()["waiting_events"]:
            engine.poll("1s")
        before = engine.metrics()["instances"][0]
        engine.resize(3)
        assert engine.counts() == InstanceCounts(1, 2)
        started = [item["process"] for item in engine.metrics()["instances"][1:]]
        engine.resize(1)
        assert engine.counts() == InstanceCounts(1)
        assert engine.metrics()["instances"][0]["number"] == before["number"]
        for process in started:
            with pytest.raises(ProcessLookupError):
                os.kill(process, 0)  # it has ended, and its status is read


@pytest.mark.thorough
def test_flush_and_close_while_instances_start(clock: Clock) -> None:
    table = stream(2_000)
    with adapted("processes", most=3) as engine:
        found = [engine.process(table)]
        forced(engine, clock, 3)
        clock.now += 3 * SECOND
        found.append(engine.poll())
        assert len(engine.metrics()["instances"]) == 3
        found.append(engine.flush())
        started = [item["process"] for item in engine.metrics()["instances"]]
    assert joined(found).equals(of_one_engine(QUERY, table, 2_000))
    for process in started:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


@pytest.mark.thorough
def test_instances_are_killed_while_they_start_or_leave(clock: Clock) -> None:
    table = stream(6_000)
    found = []
    with adapted("processes", most=3, buffer_limit=1_000) as engine:
        for number, batch in enumerate(batches(table, 500)):
            clock.now += SECOND
            found.append(engine.process(batch))
            if number in (1, 6):
                forced(engine, clock, 3)
                found.append(engine.poll())
                victim = engine.metrics()["instances"][-1]
                os.kill(victim["process"], signal.SIGKILL)
            elif number in (3, 9):
                engine.resize(1)
                leaving = [item for item in engine.metrics()["instances"] if item["leaving"]]
                if leaving:
                    os.kill(leaving[0]["process"], signal.SIGKILL)
        found.append(engine.flush())
    assert joined(found).equals(of_one_engine(QUERY, table, 500))


# ---------------------------------------------------------------------- failures


def grown(engine: ParallelEngine, clock: Clock, table: pa.Table) -> list[fc.Matches]:
    """Let enough events arrive that the next decision asks for two instances."""
    found = [engine.process(table.slice(0, 100))]
    clock.now += SECOND
    return [*found, engine.process(table.slice(100, 1_000))]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "error", [OSError("no process"), RuntimeError("can't start new thread"), SharedMemoryError("put 9 bytes into", 24),
              fc.ValidationError("no statsmodels")],
)  # fmt: skip
def test_no_instance_can_be_started(clock: Clock, error: Exception) -> None:
    """The stream goes on with those that there are, the metrics have the reason, and the next decision tries again."""
    table = stream(3_000)
    with adapted() as engine:
        with patch.object(Starter, "start", side_effect=error):
            found = grown(engine, clock, table)
            metrics = engine.metrics()["adaptation"]
            assert metrics["problem"] == f"the number of instances cannot be changed: {error}"
            assert metrics["wanted_instances"] == 2
            assert metrics["rate"] > 500
            assert len(engine.metrics()["instances"]) == 1
        found.append(engine.process(table.slice(1_100, 1_000)))
        assert engine.metrics()["adaptation"]["problem"], "until the next decision"
        clock.now += SECOND
        found.append(engine.process(table.slice(2_100)))
        assert not engine.metrics()["adaptation"]["problem"].startswith("the number of instances cannot")
        assert len(engine.metrics()["instances"]) == 2
        found.append(engine.flush())
    assert joined(found).equals(of_one_engine(QUERY, table, 1_000))


@pytest.mark.thorough
def test_an_interrupt_in_the_middle_of_a_decision(clock: Clock) -> None:
    """The batch was taken as a whole, as the note says; no event and no match is lost."""
    table = stream(3_000)
    with adapted() as engine:
        with patch("fastcep.parallel.adaptation.loop.degree", side_effect=KeyboardInterrupt):
            found = [engine.process(table.slice(0, 100))]
            clock.now += SECOND
            with pytest.raises(KeyboardInterrupt) as caught:
                engine.process(table.slice(100, 1_000))
            assert caught.value.__notes__ == [
                "fastcep: the batch was taken as a whole; its matches come with later calls"
            ]
            clock.now += SECOND
            assert engine.metrics()["events"] == 1_100
        found += [engine.process(table.slice(1_100)), engine.flush()]
    assert joined(found).equals(of_one_engine(QUERY, table, 1_000))


@pytest.mark.thorough
@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_interrupts_while_the_number_of_instances_changes(workers: str) -> None:
    """Each batch is taken once, and each match returned once."""
    table, choices = stream(20_000), random.Random(1)
    constant = Deterministic(1.0)

    def degree(*_: Any, **__: Any) -> Degree:
        return Degree(choices.randint(1, 3), 0.99, 0.9, 0.5, "M/D/c", constant, constant)

    changing = {"buffer_limit": 50, "most": 3, "samples": 100, "interval": "5ms", "horizon": "5ms"}
    with patch("fastcep.parallel.adaptation.loop.degree", degree), adapted(workers, **changing) as engine:
        found = joined_with_interrupts(engine, table, 40, 0.007)
    assert found.equals(of_one_engine(QUERY, table, 300))


def test_a_query_that_cannot_be_sent_ends_its_process() -> None:
    """The process of an instance that cannot get its query ends."""
    started = []

    def post(self: Instance, *_: object) -> None:
        started.append(self.process)
        raise SharedMemoryError("put 9 bytes into", 24)

    with patch.object(Instance, "post", post), pytest.raises(SharedMemoryError, match="raise the limit of open files"):
        ParallelEngine(QUERY, instances=1)
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_an_engine_that_is_dropped(clock: Clock) -> None:
    """Nothing refers to it, so its instances end at once, without a collection of cycles."""
    gc.collect()
    gc.disable()
    try:
        engine = adapted("processes", most=2)
        clock.now += SECOND
        engine.process(stream(500))
        process, reference = engine.metrics()["instances"][0]["process"], weakref.ref(engine)
        del engine
        assert reference() is None
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    finally:
        gc.enable()


@pytest.mark.thorough
def test_a_decision_whose_process_does_not_exist(clock: Clock) -> None:
    table = stream(1_100)
    with adapted("processes") as engine:
        with patch.object(sys, "executable", "/nowhere/python"):
            found = grown(engine, clock, table)
            assert "/nowhere/python" in engine.metrics()["adaptation"]["problem"]
        found.append(engine.flush())
    assert joined(found).equals(of_one_engine(QUERY, table, 1_000))


# ----------------------------------------------------------------------- streams


def test_silence_and_calls_without_a_batch(clock: Clock) -> None:
    """Fewer instances take effect in calls of `poll`, and in empty batches."""
    table = stream(1_600)
    with adapted(buffer_limit=20, samples=400) as engine:
        found = []
        for number, rate in enumerate([400, 800, 400]):
            clock.now += SECOND
            found.append(engine.process(table.slice(400 * number + 400 * (number == 2), rate)))
        assert engine.metrics()["adaptation"]["wanted_instances"] == 2
        clock.now += 2 * SECOND - 1
        found += [engine.poll(), engine.process(table.slice(0, 0))]
        assert engine.metrics()["adaptation"]["wanted_instances"] == 2
        clock.now += 1
        found.append(engine.poll())
        assert engine.metrics()["adaptation"]["wanted_instances"] == 1
        found.append(engine.flush())
    assert joined(found).equals(of_one_engine(QUERY, table, 400))


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 7, 900])
def test_sizes_of_batches(clock: Clock, size: int) -> None:
    """Also with times that are all equal, and decisions by the number of events."""
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9us", SCHEMA)
    table = stream(900)
    same = table.set_column(0, "ts", pa.array([5] * 900))
    for events in (table, same):
        follows = options(interval=None, samples=100, horizon="1ms")
        with ParallelEngine(query, instances=follows, workers="threads") as engine:
            found = []
            for batch in batches(events, size):
                clock.now += 1_000_000 * size
                found.append(engine.process(batch))
            assert engine.metrics()["adaptation"]["rate"] == pytest.approx(1_000, rel=0.02)
            found.append(engine.flush())
        assert joined(found).equals(of_one_engine(query, events, size))


@pytest.mark.thorough
def test_a_number_set_by_hand_holds_until_the_next_decision(clock: Clock) -> None:
    table = stream(3_000)
    with adapted(most=2) as engine:
        found = [engine.process(table.slice(0, 500))]
        engine.resize(5)
        counts = engine.counts()
        assert counts.ready + counts.starting == 5
        clock.now += SECOND
        found.append(engine.process(table.slice(500, 200)))
        counts = engine.counts()
        assert counts.ready + counts.starting == engine.metrics()["adaptation"]["wanted_instances"] <= 2
        found += [engine.process(table.slice(700)), engine.flush()]
    assert joined(found).equals(of_one_engine(QUERY, table, 1_000))


def test_options_that_do_not_fit_the_engine() -> None:
    with pytest.raises(fc.ValidationError, match="buffer_limit=11: expected at most queue_limit, which is 10, as"):
        ParallelEngine(QUERY, instances=options(buffer_limit=11), queue_limit=10)
    ParallelEngine(QUERY, instances=options(buffer_limit=10), queue_limit=10, workers="threads").close()
    with pytest.raises(fc.ValidationError, match="most=257: expected a whole number from 1 to 256"):
        ParallelEngine(QUERY, instances=options(most=257))
    ParallelEngine(QUERY, instances=options(most=256), workers="threads").close()
