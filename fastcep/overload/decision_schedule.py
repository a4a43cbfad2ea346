"""Schedule of decisions: eight in a window; fewer if they cost too much time, more if memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from fastcep.stored import AMOUNT, COUNT, INT64, or_null, sequence, whole

__all__ = ["MOST_EVENTS", "DecisionSchedule"]

#: Decisions in a window (ALGORITHMS: hybrid, decisions), and smallest and largest number of events between two.
_BY_WINDOW = 8
_LEAST, MOST_EVENTS = 32, 1 << 15

#: Share of the time that decisions may take, and share of the latency bound that may pass between two decisions. The
#: interval is at least `_NEAREST` times the cost of a decision.
_OVERHEAD = 0.02
_BOUND_SHARE = 0.1
_NEAREST = 4

#: Number of first decisions that are frequent whatever they cost: otherwise it would take long to drop enough.
_FREQUENT = 8

#: Share of the time that shedders may use for learning, and for counting the children of partial matches; and the time
#: that counting one child takes (ns). On the virtual clock both cost nothing.
_LEARNING, _COUNTING = 0.005, 0.0075
_COUNT = 12.0

#: Share of the free memory that may be filled between two decisions, and decay of the growth rate at each decision.
_FREE_SHARE = 0.25
_GROWTH_DECAY = 0.9

_STATE = sequence(
    whole(1, MOST_EVENTS), COUNT, AMOUNT, or_null(INT64), or_null(INT64), AMOUNT, AMOUNT, COUNT, AMOUNT, COUNT, AMOUNT
)


class DecisionSchedule:
    """Interval to the next decision, from measurements since the last one. Times are ns on the engine's clock.

    Parameters
    ----------
    decides
        Whether decisions are made at all.
    often
        Whether decisions are frequent whatever they cost.
    bound
        Latency bound; 0 for none.
    decision
        Cost of a decision. None: measure it, on the wall clock.

    Attributes
    ----------
    step
        Number of events between two decisions.
    since, spent
        Number of events since the last decision, and the time that the engine took for them.
    first_time, first_arrival
        Event time, and arrival time, of the first of these events; None if unknown.
    last_cost, overhead
        Cost of the last decision, and of all decisions.
    held
        Bytes held at the last decision.
    """

    def __init__(self, decides: bool, often: bool, bound: float, decision: float | None) -> None:
        self._decides, self._often, self._bound = decides, often, bound
        self._wall, self._cost = decision is None, decision or 0.0
        self.step = _LEAST if decides else MOST_EVENTS
        self.since, self.spent = 0, 0.0
        self.first_time: int | None = None
        self.first_arrival: int | None = None
        self.last_cost, self.overhead = 0.0, 0.0
        self._busy, self._ended = 0.0, 0
        self._frequent = _FREQUENT
        self.held, self._growth = 0, 0.0
        self._learned, self._learning = 0, 0

    def add(self, number: int, spent: float, time: int, arrival: int | None) -> None:
        """Record a stretch of events; ``time`` and ``arrival`` are those of the first one."""
        if self.first_time is None:
            self.first_time = time
        if self.first_arrival is None:
            self.first_arrival = arrival
        self.since += number
        self.spent += spent

    def record_busy(self, now: int, arrival: int, began: int) -> None:
        """Record on the wall clock that a stretch ended ``now``.

        The engine was busy since the previous stretch ended or the first event arrived, whichever is later; for the
        first stretch, since it ``began`` or the event arrived.
        """
        self._busy += now - max(self._ended or began, arrival)
        self._ended = now

    @property
    def busy(self) -> float:
        """Nanoseconds per event that the engine was busy, including all work besides matching."""
        return (self._busy or self.spent + self.last_cost) / self.since

    def count_budget(self) -> float:
        """Return how many children per event may be counted within the share of the time reserved for it."""
        return _COUNTING * self.spent / self.since / _COUNT if self._wall else float("inf")

    def learn(self, learn: Callable[[], None]) -> int:
        """Call ``learn`` if it keeps within its share of the time; return the nanoseconds that it took."""
        began = perf_counter_ns()
        if self._wall and began - self._learned < self._learning / _LEARNING:
            return 0
        learn()
        self._learned = perf_counter_ns()
        self._learning = self._learned - began
        return self._learning

    def record_cost(self, cost: float, learned: float = 0.0) -> None:
        """Record the cost of a decision in ns; ``learned`` is the part that the shedder spent on learning."""
        if self._wall:
            decision_cost = cost - learned
            self._cost += (decision_cost - self._cost) / 8 if self._cost else decision_cost
        self.overhead += cost
        self.last_cost = cost

    def schedule_next(self, window: float, free: Callable[[], tuple[int, int]] | None) -> None:
        """Set the number of events until the next decision, and begin to measure anew.

        ``window`` is the number of events in the shortest window; ``free`` returns the bytes held and the limit.
        """
        if self._decides:
            self._frequent = max(0, self._frequent - 1)
            events = window / _BY_WINDOW
            if self.spent > 0:
                events = max(events, self._least_interval() / (self.spent / self.since))
            if free is not None:
                events = min(events, self._events_until_full(*free()) * _FREE_SHARE)
            self.step = int(min(max(events, _LEAST), MOST_EVENTS))
        self.since, self.spent, self._busy, self.first_time, self.first_arrival = 0, 0.0, 0.0, None, None

    def _least_interval(self) -> float:
        """Return the shortest time between two decisions: set by their cost, or by the bound if that is shorter."""
        if self._often or self._frequent:
            return self._cost * _NEAREST
        if self.first_arrival is None:  # no queue is known, so a late reaction does not make events wait
            return self._cost / _OVERHEAD
        return min(self._cost / _OVERHEAD, max(self._cost * _NEAREST, self._bound * _BOUND_SHARE))

    def _events_until_full(self, held: int, limit: int) -> float:
        """Return the number of events until memory is full, at the recent growth rate.

        Memory grows in steps, because arrays double. A time without growth therefore lowers the rate only a little.
        """
        self._growth = max((held - self.held) / self.since, self._growth * _GROWTH_DECAY)
        self.held = held
        return max(limit - held, 0) / self._growth if self._growth > 0 else float(MOST_EVENTS)

    def state(self) -> list[Any]:
        """Return the state for a snapshot as JSON values."""
        return [self.step, self.since, self.spent, self.first_time, self.first_arrival, self.overhead, self.last_cost,
                self.held, self._growth, self._frequent, self._busy]  # fmt: skip

    def restore(self, state: list[Any]) -> None:
        """Restore a `state`."""
        _STATE(state, "control.pace")
        (self.step, self.since, self.spent, self.first_time, self.first_arrival, self.overhead, self.last_cost,
         self.held, self._growth, self._frequent, self._busy) = state  # fmt: skip
