"""Overload control: measures what the engine does, and lets a shedder drop what is too much.

Data flow: `QuerySet.match` runs the queries over one stretch of events after the other, as long as `Control.stretch`
says, and tells `Control.taken`. That gives each event its latency on the engine's clock. When enough events have come
since the last decision, the detector judges what was measured since then, the controller makes a demand of that, the
shedder orders, and the orders go to the matchers as tables.

Invariant: on the virtual clock all of this depends on the events and the seed only, not on how they came in batches.
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
from fastcep.overload.validation import checked_classes, checked_json, checked_orders, checked_reading
from fastcep.overload.work_limit import WorkLimit
from fastcep.plan import Plan
from fastcep.query import ast
from fastcep.stored import COUNT, SHARE, anything, by_name, listed, or_null, record, sequence

__all__ = ["Control"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: So many demands are remembered; a window seldom has more decisions.
_PAST = 64

#: Latencies are smoothed over so many events (hybrid: 1,000 measurements), or all since the last decision, if these are
#: more, and are remembered.
_SMOOTHED, _REMEMBER = 1000, 1 << 13


class Control:
    """Keeps an engine's latency within a bound.

    Parameters
    ----------
    clock
        On which latencies are measured.
    table
        What operations cost on the virtual clock.
    bound
        The latency bound in ns; None for none.
    detectors, shedder
        None: latencies are measured and nothing is dropped. Of several detectors the one that demands most counts.
    every
        Which events' latencies are recorded: each one, each second …

    Attributes
    ----------
    monitor
        The latencies.
    listeners
        Called with the processing and event latencies (ns) of every stretch of events, as they come.
    queries
        Those that it controls.
    waiting
        Tells how many events wait in front of the engine at a time (ns on its clock), beside those it was given.
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
        self.monitor = LatencyMonitor(_REMEMBER, every, bound)
        self._judges = [(detector, Controller()) for detector in detectors]
        self.episodes = Episodes()
        self.listeners: list[Callable[[Floats, Floats], None]] = []
        self.waiting: Callable[[int], int] | None = None
        self.memory: Callable[[], tuple[int, int]] | None = None
        self.queries: list[QueryShedding] = []
        self._prices = table.picoseconds()
        self._costs = np.zeros(MOST_EVENTS, np.int64)
        self._arrivals: Ints | None = None  #: of the batch, whose events from `_first` on are matched
        self._first = 0
        self._decisions = 0
        self._past: deque[float] = deque(maxlen=_PAST)
        often, virtual = shedder is not None and shedder.often, isinstance(clock, VirtualClock)
        self._pace = DecisionSchedule(shedder is not None, often, bound or 0.0, table.decision if virtual else None)
        self._began, self._counted = 0, (0, 0)
        self._fails = False
        self._cut = WorkLimit(bound, detectors if shedder is not None and shedder.cuts else ())

    # ----------------------------------------------------------------- queries

    def plan_options(self, query: ast.Query) -> dict[str, Any]:
        """What the plan of a query has to provide: classes, isolated windows."""
        if self.shedder is None:
            return {}
        self.shedder.check(query)
        options: dict[str, Any] = {"isolated": self.shedder.in_windows and isinstance(query.window, ast.ExplicitWindow)}
        if self.shedder.observes:
            options["observed"] = True
        if self.shedder.drops_matches:
            classes = checked_classes(self.shedder, query, "classes")
            options["classes"] = {name: item.features for name, item in classes.items()}
        if events := checked_classes(self.shedder, query, "event_classes"):
            options["event_classes"] = {name: item.features for name, item in events.items()}
        return options

    def use(self, running: Sequence[tuple[Plan, object]]) -> None:
        """Control the queries of these plans and matchers from now on; those controlled already keep their state."""
        before = self._matches(), self._missed(), *self._dropped()
        known = {query.matcher: query for query in self.queries}
        moved = {id(query.plan): query for query in self.queries}
        self.queries = []
        for plan, matcher in running:
            assert isinstance(matcher, Matcher), "an engine under overload control has one thread"
            query = known.get(matcher)
            if query is None:
                query = QueryShedding(plan, matcher, self.shedder)
                if id(plan) in moved:  # its state has moved to another matcher
                    query.follow(moved[id(plan)])
            self.queries.append(query)
        after = self._matches(), self._missed(), *self._dropped()
        self.episodes.shift(*(new - old for new, old in zip(after, before, strict=True)))
        for number, query in enumerate(self.queries):
            prices = self._prices[:7].copy()
            prices[0] *= number == 0  # an event comes once, however many queries there are
            query.shedding.meter(self._costs if isinstance(self.clock, VirtualClock) else None, prices)
        self._cut.use(self.queries)

    # ------------------------------------------------------------------ events

    def arrive(self, arrivals: Ints | None) -> None:
        """Say when the events of the next batch arrived (ns on the engine's clock); None: when they are taken.

        Raises
        ------
        ValidationError
            If it is a time that the clock cannot have; nothing has changed then.
        """
        if arrivals is not None and len(arrivals):
            latest = LATEST if isinstance(self.clock, VirtualClock) else self.clock.now()
            if arrivals[-1] > latest:
                raise ValidationError(
                    f"arrivals: found {arrivals[-1]}, later than the engine's clock can be, {latest}: give ns as of "
                    "Engine.now(), not of the epoch"
                )
        self._arrivals = arrivals
        self._first = 0

    def begin(self, first: int) -> None:
        """Say that the events matched next are those of the batch from ``first`` on."""
        self._first = first

    def stretch(self, rest: int) -> int:
        """How many of the ``rest`` events of a batch are to be matched until `taken` is called."""
        number = max(1, min(rest, self._pace.step - self._pace.since, MOST_EVENTS))
        self._costs[:number] = 0
        self._began = self.clock.now()
        return number

    def taken(self, first_time: int, last_time: int, first: int, last: int) -> None:
        """Account for the events ``first:last``, counted from `begin`, which have just been matched; times are ns."""
        begun = self._first
        arrivals = None if self._arrivals is None else self._arrivals[begun + first : begun + last]
        number = last - first
        if isinstance(self.clock, VirtualClock):
            processing, event = self.clock.run(self._costs[:number], arrivals)
            self._tell(processing, event)
            began = perf_counter_ns()
            self.monitor.record(processing, event)
            spent, waited = float(processing.sum()), float(event[-1] - processing[-1])
        else:
            now = self.clock.now()
            spent = float(now - self._began)
            if arrivals is not None:
                self._pace.occupy(now, int(arrivals[0]), self._began)
            waited = 0.0 if arrivals is None else max(0.0, float(now - arrivals[-1]) - spent / number)
            if self.listeners:
                processing = np.full(number, spent / number)
                self._tell(processing, processing if arrivals is None else (now - arrivals).astype(np.float64))
            began = perf_counter_ns()
            self.monitor.record_stretch(spent / number, number, now, arrivals)
        self._pace.add(number, spent, first_time, None if arrivals is None else int(arrivals[0]))
        for query in self.queries:
            query.given += number
        if self._pace.since >= self._pace.step:
            self._decide(last_time, begun + last, waited, began)

    def _tell(self, processing: Floats, event: Floats) -> None:
        for listener in self.listeners:
            listener(processing, event)

    def _decide(self, time: int, place: int, waited: float, began: int) -> None:
        """Judge what was measured since the last decision, and order what is dropped until the next one."""
        if self.shedder is not None:
            before = self.demand
            why, at_once = self._judge(place, waited)
            had, cuts = self._cut.active, self._cut.look(self.queries)
            sheds = self.demand > 0 or cuts
            dropped = self._dropped() if sheds and not self.episodes.active else (0, 0)
            demand, looked_at, learned = self.demand, 0, 0
            if works := sheds or before > 0 or had:
                views = [self._view(query) for query in self.queries]
                orders: Sequence[DropPlan] = [DropPlan() for _ in views]
                if sheds:
                    learned = self._pace.learn(partial(self.shedder.learn, views))
                    orders = self._ordered(self.shedder, demand, 0.0 if at_once else self._thinned(), views)
                else:
                    self.shedder.rest()
                for query, own in zip(self.queries, orders, strict=True):
                    looked_at += query.carry_out(own, self._decisions + 1)
            self._past.append(demand)
            self._note(sheds, why if demand > 0 else "single events would cost more than the bound", dropped)
            cost = self._pace.spent / self._pace.since
            self.episodes.judge(self._fails, cost, self.bound, self._by_window())
            self._account(perf_counter_ns() - began, learned, looked_at, works)
        self._decisions += 1
        self._plan_next(time)

    def _ordered(
        self, shedder: Shedder, demand: float, before: float, views: Sequence[QueryView]
    ) -> Sequence[DropPlan]:
        """What the shedder orders, checked."""
        names = [query.plan.query.name for query in self.queries]
        orders = checked_orders(shedder, shedder.decide(demand, before, views), names)
        for query, own in zip(self.queries, orders, strict=True):
            query.check(own, shedder)
        return orders

    def _view(self, query: QueryShedding) -> QueryView:
        by_window = query.events / self._pace.step
        return QueryView(
            query.plan, query.shedding, query.slices, by_window, query.events, query.given, self._pace.spare(),
            self._cut.share,
        )

    def _judge(self, place: int, waited: float) -> tuple[str, bool]:
        """Set the demand, by the detector that demands most; returns why, and whether it is an amount to drop now."""
        load, self.demand, why, at_once = self._load(place, waited), 0.0, "", False
        self._fails = False
        saved = sum(query.weight * query.orders.saved for query in self.queries) / max(self._weights(), 1e-9)
        for detector, controller in self._judges:
            load.smoothed = self.monitor.smoothed(detector.statistic, last=max(_SMOOTHED, self._pace.since))
            reading = checked_reading(detector, detector.read(load))
            all_asked = controller.demand >= ALL
            if controller.update(reading, saved, self._by_window()) > self.demand:
                self.demand, why, at_once = controller.demand, reading.why, reading.amount is not None
                self._fails = all_asked and self.demand >= ALL and (reading.excess > 0 or at_once)
        return why, at_once

    def _thinned(self) -> float:
        """The largest demand of the last window: to that the partial matches have been thinned out."""
        return max(list(self._past)[-max(1, ceil(self._by_window())) :], default=0.0)

    def _by_window(self) -> float:
        """How many decisions are made in a window, of the longest one."""
        return max((query.events for query in self.queries), default=0.0) / self._pace.step

    def _over(self) -> float:
        """Which share of the latencies since this was asked last was above the bound."""
        before, self._counted = self._counted, self.monitor.counted()
        count, over = (new - old for new, old in zip(self._counted, before, strict=True))
        return over / count if count else 0.0

    def _load(self, place: int, waited: float) -> Load:
        now = self.clock.now()
        load = Load(
            bound=float(self.bound or 0),
            recent=self._pace.spent / self._pace.since,
            busy=self._pace.busy,
            waited=waited,
            partial_matches=sum(query.matcher.live for query in self.queries),
            events=self._pace.since,
            shedding=self.demand > 0,
            over=self._over(),
            cut=self._cut.on,
        )
        if self.memory is not None:
            load.memory, load.memory_limit = self._swept(*self.memory())
        if self._arrivals is not None:
            inside = int(np.searchsorted(self._arrivals, now, side="right")) - place
            load.queue = max(0, inside) + (self.waiting(now) if self.waiting is not None else 0)
            passed = int(self._arrivals[place - 1]) - (self._pace.first_arrival or 0)
            load.arrivals = self._pace.since / passed if passed > 0 else 0.0
        return load

    def _note(self, sheds: bool, why: str, before: tuple[int, int]) -> None:
        kept, left, weights, taken = 0.0, 0.0, self._weights(), 0
        for query in self.queries:
            taken += query.matcher.events
            own = query.orders.known_kept(), query.orders.known_left()
            if own[0] is None or own[1] is None:
                self.episodes.lose_track()
            kept += query.weight * (1.0 if own[0] is None else own[0])
            left += query.weight * (1.0 if own[1] is None else own[1])
        shares = (kept / weights, left / weights) if weights > 0 else (1.0, 1.0)
        self.episodes.found(self._matches(), *shares, self._by_window(), taken, self._missed(), self._cut.lost)
        if sheds or self.episodes.active:
            self.episodes.note(self.clock.now(), sheds, why, before, self._dropped)

    def _weights(self) -> float:
        return sum(query.weight for query in self.queries)

    def _matches(self) -> int:
        return sum(query.matcher.matches for query in self.queries)

    def _missed(self) -> int:
        return sum(query.given - query.matcher.events for query in self.queries)

    def _dropped(self) -> tuple[int, int]:
        counted = [query.shedding.counted() for query in self.queries]
        events = sum(int(own["dropped_events"].sum()) for own in counted)
        return events, sum(int(own["refused"].sum() + own["dropped"].sum()) for own in counted)

    def _account(self, elapsed: int, learned: int, looked_at: int, worked: bool) -> None:
        """Charge the decision to the clock; of the time that has elapsed the shedder learned for some."""
        if isinstance(self.clock, VirtualClock):
            picoseconds = int(self._prices[6]) * looked_at + int(self._prices[7]) * worked
            self.clock.spend(picoseconds)
            cost = picoseconds / 1000
        else:
            cost = float(elapsed)
        self._pace.charge(cost, learned)
        if worked:
            live = sum(query.matcher.live for query in self.queries)
            for detector, _ in self._judges:
                detector.note_decision(live, cost)

    def _plan_next(self, time: int) -> None:
        """Choose after how many events the next decision is due."""
        passed = time - (self._pace.first_time if self._pace.first_time is not None else time)
        for query in self.queries if self.shedder is not None else ():
            query.events = query.window_events(self._pace.since, passed)
        self._pace.begin(min((query.events for query in self.queries), default=0.0), self.memory)

    def _swept(self, held: int, limit: int) -> tuple[int, int]:
        """Give back what dropped and dead partial matches hold, if that may matter; the bytes held, and the limit."""
        assert self.memory is not None
        if held <= limit // 2 or (self.demand == 0 and held < self._pace.held + limit // 64):
            return held, limit
        for query in self.queries:
            own = query.matcher.limit
            query.matcher.set_limit(0)  # who holds more sweeps
            query.matcher.set_limit(own)
        return self.memory()

    def _check(self, state: dict[str, Any]) -> None:
        judges, queries = len(self._judges), len(self.queries)
        record(
            {
                "specs": anything, "learned": listed(by_name(anything), judges), "demand": SHARE, "decisions": COUNT,
                "shedder": or_null(by_name(anything)), "clock": or_null(by_name(anything)),
                "monitor": by_name(anything), "controllers": listed(anything, judges), "episodes": anything,
                "pace": anything, "past": listed(SHARE), "queries": listed(by_name(anything), queries),
            },
            {"counted": sequence(COUNT, COUNT), "cut": anything},
        )(state, "control")  # fmt: skip

    # ------------------------------------------------------------------- views

    def end(self) -> None:
        """The stream has ended."""
        self.episodes.end(self._dropped)

    def metrics(self) -> dict[str, Any]:
        """What was measured and dropped, see `Engine.metrics`."""
        events, partial_matches = self._dropped()
        return {
            "clock": "virtual" if isinstance(self.clock, VirtualClock) else "wall",
            "cost_table": {"name": self.table.name, "hash": self.table.hash},
            "latency_bound": self.bound,
            "shedder": None if self.shedder is None else self.shedder.name,
            "model": {} if self.shedder is None else checked_json(self.shedder, "metrics"),
            "detectors": [detector.name for detector, _ in self._judges],
            **self.episodes.metrics(),
            "demand": self.demand,
            "decisions": self._decisions,
            "overhead": self._pace.overhead,
            "dropped_events": events,
            "dropped_in_windows": sum(query.shedding.totals[1] for query in self.queries),
            "dropped_partial_matches": partial_matches,
            "passed_over": self._cut.passed_over(self.queries),
            "processing_latency": self.monitor.summary("processing"),
            "event_latency": self.monitor.summary("event"),
            "queries": {query.plan.query.name: query.metrics() for query in self.queries},
        }

    def specs(self) -> dict[str, Any]:
        """What it controls with, as JSON has it."""
        return {
            "shedder": None if self.shedder is None else checked_json(self.shedder, "spec"),
            "detectors": [checked_json(detector, "spec") for detector, _ in self._judges],
        }

    def classes(self) -> list[Any]:
        """How the partial matches of each query are told apart, as JSON has it."""
        return [query.classes() for query in self.queries]

    def state(self) -> dict[str, Any]:
        """What a snapshot has of it, as JSON has it."""
        return {
            "specs": self.specs(),
            "learned": [checked_json(detector, "state") for detector, _ in self._judges],
            "shedder": None if self.shedder is None else checked_json(self.shedder, "state"),
            "clock": self.clock.state() if isinstance(self.clock, VirtualClock) else None,
            "monitor": self.monitor.state(),
            "controllers": [controller.state() for _, controller in self._judges],
            "demand": self.demand,
            "episodes": self.episodes.state(),
            "pace": self._pace.state(),
            "decisions": self._decisions,
            "past": list(self._past),
            "cut": self._cut.state(),
            "counted": list(self._counted),
            "queries": [query.state() for query in self.queries],
        }  # fmt: skip

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from `state`, with the same queries, detector and shedder.

        Raises
        ------
        SnapshotError
            It is of another kind of clock.
        Misfit
            It is no such state: detector, shedder and the other parts check their own.
        """
        self._check(state)
        if isinstance(self.clock, VirtualClock) != (state["clock"] is not None):
            here, there = ("wall", "virtual") if state["clock"] is not None else ("virtual", "wall")
            raise SnapshotError(f"the snapshot is of an engine with clock={there!r}, this one has {here!r}")
        if self.shedder is not None:
            self.shedder.restore(state["shedder"])
        for number, (detector, controller) in enumerate(self._judges):
            detector.restore(state["learned"][number])
            controller.resume(state["controllers"][number])
        self.demand = state["demand"]
        self._past.extend(state["past"])
        if isinstance(self.clock, VirtualClock):
            self.clock.restore(state["clock"])
        self.monitor.restore(state["monitor"])
        count, over = state.get("counted", self.monitor.counted())  # which older snapshots lack
        self._counted = count, over
        self.episodes.resume(state["episodes"])
        self._pace.resume(state["pace"])
        self._decisions = state["decisions"]
        for query, own in zip(self.queries, state["queries"], strict=True):
            query.restore(own)
        if "cut" in state:
            self._cut.restore(state["cut"])
