"""Costs of operations such that a latency bound holds a given number of events, and the match probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

import fastcep as fc
from bench.papers.figures import Part
from fastcep.evaluation.setting import UNREACHABLE_BOUND
from fastcep.evaluation.targets import parse_bound
from fastcep.overload.costs import OPERATIONS
from fastcep.overload.costs import cost_table as read_table
from fastcep.shedding.counts import transition_counts
from fastcep.shedding.counts.lifetimes import MATCH, START

__all__ = ["match_probability", "options_of"]


def options_of(part: Part, events: pa.Table) -> dict[str, Any]:
    """Return the options of a part, with a cost table under which its latency bound holds ``part.queue`` events.

    All operations on events and partial matches become more expensive by one factor. A decision keeps its cost: it
    does not depend on how long an event takes.

    Parameters
    ----------
    part
        Part of a figure.
    events
        Events of the runs.
    """
    if not part.queue:
        return dict(part.options)
    table = read_table(part.options["cost_table"])
    engine = fc.Engine(
        part.query(), clock="virtual", cost_table=replace(table, decision=0.0), store="rows",
        index=part.options.get("index", "full"), latency_bound=UNREACHABLE_BOUND, shedder=None,
    )  # fmt: skip
    engine.process(events)
    mean = engine.metrics()["shedding"]["processing_latency"]["mean"]
    factor = parse_bound("latency_bound", part.options["latency_bound"]) / part.queue / mean
    costs = {name: factor * getattr(table, name) for name in OPERATIONS if name != "decision"}
    return {**part.options, "cost_table": replace(table, **costs)}


def match_probability(queries: fc.Query | Sequence[fc.Query], events: pa.Table) -> float:
    """Return the number of matches, divided by the number of partial matches that events begin, over all windows."""
    begun = completed = 0
    for query in [queries] if isinstance(queries, fc.Query) else queries:
        counts = transition_counts(query, events)
        source, target, observed = (counts[name].to_numpy() for name in ("source", "target", "observations"))
        begun += int(observed[(source == START) & (target != START)].sum())
        completed += int(observed[target == MATCH].sum())
    return completed / begun
