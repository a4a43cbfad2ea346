"""The controller on simple plants: a queue in front of work that follows the demand a window later."""

from __future__ import annotations

from math import log

import pytest

from fastcep.overload.controller import Controller
from fastcep.overload.demand import DemandHistory
from fastcep.overload.load import DetectorReading
from fastcep.overload.offered_load import OfferedLoad

LIMIT = 80.0


class Plant:
    """A queue, in milliseconds of work without shedding, and a bound of 100 ms.

    A decision is made every ``step`` ms, eight of them are a window. Of a demand ``at_once`` takes effect at once, the
    rest within a window. ``saves`` is the exponent of what shedding really saves: at 0.5, four times as much has to be
    demanded to save twice as much.
    """

    def __init__(self, at_once: float = 0.5, saves: float = 1.0, step: float = 5.0) -> None:
        self.step = step
        self.controller, self.queue, self.at_once, self.saves = Controller(), 0.0, at_once, saves
        self.past, self.offered = DemandHistory(), OfferedLoad(100.0)
        self.dropped = 0.0
        self.told: list[tuple[float, float]] = []

    def run(self, load: float, decisions: int, pause: float = 0.0) -> list[tuple[float, float]]:
        """The time that an event waits and the demand, decision by decision; the first one ends after a pause (ms)."""
        self.told = []
        for _ in range(decisions):
            demand = self.controller.demand
            left = (1 - demand) ** self.at_once * (1 - self.past.mean) ** (1 - self.at_once)
            work, passed = left**self.saves, self.step + pause
            done = self.step / work  # work without shedding that is done in a step
            taken = min(done, self.queue + load * passed)
            self.queue += load * passed - taken
            self.dropped += taken * (1 - work)
            saved = min(1 - ((1 - demand) * (1 - self.past.mean)) ** 0.5, 0.999)
            spent = 1000 * passed * min(1.0, taken / done) / taken
            self.offered.add(1000, taken / load, spent, 0.0, saved)
            excess = self.queue * self.offered.service / LIMIT - 1
            utilisation = load * self.offered.service
            self.past.add(demand, 1, 8)
            self.controller.update(DetectorReading(excess, utilisation))
            self.told.append((self.queue * work, self.controller.demand))
            pause = 0.0
        return self.told


