"""Work limit for single events, for a bound on a percentile of the latency.

The compiled part is ``fastcep._core.shed.work_limit``.

A demand saves a share of all work. For a bound on the 99th percentile that is wasteful: only the work of the few most
expensive events above the bound counts. With `Shedder.cuts`, the matcher stops the work for an event at the bound. As
long as this holds the bound, there is no further demand; the shedder only drops partial matches that cost fewer matches
than the work limit would lose because of them (`QueryView.lost`).

Invariant: by the cost table, no event costs more than the bound, except for the allowed share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.overload.protocols import Detector
from fastcep.overload.reaching_events import REACHING_EVENTS, ReachingEvents
from fastcep.plan import Plan
from fastcep.query.patterns import finds_matches_separately, is_monotonic, pattern_variables
from fastcep.stored import AMOUNT, COUNT, FLAG, NUMBER, SHARE, grid, listed, record, sequence

if TYPE_CHECKING:
    from fastcep.overload.query_shedding import QueryShedding

__all__ = ["WorkLimit", "expected"]

Floats = npt.NDArray[np.float64]

#: Largest share of the events allowed above the bound that run without a limit; the others are reserved for events
#: whose work cannot be stopped. Share that is aimed at, and events within which a deviation is compensated.
_UNLIMITED, _AIMED, _COMPENSATION = 0.9, 0.96, 2000.0

#: Time constant in events of the mean shares above the bound: as many as work_limit.pyx saves for a burst. Number of
#: time constants in which the largest mean share of events that could not be stopped is forgotten.
_TIME_CONSTANT, _FORGOTTEN = 40_000.0, 10.0

#: Least share of the events allowed above the bound that run without a limit: what they find represents what is lost.
_REPRESENTING = 0.1

#: Change of the part of the bound that each of several queries may use, relative to that of the allowed share.
_PART = 0.25

#: Decay of the recent counts at each decision, and of those that show what is found at present; number of decisions
#: without a stopped event after which the work limit is inactive and nothing is dropped in addition.
_DECAY, _RECENT, _QUIET = 0.99, 0.95, 1000

#: Largest number of steps from partial match to partial match that are followed (loops of Kleene closures have many);
#: lower limit of the estimated share of the matches that are found.
_DEPTH, _RAREST = 16, 0.01


#: Least percentile of the work without a limit, in bounds, if more events than allowed would exceed the bound.
_LITTLE = 1.05

_WEIGHED = sequence(grid(AMOUNT, 2), AMOUNT, AMOUNT, grid(NUMBER, 2), AMOUNT, AMOUNT, AMOUNT, optional=2)


class WorkLimit:
    """Limit of the work for single events, with an estimate of the matches that it loses.

    There is no limit if skipping a partial match could make a query report a false match, see
    `finds_matches_separately`. Events of negated variables are stored whatever they cost. Nor is there a limit if a
    negation ends the pattern: such matches are weighed before it is known which of them hold, so the estimate would be
    wrong.

    Parameters
    ----------
    bound
        Latency bound in ns; None: no limit.
    detectors
        Detectors, of which the strictest percentile counts.

    Attributes
    ----------
    on
        Whether the work for an event is limited to the bound.
    limited
        Queries for which the work for an event was stopped between the last two calls of `update`.
    suspended
        Whether there is no limit for now, because the shedder drops enough (`DropPlan.demand_without_limit`).
    share
        Estimated share of the recent matches that the limit lost.
    unlimited_work
        Estimated percentile of the recent work for an event without a limit, as a share of the bound; 0: unknown.
    """

    def __init__(self, bound: float | None, detectors: Sequence[Detector]) -> None:
        shares = [detector.allowed for detector in detectors if detector.allowed > 0]
        self._enabled = bound is not None and bool(shares)
        self.on = self.suspended = False
        self._demand = 0.0  #: `DropPlan.demand_without_limit` of the drop plans in force
        self.share = self.unlimited_work = 0.0
        self.limited: set[QueryShedding] = set()
        self._bound, self._allowed = bound or 0.0, min(shares, default=0.0)
        self._unlimited, self._part = _UNLIMITED * self._allowed, 1.0
        self._quiet = _QUIET
        self._events = 0.0  #: number of events that the mean shares are of; 0 until the first update
        self._over = 0.0  #: mean share of events above the bound,
        self._unstoppable = self._reserved = 0.0  #: of those that could not be stopped, and largest such mean of late
        self._ran_on: list[int] = []
        self._reaching: list[ReachingEvents] = []
        self._before: list[Floats] = []
        self._recent: list[Floats] = []
        self._weighed: list[_WeighedMatches] = []

    def use(self, queries: Sequence[QueryShedding], cuts: bool) -> bool:
        """Limit the work of these queries; return whether the limit was suspended until now.

        Each query begins with an equal part of the bound and of the unlimited events. ``cuts``: whether the shedder
        wants a limit (`Shedder.cuts`).
        """
        was_suspended, self.suspended, self._demand = self.suspended, False, 0.0
        self._part, self.unlimited_work = 1 / max(len(queries), 1), 0.0
        self.on = cuts and self._enabled and all(_can_be_limited(query.plan) for query in queries)
        for query in queries:
            query.weigh_always(self.on)
        if self.on:
            self._limit(queries)
            self._before = [query.shedding.tried for query in queries]
            self._recent = [np.zeros_like(tried) for tried in self._before]
            self._weighed = [_WeighedMatches(query) for query in queries]
            self._ran_on = [query.shedding.reached[0] for query in queries]
            self._reaching = [ReachingEvents(query) for query in queries]
            self._events = self._over = self._unstoppable = self._reserved = 0.0
            return was_suspended
        self._before, self._recent, self._ran_on, self._weighed, self._reaching = [], [], [], [], []
        self.share, self.limited, self._quiet = 0.0, set(), _QUIET
        if self._enabled:
            for query in queries:
                query.shedding.cut_off(0, 0.0, 0.0)
        return was_suspended

    def suspend(self, queries: Sequence[QueryShedding], demand: float, suspended: bool) -> bool:
        """Suspend the limit, or impose it again; return whether this changed anything.

        ``demand``: that for which the drops are meant to hold the bound without a limit, or 0. While there is one, what
        is lost beside the limit is not estimated, and the last estimates stay.
        """
        if not self.on:
            return False
        if demand != self._demand and not self.suspended:  # the work for events has been that with other drops
            self._reaching = [ReachingEvents(query) for query in queries]
        self._demand = demand
        if suspended == self.suspended:
            return False
        self.suspended, self.unlimited_work = suspended, 0.0
        if suspended:
            for query in queries:
                query.shedding.cut_off(0, 0.0, 0.0)
            return True
        self._quiet, self._part = 0, 1 / max(len(queries), 1)
        self._reaching = [ReachingEvents(query) for query in queries]
        self._over = _AIMED * self._allowed  # the events without a limit have used what was allowed
        for weighed in self._weighed:
            weighed.found = weighed.expected = 0.0
        self._limit(queries)
        return True

    def _limit(self, queries: Sequence[QueryShedding]) -> None:
        most, share = round(self._bound * 1000 * self._part), self._unlimited / len(queries)
        for query in queries:
            query.shedding.cut_off(most, share, _UNLIMITED * self._allowed / len(queries))

    def _adjust(self, queries: Sequence[QueryShedding], step: float) -> None:
        """Allow more (``step`` > 0) or fewer events above the bound: integral control of their share.

        Several queries seldom need the bound for the same event, so each may use more than an equal part of it.
        """
        part = min(max(1 / len(queries), self._part + _PART * step / self._allowed), 1.0)
        if part == self._part or step > 0:
            least = _REPRESENTING * self._allowed
            most = max(least, min(_UNLIMITED * self._allowed, _AIMED * self._allowed - self._reserved))
            self._unlimited = min(max(least, self._unlimited + step), most)
        self._part = part
        self._limit(queries)

    @property
    def found(self) -> float:
        """Share of the recent matches that was found beside the limit and the drops, by their weights; 0: unknown."""
        expected = sum(weighed.expected for weighed in self._weighed)
        return min(1.0, sum(weighed.found for weighed in self._weighed) / expected) if expected > 0 else 0.0

    @property
    def in_force(self) -> bool:
        """True if the work for an event is limited now."""
        return self.on and not self.suspended

    @property
    def active(self) -> bool:
        """True if the work for an event was stopped recently."""
        return self.on and self._quiet < _QUIET

    def update(self, queries: Sequence[QueryShedding], events: int, over: float) -> bool:
        """Update the limit and the estimates from the counters of the matchers; return `active`.

        Parameters
        ----------
        queries
            The queries.
        events, over
            Number of events since the last update, and the share of them that took longer than the bound.
        """
        if not self.on:
            return False
        stopped = self._stopped(queries)
        found, without_limit, self._quiet = 0.0, 0.0, 0 if stopped else min(self._quiet + 1, _QUIET)
        frozen, self.limited = self._demand > 0, self.limited_since(queries)
        for number, query in enumerate(queries):
            tried = query.shedding.tried
            self._weighed[number].add(frozen)
            if not frozen:
                query_found, query_without = self._loss(number, query, tried)
                self._recent[number] = _DECAY * self._recent[number] + tried - self._before[number]
                found, without_limit = found + query_found, without_limit + query_without
            self._before[number] = tried
            self._reaching[number].add(events, over)
        if not frozen:
            self.share = 1 - found / without_limit if without_limit > 0 else float(self._quiet == 0)
        if self.suspended:
            return False
        self.unlimited_work = self._percentile()
        before, self._ran_on = sum(self._ran_on), [query.shedding.reached[0] for query in queries]
        if self._events == 0:  # these events came in part before there was this limit
            self._events = float(events)
            return self.active
        others = over - (sum(self._ran_on) - before) / events
        # Queries whose parts together exceed the bound can be stopped earlier: each gets less of it, see `_adjust`.
        self._count(events, over, others if self._part <= 1 / len(queries) else 0.0)
        # While the mean is within what is allowed, a burst gets what the events before it did not use.
        counted = (min if self._over < _AIMED * self._allowed else max)(over, self._over)
        self._adjust(queries, (_AIMED * self._allowed - counted) * min(1.0, events / _COMPENSATION))
        return self.active

    def _percentile(self) -> float:
        """Return `unlimited_work`: 1 if no more events than allowed would exceed the bound, else at least `_LITTLE`.

        Several queries may exceed it only together, which shows in the share of the events above it.
        """
        percentiles = [item.percentile(self._allowed) for item in self._reaching]
        if min(percentiles, default=0.0) == 0:
            return 0.0
        if self._reaching[0].over + sum(item.stopped for item in self._reaching) <= self._allowed:
            return 1.0
        return max(_LITTLE, self._part * max(percentiles))

    def _count(self, events: int, over: float, unstoppable: float) -> None:
        """Update the mean shares of the events above the bound, and of those of them that could not be stopped.

        The largest mean share of the latter is reserved for them. It begins at 0, so that the first events do not count
        for much. It is negative at times: the share above the bound may be that of a sample, and several queries may
        run on for one event.
        """
        self._events = self._events * math.exp(-events / _TIME_CONSTANT) + events
        self._over += (over - self._over) * events / self._events
        self._unstoppable += (unstoppable - self._unstoppable) * events / max(self._events, _TIME_CONSTANT)
        self._reserved *= math.exp(-events / (_FORGOTTEN * _TIME_CONSTANT))
        self._reserved = max(self._reserved, min(self._unstoppable, _AIMED * self._allowed))

    def limited_since(self, queries: Sequence[QueryShedding]) -> set[QueryShedding]:
        """Return the queries whose recall the limit has reduced since the last call of `update`.

        None if the drops are meant to hold the bound alone: the limit is on only during a trial then, and what events
        do beyond it has large weights beside those of the drops. So the recall is estimated from what the drops keep.
        """
        return self._stopped(queries) if self._demand == 0 else set()

    def _stopped(self, queries: Sequence[QueryShedding]) -> set[QueryShedding]:
        """Return the queries for which the work for an event was stopped since the last call of `update`."""
        if not self.on:
            return set()
        return {
            query for query, before in zip(queries, self._before, strict=True)
            if (query.shedding.tried[:, 2] > before[:, 2]).any()
        }  # fmt: skip

    def _loss(self, number: int, query: QueryShedding, tried: Floats) -> tuple[float, float]:
        """Return the number of matches of a query found recently, and that expected without a limit.

        Both the counts by edge and the weights of the matches found show what is lost, and the larger loss counts. The
        former are too low where partial matches differ much in how many matches they lead to, as with a negation; the
        latter are too low until events that ran on have found something.
        """
        recent = _DECAY * self._recent[number] + tried - self._before[number]
        if not recent[:, 2].any():
            return 0.0, 0.0
        found, without_limit = expected(query.plan, recent)
        without_limit = min(max(without_limit, found * self._weighed[number].mean_weight), found / _RAREST)
        scale = min(1.0, int(query.matcher.matches) / max(_matches(query.plan, tried), 1.0))  # others are discarded
        return scale * found, scale * without_limit

    def passed_over(self, queries: Sequence[QueryShedding]) -> int:
        """Return how often an event was not tried with a partial match, or as the start of one, in total."""
        return sum(int(query.shedding.tried[:, 2].sum()) for query in queries) if self.on else 0

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot as JSON values."""
        return {
            "quiet": self._quiet, "share": self.share, "unlimited": self._unlimited, "part": self._part,
            "events": self._events, "over": self._over, "unstoppable": self._unstoppable, "reserved": self._reserved,
            "ran_on": self._ran_on, "suspended": self.suspended, "demand": self._demand,
            "reaching": [item.state() for item in self._reaching],
            "weighed": [weighed.state() for weighed in self._weighed],
            "before": [tried.tolist() for tried in self._before], "lately": [tried.tolist() for tried in self._recent],
        }  # fmt: skip

    def restore(self, state: dict[str, Any], queries: Sequence[QueryShedding]) -> None:
        """Restore a `state` of these queries."""
        if self.on and state.get("before") == []:  # an older version did not limit the work for these queries
            self.use(queries, True)
            return
        tables = [grid(NUMBER, *tried.shape) for tried in self._before]
        each = sequence(*tables)
        record(
            {"quiet": COUNT, "share": NUMBER, "unlimited": SHARE, "part": SHARE, "before": each, "lately": each},
            {"events": AMOUNT, "over": SHARE, "unstoppable": NUMBER, "reserved": SHARE,  # older snapshots lack these
             "ran_on": listed(COUNT, len(self._ran_on)), "weighed": listed(_WEIGHED, len(self._weighed)),
             "suspended": FLAG, "demand": SHARE, "reaching": listed(REACHING_EVENTS, len(self._reaching))},
        )(state, "control.cut")  # fmt: skip
        self._quiet, self.share = state["quiet"], state["share"]
        self._unlimited, self._part = state["unlimited"], state["part"]
        self._events, self._over = state.get("events", 0.0), state.get("over", 0.0)
        self._unstoppable, self._reserved = state.get("unstoppable", 0.0), state.get("reserved", 0.0)
        self._ran_on = state.get("ran_on", self._ran_on)
        self._before, self._recent = (
            [np.array(tried, np.float64).reshape(-1, 4) for tried in state[name]] for name in ("before", "lately")
        )
        for query in queries:
            query.weigh_always(self.on)
        self.suspended = self.on and state.get("suspended", False)
        self._demand = state.get("demand", 0.0) if self.on else 0.0
        if self.on:
            self._limit(queries)
            if self.suspended:
                for query in queries:
                    query.shedding.cut_off(0, 0.0, 0.0)
            self._reaching = [ReachingEvents(query) for query in queries]
            for reaching, reaching_state in zip(self._reaching, state.get("reaching", []), strict=False):
                reaching.restore(reaching_state)
            self._weighed = [_WeighedMatches(query) for query in queries]
            for weighed, weighed_state in zip(self._weighed, state.get("weighed", []), strict=False):
                weighed.restore(weighed_state)


