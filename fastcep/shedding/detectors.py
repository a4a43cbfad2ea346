"""Detectors that compare measurements of latency, queue and memory with their limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fastcep.errors import ValidationError
from fastcep.events.units import NANOSECONDS
from fastcep.option_types import Statistic
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.offered_load import MOST_SAVED
from fastcep.overload.protocols import Detector
from fastcep.shedding.options import as_choice, as_count, as_share
from fastcep.stored import AMOUNT, FLAG, SHARE, anything, record

__all__ = ["MemoryUse", "QueueLength", "SmoothedLatency", "rounded"]


#: Share of the events that a bound on a percentile allows above it, and the share of these that is aimed at.
_ALLOWED, _AIMED = {"p95": 0.05, "p99": 0.01}, 0.96
#: Time constant of the account in events, and at least in intervals between decisions; factor by which an overdrawn
#: share lowers the set point; largest reduction. A mean is paid back slowly, because each further reduction costs more.
_TIME_CONSTANT, _INTERVALS, _REPAYMENT = 50_000.0, 1.5, 6.0
_MOST_REPAID = {"mean": 0.25, "p95": 0.5, "p99": 0.5}
#: Share of the room for memory at which everything is demanded; the rest is for growth until the next decision. Largest
#: share of that part that is distinguished.
_ROOM, _MOST_USED = 0.75, 0.999
#: Largest ratio of the time that matching takes to the time that there is for it.
_MOST_RATIO = 1000.0
#: Power of the share of the bound that the last event waited: a burst counts little below f, and fully at the bound.
_NEARNESS = 8
#: If demands take effect at once: time in bounds over which the cost of an event is averaged. Shares of the room above
#: ``f * LB``: what an event waits for when only `_LEAST_LEFT` of the work that the arrival rate allows is left.
_AVERAGED, _SPENT, _LEAST_LEFT = 1.5, 0.75, 0.02
#: Share by which ``f`` is less after an event waited for the whole bound; share of the room that events may use before
#: that; time constant with which the longest wait decreases, in bounds of work.
_LESS, _FORGIVEN, _FORGOTTEN = 0.4, 0.85, 256.0
#: Share of ``f * LB`` from which on events wait because of an overload.
_WAITING = 0.25

_QUEUE_STATE = record(
    {"bound": AMOUNT, "service": AMOUNT, "other": AMOUNT},
    {"spent": AMOUNT, "whole": AMOUNT, "peak": SHARE,  # older snapshots lack these, or have others
     "left": anything, "mean": anything, "averaged": anything},
)


class SmoothedLatency(Detector):
    """Compares the smoothed processing latency with a set point slightly below the bound: the detector of *hybrid*.

    Holding each measurement at the set point is not enough. After a change of the stream the excess would never be
    compensated, and percentiles of short stretches can all be within the bound while the percentile of all events is
    not. The detector therefore keeps an account (not in the paper) of what the set point allows and what was used: the
    sum of the latencies for the mean, the number of events above the bound for a percentile. An overdrawn account
    lowers the set point. For the mean, the account starts when load is first shed. For percentiles it starts when the
    latency first reaches its set point, because a start in which all events are above the bound would use up what is
    allowed for many later ones.

    If the work for single events is limited to the bound (`Load.cut`), the excess is positive only if more events than
    allowed were above the bound recently and the account is overdrawn.

    Parameters
    ----------
    statistic
        ``"mean"``: of the events since the last decision only. ``"p95"``, ``"p99"``: over the most recent events.
    set_point
        Share of the bound to aim at.

    Raises
    ------
    ValidationError
        If an option is wrong.
    """

    name = "latency"

    def __init__(self, statistic: Statistic = "mean", set_point: float = 0.985) -> None:
        self.statistic: str = as_choice("detector 'latency'", "statistic", statistic, ("mean", "p95", "p99"))
        self.set_point: float = as_share("detector 'latency'", "set_point", set_point)
        self.allowed: float = _ALLOWED.get(statistic, 0.0)
        self._begun, self._events, self._used = False, 0.0, 0.0

    def read(self, load: Load) -> DetectorReading:
        """Compare the load with the set point."""
        if load.cut and self.allowed:
            recent, overdrawn = load.over / self.allowed - 1, self._overdrawn_share(load)
            return DetectorReading(min(recent, overdrawn), why=f"{load.over:.2%} of the events above the bound")
        latency = load.recent if self.statistic == "mean" else load.smoothed
        limit = self.set_point * load.bound
        self._begun = self._begun or (load.shedding and (self.statistic == "mean" or latency <= limit))
        if self._begun:
            limit *= 1 - self._repayment(load)
        why = f"processing latency ({self.statistic}) {rounded(latency)}, set point {rounded(limit)}"
        return DetectorReading(latency / limit - 1, why=why)

    def _repayment(self, load: Load) -> float:
        """Return the share by which the set point is lowered."""
        return min(max(_REPAYMENT * self._overdrawn_share(load), 0.0), _MOST_REPAID[self.statistic])

    def _overdrawn_share(self, load: Load) -> float:
        """Update the account; return by what share more was used than the set point allows."""
        if self.statistic == "mean":
            used = load.events * load.recent / (self.set_point * load.bound)
        else:
            used = load.events * load.over / (_AIMED * self.allowed)
        decay = math.exp(-load.events / max(_TIME_CONSTANT, _INTERVALS * load.events))
        self._events = decay * self._events + load.events
        self._used = decay * self._used + used
        return self._used / self._events - 1 if self._events > 0 else 0.0

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        return {"name": self.name, "statistic": self.statistic, "set_point": self.set_point}

    def state(self) -> dict[str, Any]:
        """Return the learned state as JSON values."""
        return {"begun": self._begun, "events": self._events, "used": self._used}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        if state:  # older snapshots have none
            record({"begun": FLAG, "events": AMOUNT, "used": AMOUNT})(dict(state), "control.learned")
            self._begun, self._events, self._used = state["begun"], state["events"], state["used"]


class QueueLength(Detector):
    """Compares the length of the input queue with the longest that keeps the bound: the detector of *espice*.

    With a service time ``l`` without shedding, an event waits for less than the bound ``LB`` if at most
    ``q_max = LB / l`` events are ahead of it. Shedding begins at the share ``f`` of ``q_max``; the rest is room for the
    events that arrive until it takes effect. ``excess`` compares the time that matching takes without shedding with
    the time that there is for it, so an event waits for ``f * LB`` if the share ``excess / (1 + excess)`` of the
    matching is saved. ``utilisation`` is the same ratio for events that arrive as fast as they are processed. While the
    queue is above its limit, both take into account that the service time rises (`Load.growth`). The nearer to the
    bound the last event waited, the more ``utilisation`` is that of the last events (`Load.latest`), because there is
    no more time to see whether they are a burst. This also holds if the queue is short because no more events arrive.

    If a demand takes effect at once (`Load.at_once`), the ``amount`` of the reading is the share of the matching to
    save so that the events that wait take ``f * LB``. An event is expected to take what events took recently, divided
    by the share of their work that was left. So the queue grows until the amount is what the arrival rate needs, and
    stays there: at a utilisation of 1.4 it holds ``1.4 * f * q_max`` events, and 0.4 / 1.4 of their work is saved. If
    an event waits for longer, and more events arrive than can be processed, less work is left than the arrival rate
    allows, and hardly any before the wait reaches the bound. After an event waited for nearly the whole bound, ``f`` is
    up to 40 % less for a while. On the wall clock this also holds at the beginning of the first overload.

    Otherwise, and if decisions are further apart than ``f * LB``, such a demand would oscillate. There is no
    ``amount`` then, and the controller demands what the arrival rate needs as soon as the queue is above its limit.

    Parameters
    ----------
    f
        Share of ``q_max`` that may wait.
    q_max
        Longest queue, in events. None: computed from the time that an event is expected to take without shedding;
        before the first measurement there is no limit.

    Raises
    ------
    ValidationError
        If an option is wrong.
    """

    name = "queue"

    def __init__(self, f: float = 0.8, q_max: int | None = None) -> None:
        self.f: float = as_share("detector 'queue'", "f", f)
        if self.f == 1:
            raise ValidationError("detector 'queue': f=1 leaves no room in the queue; expected less, such as 0.8")
        self._fixed = None if q_max is None else as_count("detector 'queue'", "q_max", q_max)
        self._bound = self._service = self._other = 0.0
        self._peak: float | None = None  #: longest recent wait, as a share of the bound; None before an overload
        self._spent, self._whole = 0.0, 0.0  #: time that recent events took, and as how many events without shedding

    @property
    def q_max(self) -> float:
        """Largest number of events that may wait without shedding; 0 while unknown."""
        if self._fixed is not None:
            return float(self._fixed)
        return self._bound / (self._service + self._other) if self._service > 0 else 0.0

    def read(self, load: Load) -> DetectorReading:
        """Compare the queue with its limit."""
        self._bound = load.bound
        expected = self._expected(load)
        at_once = load.at_once and load.bound > 0 and load.events * load.busy <= self.f * load.bound
        if load.service > 0:
            self._service, self._other = expected if at_once else load.service, load.other
        utilisation, longest = self._ratio(load.arrivals), self.q_max
        if longest <= 0:
            return DetectorReading(-1.0, utilisation)
        f = self._share(load, utilisation)
        limit = f * longest
        why = f"{load.queue:,} events wait, limit {limit:,.0f} (f = {f:.3g} of q_max = {longest:,.0f})"
        excess = load.queue / limit - 1
        if at_once:
            by_time = self._ratio(load.queue / (f * load.bound)) - 1
            excess = by_time if self._fixed is None else max(excess, by_time)
            return DetectorReading(excess, utilisation, self._amount(load, f, excess, utilisation), False, why)
        return self._reading_of_rate(load, f, excess, utilisation, why)

    def _reading_of_rate(self, load: Load, f: float, excess: float, utilisation: float, why: str) -> DetectorReading:
        """Return a reading from which the controller determines the demand, by the arrival rate."""
        rise = load.latest - self._service
        if excess > 0:  # the median lags behind a rise
            utilisation = self._ratio(load.arrivals, load.growth)
            if self._fixed is None:
                excess = self._ratio(load.queue / (f * load.bound), load.growth) - 1 if load.bound else 0.0
        if excess > 0 or load.waited > f * load.bound:
            burst = self._ratio(load.arrivals, rise)
            near = min(load.waited / load.bound, 1.0) if load.bound else 0.0
            utilisation += max(burst - utilisation, 0.0) * near**_NEARNESS
            if utilisation > 1:  # although the queue is short, events would wait for longer
                excess = max(excess, near / f - 1)
        return DetectorReading(excess, utilisation, why=why)

    def _expected(self, load: Load) -> float:
        """Return the time that matching an event in the queue is expected to take without shedding.

        It is the mean over recent events, because a few expensive ones among many cheap ones take most of the time; and
        over enough of them that the demand does not follow each burst, as an uneven demand costs more matches. If an
        event waited for longer than ``f * LB``, there is no time to average, so the last events count if they take
        longer. If nearly all work was saved, what was left is mostly work that no shedder saves, and shows nothing.
        """
        spent = load.recent * load.events
        if load.at_once and load.bound > 0 and spent > 0 and load.saved <= MOST_SAVED:
            kept = math.exp(-spent / (_AVERAGED * load.bound))
            self._spent = kept * self._spent + spent
            self._whole = kept * self._whole + load.events * (1 - load.saved)
        mean = self._spent / self._whole if self._whole > 0 else load.service
        return mean + max(load.latest - mean, 0.0) * self._late(load, self.f) ** 2

    def _share(self, load: Load, utilisation: float) -> float:
        """Return ``f``, or less if demands take effect at once and the longest recent waits came near the bound.

        How much room is needed above ``f * LB`` depends on the stream and on the machine, which may stop for a while.
        On the wall clock, the first overload in which events wait therefore begins as if one had waited for the whole
        bound. Waits at a utilisation up to 1, such as after a pause, do not count: the queue becomes shorter by itself.
        """
        if not load.at_once or not load.bound:
            return self.f
        if self._peak is not None:
            self._peak *= math.exp(-load.events * load.service / (_FORGOTTEN * load.bound))
        elif utilisation > 1 and load.waited > _WAITING * self.f * load.bound:
            self._peak = 1.0 if load.on_wall_clock else 0.0
        else:
            return self.f
        if utilisation > 1:
            self._peak = max(self._peak, min(load.waited / load.bound, 1.0))
        forgiven = self.f + _FORGIVEN * (1 - self.f)
        return self.f * (1 - _LESS * max(0.0, self._peak - forgiven) / (1 - forgiven))

    def _amount(self, load: Load, f: float, excess: float, utilisation: float) -> float:
        """Return the share of the work to save so that the events that wait take ``f * LB``, if it is saved at once.

        The queue does not show that events took longer than expected. So if one waited for longer, and the queue does
        not become shorter by itself, the work that is left is at most what the arrival rate allows, and less.
        """
        left = 1 / (1 + max(excess, 0.0))
        late = self._late(load, f)
        if late > 0 and utilisation > 1:
            left = min(left, max(1 - late**2, _LEAST_LEFT) / utilisation)
        return 1 - left

    @staticmethod
    def _late(load: Load, f: float) -> float:
        """Return how far the last event waited for longer than ``f * LB``: 1 if nearly no work may be left."""
        return min(max(load.waited / load.bound - f, 0.0) / (_SPENT * (1 - f)), 1.0) if load.bound else 0.0

    def _ratio(self, rate: float, growth: float = 0.0) -> float:
        """Return the matching time of an event without shedding, relative to the time for it at a processing rate."""
        service = self._service + growth
        return service / max(1 / rate - self._other, service / _MOST_RATIO, 1e-9) if rate > 0 else 0.0

    def partitions(self, window_events: float) -> int:
        """Return the number of parts into which to divide a window, so that each fits into the queue's free room."""
        longest = self.q_max
        return max(1, math.ceil(window_events / (longest - self.f * longest))) if longest > 0 else 1

    def amount(self, window_events: float, utilisation: float) -> float:
        """Return the number of events to drop from each part of a window.

        With arrival rate ``R`` and throughput ``th`` without shedding, ``utilisation`` is ``R / th``, and ``R - th`` of
        ``R`` events have to be dropped: ``x = (R - th) * p_size / R``.
        """
        size = window_events / self.partitions(window_events)
        return size * (1 - 1 / utilisation) if utilisation > 1 else 0.0

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        return {"name": self.name, "f": self.f, "q_max": self._fixed}

    def state(self) -> dict[str, Any]:
        """Return the learned state as JSON values."""
        state = {
            "bound": self._bound, "service": self._service, "other": self._other,
            "spent": self._spent, "whole": self._whole,
        }  # fmt: skip
        return state if self._peak is None else {**state, "peak": self._peak}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        _QUEUE_STATE(dict(state), "control.learned")
        self._bound, self._service, self._other = state["bound"], state["service"], state["other"]
        self._spent, self._whole = state.get("spent", 0.0), state.get("whole", 0.0)
        self._peak = state.get("peak")


