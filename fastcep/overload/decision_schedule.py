"""Schedule of decisions: when enough work was done, or an eighth of a window has passed, since the last one.

Decisions, and learning, take a small share of the time: where an event takes a fraction of a microsecond, and no queue
is known, a decision can be due only after several windows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf
from time import perf_counter_ns
from typing import Any

from fastcep.overload.load_meter import LoadMeter
from fastcep.stored import AMOUNT, COUNT, FLAG, sequence, whole

__all__ = ["MOST_EVENTS", "DecisionSchedule", "RestSchedule"]

#: Decisions in a window (ALGORITHMS: hybrid, decisions), smallest number of events before the first check and with a
#: limit of memory, and smallest number between two checks of a queue.
_BY_WINDOW = 8
_LEAST, _NEXT = 32, 4

#: Number of events after which a decision is due even if the window is longer, and largest number between two checks.
#: On the wall clock, decisions are rarer if they would take more than their share of the time, down to the second
#: number; not so with a memory limit.
MOST_EVENTS, _RAREST = 1 << 15, 1 << 20

#: Share of the time that decisions may take, on the virtual and on the wall clock.
_OVERHEAD, _WALL_OVERHEAD = 0.02, 0.005

#: With a queue: share of the latency bound that the engine may work, or in which events may arrive, between two
#: decisions; with a tenth, the bound is held less often, because a decision costs about 0.7 ms on the wall clock. Up to
#: `_LONGEST_SHARE` passes there if decisions would otherwise take more than `_QUEUE_OVERHEAD` of the time. The interval
#: is at least `_NEAREST` times the cost of a decision. A decision is also due if the wait rose by `_RISE`.
_BOUND_SHARE, _LONGEST_SHARE, _QUEUE_OVERHEAD = 0.25, 0.6, 0.025
_NEAREST, _RISE = 4, 0.1

#: Largest cost of a decision that counts, as a multiple of the mean: one that was interrupted does not delay the next.
_LARGEST_RISE = 2.0

#: Number of first decisions that are frequent whatever they cost: otherwise it would take long to drop enough.
_FREQUENT = 8

#: First check, as a share of the last interval, and least distance of two checks, as a share of the events so far. With
#: a queue: share of the work left until the next decision that may be done until the next check, if events are as
#: expensive as in the most expensive stretch, and what this expense loses at each check.
_FIRST_CHECK, _NEXT_CHECK = 8, 32
_CHECKED_WORK, _FORGOTTEN = 0.33, 0.01

#: Share of the time that shedders may use for learning, in addition to decisions, and for counting the children of
#: partial matches; and the time that counting one child takes (ns). On the virtual clock both cost nothing.
_LEARNING, _COUNTING = 0.005, 0.0075
_COUNT = 12.0

#: Share of the free memory that may be filled between two decisions, and decay of the growth rate at each decision.
_FREE_SHARE = 0.25
_GROWTH_DECAY = 0.9

#: While the control sleeps: share of the time that decisions may take; shares of the latency bound that an event may
#: wait or take before a decision is due, and that the engine works between two checks.
_REST_OVERHEAD = 0.005
_REST_WAIT, _REST_CHECK = 0.25, 0.125

_EVENTS = whole(1, _RAREST)
_STATE = sequence(
    _EVENTS, _EVENTS, AMOUNT, AMOUNT, AMOUNT, sequence(COUNT, AMOUNT, AMOUNT), COUNT, AMOUNT, COUNT, AMOUNT, FLAG,
    optional=2,
)  # fmt: skip


class DecisionSchedule:
    """Decides when the next decision is due. Times are ns on the engine's clock.

    The schedule is checked after numbers of events that follow from the measurements at the last check. On the virtual
    clock they therefore do not depend on the cut into batches. The first check comes after an eighth of the last
    interval, and each number is at most twice the one before, so that a change of the stream is noticed in time. With a
    queue, the next check comes in time even if events are as expensive as in a recent burst.

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
    check
        Number of events since the last decision at which to check next whether a decision is due.
    last_cost, overhead
        Cost of the last decision, and of all decisions.
    held
        Bytes held at the last decision.
    """

    def __init__(self, decides: bool, often: bool, bound: float, decision: float | None) -> None:
        self._decides, self._often, self._bound = decides, often, bound
        self._wall, self._cost = decision is None, decision or 0.0
        self._share = _WALL_OVERHEAD if self._wall else _OVERHEAD
        self.check = _LEAST if decides else MOST_EVENTS
        self._rarest = _RAREST if self._wall else MOST_EVENTS
        self._most = MOST_EVENTS
        self.last_cost, self.overhead = 0.0, 0.0
        self._costs = (0, 0.0, 0.0)  #: number, total and largest cost of decisions that shed or stopped to
        self._frequent = _FREQUENT
        self.held, self._growth = 0, 0.0
        self._sheds = False  #: whether load is shed until the next decision
        self._dearest = 0.0  #: largest mean latency at a check, of which each check takes off a share
        self._learned, self._learning = 0, 0

    def is_due(self, meter: LoadMeter, windows: float, window: float) -> bool:
        """Return whether a decision is due now; otherwise set the next `check`.

        Parameters
        ----------
        meter
            Measurements since the last decision.
        windows
            Number of windows that have passed since then.
        window
            Number of events in a window, as a mean over several decisions.
        """
        events = meter.events
        if meter.first_arrival is not None:
            self._dearest = max(meter.per_event, (1 - _FORGOTTEN) * self._dearest)
        done = self._progress(meter, windows, window) if self._decides else 0.0
        if done >= 1 or events >= self._most:
            return True
        expected = ceil(min(events / done - 1e-6, self._most)) if done > 0 else self._most
        self.check = min(
            max(expected, events + events // _NEXT_CHECK + 1), 2 * events, events + self._events_to_check(meter),
            self._most,
        )  # fmt: skip
        return False

    def _events_to_check(self, meter: LoadMeter) -> int:
        """Return the largest number of events to the next check; there are fewer with a queue, as a burst may come."""
        if not self._decides or meter.first_arrival is None:
            return MOST_EVENTS
        return max(self._events_in_burst(meter.spent), min(meter.events // _FIRST_CHECK, MOST_EVENTS))

    def _events_in_burst(self, spent: float) -> int:
        """Return for how many expensive events there is time until the next decision, if ``spent`` has passed of it."""
        if not self._bound or not self._dearest:
            return MOST_EVENTS
        left = _CHECKED_WORK * (max(self._interval, self._cost * _NEAREST) - spent)
        return max(int(min(left / self._dearest, MOST_EVENTS)), _NEXT)

    @property
    def _interval(self) -> float:
        """Time that the engine may work, and in which events may arrive, between two decisions with a queue."""
        interval = self._bound * _BOUND_SHARE
        if self._wall and not (self._often or self._frequent):
            interval = max(interval, min(self._cost / _QUEUE_OVERHEAD, self._bound * _LONGEST_SHARE))
        return interval

    def _progress(self, meter: LoadMeter, windows: float, window: float) -> float:
        """Return the share of the way to the next decision that is done; at least 1 if the decision is due."""
        least = self._cost * _NEAREST if self._often or self._frequent else self._cost / self._share
        by_cost = meter.spent / least if least > 0 else inf
        by_window = max(windows * _BY_WINDOW, meter.events / MOST_EVENTS)
        if meter.first_arrival is None:  # no queue is known: an eighth of a window, or of its work within the bound
            due = self._bound * window / _BY_WINDOW
            return min(max(by_window, meter.spent / due if due > 0 else 0.0), by_cost)
        if not self._bound:
            return min(by_window, by_cost)
        nearest, interval = self._cost * _NEAREST, self._interval
        by_work = meter.spent / max(interval, nearest)
        # While much is shed, many events arrive in little work. Receiving them takes time, too, and an engine that is
        # idle because it sheds has time for decisions.
        by_arrivals = meter.arrivals_passed / interval
        passed = meter.elapsed if self._sheds else meter.busy_time
        if self._sheds and meter.at_once and meter.waited <= self._bound:
            passed = max(passed, meter.arrivals_passed)  # otherwise a demand that is too high empties the queue
        by_arrivals = min(by_arrivals, passed / nearest if nearest > 0 else inf)
        # Events that wait for longer show a burst, or a machine that is slower than expected.
        by_wait = (meter.wait_growth - self.last_cost) / (_RISE * self._bound)
        by_wait = min(by_wait, meter.busy_time / nearest if nearest > 0 else inf)
        return max(min(by_window, by_cost), by_work, by_arrivals, by_wait)

    def count_budget(self, per_event: float) -> float:
        """Return how many children per event may be counted, given the time per event."""
        return _COUNTING * per_event / _COUNT if self._wall else inf

    def learn(self, learn: Callable[[], None]) -> int:
        """Call ``learn`` if it keeps within its share of the time; return the nanoseconds that it took."""
        began = perf_counter_ns()
        if self._wall and began - self._learned < self._learning / _LEARNING:
            return 0
        learn()
        self._learned = perf_counter_ns()
        self._learning = self._learned - began
        return self._learning

    def record_cost(self, cost: float, learned: float = 0.0, decided: bool = True) -> None:
        """Record the cost of a decision in ns.

        Parameters
        ----------
        cost, learned
            Cost in ns, and the part that the shedder spent on learning.
        decided
            Whether there is a demand or was one before.
        """
        if self._wall and self._frequent < _FREQUENT:  # the first one computes what later ones use
            decision_cost = cost - learned
            if self._cost:
                decision_cost = min(decision_cost, _LARGEST_RISE * self._cost)
            rises = decision_cost > self._cost  # slowly, as an interrupted decision is no measure
            self._cost += (decision_cost - self._cost) / (8 if rises and self._cost else 2)
        self.overhead += cost
        self.last_cost = cost
        if decided:
            count, total, largest = self._costs
            self._costs = count + 1, total + cost, max(largest, cost)

    def decision_time(self) -> dict[str, float]:
        """Return the mean and the largest cost in ns of the decisions that shed, or that stopped to."""
        count, total, largest = self._costs
        return {"mean": total / count if count else 0.0, "max": largest}

    def schedule_next(self, events: int, free: Callable[[], tuple[int, int]] | None, *, sheds: bool = False) -> None:
        """Schedule the next decision, after one that came ``events`` events after the last one.

        Parameters
        ----------
        events
            Number of events.
        free
            Function that returns the bytes held and the limit; None without a limit.
        sheds
            Whether load is shed until the next decision.
        """
        self._sheds = sheds
        if self._decides:
            self._frequent = max(0, self._frequent - 1)
            self._most = self._rarest
            if free is not None:
                until_full = self._events_until_full(events, *free()) * _FREE_SHARE
                self._most = int(min(max(until_full, _LEAST), MOST_EVENTS))
            first = min(max(_LEAST, events // _FIRST_CHECK), self._events_in_burst(0.0))
            self.check = min(first, MOST_EVENTS, self._most)

    def _events_until_full(self, events: int, held: int, limit: int) -> float:
        """Return the number of events until memory is full, at the recent growth rate.

        Memory grows in steps, because arrays double. A time without growth therefore lowers the rate only a little.
        """
        self._growth = max((held - self.held) / events, self._growth * _GROWTH_DECAY)
        self.held = held
        return max(limit - held, 0) / self._growth if self._growth > 0 else float(MOST_EVENTS)

    def state(self) -> list[Any]:
        """Return the state for a snapshot as JSON values."""
        return [self.check, self._most, self._cost, self.overhead, self.last_cost, list(self._costs), self.held,
                self._growth, self._frequent, self._dearest, self._sheds]  # fmt: skip

    def restore(self, state: list[Any]) -> None:
        """Restore a `state`."""
        _STATE(state, "control.pace")
        (self.check, self._most, self._cost, self.overhead, self.last_cost, costs, self.held, self._growth,
         self._frequent, self._dearest, self._sheds) = (*state, 0.0, False)[:11]  # older ones have nine
        self._costs = (costs[0], costs[1], costs[2])


class RestSchedule(DecisionSchedule):
    """Schedule of decisions while the overload control sleeps: rare, until an event waits or takes long."""

    _per_event = 0.0

    def is_due(self, meter: LoadMeter, windows: float, window: float) -> bool:
        """Return whether a decision is due now; otherwise set the next `check`."""
        self._per_event = meter.per_event
        return super().is_due(meter, windows, window)

    def _progress(self, meter: LoadMeter, windows: float, window: float) -> float:
        """Return the share of the way to the next decision that is done; at least 1 if the decision is due."""
        least = self._cost * _NEAREST if self._frequent else self._cost / _REST_OVERHEAD
        by_cost = meter.spent / least if least > 0 else inf
        return max(by_cost, max(meter.waited, meter.per_event) / (self._bound * _REST_WAIT))

    def _events_to_check(self, meter: LoadMeter) -> int:
        return self._events_at_rest()

    def _events_at_rest(self) -> int:
        """Return the number of events that take the share of the bound which may pass between two checks."""
        return max(1, int(min(self._bound * _REST_CHECK / max(self._per_event, 1e-9), MOST_EVENTS)))

    def schedule_next(self, events: int, free: Callable[[], tuple[int, int]] | None, *, sheds: bool = False) -> None:
        """Schedule the next decision, after one that came ``events`` events after the last one."""
        super().schedule_next(events, free, sheds=sheds)
        self.check = min(max(_LEAST, events), self._most, self._events_at_rest())
