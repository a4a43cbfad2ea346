"""The states of the next frame: those of a plan that is made anew when the bandwidth changes."""

from __future__ import annotations

import numpy as np

from fastcep.migration.selection import plan
from fastcep.migration.states import Ints, States
from fastcep.migration.transfer.pacing import PACKET, SLACK, Meter

__all__ = ["Schedule"]

#: Relative change of the bandwidth from which on a plan is made again.
_CHANGE = 0.1
#: Shortest time between two plans, in seconds, unless the states of a plan have been sent.
_PAUSE = 0.05
#: Shares of the capacity that is planned, with a given and with a measured bandwidth, which has an error of some per
#: cent. A plan that fills the capacity would lose its last state for a few bytes; what is left over is planned later.
_MARGIN, _MEASURED_MARGIN = 0.99, 0.94
#: The same with a measured bandwidth if each state takes at most `_FINE` of the capacity: what is planned later is then
#: as good as if it were planned now.
_FINE_MARGIN, _FINE = 0.88, 0.01
#: Time by which a state should arrive before the deadline: this part of the time for the transfer, between two limits
#: in seconds. Hosts do not answer more exactly, and links have pauses of some milliseconds.
_SAFETY, _LEAST_SAFETY, _MOST_SAFETY = 0.001, 0.002, 0.01
#: A frame is small if it takes at most this part of the time left.
_SMALL = 20


