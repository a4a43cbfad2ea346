"""Overload control: measure the load of the engine, and let a shedder drop what exceeds the latency bound.

`QuerySet.match` matches events in stretches. `Control.stretch` gives the length of the next stretch, and
`Control.taken` records it and assigns each event its latency on the engine's clock. When a decision is due:

1. the detector compares the measurements since the last decision with its bound;
2. the controller converts the reading into a demand;
3. the shedder returns one drop plan per query;
4. each drop plan is passed to its matcher as tables of drop probabilities.

Invariant: on the virtual clock the decisions depend only on the events and the seed, not on the cut into batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep._core.matcher.matcher import Matcher
from fastcep.errors import SnapshotError, ValidationError
from fastcep.overload.clock import LATEST, VirtualClock, WallClock
from fastcep.overload.controller import ALL, Controller
from fastcep.overload.costs import CostTable
from fastcep.overload.decision_schedule import MOST_EVENTS, DecisionSchedule
from fastcep.overload.episodes import Episodes
from fastcep.overload.latency import LatencyMonitor
from fastcep.overload.protocols import Detector, DropPlan, Load, QueryView, Shedder
from fastcep.overload.query_shedding import QueryShedding
from fastcep.overload.recall import total
from fastcep.overload.validation import checked_classes, checked_drop_plans, checked_json, checked_reading
from fastcep.overload.work_limit import WorkLimit
from fastcep.plan import Plan
from fastcep.query import ast
from fastcep.stored import COUNT, SHARE, anything, by_name, listed, or_null, record, sequence

__all__ = ["Control"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: Number of demands that are kept; a window seldom has more decisions.
_PAST_DEMANDS = 64

#: Minimum number of events over which latencies are smoothed (hybrid: 1,000 measurements; all events since the last
#: decision, if these are more), and number of latencies that are kept.
_SMOOTHED, _REMEMBERED = 1000, 1 << 13


class Control:
    """Control loop that keeps an engine's latency within a bound.

    Parameters
    ----------
    clock
        Clock that measures latencies.
    table
        Costs of operations on the virtual clock.
    bound
        Latency bound in ns, or None.
    detectors
        Detectors to read at each decision. The one that leads to the largest demand decides.
    shedder
        Shedder that drops, or None: latencies are measured and nothing is dropped.
    every
        Record the latency of every n-th event.

    Attributes
    ----------
    monitor
        Latencies so far.
    demand
        Share of the work to save until the next decision, from 0 to 0.999.
    listeners
        Functions called with the processing and event latencies (ns) of each stretch of events.
    queries
        Queries under control.
    waiting
        Function that returns the number of events waiting before the engine at a time (ns on its clock), without those
        of the current batch. None: no input queue is known.
    memory
        Function that returns the bytes held and the limit. None: memory is not limited by shedding.
    """

    def __init__(
        self,
        clock: WallClock | VirtualClock,
        table: CostTable,
        bound: float | None,
        detectors: Sequence[Detector],
        shedder: Shedder | None,
        every: int = 1,
    ) -> None:
        self.clock, self.table, self.bound = clock, table, bound
        self.shedder = shedder
        self.demand = 0.0
        self.monitor = LatencyMonitor(_REMEMBERED, every, bound)
        self._control_loops = [(detector, Controller()) for detector in detectors]
        self.episodes = Episodes()
        self.listeners: list[Callable[[Floats, Floats], None]] = []
        self.waiting: Callable[[int], int] | None = None
        self.memory: Callable[[], tuple[int, int]] | None = None
        self.queries: list[QueryShedding] = []
        self._operation_costs = table.picoseconds()
        self._event_costs = np.zeros(MOST_EVENTS, np.int64)
        self._batch_arrivals: Ints | None = None  #: of the current batch, or None
        self._first_event = 0
        self._decisions = 0
        self._past_demands: deque[float] = deque(maxlen=_PAST_DEMANDS)
        often, virtual = shedder is not None and shedder.often, isinstance(clock, VirtualClock)
        self._schedule = DecisionSchedule(shedder is not None, often, bound or 0.0, table.decision if virtual else None)
        self._stretch_start, self._latency_counts = 0, (0, 0)
        self._bound_missed = False
        self._work_limit = WorkLimit(bound, detectors if shedder is not None and shedder.cuts else ())

    # ----------------------------------------------------------------- queries

    def plan_options(self, query: ast.Query) -> dict[str, Any]:
        """Return the options with which a query has to be planned: classes, isolated windows, lineage."""
        if self.shedder is None:
            return {}
        self.shedder.check(query)
        options: dict[str, Any] = {"isolated": self.shedder.in_windows and isinstance(query.window, ast.ExplicitWindow)}
        options["observed" if self.shedder.observes else "weighed"] = True
        if self.shedder.drops_matches:
            classes = checked_classes(self.shedder, query, "classes")
            options["classes"] = {name: item.features for name, item in classes.items()}
        if events := checked_classes(self.shedder, query, "event_classes"):
            options["event_classes"] = {name: item.features for name, item in events.items()}
        return options

    def use(self, running: Sequence[tuple[Plan, object]]) -> None:
        """Control these queries (plan and matcher) from now on; those already under control keep their state."""
        before = self._dropped_counts()
        by_matcher = {query.matcher: query for query in self.queries}
        by_plan = {id(query.plan): query for query in self.queries}
        by_name = {query.plan.query.name: query for query in self.queries}
        self.queries = []
        for plan, matcher in running:
            assert isinstance(matcher, Matcher), "an engine under overload control has one thread"
            query = by_matcher.get(matcher)
            if query is None:
                query = QueryShedding(plan, matcher, self.shedder)
                if id(plan) in by_plan:  # the state has moved to another matcher
                    query.follow(by_plan[id(plan)])
                elif plan.query.name in by_name:
                    query.follow_estimate(by_name[plan.query.name])
            self.queries.append(query)
        after = self._dropped_counts()
        self.episodes.shift_counters(*(new - old for new, old in zip(after, before, strict=True)))
        for number, query in enumerate(self.queries):
            operation_costs = self._operation_costs[:7].copy()
            operation_costs[0] *= number == 0  # charge the cost of an event once, however many queries there are
            query.shedding.meter(self._event_costs if isinstance(self.clock, VirtualClock) else None, operation_costs)
        self._work_limit.use(self.queries)

    # ------------------------------------------------------------------ events

    def arrive(self, arrivals: Ints | None) -> None:
        """Set the arrival times of the next batch, int64[events] in ns on the engine's clock.

        None means that events arrive when they are matched.

        Raises
        ------
        ValidationError
            If a time is later than the clock allows; nothing has changed then.
        """
        if arrivals is not None and len(arrivals):
            latest = LATEST if isinstance(self.clock, VirtualClock) else self.clock.now()
            if arrivals[-1] > latest:
                raise ValidationError(
                    f"arrivals: found {arrivals[-1]}, expected at most {latest} on the engine's clock: "
                    "give ns as Engine.now() returns them, not ns since the epoch"
                )
        self._batch_arrivals = arrivals
        self._first_event = 0

    def begin(self, first: int) -> None:
        """Set the place in the batch of the event that is matched next."""
        self._first_event = first

    def stretch(self, rest: int) -> int:
        """Return how many of the ``rest`` remaining events of a batch to match before the next call of `taken`."""
        number = max(1, min(rest, self._schedule.step - self._schedule.since, MOST_EVENTS))
        self._event_costs[:number] = 0
        self._stretch_start = self.clock.now()
        return number

    def taken(self, first_time: int, last_time: int, first: int, last: int) -> None:
        """Account for the events ``first:last`` after `begin`, which have just been matched; times are ns."""
        start = self._first_event
        arrivals = None if self._batch_arrivals is None else self._batch_arrivals[start + first : start + last]
        number = last - first
        if isinstance(self.clock, VirtualClock):
            processing, event = self.clock.run(self._event_costs[:number], arrivals)
            self._notify_listeners(processing, event)
            began = perf_counter_ns()
            self.monitor.record(processing, event)
            spent, waited = float(processing.sum()), float(event[-1] - processing[-1])
        else:
            now = self.clock.now()
            spent = float(now - self._stretch_start)
            if arrivals is not None:
                self._schedule.record_busy(now, int(arrivals[0]), self._stretch_start)
            waited = 0.0 if arrivals is None else max(0.0, float(now - arrivals[-1]) - spent / number)
            if self.listeners:
                processing = np.full(number, spent / number)
                event = processing if arrivals is None else (now - arrivals).astype(np.float64)
                self._notify_listeners(processing, event)
            began = perf_counter_ns()
            self.monitor.record_stretch(spent / number, number, now, arrivals)
        self._schedule.add(number, spent, first_time, None if arrivals is None else int(arrivals[0]))
        for query in self.queries:
            query.received += number
        if self._schedule.since >= self._schedule.step:
            self._decide(last_time, start + last, waited, began)

    def _notify_listeners(self, processing: Floats, event: Floats) -> None:
        for listener in self.listeners:
            listener(processing, event)

    def _decide(self, time: int, place: int, waited: float, began: int) -> None:
        """Update the demand from the measurements since the last decision, and apply new drop plans."""
        if self.shedder is not None:
            old_demand = self.demand
            why, at_once = self._update_demand(place, waited)
            was_limiting, limits = self._work_limit.active, self._work_limit.update(self.queries)
            sheds = self.demand > 0 or limits
            dropped = self._dropped_counts() if sheds and not self.episodes.active else (0, 0)
            demand, visited, learned = self.demand, 0, 0
            if decides := sheds or old_demand > 0 or was_limiting:
                views = [self._query_view(query) for query in self.queries]
                plans: Sequence[DropPlan] = [DropPlan() for _ in views]
                if sheds:
                    learned = self._schedule.learn(partial(self.shedder.learn, views))
                    before = 0.0 if at_once else self._recent_demand()
                    plans = self._drop_plans(self.shedder, demand, before, views)
                else:
                    self.shedder.stop_shedding()
                for query, drop_plan in zip(self.queries, plans, strict=True):
                    visited += query.apply(drop_plan, self._decisions + 1)
            self._past_demands.append(demand)
            self._update_episodes(sheds, why if demand > 0 else "single events would cost more than the bound", dropped)
            cost = self._schedule.spent / self._schedule.since
            self.episodes.check_bound(self._bound_missed, cost, self.bound, self._decisions_per_window())
            self._charge_decision(perf_counter_ns() - began, learned, visited, decides)
        self._decisions += 1
        self._plan_next(time)

    def _drop_plans(
        self, shedder: Shedder, demand: float, before: float, views: Sequence[QueryView]
    ) -> Sequence[DropPlan]:
        """Return the drop plans of the shedder, checked."""
        names = [query.plan.query.name for query in self.queries]
        plans = checked_drop_plans(shedder, shedder.decide(demand, before, views), names)
        for query, drop_plan in zip(self.queries, plans, strict=True):
            query.check(drop_plan, shedder)
        return plans

    def _query_view(self, query: QueryShedding) -> QueryView:
        decisions = query.window_size / self._schedule.step
        return QueryView(
            query.plan, query.shedding, query.slices, decisions, query.window_size, query.received,
            self._schedule.count_budget(), self._work_limit.share,
        )  # fmt: skip

    def _update_demand(self, place: int, waited: float) -> tuple[str, bool]:
        """Set the demand, the largest of all detectors; return its reason and whether it is an amount to drop now."""
        load, self.demand, why, at_once = self._measure_load(place, waited), 0.0, "", False
        self._bound_missed = False
        saved = sum(query.weight * query.drop_plan.saved for query in self.queries) / max(self._total_weight(), 1e-9)
        for detector, controller in self._control_loops:
            load.smoothed = self.monitor.smoothed(detector.statistic, last=max(_SMOOTHED, self._schedule.since))
            reading = checked_reading(detector, detector.read(load))
            was_largest = controller.demand >= ALL
            if controller.update(reading, saved, self._decisions_per_window()) > self.demand:
                self.demand, why, at_once = controller.demand, reading.why, reading.amount is not None
                self._bound_missed = was_largest and self.demand >= ALL and (reading.excess > 0 or at_once)
        return why, at_once

    def _recent_demand(self) -> float:
        """Return the largest demand of the last window: the level to which live partial matches are already thinned."""
        return max(list(self._past_demands)[-max(1, ceil(self._decisions_per_window())) :], default=0.0)

    def _decisions_per_window(self) -> float:
        """Return the number of decisions in the longest window."""
        return max((query.window_size for query in self.queries), default=0.0) / self._schedule.step

    def _share_over_bound(self) -> float:
        """Return the share of the latencies since the last call that are above the bound."""
        before, self._latency_counts = self._latency_counts, self.monitor.counted()
        count, over = (new - old for new, old in zip(self._latency_counts, before, strict=True))
        return over / count if count else 0.0

    def _measure_load(self, place: int, waited: float) -> Load:
        now = self.clock.now()
        load = Load(
            bound=float(self.bound or 0),
            recent=self._schedule.spent / self._schedule.since,
            busy=self._schedule.busy,
            waited=waited,
            partial_matches=sum(query.matcher.live for query in self.queries),
            events=self._schedule.since,
            shedding=self.demand > 0,
            over=self._share_over_bound(),
            cut=self._work_limit.on,
        )
        if self.memory is not None:
            load.memory, load.memory_limit = self._sweep_memory(*self.memory())
        if self._batch_arrivals is not None:
            arrived = int(np.searchsorted(self._batch_arrivals, now, side="right")) - place  # of this batch
            load.queue = max(0, arrived) + (self.waiting(now) if self.waiting is not None else 0)
            passed = int(self._batch_arrivals[place - 1]) - (self._schedule.first_arrival or 0)
            load.arrivals = self._schedule.since / passed if passed > 0 else 0.0
        return load

    def _update_episodes(self, sheds: bool, why: str, dropped_before: tuple[int, int]) -> None:
        for query in self.queries:
            query.record_matches(self._decisions_per_window(), self._work_limit.lost_by.get(query, 0.0))
        self._report_estimates()
        if sheds or self.episodes.active:
            self.episodes.record_decision(self.clock.now(), sheds, why, dropped_before, self._dropped_counts)

    def _report_estimates(self) -> None:
        self.episodes.record_estimates(
            total(query.recall.total for query in self.queries), total(query.recall.recent for query in self.queries)
        )

    def _total_weight(self) -> float:
        return sum(query.weight for query in self.queries)

    def _dropped_counts(self) -> tuple[int, int]:
        """Return how many events, and how many partial matches, were dropped so far."""
        counters = [query.shedding.counted() for query in self.queries]
        events = sum(int(counter["dropped_events"].sum()) for counter in counters)
        return events, sum(int(counter["refused"].sum() + counter["dropped"].sum()) for counter in counters)

    def _charge_decision(self, elapsed: int, learned: int, visited: int, decided: bool) -> None:
        """Charge a decision to the clock, given ns elapsed and spent on learning, and partial matches visited."""
        if isinstance(self.clock, VirtualClock):
            picoseconds = int(self._operation_costs[6]) * visited + int(self._operation_costs[7]) * decided
            self.clock.spend(picoseconds)
            cost = picoseconds / 1000
        else:
            cost = float(elapsed)
        self._schedule.record_cost(cost, learned)
        if decided:
            live = sum(query.matcher.live for query in self.queries)
            for detector, _ in self._control_loops:
                detector.note_decision(live, cost)

    def _plan_next(self, time: int) -> None:
        """Schedule the next decision; the last event matched happened at ``time``."""
        passed = time - (self._schedule.first_time if self._schedule.first_time is not None else time)
        for query in self.queries if self.shedder is not None else ():
            query.window_size = query.window_events(self._schedule.since, passed)
        self._schedule.schedule_next(min((query.window_size for query in self.queries), default=0.0), self.memory)

    def _sweep_memory(self, held: int, limit: int) -> tuple[int, int]:
        """Free the memory of dropped and dead partial matches, if memory is scarce; return bytes held and the limit."""
        assert self.memory is not None
        if held <= limit // 2 or (self.demand == 0 and held < self._schedule.held + limit // 64):
            return held, limit
        for query in self.queries:
            limit_before = query.matcher.limit
            query.matcher.set_limit(0)  # a matcher above its limit sweeps
            query.matcher.set_limit(limit_before)
        return self.memory()

    def _check_state(self, state: dict[str, Any]) -> None:
        loops, queries = len(self._control_loops), len(self.queries)
        record(
            {
                "specs": anything, "learned": listed(by_name(anything), loops), "demand": SHARE, "decisions": COUNT,
                "shedder": or_null(by_name(anything)), "clock": or_null(by_name(anything)),
                "monitor": by_name(anything), "controllers": listed(anything, loops), "episodes": anything,
                "pace": anything, "past": listed(SHARE), "queries": listed(by_name(anything), queries),
            },
            {"counted": sequence(COUNT, COUNT), "cut": anything},
        )(state, "control")  # fmt: skip

    # ------------------------------------------------------- metrics and state

    def end(self) -> None:
        """Record that the stream has ended."""
        self.episodes.end(self._dropped_counts)

    def metrics(self) -> dict[str, Any]:
        """Return latencies, decisions and drop counts, see `Engine.metrics`."""
        events, partial_matches = self._dropped_counts()
        return {
            "clock": "virtual" if isinstance(self.clock, VirtualClock) else "wall",
            "cost_table": {"name": self.table.name, "hash": self.table.hash},
            "latency_bound": self.bound,
            "shedder": None if self.shedder is None else self.shedder.name,
            "model": {} if self.shedder is None else checked_json(self.shedder, "metrics"),
            "detectors": [detector.name for detector, _ in self._control_loops],
            **self.episodes.metrics(),
            "demand": self.demand,
            "decisions": self._decisions,
            "overhead": self._schedule.overhead,
            "dropped_events": events,
            "dropped_in_windows": sum(query.shedding.totals[1] for query in self.queries),
            "dropped_partial_matches": partial_matches,
            "passed_over": self._work_limit.passed_over(self.queries),
            "processing_latency": self.monitor.summary("processing"),
            "event_latency": self.monitor.summary("event"),
            "queries": {query.plan.query.name: query.metrics() for query in self.queries},
        }

    def specs(self) -> dict[str, Any]:
        """Return the names and options of shedder and detectors as JSON values."""
        return {
            "shedder": None if self.shedder is None else checked_json(self.shedder, "spec"),
            "detectors": [checked_json(detector, "spec") for detector, _ in self._control_loops],
        }

    def classes(self) -> list[Any]:
        """Return fingerprints of each query's classes as JSON values."""
        return [query.classes() for query in self.queries]

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot as JSON values."""
        return {
            "specs": self.specs(),
            "learned": [checked_json(detector, "state") for detector, _ in self._control_loops],
            "shedder": None if self.shedder is None else checked_json(self.shedder, "state"),
            "clock": self.clock.state() if isinstance(self.clock, VirtualClock) else None,
            "monitor": self.monitor.state(),
            "controllers": [controller.state() for _, controller in self._control_loops],
            "demand": self.demand,
            "episodes": self.episodes.state(),
            "pace": self._schedule.state(),
            "decisions": self._decisions,
            "past": list(self._past_demands),
            "cut": self._work_limit.state(),
            "counted": list(self._latency_counts),
            "queries": [query.state() for query in self.queries],
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state` of a control with the same queries, detectors and shedder.

        Raises
        ------
        SnapshotError
            If the state was taken on the other kind of clock.
        Misfit
            If the state is invalid. Detectors, shedder and the other parts check their own states.
        """
        self._check_state(state)
        if isinstance(self.clock, VirtualClock) != (state["clock"] is not None):
            here, there = ("wall", "virtual") if state["clock"] is not None else ("virtual", "wall")
            raise SnapshotError(f"the snapshot is of an engine with clock={there!r}, this one has {here!r}")
        if self.shedder is not None:
            self.shedder.restore(state["shedder"])
        for number, (detector, controller) in enumerate(self._control_loops):
            detector.restore(state["learned"][number])
            controller.restore(state["controllers"][number])
        self.demand = state["demand"]
        self._past_demands.extend(state["past"])
        if isinstance(self.clock, VirtualClock):
            self.clock.restore(state["clock"])
        self.monitor.restore(state["monitor"])
        count, over = state.get("counted", self.monitor.counted())  # older snapshots lack it
        self._latency_counts = count, over
        self.episodes.restore(state["episodes"])
        self._schedule.restore(state["pace"])
        self._decisions = state["decisions"]
        for query, query_state in zip(self.queries, state["queries"], strict=True):
            query.restore(query_state)
        self._report_estimates()
        if "cut" in state:
            self._work_limit.restore(state["cut"])
