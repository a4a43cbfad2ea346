"""Recall over time: the share of the matches of each interval of a stream that strategies find."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import fastcep as fc
from bench.papers.figures import Part
from bench.papers.queueing import options_of
from bench.papers.strategies import needs_history, strategies
from fastcep.evaluation.judging import targets_of, truth_of
from fastcep.evaluation.options import setting_of
from fastcep.evaluation.strategies import strategies_of
from fastcep.evaluation.stream import Stream
from fastcep.evaluation.targets import parse_targets

__all__ = ["recall_over_time"]

#: Defaults of the options of `fastcep.evaluate`.
_DEFAULTS = {
    "bounds": None, "rates": None, "demands": None, "statistic": "mean", "latency_bound": None, "seeds": 1,
    "clock": "virtual", "cost_table": "measured", "index": "full", "detector": None, "skip": 0.02, "repeats": None,
}  # fmt: skip


def recall_over_time(part: Part, events: int) -> list[dict[str, Any]]:
    """Compute recall over time for each shedder and target of a part's series, with the first seed.

    A match belongs to the interval of its last event. The query must be monotonic: shedding adds no false matches.

    Parameters
    ----------
    part
        Part of a figure with one query; its targets are bounds or rates.
    events
        Number of events.

    Returns
    -------
    list
        For each shedder and target, ``x`` (the number of events up to the end of each interval) and ``recall``.
    """
    query, table = part.query(), part.events(events)
    assert isinstance(query, fc.Query)
    options = {**_DEFAULTS, **options_of(part, table)}
    setting = setting_of(**options)
    stream = Stream.of(table, query.schema)
    truth = truth_of((query,), stream, setting)
    goals = parse_targets(setting.mode, options[setting.mode])
    targets = {target.label: target for target in targets_of(goals, truth, (query,), stream, setting)[0]}
    size = max(1, len(table) // part.recall_intervals)
    true_counts = _count_matches(setting.plain((query,)), table, size)
    series = []
    for name, label in part.series:
        available = strategies([name], part.model)
        if not available:
            continue
        (strategy,) = strategies_of(available, setting.seeds, None)
        if needs_history(name) and part.history is not None:
            strategy = strategy.fitted((query,), part.history(events), setting)
        engine = setting.shedding((query,), strategy.shedder(0), targets[label])
        counts = _count_matches(engine, table, size, targets[label].rate)
        recall = [count / true if true else 1.0 for count, true in zip(counts, true_counts, strict=True)]
        series.append(
            {"shedder": name, "target": label, "x": [size * (number + 1) for number in range(len(recall))],
             "recall": [float(f"{value:.4g}") for value in recall]}
        )  # fmt: skip
    return series


def _count_matches(engine: fc.Engine, table: pa.Table, size: int, rate: float | None = None) -> list[int]:
    """Return the number of matches that end in each interval of the stream, which may arrive at a rate."""
    intervals = [table.slice(start, size) for start in range(0, len(table), size)]
    if rate is None:
        return [len(engine.process(interval).to_arrow()) for interval in intervals]
    counts: list[int] = []
    fc.replay(engine, intervals, rate, collect=lambda matches: counts.append(len(matches)), must_shed=False)
    return counts
