"""Drop plan: what a shedder orders for one query until the next decision."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fastcep.overload.survival import survival
from fastcep.plan import Plan

__all__ = ["DropPlan", "drops", "drops_anything", "largest_weights", "with_fewer_events"]

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class DropPlan:
    """Drop probabilities of one query until the next decision: float64 from 0 to 1; None: drop nothing.

    Attributes
    ----------
    events
        Probability of dropping an event, by type. The decision is drawn once per event for all queries: an event that
        is dropped for one query is also dropped for those with a probability as large or larger.
    binds
        Probability that an event is not tried for a variable, by variable and event class. An event that is tried for
        no variable is dropped.
    windows, bin
        Probability of dropping an event in an isolated window, by type and position in the window; positions are
        grouped by `bin` events.
    whole_windows
        Probability of dropping an isolated window with all of its events. The draw is made once per window: if the
        probability rises, windows that are open are dropped too. A dropped window ends.
    births
        Probability of refusing the birth of a partial match, by state and class, or by state, class and slice.
    drops
        Probability of dropping a live partial match now, by state, class and slice.
    steady
        Whether `drops` are the probabilities with which the births should have been refused. Then the partial matches
        are dropped whose births these probabilities refuse. Otherwise the decision is drawn anew each time.
    kept
        Expected share of the query's matches that are still found, of the events to come. None: unknown; then the
        recall is estimated from the probabilities with which the matches found were kept.
    left
        Share of the matches under way that is left after `drops`; None: unknown.
    saved
        Expected share of the work that is saved, if it exceeds the demand because some drops cost no recall. The demand
        then lasts as long as it would be needed without these drops.
    counts
        Share of the events whose children are counted by source, for `QueryView.flows`.
    error
        Standard deviation of `kept`, as a share of it from 0 to 1; it widens the interval of the estimated recall.
    demand_without_limit
        Demand with which the drops are meant to hold a bound on a percentile without the work limit (`Shedder.cuts`);
        0: they are chosen beside it.
    work_limit
        Whether the work limit is in force; False only with `demand_without_limit`. When it changes, the detectors of a
        percentile continue from that demand.
    """

    events: Floats | None = None
    binds: Floats | None = None
    windows: Floats | None = None
    bin: int = 1
    whole_windows: float = 0.0
    births: Floats | None = None
    drops: Floats | None = None
    steady: bool = False
    kept: float | None = None
    left: float | None = None
    saved: float = 0.0
    counts: float = 0.0
    error: float = 0.0
    demand_without_limit: float = 0.0
    work_limit: bool = True

    def known_kept(self) -> float | None:
        """Return `kept`, or 1 if it is None and nothing is dropped."""
        tables = (self.events, self.binds, self.windows, self.births)
        return 1.0 if self.kept is None and not any(map(drops, tables)) and not self.whole_windows else self.kept

    def known_left(self) -> float | None:
        """Return `left`, or 1 if it is None and nothing is dropped."""
        return 1.0 if self.left is None and not drops(self.drops) else self.left


def with_fewer_events(drop_plan: DropPlan, keep: float, plan: Plan) -> DropPlan:
    """Return a drop plan of a query (``plan``) that keeps only the share ``keep`` of the events kept so far.

    Events of types that no variable can be bound to are not affected.
    """
    share = np.where([bool(variables) for variables in plan.type_variables], keep, 1.0)
    events = 1 - share if drop_plan.events is None else 1 - (1 - drop_plan.events) * share
    kept = drop_plan.kept
    if kept is not None:
        kept *= survival(plan.query.pattern, lambda _: keep)
    return replace(drop_plan, events=events, kept=kept)


def drops(table: Floats | None) -> bool:
    """Return whether a table has a probability above 0."""
    return table is not None and bool(table.any())


def drops_anything(plan: DropPlan) -> bool:
    """Return whether any probability of a drop plan is above 0."""
    tables = (plan.events, plan.binds, plan.windows, plan.births, plan.drops)
    return plan.whole_windows > 0 or any(map(drops, tables))


def largest_weights(plan: DropPlan) -> tuple[float, float] | None:
    """Return the two largest weights of types, variables or states; None if something is dropped for certain.

    A weight is the inverse of the probability of keeping.
    """
    keep = [1.0, 1.0, 1 - plan.whole_windows]
    for table in (plan.events, plan.binds, plan.windows, plan.births, plan.drops):
        if table is not None:
            keep += (1 - table.reshape(len(table), -1).max(axis=1, initial=0.0)).tolist()
    smallest, second = sorted(keep)[:2]
    return (1 / smallest, 1 / second) if smallest > 1e-9 else None
