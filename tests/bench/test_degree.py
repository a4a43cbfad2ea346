"""The traffic scenario of the paper on parallel operators: its events, its splitter, small runs, and the page."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.degree import page, support
from bench.degree.scenarios import APPROXIMATED, approximation, run, summary
from bench.degree.streams import arrivals, evaluate
from bench.degree.traffic import PROFILE, CpuRule, WindowSplit, rush_hour, steady, work_per_comparison
from bench.queries import RESULTS
from fastcep.engine.instance_pool import InstanceCounts
from fastcep.parallel.adaptation.simulation import Worker

pytestmark = pytest.mark.thorough


def test_vehicles_leave_after_they_have_entered() -> None:
    traffic = steady(0.5, seed=1)
    assert (np.diff(traffic.times) >= 0).all() and traffic.times.max() <= 1800e9
    entered = set(traffic.earlier.tolist())
    for vehicle, leaves in zip(traffic.vehicles.tolist(), traffic.leaves.tolist(), strict=True):
        assert (vehicle in entered) == leaves
        (entered.remove if leaves else entered.add)(vehicle)
    rate = traffic.leaves.sum() / 1800
    assert 4.5 < rate < 5.5


def test_the_rate_of_a_rush_hour() -> None:
    traffic = rush_hour(seed=2, hours=1.0)
    counts = np.histogram(traffic.times[~traffic.leaves], np.array([0, 120, 1500, 2100]) * 1e9)[0]
    assert counts[0] / 120 < 1.2 and counts[2] / 600 > 4


def test_work_is_that_of_all_comparisons() -> None:
    """The split compares an event that leaves with each vehicle that entered in each open window."""
    traffic = steady(0.3, seed=3)
    split = WindowSplit(traffic, 1.0)
    workers = [Worker(0), Worker(1), Worker(2)]
    entered: list[int] = traffic.earlier.tolist()
    open_windows = {vehicle: at for at, vehicle in enumerate(entered)}
    for event in range(300):
        workers[2].is_leaving = event > 100
        parts = split.divide(event, 0.0, workers)
        vehicle = int(traffic.vehicles[event])
        if traffic.leaves[event]:
            expected = sum(len(entered) - before for before in open_windows.values())
            assert sum(work for _, work in parts) == expected
            del open_windows[vehicle]
        else:
            assert parts == []
            open_windows[vehicle] = len(entered)
            entered.append(vehicle)
    assert not split.is_done(workers[2])


def test_service_times_have_the_given_percentile() -> None:
    traffic = steady(1.0, seed=9)
    split = WindowSplit(traffic, work_per_comparison())
    worker = Worker(0)
    work = [parts[0][1] for event in range(len(traffic.times)) if (parts := split.divide(event, 0.0, [worker]))]
    assert np.quantile(work, 0.99) == pytest.approx(PROFILE.p99(5.0), rel=0.1)
    assert PROFILE.p99(2.5) == pytest.approx(1.25e9 / 4)


@pytest.mark.parametrize("division", ["shared", "turn", "fewest"])
def test_the_loop_keeps_the_limit(division: str) -> None:
    of = run(steady(1.0, seed=4), "window", division, 400, 0.8, seed=4)
    figures = summary(of)
    assert figures["p95"] <= 15 and figures["degree"][0] >= 7
    assert np.array_equal(of.queue, run(steady(1.0, seed=4), "window", division, 400, 0.8, seed=4).queue)


class _Pool:
    def __init__(self) -> None:
        self.asked: list[int] = []

    def resize(self, instances: int) -> None:
        self.asked.append(instances)

    def counts(self) -> InstanceCounts:
        return InstanceCounts(1)


def test_the_cpu_rule() -> None:
    pool, worker = _Pool(), Worker(0)
    rule = CpuRule(pool, lambda: [worker], first=2)
    for frame, load in enumerate([0.9, 0.9, 0.9, 0.4, 0.4, 0.6, 0.4], 1):
        worker.busy += load * 5e9
        rule.step(int(frame * 5e9))
    assert pool.asked == [3, 2]


def test_bounds_keep_the_limit() -> None:
    found = {name: approximation(name, 3_000, seed=1) for name in APPROXIMATED}
    assert [of["degree"][0] for of in found.values()] == [10, 6, 6, 10]
    assert all(of["p95"] <= 15 for of in found.values())


def test_other_streams() -> None:
    found = {name: evaluate(gaps[:8_000]) for name, gaps in arrivals(seed=5)}
    assert found["Poisson"]["kept"] == 1.0 and found["constant"]["kept"] == 1.0
    assert all(sum(of["used"].values()) == of["slices"] for of in found.values())


def test_the_page_has_the_stored_results() -> None:
    stored = page.SECTION.page.read_text(encoding="utf-8")
    assert page.SECTION.page_with(page.text(json.loads((RESULTS / "degree.json").read_text()))) == stored
    assert support.SECTION.page_with(support.table()) == stored
