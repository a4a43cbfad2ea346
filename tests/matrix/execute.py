"""Run queries in a given way, and compare all results with the reference matcher."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from reference import matcher as naive
from reference.matcher import Event
from strategies.disorder import MIN
from support import harness
from support.match_records import check_records
from support.partial_states import rebuilt
from support.state_transfer import Fleet, quiet
from support.timed_out import timed_out_rows

import fastcep as fc
from fastcep._core.matcher.interrupt import set_pause
from fastcep.engine import parallel_match, partitioned_matcher, stream
from fastcep.engine import store_trial as trial
from fastcep.engine.stores import plan_for
from fastcep.errors import ValidationError
from fastcep.overload import decision_schedule, sleep
from fastcep.query import ast, traversal
from fastcep.query.patterns import positive_variables, trailing_negation
from matrix.forms import ARROW, formed
from matrix.refusals import OF_MODELS, OF_RUNS, Refusal, refusal_of
from matrix.runs import MODELLED, Run

Rows = dict[str, list[harness.Row]]  # by query
Models = list[fc.shedding.Model]


@dataclass
class Outcome:
    """The run that was carried out, its paths (``trials``: by query), and the options that were rejected."""

    run: Run
    paths: set[str] = field(default_factory=set)
    trials: dict[str, str] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    matches: int = 0
    models: Models = field(default_factory=list)  # of the shedder


def execute(queries: Sequence[ast.Query], run: Run, kernels: bool) -> Outcome:
    """Run queries over a stream; `AssertionError` shows the differences from the reference matcher."""
    outcome = Outcome(run)
    fit_models(queries, outcome)
    with ExitStack() as stack:
        stack.enter_context(patched(run))
        engine = made(queries, outcome)
        run = outcome.run
        how = f"{run}\narriving as {harness.line(run.arrivals)}"
        try:
            Execution(queries, engine, outcome, how).go(kernels)
        except AssertionError:
            raise
        except Exception as error:
            texts = "\n".join(harness.describe(query, run.arrivals) for query in queries)
            raise AssertionError(f"{type(error).__name__}: {error}\n{texts}\n{how}") from error
    return outcome


def fit_models(queries: Sequence[ast.Query], outcome: Outcome) -> None:
    """Fit the models of a shedder that needs them, on the stream; without them, there is no shedder."""
    run = outcome.run
    kind = MODELLED.get(run.shedder or "")
    if kind is None:
        return
    events = sorted(run.arrivals, key=lambda one: (one.time, one.seq))
    for query in queries:
        history = harness.batch(query.schema, events)
        try:
            options = {"cost_table": "paper", "index": run.index} if kind == "pspice" else {}
            outcome.models.append(quiet(fc.fit, query, history, kind=kind, **options))
        except ValidationError as error:
            refusal = refusal_of(str(error), OF_MODELS)
            if refusal is None:
                raise AssertionError(f"{error}\n{harness.describe(query, events)}") from error
            outcome.refused.append(refusal)
            outcome.run = run.without(refusal.clause)
            return


def made(queries: Sequence[ast.Query], outcome: Outcome) -> fc.Engine:
    """Make an engine; rejected options are set to their defaults."""
    for _ in range(9):
        run = outcome.run
        try:
            return quiet(fc.Engine, list(queries), **engine_options(run, outcome.models))
        except ValidationError as error:
            refusal = refusal_of(str(error), OF_RUNS)
            if refusal is None:
                texts = "\n".join(harness.describe(query, ()) for query in queries)
                raise AssertionError(f"not on the list of refusals: {error}\n{texts}\n{run}") from error
            outcome.refused.append(refusal)
            outcome.run = run.without(refusal.clause if run.choices % 2 else refusal.instead or refusal.clause)
    raise AssertionError(f"refused again and again: {outcome.refused}")


def engine_options(run: Run, models: Models) -> dict[str, Any]:
    """Return the options of `fastcep.Engine`."""
    options: dict[str, Any] = {
        "store": run.store, "index": run.index, "threads": run.threads, "timed_out": run.timed_out,
        "attributes": run.attributes,
    }  # fmt: skip
    if run.lateness is not None:
        options["allowed_lateness"] = f"{run.lateness}ns"
    if run.memory_limit:
        options["memory_limit"] = "1GiB"
    return options | shedder_options(run, models)


def shedder_options(run: Run, models: Models) -> dict[str, Any]:
    """Return a shedder that never sheds, because no event exceeds its latency bound.

    With a bound on a percentile, ``auto`` checks a limit of the work for each event, which none reaches.
    """
    if run.shedder is None:
        return {}
    detector = fc.shedding.SmoothedLatency("p95" if run.percentile else "mean")
    shedder = fc.shedding.by_name(run.shedder, **({"model": models} if run.shedder in MODELLED else {}))
    ticks = itertools.count(step=10**9)
    clocks: dict[str, Any] = {"awake": "virtual", "within": lambda: next(ticks)}
    clock = clocks.get(run.sleep, "wall")
    return {"clock": clock, "latency_bound": 1e15, "shedder": shedder, "detector": detector}


def restore_options(run: Run, models: Models, threads: int) -> dict[str, Any]:
    """Return the options of `fastcep.Engine.restore` that are not in a snapshot."""
    own = shedder_options(run, models)
    return {"threads": threads} | {name: own[name] for name in ("shedder", "detector", "clock") if name in own}


@contextmanager
def patched(run: Run) -> Iterator[None]:
    """Let trials of stores end early, threads share small batches, and a control wake up often, as the run requires."""
    with ExitStack() as stack:

        def put(module: Any, name: str, value: Any) -> None:
            stack.enter_context(patch.object(module, name, value))

        if run.trial is not None:
            events, cheaper = run.trial
            for module in (stream, trial):
                put(module, "TRIED", events)
            put(trial, "_MOST_EVENTS", events)
            put(trial, "_COSTS", {"rows": (1, 1), "factorised": (1, 1), cheaper: (0, 0)})
        least = 1 if run.at_once else 1 << 60
        put(parallel_match, "PARALLEL_FROM", least)
        put(partitioned_matcher, "PARALLEL_MATCHES", least)
        if run.sleep == "within":
            for name, number in (("_NEAR", -1.0), ("_FAR", 9.0), ("_IDLE", 9.0), ("_CALM", 1)):
                put(sleep, name, number)
            put(decision_schedule, "_LEAST", 1)
        if run.interrupted:
            choices = random.Random(run.choices)

            def interrupt() -> None:
                if choices.random() < 0.3:
                    raise Interrupt

            put(stream, "_PIECE", 1)
            set_pause(0, interrupt)
            stack.callback(set_pause)
        yield


class Interrupt(BaseException):
    """Raised by a signal handler."""


class Execution:
    """One run of an engine over a stream."""

    def __init__(self, queries: Sequence[ast.Query], engine: fc.Engine, outcome: Outcome, how: str) -> None:
        self.queries = queries
        self.run = outcome.run
        self.outcome = outcome
        self.how = how
        self.random = random.Random(self.run.choices)
        self.fleet = Fleet(engine, self.random.randrange, self.restoring)
        self.schema = queries[0].schema
        self.found: Rows = {query.name: [] for query in queries}
        self.timed_out: dict[str, list[naive.TimedOut]] = {query.name: [] for query in queries}
        self.late: list[int] = []
        self.watermark = MIN
        self.taken: list[Event] = []  # in order, as far as nothing was late
        self.clock = MIN

    def restoring(self) -> dict[str, Any]:
        threads = 1 if self.run.threads == 1 else self.random.choice([1, 2, 3])
        return restore_options(self.run, self.outcome.models, threads)

    def restored(self, snapshot: bytes) -> fc.Engine:
        """Restore an engine; sometimes the queries are given, in another order."""
        options = self.restoring()
        if self.random.random() < 0.5:
            return fc.Engine.restore(snapshot, **options)
        queries = self.random.sample(self.queries, len(self.queries))
        return fc.Engine.restore(snapshot, queries, on_change=self.random.choice(["error", "replace"]), **options)

    # ------------------------------------------------------------------- run

    def go(self, kernels: bool) -> None:
        """Process the whole stream, then compare."""
        run, (engine, *_) = self.run, self.fleet.engines
        if run.slow_path:
            engine._loop.is_direct = False
        if kernels:
            assert engine.compile("5min") or _interpreted(engine), engine.metrics()["kernels"]
        self.note_plans()
        parts = list(harness.cut(run.arrivals, run.sizes)) if run.arrivals else []
        clocks: dict[int, int] = {}
        start = 0
        for number, part in enumerate(parts):
            self.move(kernels)
            if number in run.advances and part:
                self.advance(part[0], start, clocks)
            self.give(part, run.forms[min(number, len(run.forms) - 1)])
            start += len(part)
            self.check_in_time()
        self.move(kernels)
        self.call("flush")
        self.take_aside()
        self.note_trials()
        self.note_rows_only()
        accepted, late = self.split(clocks)
        self.compare(accepted, late)
        self.outcome.paths |= {"batches" if len(parts) > 1 else "one batch", "kernels" if kernels else "bytecode"}

    def move(self, kernels: bool) -> None:
        """Store and restore, or split and join, as the run requires."""
        self.note_trials()  # an engine that is restored has none
        fleet, how = self.fleet, self.run.move
        if how == "stay":
            return
        for engine in self.fleet.engines if self.run.store == "rows" else ():
            assert len(engine.partial_matches()) <= engine.metrics()["live_partial_matches"]
        if how == "partial states":
            fleet.engines = [rebuilt(engine, self.random, self.restoring()) for engine in fleet.engines]
            self.outcome.paths.add("partial states")
        elif how == "snapshot" or not fleet.keyed:
            fleet.engines = [self.restored(engine.snapshot()) for engine in fleet.engines]
            self.outcome.paths.add("snapshot")
        elif how == "key groups":
            places = [self.random.randrange(3) for _ in range(64)]
            parts = [[group for group in range(64) if places[group] == place] for place in range(3)]
            taken = [fleet.engines[0].extract(part) for part in parts if part]
            while taken:
                fleet.engines[0].merge(taken.pop(self.random.randrange(len(taken))))
            self.outcome.paths.add("key groups")
        else:
            fleet.move()
            if len(fleet.engines) > 1:
                self.outcome.paths.add("several engines")
        if kernels:
            for engine in fleet.engines:
                assert engine.compile("5min") or _interpreted(engine), engine.metrics()["kernels"]

    def advance(self, following: Event, number: int, clocks: dict[int, int]) -> None:
        """Advance time before an event: to any time after the last one, or beyond some events that are held back."""
        if self.run.lateness is None:
            clock = following.time - self.random.choice([0, 1])
            if self.taken and clock < self.taken[-1].time:
                return
        else:
            clock = following.time + self.random.choice([-2, 0, 2])
        reached = self.fleet.engines[0].metrics()["watermark"]
        if reached is not None and clock < reached:
            return
        clocks[number] = self.clock = clock
        self.call("advance", clock)
        self.outcome.paths.add("advance")

    def give(self, part: Sequence[Event], form: str) -> None:
        """Process a batch."""
        self.taken += part
        self.switch()
        if form == "send":
            self.outcome.paths.add("send")
            for event in part:
                self.take([self.sent(engine, event) for engine in self.fleet.engines])
            return
        self.outcome.paths.add("Arrow" if form in ARROW else "dict")
        self.take([self.processed(engine, part, form) for engine in self.fleet.engines])

    def switch(self) -> None:
        """Let the overload control fall asleep or wake up before a batch, as the run requires."""
        for engine in self.fleet.engines:
            control = engine._stream.queries.control
            if control is None or not control.can_sleep:
                continue
            asleep = control.sleep.asleep
            if self.run.sleep == "between" and self.random.random() < 0.5 and (asleep or engine._stream.may_sleep()):
                engine._stream.switch(not asleep)

    def sent(self, engine: fc.Engine, event: Event) -> fc.Matches:
        """Send an event; if the call ends after the event is taken, ask for its matches."""
        before = engine.metrics()["events"]
        try:
            return harness.send(engine, self.schema, event)
        except Interrupt:
            taken = self.run.lateness is not None or engine.metrics()["events"] > before
            return self.processed(engine, [] if taken else [event], "dict")

    def processed(self, engine: fc.Engine, part: Sequence[Event], form: str) -> fc.Matches:
        """Process a batch; if the call ends before the end of the batch, pass the remaining events again."""
        while True:
            before = engine.metrics()["events"]
            try:
                return engine.process(formed(harness.batch(self.schema, part), form))
            except Interrupt:
                taken = len(part) if self.run.lateness is not None else engine.metrics()["events"] - before
                part = part[taken:]

    def call(self, name: str, *arguments: Any) -> None:
        """Call a method of each engine, again if it is interrupted."""
        found: list[fc.Matches] = []
        for engine in self.fleet.engines:
            while True:
                try:
                    found.append(getattr(engine, name)(*arguments))
                    break
                except Interrupt:
                    continue
        self.take(found)

    def take(self, found: Sequence[fc.Matches]) -> None:
        """Keep the results of one call of each engine, and now and then take late events and time-outs."""
        for matches in found:
            check_records(matches)
        for query in self.queries:
            rows = [rows_of(query, matches.query(query.name).to_arrow()) for matches in found]
            self.found[query.name] += [row for own in rows for row in own]
        if self.run.move in ("key groups", "several engines") or self.random.random() < 0.5:
            self.take_aside()  # otherwise a snapshot must keep it

    def take_aside(self) -> None:
        """Take the partial matches that have timed out, and the late events."""
        for engine in self.fleet.engines:
            for query in self.queries if self.run.timed_out else ():
                self.timed_out[query.name] += timed_out_rows(query, engine.timed_out(query.name))
        if self.run.lateness is not None:
            late = [engine.late()[str(self.schema.sequence or "seq")].to_pylist() for engine in self.fleet.engines]
            assert all(own == late[0] for own in late), f"late events differ: {late}\n{self.how}"
            self.late += late[0]

    # --------------------------------------------------------------- compare

    def split(self, clocks: dict[int, int]) -> tuple[list[Event], list[Event]]:
        """Split the events by definition: accepted ones in stream order, and late ones."""
        if self.run.lateness is None:
            return list(self.run.arrivals), []
        from strategies.disorder import split

        accepted, late = split(list(self.run.arrivals), self.run.lateness, clocks)
        return accepted, late

    def check_in_time(self) -> None:
        """Check that all decided matches have been reported, and no others."""
        if self.run.lateness is not None or self.fleet.cut or not self.taken:
            return
        last = self.taken[-1]
        for query in self.queries:
            matches = naive.find_matches(query, self.run.arrivals)
            decided = [
                harness.as_row(query, self.taken, match) for match in matches
                if harness.is_decided(match, last) or (match.deferred and match.detected_at < self.clock)
            ]  # fmt: skip
            how = f"after {len(self.taken)} events, {self.how}"
            harness.assert_rows(query, self.taken, self.found[query.name], decided, how)

    def compare(self, accepted: Sequence[Event], late: Sequence[Event]) -> None:
        assert self.late == [event.seq for event in late], f"late: {self.late}, {late}\n{self.how}"
        for query in self.queries:
            found, expected = self.found[query.name], harness.expected_rows(query, accepted, self.clock)
            if self.fleet.cut:
                found, expected = sorted(found, key=repr), sorted(expected, key=repr)
            harness.assert_rows(query, accepted, found, expected, self.how)
            self.outcome.matches += len(expected)
            if self.run.timed_out and times_out_alike(query, accepted):
                self.compare_timed_out(query, accepted)

    def compare_timed_out(self, query: ast.Query, accepted: Sequence[Event]) -> None:
        found, expected = self.timed_out[query.name], naive.timed_out(query, accepted, self.clock)
        if self.fleet.cut:
            found, expected = sorted(found, key=repr), sorted(expected, key=repr)
        for one, other in zip(found, expected, strict=False):
            if set(one.waits_for) >= set(other.waits_for):  # it ignores how many elements a loop holds
                one.waits_for[:] = other.waits_for
        assert found == expected, (
            f"timed out: found {found}\nwanted {expected}\n{harness.describe(query, accepted)}\n{self.how}"
        )

    # ------------------------------------------------------------------ note

    def note_plans(self) -> None:
        """Count the options that the plans use."""
        run, paths = self.run, self.outcome.paths
        paths.add(f"index={run.index}")
        paths.add(f"store={run.store}")
        paths.add("threads=1" if run.threads == 1 or not self.fleet.keyed else "threads>1")
        paths |= {
            name for name, used in {
                "slow path": run.slow_path, "allowed_lateness": run.lateness is not None, "timed_out": run.timed_out,
                "shedder": run.shedder is not None, "memory_limit": run.memory_limit, "attributes": run.attributes,
                "interrupted": run.interrupted,
            }.items() if used
        }  # fmt: skip

    def note_trials(self) -> None:
        """Count the trials of both stores that have ended."""
        run = self.run
        if run.store != "auto" or run.trial is None:
            return
        explained = re.split(r"^query ", self.fleet.engines[0].explain(), flags=re.MULTILINE)[1:]
        for query, text in zip(self.queries, explained, strict=True):
            if "by statistics: " in text:
                self.outcome.trials[query.name] = f"trial → {run.trial[1]}"

    def note_rows_only(self) -> None:
        """Count the reasons why there were no trials."""
        for query in self.queries if self.run.trial is not None else ():
            try:
                plan_for(query, "factorised", self.run.timed_out, self.run.index)
            except ValidationError as error:
                self.outcome.refused += filter(None, [refusal_of(str(error), OF_RUNS)])


def rows_of(query: ast.Query, table: pa.Table) -> list[harness.Row]:
    """Return the rows of a table of matches, without the columns of ``attributes=True``."""
    names = [variable.name for variable in positive_variables(query.pattern)] + [item.name for item in query.returns]
    return harness.table_rows(query, table.select(["query", "window_id", "detected_at", *names]))


def times_out_alike(query: ast.Query, events: Sequence[Event]) -> bool:
    """Return True if the reference knows what times out: a row with a null key, which meets no event, is not stored."""
    if trailing_negation(query.pattern) is not None:
        return False
    if query.where is not None and any(map(_may_be_null, traversal.walk(query.where))):
        return False
    return not any(_is_extreme(value) for event in events for value in event.values.values())


def _interpreted(engine: fc.Engine) -> bool:
    """Return True if nothing failed but functions of several values with strings, which have no generated code."""
    return "bytecode evaluates such conditions" in str(engine.metrics()["kernels"]["reason"])


def _may_be_null(part: ast.Expr) -> bool:
    """Return True for a value that can be null although no attribute of an event is."""
    is_earlier = isinstance(part, ast.Attribute) and part.places > 0  # there may be no earlier event
    is_partial = isinstance(part, ast.Binary) and part.operator in ("/", "//", "%", "^")
    return is_earlier or is_partial or isinstance(part, ast.Call)


def _is_extreme(value: naive.Value) -> bool:
    """Return True for null, NaN, and numbers so large that arithmetic overflows."""
    return value is None or (isinstance(value, int | float) and not abs(value) <= 1 << 54)
