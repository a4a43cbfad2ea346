"""Run the queries of an engine: their matchers, and what they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fastcep._core.input.batch import Batch
from fastcep._core.input.filters import Filters
from fastcep._core.matcher.matcher import Matcher
from fastcep._core.matches.output import Output
from fastcep.engine.constant_binding import ConstantBinder
from fastcep.engine.earlier_values import EarlierValues
from fastcep.engine.faults import Faults
from fastcep.engine.partitioned_matcher import AnyMatcher, make_matcher
from fastcep.engine.results.matches import Layout, Matches, no_query
from fastcep.engine.results.output import no_matches, take_matches
from fastcep.engine.results.query_matches import QueryMatches
from fastcep.engine.results.returns import Returns
from fastcep.engine.results.timeouts import TimedOut
from fastcep.engine.running_query import RunningQuery
from fastcep.engine.standby import moved, plans_for, standby_for
from fastcep.engine.state.foreign_events import foreign_events
from fastcep.engine.state.replan import check_replan
from fastcep.engine.store_trial import CUT_SHORT, StoreTrial
from fastcep.engine.stores import check_index, check_store
from fastcep.engine.thread_pool import ThreadPool
from fastcep.engine.windows import WindowBounds
from fastcep.errors import ValidationError
from fastcep.events import EventBatch, EventRing, Schema, StringTable
from fastcep.kernels import Kernels
from fastcep.overload.control import Control
from fastcep.plan import Plan
from fastcep.plan.plan import KeyPlan
from fastcep.query import ast

__all__ = ["QuerySet"]

#: Plan, matcher, and matcher on standby of a query.
Replanned = tuple[Plan, AnyMatcher, AnyMatcher | None]

#: Number of events that all queries process before the next ones. It limits the size of the shared lists of relevant
#: events.
_SLICE = 1 << 15


class QuerySet:
    """The queries of an engine, in order, with the event ring, filters and kernels that they share.

    Parameters
    ----------
    schema
        The schema of all queries.
    strings
        The string table of the engine.
    numbered
        Whether sequence numbers of events differ from their positions; the ring then keeps them.
    timed_out
        Whether partial matches that time out are reported.
    store
        Store of partial matches: ``auto``, ``rows`` or ``factorised``.
    index
        Equalities that are indexed: ``full``, ``key`` or ``off``.
    limited
        Whether memory is limited.
    pool
        Threads that share the work; None for the calling thread alone.
    control
        Overload control, which keeps latency and memory within bounds; None for none.

    Attributes
    ----------
    running
        The queries; a new tuple whenever they change.
    ring
        The recent events, if a query reads them later.
    kernels
        The generated kernels.
    defers
        Whether matches or time-outs of any query may wait for time.
    trials
        Number of queries that compare two stores.
    owned
        Key groups whose events are taken; None for all.
    layout
        Columns of the matches of all queries.
    foreign_events
        Number of events so far whose key, for any query, is in a group that is not owned.
    """

    def __init__(
        self,
        schema: Schema,
        strings: StringTable,
        *,
        numbered: bool,
        timed_out: bool,
        store: str = "auto",
        index: str = "full",
        limited: bool = False,
        pool: ThreadPool | None = None,
        control: Control | None = None,
    ) -> None:
        self.control = control
        self._store, self._index = check_store(store), check_index(index)
        self._no_trial = "threads" if pool is not None else "a memory limit" if limited else ""
        self._no_trial = "a latency bound" if control is not None else self._no_trial
        self.pool = pool
        self.running: tuple[RunningQuery, ...] = ()
        self.ring: EventRing | None = None
        self.kernels = Kernels()
        self.defers, self.trials = False, 0
        self.owned: frozenset[int] | None = None
        self.foreign_events = 0
        self.earlier = EarlierValues(schema, strings)
        self._strings = strings
        self._numbered, self._timed_out = numbered, timed_out
        self._filters = Filters(schema.type_names)
        self.layout = Layout(())

    def __len__(self) -> int:
        return len(self.running)

    def __iter__(self) -> Iterator[RunningQuery]:
        return iter(self.running)

    def __getitem__(self, name: str) -> RunningQuery:
        for item in self.running:
            if item.name == name:
                return item
        raise ValidationError(no_query(name, [item.name for item in self.running]))

    @property
    def threads(self) -> int:
        """Number of threads that match, including the calling one."""
        return 1 if self.pool is None else self.pool.threads

    # ------------------------------------------------------- adding, removing queries

    def prepare(self, query: ast.Query, position: int) -> RunningQuery:
        """Return a query that is ready to run from ``position`` on. The set does not change."""
        link = ConstantBinder(self._strings)
        link.prepare(query)
        plan, other = self._plans(query, self._store)
        timed = TimedOut(plan) if self._timed_out else None
        make = partial(make_matcher, plan, link, self.pool)
        matcher = make()
        windows = None if plan.windows is None else WindowBounds(plan, link)
        running = RunningQuery(plan, link, matcher, position, 0, make, windows=windows, timed_out=timed)
        running.empty, running.standby = running.nbytes, standby_for(running, other)
        if plan.other is not None:
            obstacle = self._no_trial or ("key groups elsewhere" if self.owned is not None else "")
            if obstacle:
                running.plan = replace(plan, why=f"default: with {obstacle} no other store is tried")
            else:
                running.trial = StoreTrial(replace(plan.other, why="tried"), link, position)
        return running

    def _plans(self, query: ast.Query, store: str) -> tuple[Plan, Plan | None]:
        return plans_for(query, store, self._timed_out, self._index, self.control, self.earlier.columns)

    def use(self, running: Sequence[RunningQuery], position: int) -> None:
        """Run these queries from ``position`` on; those that run already keep their state."""
        removed = [item for item in self.running if item not in running]
        self.earlier.use(number for item in running for number in self.earlier.columns.numbers(item.query))
        self._keep_events([*self.running, *running], position)  # columns of removed queries are dropped last
        for item in running:
            if item.query.returns and item.returns is None:
                assert self.ring is not None
                item.returns = Returns(item.query, self.ring, self._strings, item.link, self.earlier.columns)
            if item.no_matches is None:
                item.no_matches = no_matches(item.plan, item.returns)
        self._share(running, removed)
        self._keep_events(running, position)
        self.running = tuple(running)
        self.layout = Layout(self.nothings)
        self.defers = any(item.defers for item in running)
        self.trials = sum(item.trial is not None for item in running)
        if self.control is not None:
            self.control.use([(item.plan, item.matcher) for item in self.running])
        self._run_kernels(running)

    def settle(self, stores: Sequence[str], position: int) -> None:
        """Give queries without state these stores, and end their trials."""
        for item, store in zip(self.running, stores, strict=True):
            if store != item.plan.store or item.trial is not None:
                plan, other = self._plans(item.query, store)
                self._choose(item, replace(plan, why="as in the snapshot"))
                item.standby = standby_for(item, other)
                item.matcher = item.new_matcher()
                if item.filters is not None:
                    item.matcher.share(item.filters)
        self.use(list(self.running), position)

    def end_trials(self, why: str) -> None:
        """End all trials: the queries keep their rows."""
        for item in self.running:
            if item.trial is not None:
                self._choose(item, replace(item.plan, why=why))
        if self.trials:
            self.use(list(self.running), 0)  # the ring exists already if it is needed

    def _choose(self, item: RunningQuery, plan: Plan) -> None:
        """End the trial of a query: its plan, and the next matcher that it makes, are for the chosen store."""
        item.plan, item.trial, item.no_matches = plan, None, no_matches(plan, item.returns)
        item.new_matcher = partial(make_matcher, plan, item.link, self.pool)

    def exchange(self, matchers: Sequence[AnyMatcher], owned: frozenset[int] | None) -> None:
        """Replace the matcher of each query; from now on the engine owns these key groups."""
        changed = False
        self.end_trials("key groups were moved while two stores were compared")
        for item, matcher in zip(self.running, matchers, strict=True):
            if matcher is not item.matcher:
                changed = True
                if item.filters is not None:
                    matcher.share(item.filters)
                item.matcher = matcher
            matcher.ignore(None)
        self.owned = owned
        if changed and self.control is not None:
            self.control.use([(item.plan, item.matcher) for item in self.running])
        if changed:
            self._run_kernels(self.running)

    def replanned(self) -> list[Replanned]:
        """Plan each query for the present shedder, with a matcher that has its state; the set does not change.

        Returns
        -------
        list
            By query: plan, matcher, and matcher on standby.

        Raises
        ------
        ValidationError
            The state of a query cannot be moved to the plan.
        """
        assert self.control is not None
        name = "none" if self.control.shedder is None else self.control.shedder.name
        new: list[Replanned] = []
        for item in self.running:
            sheds_rows = self.control.shedder is not None and self.control.shedder.drops_matches
            if item.plan.store == "factorised" and sheds_rows:
                raise ValidationError(
                    f"query {item.name!r}: shedder {name!r} drops partial matches, which needs rows, and the engine "
                    "has the factorised store; create the Engine with store='rows'"
                )
            plan, other = self._plans(item.query, item.plan.store)
            plan = replace(plan, why=item.plan.why)
            check_replan(item.plan, plan, name, empty=item.matcher.is_empty)
            matcher = moved(item, plan, self.control.unknown_classes(plan))
            new.append((plan, matcher, standby_for(item, other)))
        return new

    def switched(self) -> list[Replanned]:
        """Return what `replanned` returns, for a control that has fallen asleep or woken up."""
        assert self.control is not None
        new: list[Replanned] = []
        for item in self.running:
            assert item.standby is not None, "the control can sleep"
            plan: Plan = item.standby.plan
            matcher = moved(item, plan, self.control.unknown_classes(plan))
            new.append((plan, matcher, standby_for(item, item.plan)))
        return new

    def renew_standby(self) -> None:
        """Plan each query again for new classes of the shedder, while the control sleeps."""
        for item in self.running:
            item.standby = standby_for(item, self._plans(item.query, item.plan.store)[1])
        self._run_kernels(self.running)

    def use_plans(self, new: Sequence[Replanned], position: int, *, same_shedder: bool = False) -> None:
        """Run the queries with these plans and matchers, see `replanned`; it may be called within a batch."""
        for item, (plan, matcher, standby) in zip(self.running, new, strict=True):
            if isinstance(matcher, Matcher) and isinstance(item.matcher, Matcher):
                matcher.continue_batch(item.matcher)
            if item.filters is not None:
                self._filters.release(item.filters)
                item.filters = None
            self._choose(item, plan)
            item.matcher, item.standby = matcher, standby
        assert self.control is not None
        self.control.use([(plan, matcher) for plan, matcher, _ in new], replanned=True, same_shedder=same_shedder)
        self.use(list(self.running), position)

    @property
    def matchers(self) -> list[AnyMatcher]:
        """The matcher of each query, in order."""
        return [item.matcher for item in self.running]

    @property
    def filters(self) -> Filters:
        """Filters that queries share."""
        return self._filters

    @property
    def nothings(self) -> list[QueryMatches]:
        """Per query, its matches of a call that found none."""
        return [item.no_matches for item in self.running if item.no_matches is not None]

    @property
    def is_plain(self) -> bool:
        """True if matches are exactly what the matchers put out, without sequence numbers or RETURN columns."""
        return not self._numbered and all(item.returns is None for item in self.running)

    def _run_kernels(self, running: Sequence[RunningQuery]) -> None:
        returns = [item.returns for item in running if item.returns is not None]
        standby = [item.standby for item in running if item.standby is not None]
        matchers = [matcher for item in running for matcher in item.matchers]
        self.kernels.use([*matchers, *standby, *returns, self._filters])

    def _keep_events(self, running: Sequence[RunningQuery], position: int) -> None:
        """Let the ring keep, from now on, the columns that these queries read."""
        kept = sorted({column for item in running for column in item.plan.ring_columns if column >= 0})
        if not (self._numbered or any(item.plan.ring_columns or item.query.returns for item in running)):
            self.ring = None
        elif self.ring is None:
            self.ring = EventRing(kept, self.earlier.schema, start=position, is_float=self.earlier.columns.is_float)
        else:
            self.ring.keep(kept)

    def _share(self, running: Sequence[RunningQuery], removed: Sequence[RunningQuery]) -> None:
        """Let several queries share their filters; a single query is faster with its own."""
        for item in [*removed, *(running if len(running) == 1 else ())]:
            if item.filters is not None:
                self._filters.release(item.filters)
                item.filters = None
                for matcher in item.matchers:
                    matcher.share(None)
        for item in running if len(running) > 1 else ():
            if item.filters is None:
                item.filters = self._filters.of_plan(item.plan, item.link)
                for matcher in item.matchers:
                    matcher.share(item.filters)

    # ----------------------------------------------------------------------- events

    def prepare_piece(self, events: Batch, faults: Faults) -> set[int]:
        """Prepare the queries for the next events: foreign key groups, explicit windows.

        Returns
        -------
        set of int
            Numbers of the queries that cannot take the events, because their windows could not be found.
        """
        if self.owned is not None:
            self._ignore_foreign(events.source, self.owned)
        return {number for number, item in enumerate(self.running) if not self._find_windows(item, events, faults)}

    def judge(self, position: int, first_time: int, time: int, out: set[int], lost: set[Matcher]) -> bool:
        """End the trials of stores that are decided, or cannot go on; return whether any has ended.

        Parameters
        ----------
        position
            Position of the next event.
        first_time, time
            Times of the first and last of the latest events, ns.
        out
            Numbers of the queries that did not take all of these events.
        lost
            Matchers of candidate stores that did not take all of these events.
        """
        trials = self.trials
        for number, item in enumerate(self.running):
            rows, trial = item.matcher, item.trial
            if trial is None:
                continue
            assert isinstance(rows, Matcher)
            if number in out or trial.matcher in lost or trial.matcher.events != rows.events:
                self._choose(item, replace(item.plan, why=CUT_SHORT))
                self.trials -= 1
                continue
            cheaper = trial.judge(rows, position, first_time, time)
            if cheaper is not None:
                self._choose(item, replace(trial.plan if cheaper else item.plan, why=trial.reason(rows, position)))
                item.matcher = trial.matcher if cheaper else rows
                self.trials -= 1
        if self.trials < trials:
            self.use(list(self.running), position)
        return self.trials < trials

    def _ignore_foreign(self, batch: EventBatch, owned: frozenset[int]) -> None:
        """Let no query bind events of key groups that the engine does not own."""
        foreign = {item.plan.key: np.zeros(0, np.uint8) for item in self.running if isinstance(item.plan.key, KeyPlan)}
        for key in foreign:
            foreign[key] = foreign_events(key, batch, owned, self._strings)
        for item in self.running:
            assert isinstance(item.plan.key, KeyPlan)
            for matcher in item.matchers:
                matcher.ignore(foreign[item.plan.key])
        self.foreign_events += int(np.count_nonzero(np.any(list(foreign.values()), axis=0)))

    def _find_windows(self, item: RunningQuery, events: Batch, faults: Faults) -> bool:
        """Find which events open and close the explicit windows of a query; return whether the query can take them."""
        if item.windows is None:
            return True
        lost = item.matcher.lost
        try:
            item.matcher.use_bounds(*item.windows.find(events, self.ring))
        except Exception as error:
            item.matcher.drop(events.last_time)
            item.matcher.forget_windows()
            if isinstance(error, MemoryError):
                dropped = item.matcher.lost - lost
                faults.note_out_of_memory(item.name, events.position, dropped, limited=item.windows.refused)
            else:
                faults.note_error(item.name, error)
            return False
        return True

    def decide(self, clock: int | None, position: int, faults: Faults, *, complete: bool) -> None:
        """Decide the matches that wait for a time before ``clock``; at the end of a ``complete`` stream, all."""
        for item in self.running:
            if item.defers and (complete or clock is not None):
                self.decide_one(item, None if complete else clock, position, faults)

    def decide_one(self, item: RunningQuery, clock: int | None, position: int, faults: Faults) -> None:
        """Decide the waiting matches of one query up to ``clock``; None ends the stream for it."""
        matcher, lost = item.matcher, item.matcher.lost
        done = matcher.finish(self.ring) if clock is None else matcher.advance(clock, position, self.ring)
        if not done:
            faults.note_out_of_memory(item.name, position, matcher.lost - lost, limited=matcher.refused)

    def take_matches(self, faults: Faults) -> Matches:
        """Take the matches of all queries."""
        self._note_timed_out()
        return Matches([self.take_matches_of(item, faults) for item in self.running], self.layout)

    def take_matches_of(self, item: RunningQuery, faults: Faults) -> QueryMatches | Output:
        """Take the matches of a query; if that fails, it loses them, and the other queries go on."""
        assert item.no_matches is not None
        if item.trial is not None and not item.trial.forget_output():
            self._choose(item, replace(item.plan, why=CUT_SHORT))
            self.use(list(self.running), 0)
        if not item.matcher.output_pending:
            return item.no_matches
        try:
            return take_matches(item.plan, item.matcher, item.returns, self.ring if self._numbered else None)
        except Exception as error:
            item.lose(error, faults)
            return item.no_matches

    def oldest(self, position: int) -> int:
        """Return the position before which no live partial match needs an event."""
        needed = [matcher.first_needed for item in self.running for matcher in item.matchers]
        return min((at for at in needed if at is not None), default=position)

    def sweep(self, time: int, position: int) -> None:
        """Drop the partial matches whose window ends before ``time``, and the events that no partial match needs."""
        for item in self.running:
            for matcher in item.matchers:
                matcher.advance(time, position, self.ring)
            if item.windows is not None:
                item.windows.sweep(time, position, self.ring)
        self._note_timed_out()
        if self.ring is not None:
            self.ring.reclaim(self.oldest(position))

    def end(self, position: int, *, complete: bool) -> None:
        """Drop all state; at the end of a ``complete`` stream, every window ends first."""
        for item in self.running if complete and self._timed_out else ():
            item.matcher.finish(self.ring)
        self._note_timed_out()
        self.end_trials("the stream ended before two stores were compared")
        for item in self.running:
            item.matcher.clear()  # so that finish() decides nothing
            item.matcher.finish(self.ring)
            item.matcher.forget_windows()
            if item.windows is not None:
                item.windows.end()
        if self.ring is not None:
            self.ring.reclaim(position)
        if self.pool is not None:
            self.pool.close()

    def _note_timed_out(self) -> None:
        """Take the partial matches that have timed out, while the ring has their events."""
        for item in self.running:
            if item.timed_out is not None:
                item.timed_out.add(item.matcher, self.ring if self._numbered else None)

    @property
    def timed_out(self) -> list[TimedOut]:
        """Per query, the partial matches that have timed out."""
        return [item.timed_out for item in self.running if item.timed_out is not None]

    # ----------------------------------------------------------------------- memory

    @property
    def nbytes(self) -> int:
        """Bytes held for all queries together: the event ring, lists of relevant events."""
        return self._filters.nbytes + (0 if self.ring is None else self.ring.nbytes)

    def list_growth(self, events: int) -> int:
        """Return the bytes by which the lists of relevant events grow in a batch with this many events."""
        return self._filters.bytes_with(min(events, _SLICE)) - self._filters.nbytes
