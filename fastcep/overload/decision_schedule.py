"""How often overload control decides: eight times a window, unless that costs too much time, or memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from fastcep.stored import AMOUNT, COUNT, INT64, or_null, sequence, whole

__all__ = ["MOST_EVENTS", "DecisionSchedule"]

#: Decisions in a window (ALGORITHMS: hybrid, decisions), and how many events may lie between two.
_BY_WINDOW = 8
_LEAST, MOST_EVENTS = 32, 1 << 15

#: Share of the time that decisions may take, and of the latency bound that may pass between two of them; but at least
#: so many times what one costs.
_OVERHEAD = 0.02
_OF_BOUND = 0.1
_NEAREST = 4

#: The first decisions are not rare, whatever they cost: without them it would take long until enough is dropped.
_AT_ONCE = 8

#: Share of the time that shedders may learn, and count children for that; and what it takes to count one (ns). On the
#: virtual clock both cost nothing.
_LEARNING, _COUNTING = 0.005, 0.0075
_COUNT = 12.0

#: Share of the free memory that may be filled between two decisions, and what is remembered of how fast that went.
_OF_ROOM = 0.25
_REMEMBERED = 0.9

_STATE = sequence(
    whole(1, MOST_EVENTS), COUNT, AMOUNT, or_null(INT64), or_null(INT64), AMOUNT, AMOUNT, COUNT, AMOUNT, COUNT, AMOUNT
)


class DecisionSchedule:
    """When the next decision is due, by what was measured since the last one. Times are ns on the engine's clock.

    Parameters
    ----------
    decides
        Whether there is something to decide.
    often
        Whether decisions must not be rare, whatever they cost.
    bound
        The latency bound; 0 for none.
    decision
        What a decision costs. None: that is measured, on the wall clock.

    Attributes
    ----------
    step
        After how many events a decision is due.
    since, spent
        How many events there were since the last one, and what the engine took for them.
    first_time, first_arrival
        When the first of them happened, and arrived; None if that is not known.
    last_cost, overhead
        What the last decision cost, and all of them.
    held
        The bytes that were held at the last one.
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
        self._at_once = _AT_ONCE
        self.held, self._growth = 0, 0.0
        self._learned, self._learning = 0, 0

    def add(self, number: int, spent: float, time: int, arrival: int | None) -> None:
        """Take a stretch of events into account, of which the first happened, and arrived, at these times."""
        if self.first_time is None:
            self.first_time = time
        if self.first_arrival is None:
            self.first_arrival = arrival
        self.since += number
        self.spent += spent

    def occupy(self, now: int, arrival: int, began: int) -> None:
        """On the wall clock a stretch is done: since the last one the engine has waited for its first event at most.

        Of the first stretch counts what passed since it ``began``.
        """
        self._busy += now - max(self._ended or began, arrival)
        self._ended = now

    @property
    def busy(self) -> float:
        """Nanoseconds per event that the engine was busy, with all that it does besides matching."""
        return (self._busy or self.spent + self.last_cost) / self.since

    def spare(self) -> float:
        """How many children may be counted per event, in the share of the time that there is for it."""
        return _COUNTING * self.spent / self.since / _COUNT if self._wall else float("inf")

    def learn(self, learns: Callable[[], None]) -> int:
        """Let a shedder learn, if that takes no more than its share of the time; returns the nanoseconds it took."""
        began = perf_counter_ns()
        if self._wall and began - self._learned < self._learning / _LEARNING:
            return 0
        learns()
        self._learned = perf_counter_ns()
        self._learning = self._learned - began
        return self._learning

    def charge(self, cost: float, learned: float = 0.0) -> None:
        """A decision has cost so much; for some of it the shedder learned."""
        if self._wall:
            own = cost - learned
            self._cost += (own - self._cost) / 8 if self._cost else own
        self.overhead += cost
        self.last_cost = cost

    def begin(self, window: float, free: Callable[[], tuple[int, int]] | None) -> None:
        """After a decision: choose when the next one is due.

        ``window`` is how many events the shortest window has; ``free`` tells how many bytes are held, and the limit.
        """
        if self._decides:
            self._at_once = max(0, self._at_once - 1)
            events = window / _BY_WINDOW
            if self.spent > 0:
                events = max(events, self._least_time() / (self.spent / self.since))
            if free is not None:
                events = min(events, self._until_full(*free()) * _OF_ROOM)
            self.step = int(min(max(events, _LEAST), MOST_EVENTS))
        self.since, self.spent, self._busy, self.first_time, self.first_arrival = 0, 0.0, 0.0, None, None

    def _least_time(self) -> float:
        """The least time between two decisions: they cost little of it, unless the bound asks for more of them."""
        if self._often or self._at_once:
            return self._cost * _NEAREST
        if self.first_arrival is None:  # nothing waits, so that it does not matter when the bound is held again
            return self._cost / _OVERHEAD
        return min(self._cost / _OVERHEAD, max(self._cost * _NEAREST, self._bound * _OF_BOUND))

    def _until_full(self, held: int, limit: int) -> float:
        """How many events there is memory for, by how fast it has been filled.

        It grows in leaps, as arrays double; so a time without growth is remembered as a little less, and no more.
        """
        self._growth = max((held - self.held) / self.since, self._growth * _REMEMBERED)
        self.held = held
        return max(limit - held, 0) / self._growth if self._growth > 0 else float(MOST_EVENTS)

    def state(self) -> list[Any]:
        """What a snapshot has of it, as JSON has it."""
        return [self.step, self.since, self.spent, self.first_time, self.first_arrival, self.overhead, self.last_cost,
                self.held, self._growth, self._at_once, self._busy]  # fmt: skip

    def resume(self, state: list[Any]) -> None:
        """Go on from `state`."""
        _STATE(state, "control.pace")
        (self.step, self.since, self.spent, self.first_time, self.first_arrival, self.overhead, self.last_cost,
         self.held, self._growth, self._at_once, self._busy) = state  # fmt: skip
