"""Limit of the backlog: the bound holds although a shedder saves too little, and matches stay true."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from strategies import queries as strategies
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness
from support.shedding.chaos import Chaos
from support.shedding.drop_plans import Quiet
from support.shedding.shed_runs import engine, mean, query
from support.state_transfer import quiet

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.overload.backlog_limit import BacklogLimit
from fastcep.overload.drop_plan import with_fewer_events
from fastcep.plan import INDEXES
from fastcep.query.patterns import is_monotonic
from fastcep.shedding import Detector, DetectorReading, DropPlan, Load, QueryView, QueueLength, by_name

EVENTS = ds1(events=20_000, seed=5)
QUEUED = [DetectorReading(1.0, 1.5)]
LOAD = Load(bound=1e6, recent=100.0, busy=150.0, queue=5_000, events=2_000)


class Idle(Quiet):
    """Shedder that saves nothing, whatever is demanded."""

    name = "idle"

    def __init__(self, limits_backlog: bool = True) -> None:
        super().__init__()
        self.limits_backlog = limits_backlog

    def detector(self, of: str) -> Detector:
        return QueueLength()


# ---------------------------------------------------------------------------------------------- the limit by itself


def updated(*loads: Load, demands: Sequence[float] = (), readings: Any = QUEUED) -> BacklogLimit:
    """Return a limit after decisions with these loads and demands, by default a constant one."""
    limit, before = BacklogLimit(), 0.9
    limit.use([], limits=True)
    for number, load in enumerate(loads):
        demand = demands[number] if demands else 0.9
        limit.update(load, readings, before, demand)
        before = demand
    return limit


def test_as_many_are_kept_as_the_bound_allows() -> None:
    """10,000 events of 150 ns take 1.5 ms: with 50 ns for other work, 0.35 of them can be matched in 0.85 ms."""
    assert updated(LOAD, LOAD).keep == 1  # they take 0.75 ms
    limit = updated(LOAD, replace(LOAD, queue=10_000))
    assert limit.keep == pytest.approx(0.35) and limit.engaged == 1
    assert updated(LOAD, replace(LOAD, queue=100_000)).keep == 0.001


def test_a_single_interruption_does_not_count() -> None:
    slow = replace(LOAD, recent=1_000.0, busy=2_000.0)
    assert updated(LOAD, slow).keep == 1
    assert updated(slow, slow).keep < 1
    assert updated(slow).keep == 1  # the only measurement


def test_what_a_higher_demand_saves_is_considered_until_events_are_dropped() -> None:
    """The work of 10,000 events falls from 1 to 0.35 ms if it saves what a higher demand asks for."""
    longer = replace(LOAD, queue=10_000)
    assert updated(LOAD, longer, demands=(0.8, 0.93)).keep == 1
    assert updated(LOAD, longer, longer, longer, demands=(0.8, 0.93, 0.93, 0.93)).keep == pytest.approx(0.35)


def test_nothing_is_measured_while_events_are_dropped() -> None:
    """With fewer partial matches, the events that are kept take less, too."""
    longer, few = replace(LOAD, queue=10_000), replace(LOAD, recent=20.0, busy=70.0, queue=10_000)
    assert updated(LOAD, longer, few, few).keep == pytest.approx(0.35)
    few = replace(few, queue=5_000)
    assert updated(LOAD, longer, few, few, longer).keep == pytest.approx(0.35)  # the first one after it does not count


def test_work_that_rises_while_events_are_dropped() -> None:
    """An event takes at least what those that are kept take."""
    longer = replace(LOAD, queue=10_000)
    dearer = replace(longer, recent=70.0, busy=120.0)  # 0.35 of the events take 200 ns each
    assert updated(LOAD, longer, dearer).keep == pytest.approx(0.175)


@pytest.mark.parametrize(
    ("readings", "changes", "demand"),
    [([DetectorReading(1.0)], {}, 0.9), (QUEUED, {"bound": 0.0}, 0.9), (QUEUED, {}, 0.0), (QUEUED, {"queue": 0}, 0.9)],
)  # fmt: skip
def test_without_a_queue_a_bound_or_a_demand_nothing_is_dropped(readings: Any, changes: Any, demand: float) -> None:
    load = replace(LOAD, queue=10_000)
    load = replace(load, **changes)
    assert updated(load, load, demands=(demand, demand), readings=readings).keep == 1


def test_short_intervals_are_measured_together() -> None:
    """A decision takes as long for few events as for many."""
    longer = replace(LOAD, queue=10_000)
    short = replace(longer, events=10, busy=2_000.0)
    assert updated(short, short, short, short).keep == 1
    many = replace(longer, events=100, busy=150.0)
    assert updated(*[many] * 10).keep == pytest.approx(0.35)


def test_its_state() -> None:
    limit, again = updated(LOAD, replace(LOAD, queue=10_000)), updated()
    again.restore(json.loads(json.dumps(limit.state())))
    assert again.state() == limit.state() and again.keep == limit.keep
    for own in limit, again:
        own.update(replace(LOAD, queue=20_000), QUEUED, 0.9, 0.95)
    assert again.state() == limit.state()


def test_fewer_events_of_types_that_can_be_bound() -> None:
    plan = engine(query())._stream.queries.control.queries[0].plan  # type D is bound to no variable
    fewer = with_fewer_events(DropPlan(kept=0.5), 0.5, plan)
    assert fewer.events is not None and fewer.events.tolist() == [0.5, 0.5, 0.5, 0.0] and fewer.kept == 0.5**4
    fewer = with_fewer_events(DropPlan(events=np.array([0.5, 0, 0, 0.2])), 0.5, plan)
    assert fewer.events is not None and fewer.events == pytest.approx([0.75, 0.5, 0.5, 0.2]) and fewer.kept is None


# ---------------------------------------------------------------------------------------------------- in an engine


def mean_latency(own: fc.Query) -> float:
    """Return the mean processing latency without shedding, in ns."""
    plain = engine(own)
    plain.process(EVENTS)
    return mean(plain)


def replayed(shedder: Any, text: str | None = None) -> tuple[float, dict[str, Any]]:
    """Replay at 1.5 times the maximum rate; return the longest latency in bounds, and the metrics.

    The first and last events do not count: the service time is unknown at first, and at the end no more events arrive.
    """
    mine = query() if text is None else query(text)
    latency, latencies = mean_latency(mine), []
    bound = 1_000 * latency
    live = engine(mine, shedder, bound, detector=QueueLength())
    live.listen(lambda _, waited: latencies.append(waited))
    fc.replay(live, EVENTS.to_batches(max_chunksize=250), 1.5e9 / latency, must_shed=False)
    counted = np.concatenate(latencies)[len(EVENTS) // 4 : -len(EVENTS) // 10]
    return float(counted.max() / bound), live.metrics()["shedding"]


def test_the_bound_holds_though_the_shedder_saves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    longest, metrics = replayed(Idle())
    print(longest, metrics["backlog_limited"], metrics["dropped_events"])
    assert longest < 1.05 and metrics["backlog_limited"] > 8 and metrics["dropped_events"] > 1_000
    warnings = [text for text in caplog.messages if "saves less than is demanded" in text]
    assert len(warnings) == 1 and "'idle'" in warnings[0]
    without, metrics = replayed(Idle(limits_backlog=False))
    assert without > 5 and metrics["backlog_limited"] == metrics["dropped_events"] == 0


def test_a_snapshot_while_the_backlog_is_limited() -> None:
    """A restored engine drops the same events."""
    latency = mean_latency(query())
    arrivals, half = (np.arange(len(EVENTS)) * latency / 1.5).astype(np.int64), len(EVENTS) // 2

    def run(cut: int | None) -> fc.Engine:
        live = engine(query(), Idle(), 1_000 * latency, detector=QueueLength())
        for first in range(0, len(EVENTS), half // 4):
            if first == cut:
                live = fc.Engine.restore(live.snapshot(), shedder=Idle(), detector=QueueLength())
            live.process(EVENTS.slice(first, half // 4), arrivals=arrivals[first : first + half // 4])
        return live

    whole, again = (run(cut).metrics()["shedding"] for cut in (None, half))
    assert whole["backlog_limited"] > 8
    for name in ("decisions", "backlog_limited", "dropped_events", "event_latency", "estimated_recall"):
        assert whole[name] == again[name], name


class RecordingQueue(QueueLength):
    """Records the share of the work that was to be saved, at each decision."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[float] = []

    def read(self, load: Load) -> DetectorReading:
        self.saved.append(load.saved)
        return super().read(load)