@pytest.mark.parametrize("load", [1.1, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("at_once", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("saves", [0.7, 1.0, 1.3])
@pytest.mark.parametrize("step", [5.0, 25.0])
def test_a_queue_is_held_without_going_to_and_fro(load: float, at_once: float, saves: float, step: float) -> None:
    """Also if shedding saves less or more than is expected of it."""
    plant = Plant(at_once, saves, step)
    plant.run(load, 200)
    told = plant.run(load, 400)
    assert max(waits for waits, _ in told) < 100
    needed = 1 - (1 / load) ** (1 / saves)
    demands = [demand for _, demand in told]
    assert sum(demands) / len(demands) == pytest.approx(needed, rel=0.05)
    assert min(demands) > 0.7 * needed


@pytest.mark.parametrize("load", [1.2, 2.0])
def test_when_less_arrives_nothing_is_demanded_soon(load: float) -> None:
    plant = Plant()
    plant.run(load, 400)
    assert plant.controller.demand > 0
    assert plant.run(0.5, 32)[-1][1] == 0.0


@pytest.mark.parametrize("pause", [60.0, 200.0, 500.0, 5_000.0])
@pytest.mark.parametrize("at_once", [0.5, 1.0])
def test_a_pause_is_a_backlog_and_not_a_rate(pause: float, at_once: float) -> None:
    """What is dropped is less than twice what the backlog has above the bound; then nothing is demanded at once."""
    plant = Plant(at_once)
    plant.run(0.6, 50)
    assert plant.dropped == 0
    told = plant.run(0.6, 150, pause)
    assert plant.dropped <= 2 * max(0.0, 0.6 * pause - 100)
    assert (plant.dropped > 0) == (0.6 * pause > 100)
    ends = max((number for number, (_, demand) in enumerate(told) if demand > 0), default=0)
    assert told[-1][1] == 0.0 and ends <= 100
    assert max(waits for waits, _ in told[ends + 1 :]) <= 100


def test_a_queue_that_is_not_long_is_left_alone() -> None:
    controller = Controller()
    assert controller.update(DetectorReading(-0.1, 2.0)) == 0
    assert controller.update(DetectorReading(0.1, 2.0)) == pytest.approx(1 - 1 / (2 * (1 + 0.4**2)), abs=0.001)
    assert controller.update(DetectorReading(-0.9, 2.0)) == pytest.approx(0.5, abs=0.01)
    assert controller.update(DetectorReading(-0.9, 0.9)) == 0
    assert controller.update(DetectorReading(-0.9, 2.0)) == 0


def test_the_larger_one_of_backlog_and_rate_is_demanded() -> None:
    controller = Controller()
    assert controller.update(DetectorReading(3.0, 0.7)) == pytest.approx(0.75)
    assert controller.update(DetectorReading(3.0, 1.2)) == pytest.approx(1 - 1 / (5 * 1.2), abs=0.002)
    assert controller.update(DetectorReading(0.25, 0.5)) == pytest.approx(0.2)
    assert controller.update(DetectorReading(0.25, 2.0)) == pytest.approx(1 - 1 / (2 * 2.0), abs=0.002)
    assert controller.update(DetectorReading(1e9, 0.5)) == pytest.approx(0.999)


@pytest.mark.parametrize(("excess", "counts"), [(0.05, 1.04), (0.125, 1.25), (0.25, 2.0), (0.5, 5.0), (3.0, 5.0)])
def test_the_nearer_a_queue_is_to_its_bound_the_more_the_rate_counts(excess: float, counts: float) -> None:
    """Twice as much if the queue reaches the bound, at most five times as much."""
    assert Controller().update(DetectorReading(excess, 1.5)) == pytest.approx(1 - 1 / (1.5 * counts), abs=0.005)


def test_memory_has_no_rate() -> None:
    controller = Controller()
    for excess, demand in ((0.25, 0.2), (1.0, 0.5), (3.0, 0.75), (-0.1, 0.0)):
        assert controller.update(DetectorReading(excess, 0.0)) == pytest.approx(demand)


def test_a_queue_that_stays_too_long_corrects_what_the_rate_needs() -> None:
    """Up to twice as much; it is taken back while the queue is short, and forgotten when the rate needs nothing."""
    controller = Controller()
    rate = log(2 * (1 + 0.8**2))
    assert log(1 / (1 - controller.update(DetectorReading(0.2, 2.0)))) == pytest.approx(rate, abs=0.002)
    for _ in range(2_000):
        controller.update(DetectorReading(0.2, 2.0))
    assert log(1 / (1 - controller.demand)) == pytest.approx(2 * rate + 0.1)
    for _ in range(30):
        controller.update(DetectorReading(-0.5, 2.0))
    assert controller.demand == pytest.approx(0.5, abs=0.01)
    for _ in range(100):  # a backlog alone is not integrated
        assert controller.update(DetectorReading(1.0, 0.6)) == pytest.approx(0.5)
    assert controller.update(DetectorReading(-0.1, 0.6)) == 0


def test_what_was_dropped_for_nothing_does_not_take_the_demand_back() -> None:
    controller = Controller()
    for _ in range(20):
        controller.update(DetectorReading(0.5))
    assert controller.demand > 0.3
    before = controller.demand
    for _ in range(100):  # more is saved than is demanded
        controller.update(DetectorReading(-0.3), saved=0.99)
    assert controller.demand >= before
    for _ in range(200):
        controller.update(DetectorReading(-1.0))
    assert controller.demand == 0


@pytest.mark.parametrize("by_window", [2.0, 8.0, 80.0])
def test_the_integral_grows_with_windows_and_not_with_decisions(by_window: float) -> None:
    controller = Controller()
    for _ in range(round(by_window)):
        controller.update(DetectorReading(0.001), by_window=by_window)
    assert log(1 / (1 - controller.demand)) == pytest.approx(8 * 0.06 * 0.001, rel=0.01)


def test_a_burst_of_work_counts_as_the_windows_that_it_fills() -> None:
    """Events of four times the set point are due four times as often: each decision counts as an eighth."""
    often, seldom = Controller(), Controller()
    for _ in range(4):
        assert often.update(DetectorReading(3.0), by_window=32.0) == seldom.update(DetectorReading(3.0))
