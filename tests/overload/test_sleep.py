"""When the overload control sleeps and wakes, and how rare decisions are meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

import fastcep as fc
from fastcep.overload import sleep as module
from fastcep.overload.decision_schedule import MOST_EVENTS, RestSchedule
from fastcep.overload.latency import LatencyMonitor
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.load_meter import LoadMeter
from fastcep.overload.sleep import Sleep
from fastcep.shedding import SmoothedLatency

MS = 1e6
CALM = [DetectorReading(-0.9), DetectorReading(-1.0, utilisation=0.1)]


@pytest.fixture
def sleep() -> Sleep:
    """A control with a bound of 50 ms that sleeps."""
    sleep = Sleep(50 * MS)
    sleep.asleep, sleep.is_allowed = True, lambda: True

    def switch(asleep: bool) -> None:
        sleep.asleep = asleep

    sleep.switch = switch
    return sleep


@pytest.mark.parametrize(
    ("readings", "wakes"),
    [
        (CALM, False),
        ([DetectorReading(-0.51)], False),
        ([DetectorReading(-1.0), DetectorReading(-0.49)], True),
        ([DetectorReading(-1.0, utilisation=5.0)], False),
        ([DetectorReading(-1.0, amount=0.0)], False),
        ([DetectorReading(-1.0, amount=0.1)], True),
    ],
)
def test_it_wakes_before_the_set_point(sleep: Sleep, readings: list[DetectorReading], wakes: bool) -> None:
    assert sleep.follow(False, readings, load(), False) is wakes
    assert sleep.asleep is not wakes


@pytest.mark.parametrize(("rate", "wakes"), [(79_000, False), (81_000, True)])
def test_it_wakes_when_matching_takes_most_of_the_time(sleep: Sleep, rate: int, wakes: bool) -> None:
    """An event takes 10 us."""
    assert sleep.follow(False, CALM, load(rate=rate), False) is wakes


def load(live: int = 0, rate: float = 0.0) -> Load:
    return Load(50 * MS, partial_matches=live, arrivals=rate / 1e9, service=10_000.0, other=50_000.0)


def test_it_wakes_for_what_has_to_be_shed(sleep: Sleep) -> None:
    assert sleep.follow(True, CALM, load(), False) and not sleep.asleep


def test_it_wakes_before_there_is_too_much_to_move(sleep: Sleep) -> None:
    """A tenth of 50 ms is enough for 50,000 partial matches."""
    assert not sleep.follow(False, CALM, load(50_000), False)
    assert sleep.follow(False, CALM, load(50_001), False) and not sleep.asleep


def test_it_wakes_where_it_is_not_allowed_to_sleep(sleep: Sleep) -> None:
    sleep.is_allowed = lambda: False
    assert sleep.follow(False, CALM, load(), False) and not sleep.asleep
    for _ in range(2 * module._CALM):
        assert not sleep.follow(False, CALM, load(), False)


@pytest.mark.parametrize(
    "busy",
    [
        {"sheds": True},
        {"weighs": True},
        {"load": load(25_001)},
        {"readings": [DetectorReading(-0.7)]},
        {"load": load(rate=70_000)},
    ],
)
def test_it_falls_asleep_after_many_calm_decisions(sleep: Sleep, busy: dict[str, Any]) -> None:
    sleep.asleep = False
    calm: dict[str, Any] = {"sheds": False, "readings": CALM, "load": load(25_000), "weighs": False}
    for decision in [calm] * (module._CALM - 1) + [calm | busy] + [calm] * (module._CALM - 1):
        assert not sleep.follow(**decision)
    state = sleep.state()
    sleep.restore({"asleep": False, "calm": 0})
    assert not sleep.follow(**calm)
    sleep.restore(state)
    assert sleep.follow(**calm) and sleep.asleep
    assert sleep.state() == {"asleep": True, "calm": 0}


# ---------------------------------------------------------------------- schedule


def decisions(work: float, events: int, waited: float = 0.0, bound: float = 50 * MS) -> tuple[list[int], list[int]]:
    """After how many events decisions are made that cost 0.1 ms each, and the numbers of events between checks."""
    schedule, meter = RestSchedule(True, False, bound, None), LoadMeter(bound, LatencyMonitor())
    made, steps, total = [], [], 0
    while total < events:
        number = schedule.check - meter.events
        meter.waited = waited
        meter.add(number, number * work, (0, 0), (0, 0))
        total += number
        steps.append(number)
        if schedule.is_due(meter, 100.0, 100.0):
            made.append(meter.events)
            schedule.record_cost(0.1 * MS)
            schedule.schedule_next(meter.events, None)
            meter.reset([])
    return made, steps


def test_decisions_take_half_a_percent_of_the_time() -> None:
    made, steps = decisions(1_000.0, 10**6)
    assert made[-1] * 1_000.0 == pytest.approx(0.1 * MS / 0.005, rel=0.1)
    assert max(steps) * 1_000.0 <= 50 * MS / 8


def test_the_first_decisions_are_not_rare() -> None:
    made, _ = decisions(1_000.0, 20_000)
    assert max(made[1:8]) * 1_000.0 < 1 * MS


def test_between_two_checks_there_is_an_eighth_of_the_bound() -> None:
    _, steps = decisions(1_000.0, 10**6, bound=5 * MS)
    assert max(steps) * 1_000.0 <= 5 * MS / 8
    assert len(decisions(1_000.0, 10**6, bound=5e6 * MS)[1]) < 1_000 < MOST_EVENTS


def test_an_event_that_waits_is_decided_about_at_once() -> None:
    """A quarter of 50 ms."""
    assert max(decisions(1_000.0, 10**5, waited=12 * MS)[0]) > 10_000
    assert max(decisions(1_000.0, 10**5, waited=13 * MS)[0][10:]) < 2_000


def test_an_event_that_takes_long_is_decided_about_at_once() -> None:
    assert set(decisions(13 * MS, 1_000)[0][5:]) == {1}


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "asleep"),
    [
        ({"shedder": "auto"}, True),
        ({"shedder": "rs", "clock": lambda: 0}, True),
        ({"shedder": "rs", "detector": fc.shedding.PredictedLatency()}, True),
        ({"shedder": "rs", "detector": SmoothedLatency("p99")}, True),
        ({"shedder": "auto", "detector": SmoothedLatency("p99")}, False),
        ({"shedder": None}, False),
        ({"shedder": "rs", "clock": "virtual"}, False),
        ({"shedder": "rs", "memory_limit": "64MiB"}, False),
        ({"shedder": "rs", "memory_limit": "64MiB", "on_memory_limit": "shed"}, False),
    ],
)
def test_what_allows_sleep(options: dict[str, Any], asleep: bool) -> None:
    """On the virtual clock the shedder is always ready; a limit for single events or of memory holds from the start."""
    schema = fc.Schema({name: {"ID": "int64"} for name in "AB"}, time="ts", type="type", time_unit="us")
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] WITHIN 2ms", schema), latency_bound="1h", **options)
    assert engine.metrics()["shedding"]["asleep"] is asleep


def test_other_detectors_are_read_by_a_control_that_is_awake() -> None:
    class Constant(SmoothedLatency):
        name = "constant"

    schema = fc.Schema({name: {"ID": "int64"} for name in "AB"}, time="ts", type="type", time_unit="us")
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] WITHIN 2ms", schema)
    engine = fc.Engine(query, latency_bound="1h", shedder="rs", detector=Constant())
    assert not engine.metrics()["shedding"]["asleep"]