def test_detectors_know_what_the_limit_saves() -> None:
    """They could otherwise take what is left for the cost of events without shedding."""

    class Recorder(Idle):
        def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
            demands.append(demand)
            keeps.append(views[0].keep)
            return super().decide(demand, before, views)

    demands: list[float] = []
    keeps: list[float] = []
    latency = mean_latency(query())
    detector = RecordingQueue()
    live = engine(query(), Recorder(), 1_000 * latency, detector=detector)
    live.process(EVENTS, arrivals=(np.arange(len(EVENTS)) * latency / 1.5).astype(np.int64))
    expected = {1 - (1 - demand) * keep for demand, keep in zip(demands, keeps, strict=True)}
    assert min(keeps) < 0.9 and {saved for saved in detector.saved if saved > 0} <= expected


def test_a_shedder_that_saves_enough_is_left_alone() -> None:
    longest, metrics = replayed(by_name("ri", seed=1))
    assert longest < 1.05 and metrics["backlog_limited"] == 0


def test_with_negation_no_event_is_dropped() -> None:
    text = "PATTERN SEQ(A a, NEG B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID WITHIN 2ms"
    longest, metrics = replayed(Idle(), text)
    assert longest > 1 and metrics["backlog_limited"] == metrics["dropped_events"] == 0