class MemoryUse(Detector):
    """Compares the memory in use with a share of the limit.

    The demand grows with the use of the room between that share and the limit; everything is demanded when three
    quarters of the room are used, and the rest is for growth until the next decision. The excess is given so that it is
    controlled like the length of a queue, because memory also integrates the difference between growth and release.

    Parameters
    ----------
    share
        Share of the memory limit that may be in use.

    Raises
    ------
    ValidationError
        If an option is wrong; from `read`, if there is no limit.
    """

    name = "memory"

    def __init__(self, share: float = 0.9) -> None:
        self.share: float = as_share("detector 'memory'", "share", share)

    def read(self, load: Load) -> DetectorReading:
        """Compare the memory in use with its limit."""
        if load.memory_limit <= 0:
            raise ValidationError("detector 'memory' needs a limit; give the engine memory_limit, such as \"1GiB\"")
        limit = self.share * load.memory_limit
        room = max(load.memory_limit - limit, 0.01 * load.memory_limit)
        used = (load.memory - limit) / (_ROOM * room)
        excess = used / (1 - min(used, _MOST_USED)) if used > 0 else used
        why = f"{load.memory:,} bytes are held, limit {limit:,.0f} ({self.share:g} of memory_limit)"
        return DetectorReading(excess, utilisation=0.0, why=why)

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        return {"name": self.name, "share": self.share}


def rounded(ns: float) -> str:
    """Format a duration to four digits, with its unit."""
    unit = next((unit for unit in ("s", "ms", "us") if ns >= NANOSECONDS[unit]), "ns")
    return f"{ns / NANOSECONDS[unit]:.4g}{unit}"