class _WeighedMatches:
    """Weights of the recent matches of a query, less what they owe to its drop plans.

    A match that ends now may have lost others to all drop plans of the last window. The one that drops most counts, and
    the error of what it is expected to keep, so that no drops are taken for a loss by the work limit.
    """

    def __init__(self, query: QueryShedding) -> None:
        self._query = query
        self._before: list[float] = list(query.shedding.weighed[:2])
        self.found = self.expected = 0.0  #: matches found, and their weights,
        self._matches = self._weight = 0.0  #: and both where it is known what they owe, less that
        self._least = (1.0, 1.0)  #: least share kept by a plan in this window and in the one before; -1: unknown
        self._until = 0.0  #: number of received events at which this window ends

    def add(self, frozen: bool) -> None:
        """Add the matches since the last call, unless ``frozen``; the drop plan in force has been since then."""
        query, plan = self._query, self._query.drop_plan
        kept = plan.known_kept()
        kept = -1.0 if kept is None else kept * (1 - plan.error)
        if query.received >= self._until:
            self._least, self._until = (kept, self._least[0]), query.received + query.window_size
        else:
            self._least = (min(kept, self._least[0]), self._least[1])
        weighed = query.shedding.weighed[:2]
        matches, weight = (new - old for new, old in zip(weighed, self._before, strict=True))
        self._before = list(weighed)
        if frozen:
            return
        self.found, self.expected = _RECENT * self.found + matches, _RECENT * self.expected + weight
        self._matches, self._weight = _DECAY * self._matches, _DECAY * self._weight
        least = min(self._least)
        if least >= 0:  # otherwise it is not known how much the drop plans lost
            self._matches, self._weight = self._matches + matches, self._weight + least * weight

    @property
    def mean_weight(self) -> float:
        """Number of matches without the work limit for each match found; 0 if unknown."""
        return self._weight / self._matches if self._matches > 0 else 0.0

    def state(self) -> list[Any]:
        """Return the state for a snapshot as JSON values."""
        return [self._before, self._matches, self._weight, list(self._least), self._until, self.found, self.expected]

    def restore(self, state: list[Any]) -> None:
        """Restore a `state`."""
        self._before, self._matches, self._weight = list(state[0]), state[1], state[2]
        self._least, self._until = (state[3][0], state[3][1]), state[4]
        self.found, self.expected = (*state[5:], 0.0, 0.0)[:2]  # older snapshots lack these


