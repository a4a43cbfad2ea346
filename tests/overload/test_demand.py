"""Demands of the last window, and what they save."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fastcep.overload.demand import DemandControl, DemandHistory
from fastcep.overload.latency import LatencyMonitor
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.offered_load import OfferedLoad
from fastcep.overload.protocols import Detector


class Given(Detector):
    """Reads amounts that are given."""

    name = "given"

    def __init__(self, *amounts: float) -> None:
        self.amounts = iter(amounts)

    def read(self, load: Load) -> DetectorReading:
        amount = next(self.amounts)
        return DetectorReading(0.0, amount=amount, why=f"demand {amount}")

    def spec(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("step", [1, 10, 125, 3_000])
def test_demands_of_a_window_are_known_however_many_decisions_there_are(step: int) -> None:
    history = DemandHistory()
    assert (history.largest, history.mean) == (0, 0)
    for _ in range(0, 3_000, step):
        history.add(0.8, step, 1_000)
    for _ in range(0, 500, step):
        history.add(0.2, step, 1_000)
    assert len(history.state()) <= 66
    if step < 1_000:
        assert history.largest == pytest.approx(0.8) and history.mean == pytest.approx(0.5, abs=0.04)
    for _ in range(0, 1_000, step):
        history.add(0.2, step, 1_000)
    assert (history.largest, history.mean) == pytest.approx((0.2, 0.2))
    other = DemandHistory()
    other.restore(json.loads(json.dumps(history.state())))
    assert other.state() == history.state()


def test_the_largest_demand_is_in_force() -> None:
    demand = DemandControl([Given(0.2, 0.1, 0.0), Given(0.1, 0.3, 0.0)], LatencyMonitor())
    told = []
    for _ in range(3):
        demand.update(Load(1.0, events=1), 0.0, 8.0)
        told.append((demand.demand, demand.why, demand.of_present))
    assert told == [(0.2, "demand 0.2", True), (0.3, "demand 0.3", True), (0.0, "", False)]


@pytest.mark.parametrize("purges", [False, True])
def test_saved(purges: bool) -> None:
    """Half of a demand takes effect with the state; at once if live partial matches are dropped."""
    demand = DemandControl([Given(0.75, 0.75, 0.0)], LatencyMonitor())
    assert demand.saved(0.9, purges) == 0
    demand.update(Load(1.0, events=1), 0.0, 8.0)
    assert demand.saved(0.0, purges) == pytest.approx(0.75 if purges else 0.5)
    assert demand.saved(0.9, purges) == 0.9
    demand.past.add(0.75, 8, 8)
    assert demand.saved(0.0, purges) == pytest.approx(0.75)
    demand.update(Load(1.0, events=1), 0.0, 8.0)
    demand.update(Load(1.0, events=1), 0.0, 8.0)
    assert demand.saved(0.0, purges) == pytest.approx(0.5)


def test_a_pause_changes_neither_rate_nor_service_time() -> None:
    offered = OfferedLoad(80.0)
    assert (offered.rate, offered.service) == (0, 0)
    for number in range(9):
        offered.add(5, 10.0, 500.0 if number == 4 else 10.0, 0.0, 0.0)
    assert (offered.rate, offered.service) == (0.5, 2.0)
    offered.add(5_000, 10.0, 10_000.0, 0.0, 0.0)  # a burst, within an eighth of the bound
    assert (offered.rate, offered.service) == (0.5, 2.0)
    for _ in range(9):
        offered.add(10, 10.0, 5.0, 0.0, 0.5)
    assert (offered.rate, offered.service) == (1.0, 1.0)


def test_the_growth_of_the_service_time_is_its_trend() -> None:
    """The present service time is extrapolated from all readings; a single pause does not change it."""
    offered = OfferedLoad(80.0)
    for number in range(9):
        assert offered.growth == 0 or number >= 5
        offered.add(10, 10.0, 10.0 * (2 + number), 0.0, 0.0)
    assert (offered.service, offered.growth) == (6.0, pytest.approx(4.0))
    offered.add(10, 10.0, 5_000.0, 0.0, 0.0)
    assert offered.service + offered.growth == pytest.approx(11.0, abs=1.0)
    for _ in range(9):
        offered.add(10, 10.0, 10.0, 0.0, 0.0)
    for number in range(9):
        offered.add(10, 10.0, 10.0 * (20 - number), 0.0, 0.0)
    assert offered.growth == 0


def test_a_reading_covers_an_eighth_of_the_bound() -> None:
    offered = OfferedLoad(80.0)
    for _ in range(2):
        offered.add(1, 1.0, 100.0, 0.0, 0.0)  # the first events take long
        assert (offered.rate, offered.service) == (0, 0)
    offered.add(1, 0.0, 50.0, 0.0, 0.0)
    assert (offered.rate, offered.service) == (0, 0)
    for _ in range(4):  # a burst and a gap by turns
        offered.add(1, 1.0, 3.0, 0.0, 0.0)
        offered.add(1, 9.0, 1.0, 0.0, 0.0)
    assert offered.rate == pytest.approx(0.2) and offered.service == pytest.approx(2)
    other = OfferedLoad(80.0)
    other.restore(json.loads(json.dumps(offered.state())))
    assert other.state() == offered.state() and other.rate == offered.rate


def test_what_no_shedder_saves_is_not_taken_for_work_that_was_saved() -> None:
    """An event takes 1 ns without shedding, and 0.1 ns if everything is dropped."""
    offered = OfferedLoad(80.0)
    for saved in (0.0,) * 5 + (0.999,) * 20:
        offered.add(10, 10.0, 1.0 if saved else 10.0, 0.0, saved)
    assert offered.service == pytest.approx(1.0)
    for _ in range(20):
        offered.add(10, 10.0, 1.0, 0.0, 0.9)
    assert offered.service == pytest.approx(1.0)


def test_calls_for_few_events_do_not_make_events_slow() -> None:
    """A call takes 50 ns whether it is for 5 events or for 50."""
    offered = OfferedLoad(80.0)
    for events in (5, 5, 50, 5, 5):
        offered.add(events, 10.0, 2.0 * events, 50.0, 0.0)
    assert (offered.service, offered.other) == pytest.approx((2, 1))