# ------------------------------------------------------------------------------------------------------ any query


class LongQueue(Detector):
    """Detector of a queue that is always too long."""

    name = "long queue"

    def read(self, load: Load) -> DetectorReading:
        load.queue = 1_000 + load.events % 3  # of which the limit keeps some
        return DetectorReading(0.5, 1.5)

    def spec(self) -> dict[str, Any]:
        return {"name": self.name}


def limited(case: Case, bound: int, chaos: bool, index: str, cut: int = -1) -> tuple[list[Any], dict[str, Any]]:
    """Return the matches of a case whose backlog is limited, and the metrics; restored before batch ``cut``."""

    def shedder() -> Any:
        return Chaos(3, classes=True) if chaos else Idle()

    live = quiet(
        fc.Engine, case.query, latency_bound=bound * 1_000, shedder=shedder(), detector=LongQueue(), clock="virtual",
        cost_table="paper", index=index,
    )  # fmt: skip
    rows = []
    for number, data in enumerate(harness.batches(case.query.schema, case.events, case.batch_sizes)):
        if number == cut:
            live = fc.Engine.restore(live.snapshot(), shedder=shedder(), detector=LongQueue())
        rows += harness.table_rows(case.query, live.process(data).to_arrow())
    rows += harness.table_rows(case.query, live.flush().to_arrow())
    return rows, live.metrics()["shedding"]


queries = st.one_of(strategies.cases(), query_cases("stores"))


@pytest.mark.usefixtures("decide_often")
@given(queries, st.integers(1, 30), st.sampled_from(INDEXES), st.booleans())
def test_matches_are_true(case: Case, bound: int, index: str, chaos: bool) -> None:
    """All matches of monotonic queries are true and in order; other queries lose nothing to the limit."""
    assume(is_planned(case.query) and (is_monotonic(case.query) or not chaos))
    rows, metrics = limited(case, bound, chaos, index)
    truth = harness.rows(case.query, None, case.events)
    event(f"limited: {metrics['backlog_limited'] > 0}, fewer: {len(rows) < len(truth)}")
    if not is_monotonic(case.query):
        assert [repr(row) for row in rows] == [repr(row) for row in truth]
    else:
        rest = iter([repr(row) for row in truth])
        assert all(repr(row) in rest for row in rows), f"{case!r}\n{rows}\n{truth}"


@pytest.mark.usefixtures("decide_often")
@given(queries, st.integers(1, 30), st.integers(0, 9), st.booleans())
def test_snapshots(case: Case, bound: int, cut: int, chaos: bool) -> None:
    """The same events are dropped if the engine is restored in between."""
    assume(is_monotonic(case.query) and is_planned(case.query))
    rows, metrics = limited(case, bound, chaos, "key")
    again, metrics_again = limited(case, bound, chaos, "key", cut)
    assert repr(again) == repr(rows)
    for name in ("decisions", "backlog_limited", "dropped_events", "estimated_recall"):
        assert metrics[name] == metrics_again[name], name