def _can_be_limited(plan: Plan) -> bool:
    """Return whether the work for an event of a query can be limited, see `WorkLimit`."""
    waits = any(state.deferred for state in plan.states)
    return is_monotonic(plan.query) if waits else finds_matches_separately(plan.query)


def expected(plan: Plan, tried: Floats) -> tuple[float, float]:
    """Return the number of matches found, and the estimated number without the work limit.

    The estimate assumes that a lost child contributes the matches that the children of its state lead to. Those of the
    loop of a Kleene closure are an exception: they contribute as much as the children that were made, because a few
    rounds do not show how far the loop would have grown without a limit.

    Parameters
    ----------
    plan
        Plan of the query.
    tried
        float64[edges, 4]: partial matches visited, children created, visits skipped, children lost by these.
    """
    _, created, _, lost_children = tried.T
    source, target = (np.array([getattr(edge, end) for edge in plan.edges]) for end in ("source", "target"))
    loop = np.array([edge.again or edge.source == edge.target for edge in plan.edges])
    unlimited = created + lost_children
    accepting = np.array([state.accepting for state in plan.states], np.float64)
    born = np.bincount(target, created, len(accepting))
    inner, children = source >= 0, np.zeros(len(source))  # children per partial match of the source, by edge
    children[inner] = np.where(loop, created, unlimited)[inner] / np.maximum(born[source[inner]], 1e-9)
    variables = pattern_variables(plan.query.pattern)
    for number in np.flatnonzero(loop & inner & (children > 0)):
        rounds = variables[plan.edges[number].variable].declaration.maximum
        if rounds is not None and plan.edges[number].group < 0:  # a child of the first round has one round less
            children[number] = 1 - 1 / (children[number] ** np.arange(min(max(rounds - 1, 1), _DEPTH))).sum()
    contribution: Floats = np.zeros(len(accepting))
    for _ in range(_DEPTH):
        by_edge = children * (accepting + contribution)[target]
        contribution = np.bincount(source[inner], by_edge[inner], len(accepting)).astype(np.float64)
    begun, lost = np.where(inner, 0.0, unlimited), np.where(loop, unlimited - created, 0.0)
    estimate = float(((begun + lost) * (accepting + contribution)[target]).sum())
    found = _matches(plan, tried)
    return found, min(max(found, estimate), found / _RAREST)


def _matches(plan: Plan, tried: Floats) -> float:
    """Return the number of matches among the children created."""
    return sum(
        float(counts[1]) for edge, counts in zip(plan.edges, tried, strict=True) if plan.states[edge.target].accepting
    )
