"""Pauses and bursts in front of a real engine on the virtual clock, with a table of costs."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.shedding.shed_runs import engine, query

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.shedding import QueueLength, RandomMatches, by_name

EVENTS = 40_000

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def stream() -> pa.Table:
    return ds1(events=EVENTS, seed=5)


@pytest.fixture(scope="module")
def mean(stream: pa.Table) -> float:
    live = engine(query())
    live.process(stream)
    return float(live.metrics()["shedding"]["processing_latency"]["mean"])


def paused(stream: pa.Table, mean: float, shedder: str, pause: float, load: float, size: int = 500) -> dict[str, Any]:
    """Metrics and matches with a bound of 2,000 mean costs, and a pause of as many bounds at a third of the stream."""
    bound = 2_000 * mean
    live = engine(query(), by_name(shedder, seed=1), bound, detector=QueueLength())
    matches, done, events = 0, False, []
    live.listen(lambda _, event: events.append(event))

    def collect(found: fc.Matches) -> None:
        nonlocal matches, done
        matches += len(found)
        if not done and live.metrics()["events"] >= EVENTS // 3:
            live._stream.queries.control.clock.spend(int(pause * bound * 1000))
            done = True

    fc.replay(live, stream.to_batches(max_chunksize=size), load * 1e9 / mean, collect=collect, must_shed=False)
    latest = np.concatenate(events)[-EVENTS // 5 :]
    return live.metrics()["shedding"] | {"matches": matches, "late": float((latest > bound).mean())}


@pytest.mark.parametrize("shedder", ["ri", "rs"])
@pytest.mark.parametrize("pause", [1.2, 4.0, 10.0])
def test_a_pause_costs_what_the_backlog_has_above_the_bound(
    stream: pa.Table, mean: float, shedder: str, pause: float
) -> None:
    """At a load of 0.6; a pause of 1.2 bounds leaves 0.72 bounds of work, which needs no shedding."""
    truth = len(engine(query()).process(stream))
    told = paused(stream, mean, shedder, pause, 0.6)
    above = max(0.0, 0.6 * pause - 1) * 2_000
    assert truth - told["matches"] <= 2 * above * truth / EVENTS
    assert (told["matches"] < truth) == (above > 0)
    assert told["demand"] == 0 and told["late"] == 0
    assert told["decisions"] > 100


@pytest.mark.parametrize("load", [1.2, 2.0, 3.0])
@pytest.mark.parametrize("shedder", ["ri", "rs"])
def test_a_lasting_overload_is_shed_and_no_more(stream: pa.Table, mean: float, shedder: str, load: float) -> None:
    told = paused(stream, mean, shedder, 0.0, load)
    assert told["event_latency"]["max"] <= 2_000 * mean
    truth = len(engine(query()).process(stream))
    assert told["matches"] / truth == pytest.approx(1 / load, abs=0.1)
    assert told["estimated_recall"] == pytest.approx(told["matches"] / truth, abs=0.05)


def bursts(size: int, seed: int) -> pa.Table:
    """Events that come in bursts at the same time, of ``size`` on average and 30 microseconds an event."""
    draw = np.random.default_rng(seed)
    sizes = draw.geometric(1 / size, 20_000)
    times = np.repeat(np.cumsum(draw.exponential(30.0 * size, 20_000)).astype(np.int64), sizes)[:20_000]
    return pa.table(
        {
            "type": draw.choice(list("ABCD"), 20_000), "ts": times, "ID": draw.integers(1, 11, 20_000),
            "V": draw.integers(1, 11, 20_000),
        }
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 32, 200])
@pytest.mark.parametrize("shedder", ["ri", "rs"])
def test_bursts_do_not_make_decisions_rare(size: int, shedder: str) -> None:
    """Without a queue: as many decisions as windows have eighths, however the events are spread within them."""
    stream = bursts(size, size)
    text = "PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V WITHIN 20ms"
    live = engine(query(text))
    live.process(stream)
    bound = live.metrics()["shedding"]["processing_latency"]["mean"] / 2
    live = engine(query(text), by_name(shedder, seed=1), bound)
    live.process(stream)
    told = live.metrics()["shedding"]
    windows = (stream["ts"][-1].as_py() - stream["ts"][0].as_py()) / 20_000
    assert 4 * windows < told["decisions"] < 16 * windows
    assert told["processing_latency"]["mean"] < 1.1 * bound


def test_batches_do_not_change_decisions(stream: pa.Table, mean: float) -> None:
    """With arrival times the next decision depends on the work since the last one."""
    arrivals = np.arange(EVENTS) * round(mean / 2)
    told = []
    for size in (EVENTS, 4_096, 777, 61):
        live = engine(query(), RandomMatches(), 2_000 * mean, detector=QueueLength(q_max=10**6))
        for first in range(0, EVENTS, size):
            live.process(stream.slice(first, size), arrivals=arrivals[first : first + size])
        told.append(live.metrics()["shedding"]["decisions"])
    assert len(set(told)) == 1 and told[0] > 100


def test_decisions_that_take_long_are_told_once(
    stream: pa.Table, mean: float, caplog: pytest.LogCaptureFixture
) -> None:
    costs = fc.CostTable("slow", visited=1, created=1, decision=300 * mean)
    live = fc.Engine(
        query(), clock="virtual", cost_table=costs, latency_bound=2_000 * mean, shedder=RandomMatches(), index="key",
        detector=QueueLength(),
    )  # fmt: skip
    with caplog.at_level(logging.WARNING, "fastcep.shedding"):
        fc.replay(live, stream.to_batches(max_chunksize=500), 1.5e9 / mean)
    slow = [line for line in caplog.messages if line.startswith("decisions of the shedder 'rs' take up to ")]
    assert len(slow) == 1 and "more than a tenth of the latency bound" in slow[0]
    told = live.metrics()["shedding"]["decision_time"]
    assert told["mean"] > 299 * mean and told["max"] >= told["mean"]
