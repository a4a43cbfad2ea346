"""Recall over time: what share of the matches of each part of a stream strategies find."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import fastcep as fc
from bench.papers.figures import Part
from bench.papers.strategies import learns, strategies
from fastcep.evaluation.judging import targets_of, truth_of
from fastcep.evaluation.options import setting_of
from fastcep.evaluation.strategies import strategies_of
from fastcep.evaluation.stream import Stream
from fastcep.evaluation.targets import parse_targets

__all__ = ["courses"]

#: The options of a setting, as `fastcep.evaluate` has them.
_USUAL = {
    "rates": None, "demands": None, "statistic": "mean", "latency_bound": None, "seeds": 1, "clock": "virtual",
    "cost_table": "measured", "index": "full", "detector": None, "skip": 0.02, "repeats": None,
}  # fmt: skip


def courses(part: Part, events: int) -> list[dict[str, Any]]:
    """Recall over time of the shedders and targets of a part's series, with its first seed.

    A match counts where its last event is. The query must be monotonic, so that all that is found is true.

    Parameters
    ----------
    part
        Which; its targets are bounds.
    events
        How many.

    Returns
    -------
    list
        By shedder and target ``x`` (the last events of the parts) and ``recall``.
    """
    query, table = part.query(), part.events(events)
    setting = setting_of(**{**_USUAL, **part.options})
    stream = Stream.of(table, query.schema)
    truth = truth_of((query,), stream, setting)
    goals = parse_targets("bounds", part.options["bounds"])
    targets = {target.label: target for target in targets_of(goals, truth, (query,), stream, setting)[0]}
    size = max(1, len(table) // part.recalls)
    whole = _found(setting.plain((query,)), table, size)
    said = []
    for name, label in part.series:
        made = strategies([name], part.model)
        if not made:
            continue
        (strategy,) = strategies_of(made, setting.seeds, None)
        if learns(name) and part.history is not None:
            strategy = strategy.fitted((query,), part.history(events), setting)
        found = _found(setting.shedding((query,), strategy.shedder(0), targets[label]), table, size)
        recall = [own / all_ if all_ else 1.0 for own, all_ in zip(found, whole, strict=True)]
        said.append(
            {"shedder": name, "target": label, "x": [size * (number + 1) for number in range(len(recall))],
             "recall": [float(f"{value:.4g}") for value in recall]}
        )  # fmt: skip
    return said


def _found(engine: fc.Engine, table: pa.Table, size: int) -> list[int]:
    """How many matches end in each part of the stream."""
    return [len(engine.process(table.slice(start, size)).to_arrow()) for start in range(0, len(table), size)]
