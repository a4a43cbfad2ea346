"""Simulate the transfer of partial states over a link until a deadline (paper 4, section 7).

Time is simulated (SimPy). The old host sends states one after another in the order of the plan, the link delays them,
and the new host has the utility of a state when all of it has arrived. Nothing is sent over a network.

Times are integers in units of 1 / bandwidth ns, in which every state takes a whole number of units. So a state that
arrives exactly at the deadline counts, and the states of a plan that fills its capacity arrive in time.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from fastcep.errors import ValidationError
from fastcep.events.units import NANOSECONDS
from fastcep.extras import load
from fastcep.migration.capacity import bytes_per_second, capacity_of
from fastcep.migration.selection import Plan, plan
from fastcep.migration.states import Floats, Ints, States
from fastcep.option_checks import duration_option

__all__ = ["Transfer", "simulate"]

_SECOND = NANOSECONDS["s"]


@dataclass(frozen=True, eq=False)
class Transfer:
    """The states that arrived until the deadline.

    Attributes
    ----------
    plan
        The plan by which they were sent.
    received
        int64[k]: positions of the states, in the order of arrival.
    times
        float64[k]: time of arrival since the start, in ns.
    utility
        float64[k]: utility at the new host after each arrival.
    size
        int64[k]: bytes at the new host after each arrival.
    deadline
        The deadline in ns since the start.
    full_time
        Time in ns at which all states would have arrived.
    total_utility, total_size
        Utility and bytes of all states, whether they arrived or not.
    """

    plan: Plan
    received: Ints
    times: Floats
    utility: Floats
    size: Ints
    deadline: int
    full_time: float
    total_utility: float
    total_size: int

    @property
    def received_utility(self) -> float:
        """Utility at the new host at the deadline."""
        return float(self.utility[-1]) if len(self.utility) else 0.0

    def utility_share(self, time_share: float) -> float:
        """Return the share of all utility that has arrived after a share of `full_time`."""
        count = int(np.searchsorted(self.times, time_share * self.full_time, side="right"))
        return _share(float(self.utility[count - 1]) if count else 0.0, self.total_utility)

    def time_share(self, utility_share: float) -> float | None:
        """Return the share of `full_time` after which a share of all utility has arrived; None if it never has."""
        if utility_share <= 0 or self.total_utility == 0:
            return 0.0
        enough = self.utility >= utility_share * self.total_utility
        return float(self.times[int(np.argmax(enough))]) / self.full_time if enough.any() else None


def simulate(
    states: States,
    method: str = "auto",
    *,
    bandwidth: str | int,
    deadline: str | timedelta | None = None,
    latency: str | timedelta = "0s",
    resume: str | timedelta = "0s",
    epsilon: float = 0.02,
    seed: int = 0,
    time_budget: str = "200ms",
) -> Transfer:
    """Simulate the transfer of states until a deadline.

    The plan is made for the capacity of the link, see `capacity_of`. The states that were not selected are sent after
    the selected ones, until the deadline.

    Parameters
    ----------
    states
        The partial states.
    method, epsilon, seed, time_budget
        See `plan`.
    bandwidth
        Bytes per second, such as ``"10MB"``.
    deadline
        Time from the start until the link fails; None: all states arrive.
    latency
        Time from the end of sending a state to its arrival.
    resume
        Time that the plan leaves to the new host before the deadline.

    Returns
    -------
    Transfer

    Raises
    ------
    ValidationError
        If an argument is wrong, or SimPy is not installed.
    """
    if not isinstance(states, States):
        raise ValidationError(f"states: {type(states).__name__}; expected fc.migration.States(size, utility)")
    rate = bytes_per_second(bandwidth)
    delay, pause = duration_option("latency", latency), duration_option("resume", resume)
    all_units = states.total_size * _SECOND + delay * rate
    if deadline is None:
        limit, capacity = -(-all_units // rate), max(0, states.total_size - pause * rate // _SECOND)
    else:
        limit = duration_option("deadline", deadline)
        capacity = capacity_of(deadline, rate, latency, resume)
    made = plan(states, capacity, method, epsilon=epsilon, seed=seed, time_budget=time_budget)
    arrivals = _arrivals(states.size[made.order], delay * rate, limit * rate)
    received = made.order[: len(arrivals)]
    utility = np.cumsum(states.utility[made.order])  # its end is the total: a share of 1 is exact
    return Transfer(
        made, received, np.array([float(time) for time in arrivals]) / rate, utility[: len(received)],
        np.cumsum(states.size[received]), limit, all_units / rate, float(utility[-1]) if len(utility) else 0.0,
        states.total_size,
    )  # fmt: skip


def _arrivals(sizes: Ints, delay: int, limit: int) -> list[int]:
    """Return the times of arrival until the limit, in the order of the states."""
    simpy = load("simpy", "the simulation of a migration")
    environment = simpy.Environment(initial_time=0)
    link = simpy.Store(environment)
    arrivals: list[int] = []

    def old_host() -> Generator[Any, Any, None]:
        for size in sizes.tolist():
            yield environment.timeout(size * _SECOND)
            link.put(environment.now + delay)

    def new_host() -> Generator[Any, Any, None]:
        while True:
            arrival = yield link.get()
            yield environment.timeout(arrival - environment.now)
            arrivals.append(environment.now)

    environment.process(old_host())
    environment.process(new_host())
    environment.run(until=limit + 1)  # up to and including the limit
    return arrivals


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 1.0