class Schedule:
    """Chooses the states to send, frame by frame.

    Without a deadline, all states are sent in the order of their utility per byte. With one, the states of a plan for
    the measured bandwidth are sent. A frame has at most the states of `FRAME_TIME`, or of a packet if that takes a
    small part of the time left, and at most those of half of that time, and of `slack`, but at least one. A state is
    chosen only if it is expected to arrive in time, so at most the last frame is late, which has one state near the
    deadline.

    Parameters
    ----------
    states
        The partial states.
    meter
        Measures the link.
    method
        Method of `plan`.
    deadline
        Time, on the clock of the meter, until which a state should arrive; None: there is none.
    seed
        Seed of the method ``"random"``.
    overrun
        A state of the plan for which the time is a little too short, because the link is slower than planned, is still
        sent, as the last one. Of few large states, each is much utility.

    Attributes
    ----------
    plans
        Number of plans.
    planned_utility, planned_states
        Utility and number of the states of the first plan that knows the bandwidth (`Meter.is_known`), with the states
        that were sent before.
    """

    def __init__(
        self, states: States, meter: Meter, *, method: str = "auto", deadline: float | None = None, seed: int = 0,
        overrun: bool = False,
    ) -> None:  # fmt: skip
        self._overrun = overrun
        self._states, self._meter, self._method, self._deadline, self._seed = states, meter, method, deadline, seed
        self._unsent = np.ones(len(states), np.bool_)
        self._order: Ints = np.empty(0, np.int64)
        self._ends: Ints = np.empty(0, np.int64)
        self._next = 0
        self._safety: float | None = None
        self._rate: float | None = None
        self._time = float("-inf")
        self._knows_bandwidth = False
        self.plans = 0
        self.planned_utility = 0.0
        self.planned_states = 0
        if deadline is None:
            whole = plan(states, states.total_size, "random" if method == "random" else "greedy", seed=seed)
            self._use(whole.order)
            self.plans, self.planned_utility, self.planned_states = 1, states.total_utility, len(states)

    def next(self, now: float) -> Ints:
        """Return the numbers of the states in the next frame, to be sent now; none if all that fit are sent."""
        limit: float = max(self._meter.frame, PACKET)
        if self._deadline is not None:
            if self._safety is None:
                self._safety = min(max(_SAFETY * (self._deadline - now), _LEAST_SAFETY), _MOST_SAFETY)
            room = self._meter.room(now, self._deadline - self._safety)
            if self._is_outdated(now):
                self._plan(now, room)
            if self._is_over(room) and not self._may_be_late(room):
                self._plan(now, room)
                if self._is_over(room):
                    return self._attempt(now)
            limit = min(max(self._meter.frame, min(PACKET, room / _SMALL)), room / 2, self._slack_bytes(now))
        start = self._next
        if start == len(self._order):
            return np.empty(0, np.int64)
        done = self._ends[start - 1] if start else 0
        self._next = max(start + 1, int(np.searchsorted(self._ends, done + limit, side="right")))
        chosen = self._order[start : self._next]
        self._unsent[chosen] = False
        return chosen

    def slack(self, now: float) -> float:
        """Return the time for which data may wait before the link: a tenth of the time left, at most `SLACK`."""
        return SLACK if self._deadline is None else min(SLACK, max(0.0, (self._deadline - now) / 10))

    def can_send(self, now: float, count: int) -> bool:
        """Return whether the window has room for a frame of `count` bytes, or of as many as may wait now."""
        return self._meter.has_room(int(min(count, self._slack_bytes(now))), self.slack(now))

    def _slack_bytes(self, now: float) -> float:
        return self.slack(now) * self._meter.bandwidth if self._meter.bandwidth else float("inf")

    def _use(self, order: Ints) -> None:
        self._order, self._ends, self._next = order, np.cumsum(self._states.size[order]), 0

    def _attempt(self, now: float) -> Ints:
        """Return one state while time is left, and the bandwidth that leaves none for it still grows."""
        meter = self._meter
        assert self._deadline is not None
        is_late = now + meter.latency >= self._deadline
        if not meter.is_growing or meter.outstanding or is_late or not self._unsent.any():
            return np.empty(0, np.int64)
        by_density = self._states.by_density
        best = by_density[self._unsent[by_density]][:1]
        self._unsent[best] = False
        return best

    def _may_be_late(self, room: float) -> bool:
        """Return whether the next state of the plan is sent although it is expected to arrive late.

        At least half of it fits, so no time is left for another one.
        """
        if not self._overrun or self._next == len(self._order) or not self._meter.is_sound:
            return False
        return bool(self._states.size[self._order[self._next]] <= 2 * room)

    def _is_over(self, room: float) -> bool:
        """Return whether the plan has no next state that arrives in time."""
        return self._next == len(self._order) or self._states.size[self._order[self._next]] > room

    def _is_outdated(self, now: float) -> bool:
        rate = self._meter.bandwidth
        if self._rate is None or rate is None:
            return self.plans == 0 or rate is not None
        if self._meter.is_known and not self._knows_bandwidth:
            return True
        return abs(rate - self._rate) > _CHANGE * self._rate and now - self._time >= _PAUSE

    def _plan(self, now: float, room: float) -> None:
        self._rate, self._time = self._meter.bandwidth, now
        states = self._states
        open_states = np.flatnonzero(self._unsent & (states.size <= room))
        sizes = states.size[open_states]
        capacity = int(max(0.0, min(self._margin(sizes, room) * room, float(sizes.sum()))))
        subset = States(sizes, states.utility[open_states], states.key[open_states])
        made = plan(subset, capacity, self._method, seed=self._seed, time_budget=self._time_budget(now))
        self._use(open_states[made.selected])
        self.plans += 1
        if not self._knows_bandwidth:
            sent = ~self._unsent
            self.planned_utility = float(states.utility[sent].sum()) + made.utility
            self.planned_states = int(sent.sum()) + len(made.selected)
            self._knows_bandwidth = self._meter.is_known

    def _margin(self, sizes: Ints, room: float) -> float:
        """Return the share of the room that is planned."""
        if not self._meter.is_measured:
            return _MARGIN
        return _FINE_MARGIN if sizes.max(initial=0) <= _FINE * room else _MEASURED_MARGIN

    def _time_budget(self, now: float) -> str:
        """Return the time for `plan`: 2 % of the time left, at most its default of 200 ms."""
        assert self._deadline is not None
        return f"{int(1e6 * min(200, max(0.0, 20 * (self._deadline - now))))}ns"
