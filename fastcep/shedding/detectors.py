"""When it is too much: by what is measured of latency, queue and memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fastcep.errors import ValidationError
from fastcep.events.units import NANOSECONDS
from fastcep.option_types import Statistic
from fastcep.overload.protocols import Detector, DetectorReading, Load
from fastcep.shedding.options import as_choice, as_count, as_share
from fastcep.stored import AMOUNT, FLAG, record

__all__ = ["MemoryUse", "QueueLength", "SmoothedLatency", "rough"]


#: Share of the events above the bound that a percentile allows, of which is aimed at so much.
_ALLOWED, _AIMED = {"p95": 0.05, "p99": 0.01}, 0.96
#: After so many events an account is forgotten; what is owed lowers the set point so many times as much, up to a half.
_FORGOTTEN, _PAID_BACK, _MOST_BACK = 50_000.0, 6.0, 0.5


class SmoothedLatency(Detector):
    """The processing latency, smoothed, against a set point slightly below the bound: the detector of *hybrid*.

    A latency that is at its set point now is not enough: a change of the stream, or a percentile that is that of the
    last events at each time but not of all together, would leave the bound missed for good. So what the bound allows
    and what was used are added up, and what was used too much is paid back by a lower set point: of the mean the
    latencies themselves, of a percentile the events above the bound. The account begins when the latency is at its set
    point for the first time: what it took to get there is not paid back. (Not in the paper.) Where events are cut off
    at the bound (`Load.cut`), it is too much if more are above it lately than may be and the account is overdrawn.

    Parameters
    ----------
    statistic
        ``"mean"``: of all events since the last decision, so that it tells nothing of how it was before that;
        ``"p95"`` and ``"p99"``: over the last events.
    set_point
        Which share of the bound is aimed at.

    Raises
    ------
    ValidationError
        If an option is wrong.
    """

    name = "latency"

    def __init__(self, statistic: Statistic = "mean", set_point: float = 0.985) -> None:
        self.statistic = as_choice("detector 'latency'", "statistic", statistic, ("mean", "p95", "p99"))
        self.set_point = as_share("detector 'latency'", "set_point", set_point)
        self.allowed = _ALLOWED.get(statistic, 0.0)
        self._begun, self._events, self._used = False, 0.0, 0.0

    def read(self, load: Load) -> DetectorReading:
        """Judge what is measured."""
        if load.cut and self.allowed:
            lately, owed = load.over / self.allowed - 1, self._overdrawn(load)
            return DetectorReading(min(lately, owed), why=f"{load.over:.2%} of the events above the bound")
        latency = load.recent if self.statistic == "mean" else load.smoothed
        limit = self.set_point * load.bound
        self._begun = self._begun or (load.shedding and latency <= limit)
        if self._begun:
            limit *= 1 - self._owed(load)
        why = f"processing latency ({self.statistic}) {rough(latency)}, set point {rough(limit)}"
        return DetectorReading(latency / limit - 1, why=why)

    def _owed(self, load: Load) -> float:
        """By what share the set point is lower, for what was used beyond what the bound allows."""
        return min(max(_PAID_BACK * self._overdrawn(load), 0.0), _MOST_BACK)

    def _overdrawn(self, load: Load) -> float:
        """By what share more was used than the bound allows."""
        if self.statistic == "mean":
            used = load.events * load.recent / load.bound
        else:
            used = load.events * load.over / (_AIMED * self.allowed)
        kept = math.exp(-load.events / _FORGOTTEN)
        self._events = kept * self._events + load.events
        self._used = kept * self._used + used
        return self._used / self._events - 1 if self._events > 0 else 0.0

    def spec(self) -> dict[str, Any]:
        """Its name and options, as JSON has them."""
        return {"name": self.name, "statistic": self.statistic, "set_point": self.set_point}

    def state(self) -> dict[str, Any]:
        """What it has learned, as JSON has it."""
        return {"begun": self._begun, "events": self._events, "used": self._used}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        if state:  # older snapshots have none
            record({"begun": FLAG, "events": AMOUNT, "used": AMOUNT})(dict(state), "control.learned")
            self._begun, self._events, self._used = state["begun"], state["events"], state["used"]


class QueueLength(Detector):
    """The length of the input queue, against the longest that keeps the bound: the detector of *espice*.

    With a processing latency ``l`` an event waits for less than the bound ``LB`` if no more than ``q_max = LB / l``
    events are before it. It is too much when more than the share ``f`` of these wait; the rest is room for what comes
    until shedding helps.

    Parameters
    ----------
    f
        Which share of the longest queue may wait.
    q_max
        The longest queue, in events. None: by the mean processing latency while nothing is shed, of about the last ten
        measurements; nothing is too much before the first.

    Raises
    ------
    ValidationError
        If an option is wrong.
    """

    name = "queue"
    _FORGET = 0.9

    def __init__(self, f: float = 0.8, q_max: int | None = None) -> None:
        self.f = as_share("detector 'queue'", "f", f)
        if self.f == 1:
            raise ValidationError("detector 'queue': f=1 leaves no room in the queue; expected less, such as 0.8")
        self._given = None if q_max is None else as_count("detector 'queue'", "q_max", q_max)
        self._bound = 0.0
        self._spent = self._events = 0.0

    @property
    def q_max(self) -> float:
        """How many events may wait at most; 0 as long as that is not known."""
        if self._given is not None:
            return float(self._given)
        return self._bound * self._events / self._spent if self._spent > 0 else 0.0

    def read(self, load: Load) -> DetectorReading:
        """Judge what is measured; what is measured while nothing is shed says how long the queue may become."""
        self._bound = load.bound
        if not load.shedding and load.events > 0:
            self._spent = self._FORGET * self._spent + load.recent * load.events
            self._events = self._FORGET * self._events + load.events
        utilisation = load.arrivals * load.busy or None
        longest = self.q_max
        if longest <= 0:
            return DetectorReading(0.0, utilisation)
        if self._given is None and load.busy > 0:  # slower than it was without load, as other work goes on beside it
            longest = min(longest, load.bound / load.busy)
        limit = self.f * longest
        why = f"{load.queue:,} events wait, limit {limit:,.0f} (f = {self.f:g} of q_max = {longest:,.0f})"
        return DetectorReading((load.queue - limit) / (longest - limit), utilisation, why=why)

    def partitions(self, window_events: float) -> int:
        """Into how many parts a window of so many events is cut, so that each fits into the free room of the queue."""
        longest = self.q_max
        return max(1, math.ceil(window_events / (longest - self.f * longest))) if longest > 0 else 1

    def amount(self, window_events: float, utilisation: float) -> float:
        """How many events are to be dropped of each part of a window.

        With arrivals at rate ``R`` and a throughput ``th``, ``utilisation`` is ``R / th``, and ``R - th`` of ``R``
        events are too many: ``x = (R - th) * p_size / R``.
        """
        size = window_events / self.partitions(window_events)
        return size * (1 - 1 / utilisation) if utilisation > 1 else 0.0

    def spec(self) -> dict[str, Any]:
        """Its name and options, as JSON has them."""
        return {"name": self.name, "f": self.f, "q_max": self._given}

    def state(self) -> dict[str, Any]:
        """What it has learned, as JSON has it."""
        return {"bound": self._bound, "spent": self._spent, "events": self._events}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        record({"bound": AMOUNT, "spent": AMOUNT, "events": AMOUNT})(dict(state), "control.learned")
        self._bound, self._spent, self._events = state["bound"], state["spent"], state["events"]


class MemoryUse(Detector):
    """What is held in memory, against a share of the limit.

    What is above it counts by the room up to the limit, and is treated as a queue's length is: memory adds up what
    comes beyond what goes, too. So the demand is large when the room is used up, and stays until it is free again.

    Parameters
    ----------
    share
        Which share of the memory limit may be held.

    Raises
    ------
    ValidationError
        If an option is wrong; from `read`, if there is no limit.
    """

    name = "memory"

    def __init__(self, share: float = 0.9) -> None:
        self.share = as_share("detector 'memory'", "share", share)

    def read(self, load: Load) -> DetectorReading:
        """Judge what is measured."""
        if load.memory_limit <= 0:
            raise ValidationError("detector 'memory' needs a limit; give the engine memory_limit, such as \"1GiB\"")
        limit = self.share * load.memory_limit
        room = max(load.memory_limit - limit, 0.01 * load.memory_limit)
        excess = (load.memory - limit) / room
        why = f"{load.memory:,} bytes are held, limit {limit:,.0f} ({self.share:g} of memory_limit)"
        return DetectorReading(excess, utilisation=1.0 if excess > 0 else 0.999, why=why)

    def spec(self) -> dict[str, Any]:
        """Its name and options, as JSON has them."""
        return {"name": self.name, "share": self.share}


def rough(ns: float) -> str:
    """A duration with four digits, for people."""
    unit = next((unit for unit in ("s", "ms", "us") if ns >= NANOSECONDS[unit]), "ns")
    return f"{ns / NANOSECONDS[unit]:.4g}{unit}"
