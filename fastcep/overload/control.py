"""Overload control: measure the load of the engine, and let a shedder drop what exceeds the latency bound.

The event loop matches events in stretches. `Control.stretch` gives the length of the next stretch, and
`Control.taken` records it and assigns each event its latency on the engine's clock. When a decision is due:

1. measure: `LoadMeter` returns the load since the last decision;
2. detect and demand: `DemandControl` compares it with the bounds and sets the demand;
3. drop plan: the shedder returns one per query, `BacklogLimit` drops events in addition if the shedder saves too
   little, and each plan is passed to its matcher as tables of drop probabilities;
4. report: `Episodes` records the decision, and its cost is charged to the clock;
5. schedule: `DecisionSchedule` sets when to check next whether a decision is due.

Invariant: on the virtual clock the decisions depend only on the events and the seed, not on the cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep._core.matcher.matcher import Matcher
from fastcep.errors import ValidationError
from fastcep.overload.backlog_limit import BacklogLimit
from fastcep.overload.clock import LATEST, VirtualClock, WallClock
from fastcep.overload.controller import ALL
from fastcep.overload.costs import CostTable
from fastcep.overload.decision_schedule import MOST_EVENTS
from fastcep.overload.demand import DemandControl
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.episodes import Episodes
from fastcep.overload.latency import LatencyMonitor
from fastcep.overload.load import Load
from fastcep.overload.load_meter import LoadMeter
from fastcep.overload.protocols import Detector, QueryView, Shedder
from fastcep.overload.query_shedding import QueryShedding
from fastcep.overload.recall import RecallEstimate
from fastcep.overload.renewal import Renewal, RenewingShedder
from fastcep.overload.shedder_change import ShedderChange, check_control_state
from fastcep.overload.sleep import Sleep
from fastcep.overload.validation import checked_classes, checked_drop_plans, checked_json, checked_utility
from fastcep.overload.work_limit import WorkLimit
from fastcep.plan import Plan
from fastcep.query import ast

__all__ = ["Control"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: Number of latencies that are kept.
_REMEMBERED = 1 << 13


class Control(ShedderChange):
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
    listeners
        Functions called with the processing and event latencies (ns) of each stretch of events.
    queries
        Queries under control.
    waiting
        Function that returns the number of events waiting before the engine at a time (ns on its clock), without those
        of the current batch. None: no input queue is known.
    memory
        Function that returns the bytes held and the limit. None: memory is not limited by shedding.
    renewal
        Passes the events to a shedder that changes while the engine runs.
    sleep
        Decides when the queries run without anything that shedding needs.
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
        self.clock, self.table, self.bound, self.shedder = clock, table, bound, shedder
        self.monitor = LatencyMonitor(_REMEMBERED, every, bound)
        self._meter, self._load = LoadMeter(bound or 0.0, self.monitor), Load(bound or 0.0)
        self._demand = DemandControl(detectors, self.monitor)
        self.episodes = Episodes()
        self.listeners: list[Callable[[Floats, Floats], None]] = []
        self.waiting: Callable[[int], int] | None = None
        self.memory: Callable[[], tuple[int, int]] | None = None
        self.queries: list[QueryShedding] = []
        self._operation_costs, self._event_costs = table.picoseconds(), np.zeros(MOST_EVENTS, np.int64)
        self._batch_arrivals: Ints | None = None  #: of the current batch, or None
        self._first_event = self._decisions = self._stretch_start = 0
        self.sleep = Sleep(bound or 0.0)
        self._schedule = self._new_schedule()
        self._work_limit, self._backlog = WorkLimit(bound, detectors), BacklogLimit()
        self.renewal: Renewal | None = None
        self._dropped_before: tuple[int, int] = (0, 0)  #: counts of matchers that were replaced

    @property
    def demand(self) -> float:
        """Share of the work to save until the next decision, from 0 to 0.999."""
        return self._demand.demand

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

    def use(
        self, running: Sequence[tuple[Plan, object]], *, replanned: bool = False, same_shedder: bool = False
    ) -> None:
        """Control these queries (plan and matcher) from now on; those already under control keep their state.

        ``replanned``: they are the same queries with other plans. Their totals go on, and counts by class start again.
        Unless they have the ``same_shedder``, so do counts by type.
        """
        before, shedder = self._dropped_counts(), None if self.sleep.asleep else self.shedder
        by_matcher = {query.matcher: query for query in self.queries}
        by_plan = {id(query.plan): query for query in self.queries}
        by_name = {query.plan.query.name: query for query in self.queries}
        self.queries = []
        for plan, matcher in running:
            assert isinstance(matcher, Matcher), "an engine under overload control has one thread"
            query = by_matcher.get(matcher)
            if query is None:
                query = QueryShedding(plan, matcher, shedder)
                if id(plan) in by_plan:  # the state has moved to another matcher
                    query.follow(by_plan[id(plan)])
                elif plan.query.name in by_name:
                    query.follow_estimate(by_name[plan.query.name])
                    if same_shedder:
                        query.follow_counts(by_name[plan.query.name])
            self.queries.append(query)
        if isinstance(self.shedder, RenewingShedder):
            self.shedder.set_queries([query.plan.query for query in self.queries])
        if replanned:
            events, rows = (old - new for old, new in zip(before, self._dropped_counts(), strict=True))
            self._dropped_before = self._dropped_before[0] + events, self._dropped_before[1] + rows
        after = self._dropped_counts()
        self.episodes.shift_counters(*(new - old for new, old in zip(after, before, strict=True)))
        for number, query in enumerate(self.queries):
            operation_costs = self._operation_costs[:7].copy()
            operation_costs[0] *= number == 0  # charge the cost of an event once, however many queries there are
            query.shedding.meter(self._event_costs if isinstance(self.clock, VirtualClock) else None, operation_costs)
        in_windows = self.shedder is not None and self.shedder.in_windows
        self._meter.at_once = in_windows and all(query.has_isolated_windows for query in self.queries)
        self._limit_work()
        self._backlog.use(self.queries, self.shedder is not None and self.shedder.limits_backlog)

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
        number = max(1, min(rest, self._schedule.check - self._meter.events, MOST_EVENTS))
        if self.renewal is not None and self.renewal.remaining > 0:
            number = min(number, self.renewal.remaining)
        if isinstance(self.clock, VirtualClock):
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
            spent, self._meter.waited = float(processing.sum()), float(event[-1] - processing[-1])
        else:
            now = self.clock.now()
            spent = float(now - self._stretch_start)
            if arrivals is not None:
                self._meter.record_busy(now, int(arrivals[0]), self._stretch_start)
            self._meter.waited = 0.0 if arrivals is None else max(0.0, float(now - arrivals[-1]) - spent / number)
            if self.listeners:
                processing = np.full(number, spent / number)
                event = processing if arrivals is None else (now - arrivals).astype(np.float64)
                self._notify_listeners(processing, event)
            began = perf_counter_ns()
            self.monitor.record_stretch(spent / number, number, now, arrivals)
        ends = None if arrivals is None else (int(arrivals[0]), int(arrivals[-1]))
        self._meter.add(number, spent, (first_time, last_time), ends)
        for query in self.queries:
            query.received += number
        if self._meter.events >= self._schedule.check:
            windows, window = self._meter.windows_passed(self.queries), self._window_size(min)
            if self._schedule.is_due(self._meter, windows, window):
                self._decide(start + last, began)
        if self.renewal is not None:
            self.renewal.take(start + last, number)

    def _notify_listeners(self, processing: Floats, event: Floats) -> None:
        for listener in self.listeners:
            listener(processing, event)

    def _decide(self, place: int, began: int) -> None:
        """Measure, set the demand, apply new drop plans, report, and schedule the next decision."""
        if self.shedder is not None:
            shed_before = self.demand > 0 or self._work_limit.active
            self.monitor.end_interval(shedding=shed_before)
            by_window = self._window_size(max) / self._meter.events
            self._load = load = self._measure(place)
            before = self.demand
            self._demand.update(load, self._saved_without_loss(), by_window)
            self._backlog.update(load, self._demand.readings, before, self.demand)
            limits = self._work_limit.update(self.queries, load.events, load.over)
            sheds = self.demand > 0 or limits
            moved, visited, learned = self._sleep_or_wake(sheds), 0, 0
            dropped = self._dropped_counts() if sheds and not self.episodes.active else (0, 0)
            if sheds:
                visited, learned = self._shed(self.shedder)
            elif shed_before:
                self.shedder.stop_shedding()
                self._apply([DropPlan() for _ in self.queries])
            self._demand.past.add(self.demand, self._meter.events, self._window_size(max))
            self._report(sheds, dropped, by_window)
            self._charge_decision(perf_counter_ns() - began, learned + moved, visited, sheds or shed_before)
        self._decisions += 1
        events = self._meter.events
        self._meter.reset(self.queries if self.shedder is not None else ())
        self._schedule.schedule_next(events, self.memory, sheds=self.demand > 0)

    def _shed(self, shedder: Shedder) -> tuple[int, int]:
        """Apply the shedder's drop plans; return the partial matches visited and the ns spent on learning."""
        views = [self._query_view(query) for query in self.queries]
        learned = self._schedule.learn(partial(shedder.learn, views))
        return self._apply(self._drop_plans(shedder, views)), learned

    def _apply(self, plans: Sequence[DropPlan]) -> int:
        """Put drop plans in force; return the number of partial matches visited."""
        self._switch_limit(plans)
        by_query, salt = zip(self.queries, plans, strict=True), self._decisions + 1
        return sum(query.apply(drop_plan, salt) for query, drop_plan in by_query)

    def _drop_plans(self, shedder: Shedder, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the drop plans of the shedder, checked."""
        names = [query.plan.query.name for query in self.queries]
        before = 0.0 if self._demand.of_present else self._demand.past.largest
        plans = checked_drop_plans(shedder, shedder.decide(self.demand, before, views), names)
        for query, drop_plan in zip(self.queries, plans, strict=True):
            query.check(drop_plan, shedder)
        return self._backlog.limited(plans, self.queries)

    def _query_view(self, query: QueryShedding) -> QueryView:
        decisions = query.window_size / self._meter.events
        return QueryView(
            query.plan, query.shedding, query.slices, decisions, query.window_size, query.received,
            self._schedule.count_budget(self._meter.per_event), self._work_limit.share,
            self._load, self._demand.readings, self._demand.of_present, self._backlog.keep,
            self._work_limit.found, self._work_limit.unlimited_work,
        )  # fmt: skip

    def _window_size(self, which: Callable[..., float]) -> float:
        """Return the number of events in the shortest (``min``) or longest (``max``) window; 0 without queries."""
        return which((query.window_size for query in self.queries), default=0.0)

    def _saved_without_loss(self) -> float:
        """Return the share of the work that the drop plans save, if they save more than the demand at no loss."""
        total = sum(query.weight for query in self.queries)
        return sum(query.weight * query.drop_plan.saved for query in self.queries) / max(total, 1e-9)

    def _measure(self, place: int) -> Load:
        """Return the load since the last decision, with the queue and the memory in use."""
        now, purges = self.clock.now(), any(query.drops_partial_matches for query in self.queries)
        saved = min(1 - (1 - self._demand.saved(self._saved_without_loss(), purges)) * self._backlog.keep, ALL)
        load = self._meter.measure(self.queries, self._schedule.last_cost, saved)
        load.cut, load.limit_suspended = self._work_limit.in_force, self._work_limit.suspended
        load.on_wall_clock = not isinstance(self.clock, VirtualClock)
        load.saved = 1 - (1 - self.demand) * self._backlog.keep
        if self.memory is not None:
            load.memory, load.memory_limit = self._sweep_memory(*self.memory())
        if self._batch_arrivals is not None:
            arrived = int(np.searchsorted(self._batch_arrivals, now, side="right")) - place  # of this batch
            load.queue = max(0, arrived) + (self.waiting(now) if self.waiting is not None else 0)
        return load

    def _report(self, sheds: bool, dropped_before: tuple[int, int], by_window: float) -> None:
        """Record the decision for the episodes, the estimated recall and the log."""
        for query in self.queries:
            query.record_decision(self._meter.events, query in self._work_limit.limited)
        self._report_estimates([query.recall for query in self.queries])
        if sheds or self.episodes.active:
            why = self._demand.why if self.demand > 0 else "single events would cost more than the bound"
            self.episodes.record_decision(
                self.clock.now(), sheds, why, 1 / by_window, dropped_before, self._dropped_counts
            )
        self.episodes.check_backlog(self._backlog.engaged, "" if self.shedder is None else self.shedder.name)
        self.episodes.check_bound(self._demand.bound_missed, self._meter.per_event, self.bound, by_window)

    def _report_estimates(self, recalls: Sequence[RecallEstimate]) -> None:
        self.episodes.record_estimates(recalls, self._work_limit.passed_over(self.queries) > 0)

    def _dropped_counts(self) -> tuple[int, int]:
        """Return how many events, and how many partial matches, were dropped so far."""
        counters = [query.shedding.counted() for query in self.queries]
        events = sum((int(counter["dropped_events"].sum()) for counter in counters), self._dropped_before[0])
        rows = (int(counter["refused"].sum() + counter["dropped"].sum()) for counter in counters)
        return events, sum(rows, self._dropped_before[1])

    def _charge_decision(self, elapsed: int, learned: int, visited: int, decided: bool) -> None:
        """Charge a decision to the clock, given ns elapsed and spent on learning, and partial matches visited."""
        if isinstance(self.clock, VirtualClock):
            picoseconds = int(self._operation_costs[6]) * visited + int(self._operation_costs[7]) * decided
            self.clock.spend(picoseconds)
            cost = picoseconds / 1000
        else:
            cost = float(elapsed)
        self._schedule.record_cost(cost, learned, decided)
        if decided:
            name, largest = "" if self.shedder is None else self.shedder.name, self._schedule.decision_time()["max"]
            self.episodes.check_cost(cost, largest, self.bound, name)
            live = sum(query.matcher.live for query in self.queries)
            for detector in self._demand.detectors:
                detector.note_decision(live, cost)

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

    # ------------------------------------------------------- metrics and state

    def utilities(self) -> dict[str, Floats]:
        """Return the utility of partial matches by state, class and slice, by query, as far as the shedder knows it."""
        found = {} if self.shedder is None or self.sleep.asleep else {
            query.plan.query.name: checked_utility(self.shedder, QueryView(query.plan, query.shedding, query.slices))
            for query in self.queries
        }  # fmt: skip
        return {name: utility for name, utility in found.items() if utility is not None}

    def end(self) -> None:
        """Record that the stream has ended."""
        self.episodes.end(self._dropped_counts)

    def metrics(self) -> dict[str, Any]:
        """Return latencies, decisions and drop counts, see `Engine.metrics`."""
        events, partial_matches = self._dropped_counts()
        limited = self._work_limit.limited_since(self.queries)
        recalls = [query.recall_until_now(self._meter.events, query in limited) for query in self.queries]
        self._report_estimates(recalls)
        return {
            "clock": "virtual" if isinstance(self.clock, VirtualClock) else "wall",
            "cost_table": {"name": self.table.name, "hash": self.table.hash},
            "latency_bound": self.bound,
            "shedder": None if self.shedder is None else self.shedder.name,
            "model": {} if self.shedder is None else checked_json(self.shedder, "metrics"),
            "detectors": [detector.name for detector in self._demand.detectors],
            **self.episodes.metrics(),
            "demand": self.demand,
            "asleep": self.sleep.asleep,
            "decisions": self._decisions,
            "overhead": self._schedule.overhead,
            "decision_time": self._schedule.decision_time(),
            "dropped_events": events,
            "dropped_in_windows": sum(query.shedding.totals[1] for query in self.queries),
            "dropped_windows": sum(query.shedding.totals[3] for query in self.queries),
            "dropped_partial_matches": partial_matches,
            "passed_over": self._work_limit.passed_over(self.queries),
            "backlog_limited": self._backlog.engaged,
            "processing_latency": self.monitor.summary("processing"),
            "event_latency": self.monitor.summary("event"),
            "queries": {
                query.plan.query.name: query.metrics(recall)
                for query, recall in zip(self.queries, recalls, strict=True)
            },
        }

    def specs(self) -> dict[str, Any]:
        """Return the names and options of shedder and detectors as JSON values."""
        return {
            "shedder": None if self.shedder is None else checked_json(self.shedder, "spec"),
            "detectors": [checked_json(detector, "spec") for detector in self._demand.detectors],
        }

    def classes(self) -> list[Any]:
        """Return fingerprints of each query's classes as JSON values."""
        return [query.classes() for query in self.queries]

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot as JSON values."""
        return {
            "specs": self.specs(),
            "learned": [checked_json(detector, "state") for detector in self._demand.detectors],
            "shedder": None if self.shedder is None else checked_json(self.shedder, "state"),
            "clock": self.clock.state() if isinstance(self.clock, VirtualClock) else None,
            "monitor": self.monitor.state(),
            "measured": self._meter.state(),
            "demand": self._demand.state(),
            "episodes": self.episodes.state(),
            "pace": self._schedule.state(),
            "decisions": self._decisions,
            "cut": self._work_limit.state(),
            "backlog": self._backlog.state(),
            "queries": [query.state() for query in self.queries],
            "renewal": 0 if self.renewal is None else self.renewal.remaining,
            "before": list(self._dropped_before),
            "sleep": self.sleep.state(),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state` of a control with the same queries, detectors and shedder.

        Raises
        ------
        Misfit
            If the state is invalid. Detectors, shedder and the other parts check their own states.
        """
        check_control_state(state, len(self._demand.detectors), len(self.queries))
        if self.shedder is not None:
            self.shedder.restore(state["shedder"])
        for detector, learned in zip(self._demand.detectors, state["learned"], strict=True):
            detector.restore(learned)
        self._demand.restore(state["demand"])
        self._meter.restore(state["measured"])
        if isinstance(self.clock, VirtualClock):
            self.clock.restore(state["clock"])
        self.monitor.restore(state["monitor"])
        self.episodes.restore(state["episodes"])
        self._schedule.restore(state["pace"])
        self._decisions = state["decisions"]
        self._dropped_before = tuple(state.get("before", (0, 0)))
        if self.renewal is not None:
            self.renewal.remaining = state.get("renewal", 0)
        for query, query_state in zip(self.queries, state["queries"], strict=True):
            query.restore(query_state)
        self._report_estimates([query.recall for query in self.queries])
        if "cut" in state:
            self._work_limit.restore(state["cut"], self.queries)
        for name, part in (("sleep", self.sleep), ("backlog", self._backlog)):
            if name in state:  # older snapshots lack some
                part.restore(state[name])
