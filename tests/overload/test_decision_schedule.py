"""How often decisions are made, and how much of the time they, and learning, may take."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fastcep.overload import decision_schedule as module
from fastcep.overload.decision_schedule import MOST_EVENTS, DecisionSchedule
from fastcep.overload.latency import LatencyMonitor
from fastcep.overload.load_meter import LoadMeter


class Stream:
    """Events with a given work each (ns), in windows of a number of events, up to decisions."""

    def __init__(self, schedule: DecisionSchedule, window: float = 800, queued: bool = False) -> None:
        self.schedule, self.window, self.queued = schedule, window, queued
        self.checks: list[int] = []

    def until_decision(self, work: float, window: float | None = None) -> int:
        """After how many events a decision is due."""
        meter = LoadMeter(0.0, LatencyMonitor())
        window = window or self.window
        self.checks = []
        while True:
            number = self.schedule.check - meter.events
            meter.add(number, number * work, (0, 0), (0, 0) if self.queued else None)
            self.checks.append(meter.events)
            if self.schedule.is_due(meter, meter.events / window, self.window):
                self.schedule.schedule_next(meter.events, None)
                return meter.events

    def later(self, work: float) -> int:
        """The same, after the first decisions."""
        return [self.until_decision(work) for _ in range(12)][-1]


def almost(events: int) -> Any:
    """The next check is a little further than where the decision becomes due."""
    return pytest.approx(events, rel=0.04)


@pytest.mark.parametrize(("window", "step"), [(1, 32), (255, 32), (800, 100), (8_000, 1_000), (1e9, MOST_EVENTS)])
def test_eight_times_a_window(window: float, step: int) -> None:
    assert Stream(DecisionSchedule(True, False, 0.0, 0.0), window).later(1.0) == step


@pytest.mark.parametrize("window", [100.0, 1e5, 1e9])
def test_decisions_about_fast_events_are_rare(window: float) -> None:
    """On the wall clock: half a percent of the time, however many events that are."""
    schedule = DecisionSchedule(True, False, 0.0, None)
    stream = Stream(schedule, window)
    stream.later(100.0)
    schedule.record_cost(150_000.0)
    assert stream.later(100.0) == almost(150_000)
    assert np.diff(stream.checks).max() <= MOST_EVENTS
    assert stream.later(0.1) == 1 << 20  # but not rarer
    virtual = Stream(DecisionSchedule(True, False, 0.0, 300_000.0), window)
    assert virtual.later(100.0) == MOST_EVENTS


def test_decisions_about_memory_are_not_rare() -> None:
    schedule = DecisionSchedule(True, False, 0.0, None)
    Stream(schedule).later(100.0)
    schedule.record_cost(150_000.0)
    for _ in range(60):  # memory does not grow
        schedule.schedule_next(1_000, lambda: (1_000_000, 3_000_000))
    assert Stream(schedule).until_decision(100.0) == MOST_EVENTS


def test_the_first_ones_are_not_rare() -> None:
    stream = Stream(DecisionSchedule(True, False, 0.0, 30_000.0))
    assert [stream.until_decision(1_000.0) for _ in range(8)] == [120] * 8
    assert stream.until_decision(1_000.0) == almost(1_500)


def test_where_nothing_is_decided_it_never_is() -> None:
    schedule = DecisionSchedule(False, False, 0.0, 30_000.0)
    assert schedule.check == MOST_EVENTS
    assert Stream(schedule).until_decision(1_000.0) == MOST_EVENTS == schedule.check


@pytest.mark.parametrize(
    ("often", "bound", "queued", "events"),
    [
        (False, 0.0, False, 1_500),  # 2 % of the time: 1.5 ms of 1 us each
        (True, 0.0, False, 120),
        (False, 4e6, True, 1_000),  # a quarter of the bound
        (False, 1e5, True, 120),  # but not more than a fourth of the time
        (False, 1e9, True, 1_500),
    ],
)  # fmt: skip
def test_they_cost_little_unless_the_bound_wants_more(often: bool, bound: float, queued: bool, events: int) -> None:
    assert Stream(DecisionSchedule(True, often, bound, 30_000.0), queued=queued).later(1_000.0) == almost(events)


def test_with_a_queue_a_quarter_of_the_bound_does_not_wait_for_the_window() -> None:
    assert Stream(DecisionSchedule(True, False, 4e6, 0.0), 1e6, queued=True).later(1_000.0) == almost(1_000)


def test_with_a_queue_a_quarter_of_the_bound_does_not_arrive_in_between() -> None:
    """Also if everything is dropped, so that there is no work."""
    schedule = DecisionSchedule(True, False, 4e6, 0.0)
    meter = LoadMeter(4e6, LatencyMonitor())
    while True:
        meter.add(number := schedule.check - meter.events, 0.0, (0, 0), (meter.events * 1_000, schedule.check * 1_000))
        assert number > 0
        if schedule.is_due(meter, 0.0, 1e6):
            break
    assert meter.events == almost(1_000)


@pytest.mark.parametrize(
    ("sheds", "at_once", "waited"), [(True, True, 4e6), (True, True, 4.1e6), (True, False, 0.0), (False, True, 0.0)]
)
def test_a_demand_that_takes_effect_at_once_does_not_empty_the_queue_in_between(
    sheds: bool, at_once: bool, waited: float
) -> None:
    """Events of a backlog that are dropped take no time. There is none for decisions if they are all too late."""
    schedule = DecisionSchedule(True, False, 4e6, 30_000.0)
    schedule.schedule_next(32, None, sheds=sheds)
    meter = LoadMeter(4e6, LatencyMonitor())
    meter.at_once, meter.waited = at_once, waited
    while meter.events < 20_000:
        meter.add(schedule.check - meter.events, 0.0, (0, 0), (meter.events * 1_000, schedule.check * 1_000))
        if schedule.is_due(meter, 0.0, 1e6):
            break
    in_time = waited <= 4e6
    assert (meter.events == almost(1_000)) if sheds and at_once and in_time else meter.events >= 20_000


def test_work_makes_decisions_due_before_the_window_does() -> None:
    """Without a queue: eight decisions in the work that a window has if its events take as long as the bound."""
    stream = Stream(DecisionSchedule(True, False, 1_000.0, 0.0), 80_000)
    assert stream.later(500.0) == almost(10_000)
    assert stream.later(10_000.0) == almost(1_000)


@pytest.mark.parametrize("more", [1, 3, 10, 100, 1_000])
def test_a_change_is_noticed_in_time(more: int) -> None:
    """However many events the last interval had, at most an eighth of them are matched before the next check."""
    stream = Stream(DecisionSchedule(True, False, 1_000.0, 0.0), 80_000)
    assert stream.later(1_000.0) == almost(10_000)
    due = 10_000 / more
    assert stream.until_decision(1_000.0 * more) <= max(1.2 * due, 1_250)
    assert stream.until_decision(1_000.0 * more) <= max(1.2 * due, 156)
    assert stream.later(1_000.0 * more) <= max(1.2 * due, 32)
    assert len(stream.checks) <= 6


def test_with_a_queue_another_burst_is_noticed_in_time() -> None:
    """Until the next check, events as expensive as in the last burst take half of the time left, or few come."""
    calm, burst, budget = 1_000.0, 50_000.0, 1e6  # ns; a decision is due after a quarter of the bound
    stream = Stream(DecisionSchedule(True, False, 4 * budget, 0.0), 1e6, queued=True)
    assert stream.later(calm) == almost(1_000)
    before = len(stream.checks)
    assert stream.until_decision(burst) * burst > 2 * budget  # unknown until then
    assert stream.until_decision(calm) == almost(1_000)
    for place, later in pairwise([0, *stream.checks]):
        assert later - place <= max(0.55 * (budget - place * calm) / burst, place / 8, 4)
    for _ in range(30):
        assert stream.until_decision(calm) == almost(1_000)
    assert len(stream.checks) <= before + 3  # it is forgotten


def test_without_a_queue_a_burst_changes_nothing() -> None:
    one, other = (Stream(DecisionSchedule(True, False, 4e6, 0.0), 8_000) for _ in range(2))
    one.later(1_000.0)
    other.later(50_000.0)
    assert one.until_decision(1_000.0) == other.until_decision(1_000.0) and one.checks == other.checks


def test_without_a_bound_a_burst_changes_nothing() -> None:
    one, other = (Stream(DecisionSchedule(True, False, 0.0, 0.0), 8_000, queued=True) for _ in range(2))
    one.later(1_000.0)
    other.later(50_000.0)
    assert one.until_decision(1_000.0) == other.until_decision(1_000.0) and one.checks == other.checks
    assert one.checks[0] == 125


def test_a_window_that_seems_long_is_checked_as_well() -> None:
    """In a burst no time passes, and no work is done: the next check is at most twice as far."""
    stream = Stream(DecisionSchedule(True, False, 1_000.0, 0.0), 80_000)
    assert stream.until_decision(0.0, 1e12) == MOST_EVENTS
    assert stream.checks == [32 << number for number in range(11)]


def test_what_they_cost_is_measured_on_the_wall_clock() -> None:
    schedule = DecisionSchedule(True, False, 0.0, None)
    stream = Stream(schedule)
    assert stream.later(1_000.0) == 100
    schedule.record_cost(80_000.0, learned=20_000.0)
    assert stream.until_decision(1_000.0) == almost(6_000)
    for _ in range(99):
        schedule.record_cost(10_000.0)
    assert stream.until_decision(1_000.0) == almost(2_000)
    assert (schedule.overhead, schedule.last_cost) == (1_070_000.0, 10_000.0)
    schedule.record_cost(500.0, decided=False)
    assert schedule.decision_time() == {"mean": 10_700.0, "max": 80_000.0}


def test_a_long_decision_does_not_delay_the_next_one() -> None:
    """Neither the first one, which computes an order, nor one that was interrupted for half a second."""
    schedule = DecisionSchedule(True, False, 0.0, None)
    stream = Stream(schedule)
    schedule.record_cost(5e8)
    assert stream.until_decision(1_000.0) == 100
    stream.later(1_000.0)
    schedule.record_cost(80_000.0)
    assert (before := stream.until_decision(1_000.0)) == almost(8_000)
    schedule.record_cost(5e8)
    assert stream.until_decision(1_000.0) <= 1.2 * before


def test_busy_is_all_but_waiting() -> None:
    meter = LoadMeter(0.0, LatencyMonitor())
    meter.add(10, 500.0, (0, 0), (1_000, 1_000))
    assert meter.busy(0.0) == 50 and meter.busy(100.0) == 60
    meter.record_busy(2_000, 1_000, 500)  # it arrived when nothing was done
    assert meter.busy(0.0) == 100
    meter.add(10, 500.0, (0, 0), (1_500, 1_500))
    meter.record_busy(3_000, 1_500, 2_500)  # it had arrived before the last stretch was done
    assert meter.busy(0.0) == 100
    meter.add(20, 500.0, (0, 0), (5_000, 5_000))
    meter.record_busy(7_000, 5_000, 5_000)
    assert meter.busy(0.0) == 100


def test_the_first_stretch_counts_from_where_it_began() -> None:
    meter = LoadMeter(0.0, LatencyMonitor())
    meter.add(10, 500.0, (0, 0), (1_000, 1_000))
    meter.record_busy(10_000, 1_000, 9_000)  # nobody was there to take it
    assert meter.busy(0.0) == 100


def test_the_load_has_medians_of_rate_and_service_time() -> None:
    meter = LoadMeter(0.0, LatencyMonitor())
    for number in range(9):
        busy = 90_000 if number == 3 else 1_000  # a pause
        meter.add(10, 500.0, (0, 0), (2_000 * number, 2_000 * number + 1_800))
        meter.record_busy(100_000 * number + busy, 0, 100_000 * number)
        meter._ended = 100_000 * (number + 1)
        load = meter.measure([], 0.0, 0.5)
        meter.reset([])
    assert load.arrivals == pytest.approx(10 / 2_000)
    assert (load.busy, load.service, load.latest, load.other) == (100, 100, 100, 50)


def test_a_single_interruption_is_not_taken_for_a_burst() -> None:
    meter, latest = LoadMeter(0.0, LatencyMonitor()), []
    for spent in (1_000.0, 9_000.0, 1_000.0, 8_000.0, 7_000.0, 2_000.0):
        meter.add(10, spent, (0, 0), (0, 0))
        latest.append(meter.measure([], 0.0, 0.5).latest)
        meter.reset([])
    assert latest == [0, 200, 200, 200, 1_400, 400]


def test_what_no_shedder_saves_is_not_taken_for_a_burst() -> None:
    """If nearly all is saved, what is left of the work is no measure of the service time."""
    meter, latest = LoadMeter(0.0, LatencyMonitor()), []
    for number in range(12):
        meter.add(10, 1_000.0, (0, 0), (100 * number, 100 * number + 90))
        latest.append(meter.measure([], 0.0, 0.999 if number >= 9 else 0.0).latest)
        meter.reset([])
    assert latest == [0, *[100] * 11]  # it would be 100,000


def after_decisions(cost: float, *, number: int = 60, often: bool = False, wall: bool = True) -> DecisionSchedule:
    """Return a schedule with a bound of 50 ms after decisions that cost so many ns each."""
    schedule = DecisionSchedule(True, often, 50e6, None if wall else cost)
    for _ in range(number):
        schedule.record_cost(cost)
        schedule.schedule_next(1_000, None)
    return schedule


@pytest.mark.parametrize(("cost", "arrivals"), [(300_000.0, 12_500_000), (600_000.0, 24_000_000)])
def test_a_decision_is_due_while_nearly_everything_is_dropped(cost: float, arrivals: int) -> None:
    """Events of the interval have arrived; receiving them took time, though matching did not."""
    schedule, meter = after_decisions(cost, number=12), LoadMeter(50e6, LatencyMonitor())
    meter.add(20_000, 300_000.0, (0, 0), (0, arrivals))
    meter.record_busy(13_000_000, 0, 1_000_000)
    assert meter.busy_time == 12_000_000 and schedule.is_due(meter, 0.0, 1e9)


@pytest.mark.parametrize(("cost", "interval"), [(0.1e6, 12.5e6), (0.3e6, 12.5e6), (0.45e6, 18e6), (0.9e6, 30e6)])
@pytest.mark.parametrize("wall", [True, False])
@pytest.mark.parametrize("works", [True, False])
def test_expensive_decisions_are_rarer_on_the_wall_clock(cost: float, interval: float, wall: bool, works: bool) -> None:
    """They take 2.5 % of the time, or there are five in three bounds. The virtual clock has no such limit."""
    schedule = after_decisions(cost, wall=wall)
    for share in (0.99, 1.0):
        passed = int(share * (interval if wall else 12.5e6)) + 1
        meter = LoadMeter(50e6, LatencyMonitor())
        meter.add(20_000, float(passed) if works else 1.0, (0, 0), (0, 1 if works else passed))
        meter.record_busy(passed, 0, 0)
        assert schedule.is_due(meter, 0.0, 1e9) == (share == 1)


@pytest.mark.parametrize("often", [True, False])
def test_decisions_that_have_to_be_frequent_are_so_whatever_they_cost(often: bool) -> None:
    """The first few, and those of shedders that need it. A third of the interval may pass until the first check."""
    for number, due in ((1, True), (60, often)):
        schedule, meter = after_decisions(0.9e6, number=number, often=often), LoadMeter(50e6, LatencyMonitor())
        meter.add(10_000, 12.6e6, (0, 0), (0, 1))
        meter.record_busy(12_600_000, 0, 0)
        assert schedule.is_due(meter, 0.0, 1e9) == due
    schedule.schedule_next(100_000, None)
    assert schedule.check == int(0.33 * (12.5e6 if often else 30e6) / 1_260)


@pytest.mark.parametrize(("waited", "sheds"), [(0.0, True), (0.0, False), (5e6, True)])
def test_an_engine_that_is_idle_because_it_sheds_has_time_for_decisions(waited: float, sheds: bool) -> None:
    """Matching takes no time. Events of the bound have arrived since: one by one, or while they waited."""
    schedule = DecisionSchedule(True, False, 4e6, 100_000.0)
    schedule.schedule_next(100, None, sheds=sheds)
    meter = LoadMeter(4e6, LatencyMonitor())
    meter.add(1, 0.0, (0, 0), (0, 0))
    meter.waited = waited
    meter.reset([])
    meter.add(4_000, 0.0, (0, 0), (1_000, 4_000_000))
    meter.waited = max(0.0, waited - 4e6)
    assert schedule.is_due(meter, 0.0, 1e9) == (sheds and not waited)
    assert (meter.elapsed >= 4 * 100_000) == (not waited)


@pytest.mark.parametrize("before", [0.0, 3e6])
@pytest.mark.parametrize(
    ("growth", "worked", "due"), [(0.39e6, 0.21e6, False), (0.4e6, 0.19e6, False), (0.4e6, 0.2e6, True)]
)
def test_a_decision_is_due_if_events_wait_for_longer(before: float, growth: float, worked: float, due: bool) -> None:
    """By a tenth of the bound, and the engine has worked for at least four times as long as a decision takes."""
    schedule, meter = DecisionSchedule(True, False, 4e6, 0.05e6), LoadMeter(4e6, LatencyMonitor())
    schedule.schedule_next(100, None)
    meter.add(10, 100.0, (0, 0), (0, 1_000))
    meter.waited = before
    meter.reset([])
    meter.add(10, worked, (0, 0), (2_000, 3_000))
    meter.waited = before + growth
    assert meter.wait_growth == pytest.approx(growth) and schedule.is_due(meter, 0.0, 1e9) == due


def test_time_has_elapsed_while_the_engine_waited() -> None:
    meter = LoadMeter(4e6, LatencyMonitor())
    meter.add(10, 500.0, (0, 0), (1_000, 1_000))
    meter.waited = 3_000.0
    assert meter.elapsed == 500  # nothing is known of before
    meter.reset([])
    meter.add(10, 500.0, (0, 0), (5_000, 9_000))
    meter.waited = 400.0
    assert meter.elapsed == 9_400 - 4_000
    meter.add(10, 50_000.0, (0, 0), (9_000, 9_000))
    assert meter.elapsed == 50_500  # it was busy all the time


def test_learning_takes_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, learned = 10**9, 0
    monkeypatch.setattr(module, "perf_counter_ns", lambda: now)

    def learns() -> None:
        nonlocal now, learned
        now, learned = now + 1_000_000, learned + 1

    wall, virtual = DecisionSchedule(True, False, 0.0, None), DecisionSchedule(True, False, 0.0, 0.0)
    taken = []
    for _ in range(1_000):
        taken.append(wall.learn(learns))
        now += 1_000_000
    assert learned == 5 and sum(taken) == 5_000_000
    assert [virtual.learn(learns) for _ in range(10)] == [1_000_000] * 10


def test_counting_takes_its_share_of_the_time() -> None:
    wall, virtual = DecisionSchedule(True, False, 0.0, None), DecisionSchedule(True, False, 0.0, 0.0)
    assert wall.count_budget(1_600) == pytest.approx(0.0075 * 1_600 / 12)
    assert virtual.count_budget(1_600) == float("inf")


def test_memory_that_runs_out_is_looked_at_in_time() -> None:
    schedule = DecisionSchedule(True, False, 0.0, 0.0)
    schedule.schedule_next(1_000, lambda: (1_000_000, 3_000_000))  # 1,000 bytes an event, room for 2,000 events
    assert Stream(schedule, 80_000).until_decision(1.0) == 500 and schedule.held == 1_000_000


def test_they_go_on_from_a_snapshot() -> None:
    schedule, other = DecisionSchedule(True, False, 0.0, 30.0), DecisionSchedule(True, False, 0.0, 30.0)
    schedule.record_cost(7.0)
    schedule.schedule_next(3_200, None)
    other.restore(json.loads(json.dumps(schedule.state())))
    assert other.state() == schedule.state() and other.check == 400
    other.restore(json.loads(json.dumps(schedule.state()))[:-2])  # of an earlier version
    assert other.state() == schedule.state()
    schedule.schedule_next(3_200, None, sheds=True)
    other.restore(json.loads(json.dumps(schedule.state())))
    assert other.state() == schedule.state()
    schedule, other = DecisionSchedule(True, False, 4e6, 0.0), DecisionSchedule(True, False, 4e6, 0.0)
    Stream(schedule, 1e6, queued=True).until_decision(50_000.0)
    other.restore(json.loads(json.dumps(schedule.state())))
    one, same_stream = Stream(schedule, 1e6, queued=True), Stream(other, 1e6, queued=True)
    assert one.until_decision(1_000.0) == same_stream.until_decision(1_000.0) and one.checks == same_stream.checks
    meter, same = LoadMeter(0.0, LatencyMonitor()), LoadMeter(0.0, LatencyMonitor())
    meter.add(100, 500.0, (3, 4), (4, 5))
    meter.measure([], 0.0, 0.0)
    same.restore(json.loads(json.dumps(meter.state())))
    assert same.state() == meter.state() and same.busy(1.0) == meter.busy(1.0)
    meter.reset([])
    older = meter.state()[:-1]
    older[6] = older[6][:2]
    for state, elapsed, latest in ((meter.state(), 895, 2), (older, 2, 0)):
        same.restore(json.loads(json.dumps(state)))
        same.add(1, 2.0, (4, 4), (900, 900))
        assert same.elapsed == elapsed and same.measure([], 0.0, 0.0).latest == latest
    meter.record_busy(900, 900, 0)  # on the wall clock: another process has another origin
    assert meter.state()[-1] is None
