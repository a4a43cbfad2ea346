"""Controller on simple plants: a queue before work that follows the demand a window later."""

from __future__ import annotations

from collections import deque

import pytest

from fastcep.overload.controller import Controller
from fastcep.overload.protocols import DetectorReading

LIMIT, LONGEST = 80.0, 100.0


class Plant:
    """Queue in milliseconds of work. Part of the demand takes effect at once, the rest a window later.

    There is a decision every 5 ms, and a window has eight decisions.
    """

    def __init__(self, at_once: float = 0.5) -> None:
        self.controller, self.queue, self.at_once = Controller(), 0.0, at_once
        self.demands = deque([0.0] * 8, maxlen=8)
        self.told: list[tuple[float, float]] = []

    def run(self, load: float, decisions: int) -> list[tuple[float, float]]:
        """Return queue and demand at each decision."""
        self.told = []
        for _ in range(decisions):
            demand = self.controller.demand
            self.demands.append(demand)
            lasting = max(self.demands) if demand >= max(self.demands) else sum(self.demands) / 8
            saved = self.at_once * demand + (1 - self.at_once) * lasting
            utilisation = load * (1 - saved)
            self.queue = max(0.0, self.queue + 5 * (utilisation - 1))
            self.controller.update(DetectorReading((self.queue - LIMIT) / (LONGEST - LIMIT), utilisation))
            self.told.append((self.queue, self.controller.demand))
        return self.told


@pytest.mark.parametrize("load", [1.1, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("at_once", [0.0, 0.5, 1.0])
def test_a_queue_is_held_without_going_to_and_fro(load: float, at_once: float) -> None:
    plant = Plant(at_once)
    plant.run(load, 1_000)
    told = plant.run(load, 400)
    assert max(queue for queue, _ in told) < LONGEST
    demands = [demand for _, demand in told]
    assert min(demands) > 0.8 * (1 - 1 / load) and max(demands) < 1 - 0.6 / load


@pytest.mark.parametrize("load", [1.2, 2.0])
def test_when_less_arrives_nothing_is_demanded_soon(load: float) -> None:
    plant = Plant()
    plant.run(load, 400)
    assert plant.controller.demand > 0
    assert plant.run(0.5, 32)[-1][1] == 0.0


def test_a_queue_that_is_not_long_is_left_alone() -> None:
    plant = Plant()
    assert {demand for _, demand in plant.run(2.0, 15)} == {0.0}
    assert plant.run(2.0, 5)[-1][1] >= 0.5


def test_what_was_dropped_for_nothing_does_not_take_the_demand_back() -> None:
    controller = Controller()
    assert controller.update(DetectorReading(0.1, 1.5)) > 0.3
    for _ in range(100):  # 0.4 of the work is saved, a third is demanded
        controller.update(DetectorReading(-1.0, 0.9), saved=0.4)
    assert controller.demand > 0.2
    for _ in range(100):
        controller.update(DetectorReading(-1.0, 0.9))
    assert controller.demand == 0
