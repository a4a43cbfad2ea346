"""The queries that an engine runs, all together."""

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
from fastcep.engine.faults import Faults
from fastcep.engine.matches import Layout, Matches, QueryMatches, no_query
from fastcep.engine.output import no_matches, take_matches
from fastcep.engine.parallel_match import match_in_threads
from fastcep.engine.partitioned_matcher import Matching, make_matcher
from fastcep.engine.returns import Returns
from fastcep.engine.running_query import RunningQuery
from fastcep.engine.state.foreign_events import foreign_events
from fastcep.engine.store_trial import CUT_SHORT, TRIED, StoreTrial
from fastcep.engine.stores import check_index, check_store, plan_for
from fastcep.engine.thread_pool import ThreadPool
from fastcep.engine.timeouts import TimedOut
from fastcep.engine.windows import WindowBounds
from fastcep.errors import ValidationError
from fastcep.events import EventBatch, EventRing, Schema, StringTable
from fastcep.kernels import Kernels
from fastcep.overload.control import Control
from fastcep.plan import Plan
from fastcep.plan.plan import KeyPlan
from fastcep.query import ast

__all__ = ["QuerySet"]

#: Events that all queries go over before the next ones: the shared lists of relevant events stay this small.
_SLICE = 1 << 15


class QuerySet:
    """The queries of an engine, in order, and what is kept for all of them together.

    Parameters
    ----------
    schema
        Theirs.
    strings
        The engine's.
    numbered
        Whether events have other sequence numbers than their positions: then the ring keeps those.
    timed_out
        Whether partial matches that time out are told.
    store
        ``auto``, ``rows`` or ``factorised``.
    index
        By which equalities rows are found: ``full``, ``key`` or ``off``.
    limited
        Whether memory is limited.
    pool
        Threads that share the work; None: there is only the calling one.
    control
        Keeps latency and memory within bounds; None: nothing does.

    Attributes
    ----------
    running
        The queries; another tuple whenever they change.
    ring
        The recent events, if anything reads them.
    kernels
        The generated kernels.
    defers
        Whether anything of any query waits for time.
    trials
        How many queries try both stores.
    owned
        Key groups whose events are taken; None: all.
    layout
        The columns of all queries' matches.
    foreign_events
        How many events of other groups have come (of the key of any query).
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
        self._untried = "threads" if pool is not None else "a memory limit" if limited else ""
        self._untried = "a latency bound" if control is not None else self._untried
        self.pool = pool
        self.running: tuple[RunningQuery, ...] = ()
        self.ring: EventRing | None = None
        self.kernels = Kernels()
        self.defers = False
        self.trials = 0
        self.owned: frozenset[int] | None = None
        self.foreign_events = 0
        self._schema = schema
        self._strings = strings
        self._numbered = numbered
        self._timed_out = timed_out
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
        """How many threads match, the calling one included."""
        return 1 if self.pool is None else self.pool.threads

    # ------------------------------------------------------------- which there are

    def prepare(self, query: ast.Query, position: int) -> RunningQuery:
        """Make a query ready to run from ``position`` on; nothing is changed."""
        link = ConstantBinder(self._strings)
        link.prepare(query)
        plan = self._plan(query, self._store)
        timed = TimedOut(plan) if self._timed_out else None
        fresh = partial(make_matcher, plan, link, self.pool)
        matcher = fresh()
        windows = None if plan.windows is None else WindowBounds(plan, link)
        running = RunningQuery(plan, link, matcher, position, 0, fresh, windows=windows, timed=timed)
        running.empty = running.nbytes
        if plan.other is not None:
            untried = self._untried or ("key groups elsewhere" if self.owned is not None else "")
            if untried:
                running.plan = replace(plan, why=f"the usual one: with {untried} no other is tried")
            else:
                running.trial = StoreTrial(replace(plan.other, why="tried"), link, position)
        return running

    def _plan(self, query: ast.Query, store: str) -> Plan:
        more = {} if self.control is None else self.control.plan_options(query)
        return plan_for(query, store, self._timed_out, self._index, **more)

    def use(self, running: Sequence[RunningQuery], position: int) -> None:
        """Run these from now on, at ``position``; those that are there already go on as they are."""
        gone = [item for item in self.running if item not in running]
        self._keep_events([*self.running, *running], position)  # what goes, goes last
        for item in running:
            if item.query.returns and item.returns is None:
                assert self.ring is not None
                item.returns = Returns(item.query, self.ring, self._strings, item.link)
            if item.nothing is None:
                item.nothing = no_matches(item.plan, item.returns)
        self._share(running, gone)
        self._keep_events(running, position)
        self.running = tuple(running)
        self.layout = Layout(self.nothings)
        self.defers = any(item.defers for item in running)
        self.trials = sum(item.trial is not None for item in running)
        if self.control is not None:
            self.control.use([(item.plan, item.matcher) for item in self.running])
        self._run_kernels(running)

    def settle(self, stores: Sequence[str], position: int) -> None:
        """Let queries without state have these stores, and try no other."""
        for item, store in zip(self.running, stores, strict=True):
            if store != item.plan.store or item.trial is not None:
                plan = self._plan(item.query, store)
                self._choose(item, replace(plan, why="as in the snapshot"))
                item.matcher = item.fresh()
                if item.filters is not None:
                    item.matcher.share(item.filters)
        self.use(list(self.running), position)

    def end_trials(self, why: str) -> None:
        """Let all queries that try both stores keep their rows."""
        for item in self.running:
            if item.trial is not None:
                self._choose(item, replace(item.plan, why=why))
        if self.trials:
            self.use(list(self.running), 0)  # where the ring, if it is needed, was long ago

    def _choose(self, item: RunningQuery, plan: Plan) -> None:
        """End the trial of a query; the plan, and the matcher that it has next, are for the store that was chosen."""
        item.plan, item.trial, item.nothing = plan, None, no_matches(plan, item.returns)
        item.fresh = partial(make_matcher, plan, item.link, self.pool)

    def exchange(self, matchers: Sequence[Matching], owned: frozenset[int] | None) -> None:
        """Run these matchers in the place of those that there are, one for each query, with these key groups."""
        new = False
        self.end_trials("key groups were moved while both were tried")
        for item, matcher in zip(self.running, matchers, strict=True):
            if matcher is not item.matcher:
                new = True
                if item.filters is not None:
                    matcher.share(item.filters)
                item.matcher = matcher
            matcher.ignore(None)
        self.owned = owned
        if new and self.control is not None:
            self.control.use([(item.plan, item.matcher) for item in self.running])
        if new:
            self._run_kernels(self.running)

    @property
    def matchers(self) -> list[Matching]:
        """Of all queries, in order."""
        return [item.matcher for item in self.running]

    @property
    def filters(self) -> Filters:
        """What several queries share."""
        return self._filters

    @property
    def nothings(self) -> list[QueryMatches]:
        """The matches of each query in a call that found none."""
        return [item.nothing for item in self.running if item.nothing is not None]

    @property
    def is_plain(self) -> bool:
        """Whether matches are no more than what the matchers put out."""
        return not self._numbered and all(item.returns is None for item in self.running)

    def _run_kernels(self, running: Sequence[RunningQuery]) -> None:
        returns = [item.returns for item in running if item.returns is not None]
        self.kernels.use([*(matcher for item in running for matcher in item.matchers), *returns, self._filters])

    def _keep_events(self, running: Sequence[RunningQuery], position: int) -> None:
        """Let the ring keep, from now on, what these queries read."""
        kept = sorted({column for item in running for column in item.plan.ring_columns if column >= 0})
        if not (self._numbered or any(item.plan.ring_columns or item.query.returns for item in running)):
            self.ring = None
        elif self.ring is None:
            self.ring = EventRing(kept, self._schema, start=position)
        else:
            self.ring.keep(kept)

    def _share(self, running: Sequence[RunningQuery], gone: Sequence[RunningQuery]) -> None:
        """Let several queries share their filters; one alone is faster with its own."""
        for item in [*gone, *(running if len(running) == 1 else ())]:
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

    def match(self, batch: EventBatch, position: int, faults: Faults, of: int) -> None:
        """Run all queries over a batch whose first event has this position; one that fails does not stop the others.

        It may be a piece of a larger one, ``of`` so many events, by which it is seen whether threads share the work.
        """
        events = Batch(batch, position)
        if self.owned is not None:
            self._ignore_foreign(batch, self.owned)
        going = [item for item in self.running if self._bound(item, events, faults)]
        if self.pool is not None:
            match_in_threads(going, events, self.slices(events), self.ring, self.pool, faults, of)
            return
        for first, last, shared in self.slices(events):
            going = [item for item in going if self._run(item, events, first, last, shared, faults)]
            if self.control is not None:
                self.control.taken(batch.time, first, last)
            if self.trials:
                lost = {
                    item.trial.matcher for item in going
                    if item.trial is not None and not item.trial.follow(events, self.ring, first, last, shared)
                }  # fmt: skip
                out = {number for number, item in enumerate(self.running) if item not in going}
                times = events.source.time
                self.judge(events.position + last, int(times[first]), int(times[last - 1]), out, lost)

    def slices(self, events: Batch) -> Iterator[tuple[int, int, bool]]:
        """The parts of a batch that all queries go over before the next, and whether they share filters in it."""
        count, first, alone = len(events.source), 0, len(self.running) == 1
        while first < count:
            last = min(first + (TRIED if self.trials else count if alone else _SLICE), count)
            if self.control is not None:
                last = first + self.control.stretch(last - first)
            yield first, last, not alone and self._filters.run(events, first, last)
            first = last

    def judge(self, position: int, first_time: int, time: int, out: set[int], lost: set[Matcher]) -> bool:
        """End the trials that have told enough, or cannot go on, at ``position``; returns whether any has ended.

        ``first_time`` and ``time`` are those of the first and the last of the events that were taken last. Queries
        that are ``out`` (by number) have not taken all of them, nor have the matchers that are ``lost``.
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
                self._choose(item, replace(trial.plan if cheaper else item.plan, why=trial.told(rows, position)))
                item.matcher = trial.matcher if cheaper else rows
                self.trials -= 1
        if self.trials < trials:
            self.use(list(self.running), position)
        return self.trials < trials

    def _ignore_foreign(self, batch: EventBatch, owned: frozenset[int]) -> None:
        """Let no query bind events of key groups that are not here."""
        foreign = {item.plan.key: np.zeros(0, np.uint8) for item in self.running if isinstance(item.plan.key, KeyPlan)}
        for key in foreign:
            foreign[key] = foreign_events(key, batch, owned, self._strings)
        for item in self.running:
            assert isinstance(item.plan.key, KeyPlan)
            for matcher in item.matchers:
                matcher.ignore(foreign[item.plan.key])
        self.foreign_events += int(np.count_nonzero(np.any(list(foreign.values()), axis=0)))

    def _bound(self, item: RunningQuery, events: Batch, faults: Faults) -> bool:
        """Tell a query what opens and closes its explicit windows; returns whether it can go on."""
        if item.windows is not None:
            lost = item.matcher.lost
            try:
                item.matcher.use_bounds(*item.windows.find(events, self.ring))
            except Exception as error:
                item.matcher.drop(events.last_time)
                item.matcher.forget_windows()
                if isinstance(error, MemoryError):
                    dropped = item.matcher.lost - lost
                    faults.gave_up(item.name, events.position, dropped, limited=item.windows.refused)
                else:
                    faults.failed(item.name, error)
                return False
        return True

    def _run(self, item: RunningQuery, events: Batch, first: int, last: int, shared: bool, faults: Faults) -> bool:
        """Run one query; returns whether it took all the events."""
        matcher = item.matcher
        lost = matcher.lost
        try:
            taken = matcher.process(events, self.ring, first, last, shared)  # type: ignore[operator]  # no `PartitionedMatcher` here
        except Exception as error:
            item.fail(error, events.last_time, faults)
            return False
        if taken < last:
            faults.gave_up(item.name, events.position + taken, matcher.lost - lost, limited=matcher.refused)
        return taken == last

    def decide(self, clock: int | None, position: int, faults: Faults, *, complete: bool) -> None:
        """Decide the matches that wait for a time before ``clock``; if the stream is complete, all."""
        for item in self.running:
            if item.defers and (complete or clock is not None):
                self.decide_one(item, None if complete else clock, position, faults)

    def decide_one(self, item: RunningQuery, clock: int | None, position: int, faults: Faults) -> None:
        """Decide what waits in one query, up to ``clock``; None ends the stream for it."""
        matcher, lost = item.matcher, item.matcher.lost
        done = matcher.finish(self.ring) if clock is None else matcher.advance(clock, position, self.ring)
        if not done:
            faults.gave_up(item.name, position, matcher.lost - lost, limited=matcher.refused)

    def found(self, faults: Faults) -> Matches:
        """Take what all queries have found."""
        self._note_timed_out()
        return Matches([self.found_by(item, faults) for item in self.running], self.layout)

    def found_by(self, item: RunningQuery, faults: Faults) -> QueryMatches | Output:
        """Take what a query has found; if that fails, nothing is found and the others are not concerned."""
        assert item.nothing is not None
        if item.trial is not None and not item.trial.forget_output():
            self._choose(item, replace(item.plan, why=CUT_SHORT))
            self.use(list(self.running), 0)
        if not item.matcher.output_pending:
            return item.nothing
        try:
            return take_matches(item.plan, item.matcher, item.returns, self.ring if self._numbered else None)
        except Exception as error:
            item.lose(error, faults)
            return item.nothing

    def oldest(self, position: int) -> int:
        """Position before which no live partial match needs an event."""
        needed = [matcher.first_needed for item in self.running for matcher in item.matchers]
        return min((at for at in needed if at is not None), default=position)

    def sweep(self, time: int, position: int) -> None:
        """Drop the partial matches whose window ends before ``time``, and the events that none needs."""
        for item in self.running:
            for matcher in item.matchers:
                matcher.advance(time, position, self.ring)
            if item.windows is not None:
                item.windows.sweep(time, position, self.ring)
        self._note_timed_out()
        if self.ring is not None:
            self.ring.reclaim(self.oldest(position))

    def end(self, position: int, *, complete: bool) -> None:
        """Drop all state; if the stream is complete, every window ends."""
        for item in self.running if complete and self._timed_out else ():
            item.matcher.finish(self.ring)
        self._note_timed_out()
        self.end_trials("the stream ended before both were tried")
        for item in self.running:
            item.matcher.clear()  # so that nothing is decided any more
            item.matcher.finish(self.ring)
            item.matcher.forget_windows()
            if item.windows is not None:
                item.windows.end()
        if self.ring is not None:
            self.ring.reclaim(position)
        if self.pool is not None:
            self.pool.close()

    def _note_timed_out(self) -> None:
        """Take what has timed out, while the ring has its events."""
        for item in self.running:
            if item.timed is not None:
                item.timed.add(item.matcher, self.ring if self._numbered else None)

    @property
    def timed_out(self) -> list[TimedOut]:
        """Partial matches that have timed out, by query."""
        return [item.timed for item in self.running if item.timed is not None]

    # ----------------------------------------------------------------------- memory

    @property
    def nbytes(self) -> int:
        """Bytes that are held for all of them: events, lists of relevant events."""
        return self._filters.nbytes + (0 if self.ring is None else self.ring.nbytes)

    def more_lists(self, events: int) -> int:
        """Bytes by which those lists grow in a batch of so many events."""
        return self._filters.bytes_with(min(events, _SLICE)) - self._filters.nbytes
