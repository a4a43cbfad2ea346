"""Frequency of decisions, and the share of the time for decisions and learning."""

from __future__ import annotations

import json

import pytest

from fastcep.overload import decision_schedule as module
from fastcep.overload.decision_schedule import MOST_EVENTS, DecisionSchedule


def step_after(
    schedule: DecisionSchedule, window: float, spent: float = 0.0, arrival: int | None = None,
    number: int = 100, before: int = 8,
) -> int:
    """Return the number of events until the next decision, after ``before`` earlier decisions."""
    for _ in range(before):
        schedule.schedule_next(window, None)
    schedule.add(number, spent, 0, arrival)
    schedule.schedule_next(window, None)
    return schedule.step


def test_the_first_ones_are_not_rare() -> None:
    schedule = DecisionSchedule(True, False, 0.0, 30_000.0)
    steps = [step_after(schedule, 800, 100 * 1_000.0, before=0) for _ in range(10)]
    assert steps == [120] * 7 + [1_500] * 3


@pytest.mark.parametrize(("window", "step"), [(0, 32), (255, 32), (8_000, 1_000), (1e9, MOST_EVENTS)])
def test_eight_times_a_window(window: float, step: int) -> None:
    assert step_after(DecisionSchedule(True, False, 0.0, 0.0), window) == step


def test_the_first_stretch_counts_from_where_it_began() -> None:
    schedule = DecisionSchedule(True, False, 0.0, None)
    schedule.add(10, 500.0, 0, 1_000)
    schedule.record_busy(10_000, 1_000, 9_000)  # the event waited for the engine to start
    assert schedule.busy == 100


def test_where_nothing_is_decided_it_never_is() -> None:
    schedule = DecisionSchedule(False, False, 0.0, 30_000.0)
    assert schedule.step == MOST_EVENTS == step_after(schedule, 800, 100_000)
    assert (schedule.since, schedule.spent, schedule.first_time) == (0, 0.0, None)


@pytest.mark.parametrize(
    ("often", "bound", "arrival", "events"),
    [
        (False, 0.0, None, 1_500),  # 2 % of the time: 1.5 ms of 1 us each
        (True, 0.0, None, 120),
        (False, 5e6, 7, 500),  # a tenth of the bound
        (False, 1e5, 7, 120),  # but at most a quarter of the time
        (False, 1e9, 7, 1_500),
    ],
)  # fmt: skip
def test_they_cost_little_unless_the_bound_wants_more(
    often: bool, bound: float, arrival: int | None, events: int
) -> None:
    assert step_after(DecisionSchedule(True, often, bound, 30_000.0), 800, 100 * 1_000.0, arrival) == events


def test_what_they_cost_is_measured_on_the_wall_clock() -> None:
    schedule = DecisionSchedule(True, False, 0.0, None)
    assert step_after(schedule, 800, 100_000) == 100
    schedule.record_cost(50_000.0, learned=20_000.0)
    assert step_after(schedule, 800, 100_000) == 1_500
    for _ in range(99):
        schedule.record_cost(10_000.0)
    assert 500 <= step_after(schedule, 800, 100_000) < 502
    assert (schedule.overhead, schedule.last_cost) == (1_040_000.0, 10_000.0)


def test_busy_is_all_but_waiting() -> None:
    schedule = DecisionSchedule(True, False, 0.0, None)
    schedule.add(10, 500.0, 0, 1_000)
    assert schedule.busy == 50
    schedule.record_busy(2_000, 1_000, 500)  # it arrived while the engine was idle
    assert schedule.busy == 100
    schedule.add(10, 500.0, 0, 1_500)
    schedule.record_busy(3_000, 1_500, 2_500)  # it had arrived before the last stretch was done
    assert schedule.busy == 100
    schedule.add(20, 500.0, 0, 5_000)
    schedule.record_busy(7_000, 5_000, 5_000)
    assert schedule.busy == 100


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
    for schedule in (wall, virtual):
        schedule.add(100, 160_000.0, 0, None)
    assert wall.count_budget() == pytest.approx(0.0075 * 1_600 / 12)
    assert virtual.count_budget() == float("inf")


def test_memory_that_runs_out_is_looked_at_in_time() -> None:
    schedule = DecisionSchedule(True, False, 0.0, 0.0)
    schedule.add(1_000, 0.0, 0, None)
    schedule.schedule_next(80_000, lambda: (1_000_000, 3_000_000))  # 1,000 bytes an event, room for 2,000 events
    assert schedule.step == 500 and schedule.held == 1_000_000


def test_it_goes_on_from_a_snapshot() -> None:
    schedule, other = DecisionSchedule(True, False, 0.0, 30.0), DecisionSchedule(True, False, 0.0, 30.0)
    schedule.add(100, 500.0, 3, 4)
    schedule.record_cost(7.0)
    other.restore(json.loads(json.dumps(schedule.state())))
    assert other.state() == schedule.state() and other.busy == schedule.busy
