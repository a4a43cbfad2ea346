"""Limit of the backlog: which share of the events to keep if the shedder saves too little.

A shedder saves a share of the work as it expects it, from its model. If it expects wrongly, the backlog can exceed the
bound although the demand is as large as it can be. The limit does not depend on any model: it compares the backlog with
the time that an event was measured to take, and drops events at random in addition to the drop plan.

* Time that the backlog will take: ``queue * (work + other)``. ``work`` is the time that matching an event took, less
  what a higher demand will save. ``other`` is the time besides. Of each, the smaller of the last two measurements
  counts, so that a single interruption does not start the limit.
* If this is more than `_ENGAGED` of the bound, events are dropped until it is `_AIMED` of the bound. Meanwhile, what
  the shedder is expected to save does not count, and ``work`` can only grow: with fewer partial matches, the events
  that are kept take less, too.

There is no limit if a query is not monotonic, because events cannot be dropped without false matches.

Invariant: whatever the shedder does, a backlog above the bound is worked off at the speed at which events can be
dropped, if the work for an event does not rise at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastcep.overload.drop_plan import DropPlan, with_fewer_events
from fastcep.overload.load import DetectorReading, Load
from fastcep.query.patterns import is_monotonic
from fastcep.stored import AMOUNT, COUNT, SHARE, listed, record, sequence

if TYPE_CHECKING:
    from fastcep.overload.query_shedding import QueryShedding

__all__ = ["BacklogLimit"]

#: Shares of the latency bound that the backlog may take before events are dropped, and that is aimed at then.
_ENGAGED, _AIMED = 0.9, 0.85
#: Smallest share of the events that is kept: the recall is estimated from the matches found. Share from which on the
#: time that dropped events take is little beside that of the others.
_LEAST, _MANY = 1e-3, 0.25
#: Number of measurements of which the smallest counts, and smallest share of the bound that each covers, in one or more
#: intervals between decisions: a decision takes as long for few events as for many.
_MEASUREMENTS, _COVERED = 2, 1 / 16
#: Share of the bound that passes between a decision that dropped events and the next measurement.
_SETTLED = 1 / 4

_STATE = record({"keep": SHARE, "engaged": COUNT, "measured": listed(sequence(AMOUNT, AMOUNT, SHARE)),
                 "open": sequence(COUNT, AMOUNT, AMOUNT, AMOUNT), "settling": AMOUNT})  # fmt: skip


class BacklogLimit:
    """Limit of the backlog of an engine.

    Attributes
    ----------
    on
        Whether the backlog is limited.
    keep
        Share of the events to keep until the next decision, of those that the drop plans keep.
    engaged
        Number of decisions that have dropped events for the limit.
    """

    def __init__(self) -> None:
        self.on = False
        self.keep = 1.0
        self.engaged = 0
        self._last_plans: Sequence[DropPlan] = ()  #: as the shedder returned them
        #: ns per event of matching, and besides, and the demand meanwhile
        self._measured: deque[tuple[float, float, float]] = deque(maxlen=_MEASUREMENTS)
        self._open = (0, 0.0, 0.0, 0.0)  #: events of the next measurement, and the sums over them
        self._settling = 0.0  #: ns until the next measurement begins

    def use(self, queries: Sequence[QueryShedding], limits: bool) -> None:
        """Limit the backlog of these queries, if the shedder allows it (``limits``)."""
        self.on = limits and all(is_monotonic(query.plan.query) for query in queries)
        self._last_plans = ()
        if not self.on:
            self.reset()

    def reset(self) -> None:
        """Forget what was measured: another shedder saves other work."""
        self.keep, self._settling, self._open = 1.0, 0.0, (0, 0.0, 0.0, 0.0)
        self._measured.clear()

    def update(self, load: Load, readings: Sequence[DetectorReading], before: float, demand: float) -> None:
        """Set the share of the events to keep.

        Parameters
        ----------
        load, readings
            Measurements since the last decision, and what the detectors make of them. The backlog is limited only if a
            detector knows the arrival rate.
        before, demand
            Demand since the last decision, and from now on.
        """
        if not self.on:
            return
        self._measure(load, before)
        keep, known = 1.0, len(self._measured) == _MEASUREMENTS
        if known and demand > 0 and load.bound and any(reading.utilisation for reading in readings):
            trusted = 1.0 if self.keep < 1 else 1 - demand
            work = min(work * min(1.0, trusted / (1 - then)) for work, _, then in self._measured)
            other = min(other for _, other, _ in self._measured)
            if load.queue * (work + other) > _ENGAGED * load.bound:
                keep = (_AIMED * load.bound / load.queue - other) / max(work, 1e-9)
        self.keep = min(max(keep, _LEAST), 1.0)
        self.engaged += self.keep < 1

    def _measure(self, load: Load, demand: float) -> None:
        """Add an interval between two decisions with this demand to the measurements."""
        if self.keep < 1:
            self._settling = _SETTLED * load.bound
            if self.keep >= _MANY:
                least = load.recent / self.keep
                self._measured.extend([(max(work, least), other, then) for work, other, then in self._measured])
            return
        self._settling -= load.events * load.busy
        if self._settling > 0:
            return
        self._settling = 0.0
        events, total_work, total_other, total_demand = self._open
        events += load.events
        total_work += load.events * load.recent
        total_other += load.events * max(0.0, load.busy - load.recent)
        total_demand += load.events * demand
        self._open = events, total_work, total_other, total_demand
        if total_work + total_other >= _COVERED * load.bound:
            self._measured.append((total_work / events, total_other / events, total_demand / events))
            self._open = (0, 0.0, 0.0, 0.0)

    def limited(self, drop_plans: Sequence[DropPlan], queries: Sequence[QueryShedding]) -> Sequence[DropPlan]:
        """Return the drop plans with fewer events. Live partial matches are dropped once by a plan, as without it."""
        last, self._last_plans = self._last_plans, drop_plans
        if self.keep == 1:
            return drop_plans
        once = [
            replace(plan, drops=None, left=None) if any(plan is old for old in last) else plan for plan in drop_plans
        ]
        by_query = zip(once, queries, strict=True)
        return [with_fewer_events(drop_plan, self.keep, query.plan) for drop_plan, query in by_query]

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot as JSON values."""
        return {"keep": self.keep, "engaged": self.engaged, "measured": [list(times) for times in self._measured],
                "open": list(self._open), "settling": self._settling}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        _STATE(state, "control.backlog")
        self.keep, self.engaged = state["keep"], state["engaged"]
        self._measured = deque(map(tuple, state["measured"]), _MEASUREMENTS)
        self._open, self._settling = tuple(state["open"]), state["settling"]
