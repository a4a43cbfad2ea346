"""Simulate the transfer of partial states over a link until a deadline (paper 4, section 7).

Time is simulated (`nodes`). The old host sends states one after another in the order of the plan, the link delays them,
and the new host has the utility of a state when all of it has arrived. Nothing is sent over a network. Optionally,
events pass the hosts at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

import numpy as np

from fastcep.errors import ValidationError
from fastcep.events.units import NANOSECONDS, parse_size
from fastcep.migration.capacity import bytes_per_second, capacity_of
from fastcep.migration.selection import Plan, plan
from fastcep.migration.simulation.nodes import Nodes, Timing, Traffic
from fastcep.migration.states import Floats, Ints, States
from fastcep.option_checks import duration_option

__all__ = ["TRACKS", "EventFlow", "Transfer", "simulate"]

#: Ways of treating events during a migration.
TRACKS = ("single", "parallel")

_SECOND = NANOSECONDS["s"]
_MOST_BUSY = 0.95
_MOST_EVENTS = 1_000_000


@dataclass(frozen=True, eq=False)
class EventFlow:
    """Events that passed the hosts during a migration. Times are in ns since its start.

    Attributes
    ----------
    freeze
        Longest time between two outputs at the downstream node, in ns; infinite if there are none after a failure.
    normal_gap
        The time between two outputs without a migration, in ns.
    resumed, caught_up
        Times at which the new host resumed the operator, and had processed all events that it had buffered; None if the
        old host was lost before the new host knew of the migration.
    buffer_times, buffer_sizes
        float64[k], int64[k]: number of events that the new host had buffered from each time on.
    by_old, by_new
        Events since the start that the old host has processed, and those that only the new host has.
    output_share
        Mean, over these events, of the share of the utility that the host had which processed the event: 1 for the old
        host. If utility is the number of outputs that a state adds to, this is the expected share of the outputs.
    """

    freeze: float
    normal_gap: float
    resumed: float | None
    caught_up: float | None
    buffer_times: Floats
    buffer_sizes: Ints
    by_old: int
    by_new: int
    output_share: float

    @property
    def most_buffered(self) -> int:
        """Largest number of events that the new host had buffered."""
        return int(self.buffer_sizes.max(initial=0))


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
    events
        The events during the migration; None without an event rate.
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
    events: EventFlow | None = None

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
    event_rate: float | None = None,
    event_size: str | int = "100B",
    service: str | timedelta = "0s",
    track: str = "single",
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
    event_rate
        Events per second from the upstream node, during the migration and before and after it. None: no events.
    event_size, service
        Size of an event, and of an output; time that each host needs for an event. All links have the same bandwidth
        and latency, and every event has one output.
    track
        ``"single"``: the old host stops when it cuts the state. ``"parallel"``: it goes on, and the new host gets the
        events as well, until the new host has caught up, or the link fails.

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
    timing = Timing(delay * rate, None if deadline is None else limit * rate, pause * rate)
    traffic = None if event_rate is None else _traffic(event_rate, event_size, service, track, rate, limit + pause)
    nodes = Nodes(states.size[made.order], len(made.selected), timing, traffic).run()
    received = made.order[: len(nodes.arrivals)]
    utility = np.cumsum(states.utility[made.order])  # its end is the total: a share of 1 is exact
    transfer = Transfer(
        made, received, _ns(nodes.arrivals, rate), utility[: len(received)],
        np.cumsum(states.size[received]), limit, all_units / rate, float(utility[-1]) if len(utility) else 0.0,
        states.total_size,
    )  # fmt: skip
    return transfer if traffic is None else replace(transfer, events=_flow(nodes, transfer, rate))


def _traffic(
    event_rate: float, event_size: str | int, service: str | timedelta, track: str, rate: int, limit: int
) -> Traffic:
    """Check the options of events; return their durations in units.

    Parameters
    ----------
    limit
        Time until the new host works at the latest, in ns.
    """
    number = isinstance(event_rate, int | float) and not isinstance(event_rate, bool)
    if not (number and 0 < event_rate < np.inf):
        raise ValidationError(f"event_rate={event_rate!r}: expected a number of events per second above 0")
    if track not in TRACKS:
        raise ValidationError(f"track={track!r}: expected {' or '.join(TRACKS)}")
    try:
        size = parse_size(event_size)
    except ValidationError as error:
        raise ValidationError(f"event_size={event_size!r}: {error}") from None
    work = duration_option("service", service)
    for option, busy, remedy in (
        (f"event_size={event_size!r}", size * event_rate / rate, "raise the bandwidth"),
        (f"service={service!r}", work * event_rate / _SECOND, "shorten the time of an event"),
    ):
        if busy > _MOST_BUSY:
            raise ValidationError(
                f"{option}: takes {busy:.0%} of the time at {event_rate:g} events per second; expected at most "
                f"{_MOST_BUSY:.0%}: {remedy}, or lower the event rate"
            )
    events = limit / _SECOND * event_rate / (1 - work * event_rate / _SECOND)
    if events > _MOST_EVENTS:
        raise ValidationError(
            f"event_rate={event_rate!r}: about {events:,.0f} events in the simulated time; expected at most "
            f"{_MOST_EVENTS:,}: lower the event rate or the deadline"
        )
    interval = max(1, round(_SECOND * rate / event_rate))
    return Traffic(interval, size * _SECOND, work * rate, track == "parallel")


def _flow(nodes: Nodes, transfer: Transfer, rate: int) -> EventFlow:
    assert nodes.traffic is not None
    by_old = set(nodes.by_old)
    times = _ns([time for number, time in nodes.worked if number not in by_old], rate)
    shares = np.concatenate([[0.0], transfer.utility]) / (transfer.total_utility or 1.0)
    reached = (
        shares[np.searchsorted(transfer.times, times, side="right")] if transfer.total_utility else np.ones(len(times))
    )
    total = len(by_old) + len(times)
    gap = max(after - before for before, after in pairwise(nodes.outputs))
    flow = EventFlow(
        freeze=np.inf if nodes.resumed is None else gap / rate,
        normal_gap=nodes.traffic.interval / rate,
        resumed=None if nodes.resumed is None else nodes.resumed / rate,
        caught_up=None if nodes.caught_up is None else nodes.caught_up / rate,
        buffer_times=_ns([time for time, _ in nodes.buffered], rate),
        buffer_sizes=np.array([size for _, size in nodes.buffered], np.int64),
        by_old=len(by_old), by_new=len(times),
        output_share=0.0 if nodes.resumed is None else _share(len(by_old) + float(reached.sum()), float(total)),
    )  # fmt: skip
    return flow


def _ns(units: Sequence[int], rate: int) -> Floats:
    return np.array([float(time) for time in units], np.float64) / rate


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 1.0
