"""Contract tests that every shedder must pass: a test module defines ``make`` and imports `Contract`.

Streams are DS1 (Q1 of the limit queries with a window of 2 ms), on the virtual clock, so that every run is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.query import ast
from fastcep.shedding import QueueLength, Shedder

SCHEMA = fc.Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us")
Q1 = fc.parse(
    "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 2ms", SCHEMA, name="q1"
)
EVENTS = 40_000
DROPPED = ("dropped_events", "dropped_in_windows", "dropped_windows", "dropped_partial_matches")

Make = Callable[[], Shedder]


@cache
def events() -> pa.Table:
    return ds1(events=EVENTS, seed=11)


@pytest.fixture(scope="module")
def stream() -> pa.Table:
    return events()


def engine(make: Make | None, bound: float, query: ast.Query = Q1, **options: Any) -> fc.Engine:
    """Return an engine; explicit windows are isolated, with and without a shedder, because of ``timed_out``."""
    own = {"clock": "virtual", "cost_table": "paper", "index": "key", "latency_bound": bound} | options
    own["timed_out"] = isinstance(query.window, ast.ExplicitWindow)
    return fc.Engine(query, shedder=None if make is None else make(), **own)


def found(matches: fc.Matches) -> list[tuple[int, ...]]:
    return list(zip(*(matches.to_arrow()[name].to_pylist() for name in "abc"), strict=True))


@cache
def unshed(query: ast.Query = Q1) -> tuple[list[tuple[int, ...]], float]:
    """Return all matches of the stream, and the mean latency."""
    live = engine(None, 1e9, query)
    matches = found(live.process(events()))
    return matches, live.metrics()["shedding"]["processing_latency"]["mean"]


@cache
def halved(make: Make, query: ast.Query = Q1) -> tuple[list[tuple[int, ...]], dict[str, Any]]:
    """Return the matches at half of the latency, and the metrics."""
    live = engine(make, unshed(query)[1] / 2, query)
    matches = found(live.process(events()))
    return matches, comparable_metrics(live)


def latencies(live: fc.Engine) -> list[np.ndarray[Any, Any]]:
    """Return a list that collects the processing latencies of an engine from now on."""
    blocks: list[np.ndarray[Any, Any]] = []
    live.listen(lambda processing, event: blocks.append(processing))
    return blocks


class Contract:
    """Tests of one shedder, created by ``make``, for a query, by default that of the limit queries."""

    make: Make
    query: ast.Query = Q1
    free = 1.0  #: from this share of the latency on, dropping useless work may be enough to find all matches

    @pytest.mark.sample(1)
    @pytest.mark.parametrize("share", [0.8, 0.5, 0.2])
    def test_bound_and_precision(self, stream: pa.Table, share: float) -> None:
        """After the first tenth, the mean latency is within 2 % of the bound, and every match is true."""
        truth, mean = unshed(type(self).query)
        live = engine(type(self).make, share * mean, type(self).query)
        blocks = latencies(live)
        matches = found(live.process(stream))
        metrics = live.metrics()["shedding"]
        assert np.concatenate(blocks)[EVENTS // 10 :].mean() <= 1.02 * share * mean
        rest = iter(truth)
        assert all(match in rest for match in matches)
        assert len(matches) > 0 and (len(matches) < len(truth) or share >= type(self).free)
        assert metrics["episodes"] >= 1 and metrics["active"] and metrics["why"]
        assert sum(metrics[name] for name in DROPPED) > 0

    @pytest.mark.thorough
    def test_estimated_recall(self) -> None:
        truth, _ = unshed(type(self).query)
        matches, metrics = halved(type(self).make, type(self).query)
        assert metrics["shedding"]["estimated_recall"] == pytest.approx(len(matches) / len(truth), abs=0.08)

    @pytest.mark.thorough
    def test_deterministic(self, stream: pa.Table) -> None:
        """The same seed drops the same, for any batches."""
        _, mean = unshed(type(self).query)
        whole, metrics = halved(type(self).make, type(self).query)
        other = engine(type(self).make, mean / 2, type(self).query)
        parts = [found(other.process(part)) for part in stream.to_batches(max_chunksize=777)]
        assert [match for part in parts for match in part] == whole
        assert comparable_metrics(other) == metrics

    def test_snapshot(self, stream: pa.Table) -> None:
        """An engine restored during an episode continues as without the restore."""
        _, mean = unshed(type(self).query)
        whole, metrics = halved(type(self).make, type(self).query)
        other = engine(type(self).make, mean / 2, type(self).query)
        half = EVENTS // 2 + 123
        matches = found(other.process(stream.slice(0, half)))
        data = other.snapshot()
        with pytest.raises(fc.SnapshotError, match="shedder="):
            fc.Engine.restore(data)
        again = fc.Engine.restore(data, shedder=type(self).make())
        assert matches + found(again.process(stream.slice(half))) == whole
        assert comparable_metrics(again) == metrics

    @pytest.mark.thorough
    def test_load_that_goes_is_not_shed_any_more(self, stream: pa.Table) -> None:
        """When the arrival rate falls, all matches are found again."""
        _, mean = unshed(type(self).query)
        thin = stream.slice(EVENTS // 2)
        times = pa.array(thin["ts"].to_numpy() * 20 - thin["ts"][0].as_py() * 19)
        thin = thin.set_column(thin.column_names.index("ts"), "ts", times)
        whole = pa.concat_tables([stream.slice(0, EVENTS // 2), thin])
        plain = found(engine(None, 1e9, type(self).query).process(whole))
        live = engine(type(self).make, mean / 2, type(self).query)
        matches = found(live.process(whole))
        shed = live.metrics()["shedding"]
        assert shed["episodes"] == 1 and not shed["active"] and shed["demand"] == 0
        quiet = EVENTS * 3 // 4
        assert [match for match in matches if match[0] >= quiet] == [match for match in plain if match[0] >= quiet]
        assert any(match[0] >= quiet for match in plain)

    def test_nothing_is_shed_without_need(self, stream: pa.Table) -> None:
        truth, mean = unshed(type(self).query)
        live = engine(type(self).make, mean * 3, type(self).query)
        assert found(live.process(stream)) == truth
        shed = live.metrics()["shedding"]
        assert [shed[name] for name in ("episodes", *DROPPED)] == [0] * (1 + len(DROPPED))
        assert shed["estimated_recall"] == 1

    @pytest.mark.thorough
    def test_overhead_is_accounted(self, stream: pa.Table) -> None:
        """Decisions cost time on the virtual clock."""
        _, mean = unshed(type(self).query)
        free, dear = (fc.overload.costs.CostTable(name, visited=1, created=1, decision=decision)
                      for name, decision in (("free", 0), ("dear", 50)))  # fmt: skip
        clocks = {}
        for table in (free, dear):
            live = engine(type(self).make, mean / 2, type(self).query, cost_table=table)
            blocks = latencies(live)
            live.process(stream)
            spent = sum(float(block.sum()) for block in blocks)
            shed = live.metrics()["shedding"]
            assert live.now() == pytest.approx(spent + shed["overhead"], abs=2)
            clocks[table.name] = shed["overhead"]
        assert clocks["free"] == 0 < clocks["dear"]

    @pytest.mark.thorough
    def test_queue(self, stream: pa.Table) -> None:
        """At twice the maximum arrival rate, no event waits longer than the bound."""
        _, mean = unshed(type(self).query)
        bound = 2000 * mean
        live = engine(type(self).make, bound, type(self).query, detector=QueueLength())
        worst = []
        live.listen(lambda processing, event: worst.append(float(event.max())))
        live.process(stream, arrivals=(np.arange(EVENTS) * mean / 2).astype(np.int64))
        assert max(worst) <= bound
        assert live.metrics()["shedding"]["episodes"] >= 1


def comparable_metrics(live: fc.Engine) -> dict[str, Any]:
    """Return the metrics that are equal for engines that did the same."""
    metrics = live.metrics()
    names = ("matches", "rows_created", "rows_visited", "live_partial_matches")
    return {name: metrics[name] for name in names} | {"shedding": metrics["shedding"]}
