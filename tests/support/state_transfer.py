"""Compare an engine whose state moves between batches with one that is left alone: both must report the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

import fastcep as fc
from fastcep.plan.plan import KeyPlan
from support.harness import Data

#: Metrics that do not change when state moves.
COUNTERS = ("events", "relevant_events", "matches", "rows_created", "live_partial_matches", "peak_partial_matches",
            "waiting_matches", "open_windows", "held_events", "late_events", "late_waiting", "timed_out_waiting",
            "arithmetic_nulls", "function_errors", "watermark")  # fmt: skip

Choose = Callable[[int], int]  # a number below that


def quiet(make: Callable[..., fc.Engine], *arguments: Any, **options: Any) -> fc.Engine:
    """Make an engine, without its warning about an unbounded window."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*arguments, **options)


def is_keyed(engine: fc.Engine) -> bool:
    """Return True if its state can be divided by key groups."""
    return all(isinstance(item.plan.key, KeyPlan) for item in engine._stream.queries)


def has_contiguity(engine: fc.Engine) -> bool:
    """Return True if a query's next event may cut off partial matches, which stay stored until they are visited."""
    return any(index.latest >= 0 for item in engine._stream.queries for index in item.plan.indexes)


class Fleet:
    """Engines that together have the key groups of one engine; all of them get every event."""

    def __init__(self, engine: fc.Engine, choose: Choose, options: Callable[[], dict[str, Any]]) -> None:
        self.engines = [engine]
        self.keyed = is_keyed(engine)
        self.cut = False
        self._choose = choose
        self._options = options  # of the next engine that is restored

    def move(self) -> None:
        """Store and restore; extract and merge; or split into two engines, and join them."""
        if len(self.engines) > 1 and self._choose(2):
            return
        while len(self.engines) > 1:
            self.engines[0].merge(self.engines.pop().snapshot())
        engine = self.engines[0]
        how = self._choose(4 if self.keyed else 2)
        if how == 0:
            return
        if how == 1:
            self.engines = [fc.Engine.restore(engine.snapshot(), **self._options())]
            return
        self.cut = True
        places = [self._choose(3) for _ in range(64)]
        parts = [[group for group in range(64) if places[group] == place] for place in range(3)]
        taken = [engine.extract(part) for part in parts if part]
        if how == 2:
            while taken:
                engine.merge(taken.pop(self._choose(len(taken))))
        else:
            self.engines = [fc.Engine.restore(part, **self._options()) for part in taken]

    def call(self, name: str, *arguments: Any) -> pa.Table:
        """Call all engines, and concatenate their results."""
        tables = [getattr(engine, name)(*arguments) for engine in self.engines]
        found = [table if isinstance(table, pa.Table) else table.to_arrow() for table in tables]
        if len(found) == 1:
            return found[0]
        return pa.concat_tables(table.set_column(0, "query", table["query"].cast(pa.string())) for table in found)


def assert_unmoved(
    engine: fc.Engine,
    other: fc.Engine,
    batches: Iterable[Data],
    choose: Choose,
    how: str,
    options: Callable[[], dict[str, Any]] = dict,
    counters: Sequence[str] = COUNTERS,
) -> None:
    """Run two equal engines over a stream; move the state of one before every batch and before the end."""
    fleet = Fleet(other, choose, options)
    contiguity = has_contiguity(engine)
    counters = [name for name in counters if not (contiguity and name == "peak_partial_matches")]
    calls: list[tuple[str, tuple[Any, ...]]] = [("process", (data,)) for data in batches]
    for name, arguments in [*calls, ("flush", ())]:
        fleet.move()
        result = getattr(engine, name)(*arguments)
        assert_equal(result.to_arrow(), fleet.call(name, *arguments), len(fleet.engines), f"{name}, {how}")
        if engine._timed_out:
            assert_equal(engine.timed_out(), fleet.call("timed_out"), len(fleet.engines), f"timed_out, {how}")
        if not fleet.cut:
            assert_equal(engine.late(), fleet.engines[0].late(), 1, f"late, {how}")
            if contiguity and name != "flush":
                for one in (engine, *fleet.engines):
                    one.snapshot()  # removes partial matches that contiguity has cut off
            own, moved = engine.metrics(), fleet.engines[0].metrics()
            differing = {name: (own[name], moved[name]) for name in counters if own[name] != moved[name]}
            assert not differing, f"{differing}, {name}, {how}"


def assert_equal(table: pa.Table, other: pa.Table, engines: int, how: str) -> None:
    """Check that both have the same rows; in the same order if they come from one engine."""
    rows, others = table.to_pylist(), other.to_pylist()
    if engines > 1:
        rows, others = sorted(rows, key=repr), sorted(others, key=repr)
    assert repr(others) == repr(rows), how
