"""A stream divided into slices as Spark does it; each slice is run by an engine of its own in this process."""

from __future__ import annotations

from collections.abc import Sequence

from reference.matcher import Event
from support import harness
from support import slices as sliced

from fastcep.plan import make_plan
from fastcep.plan.plan import KeyPlan
from fastcep.plan.slicing import Context, slicing_of
from fastcep.query import ast
from fastcep.spark.slicing.assignment import SliceAssignment
from fastcep.spark.slicing.slices import time_cut
from matrix.execute import Outcome
from matrix.refusals import OF_SLICES, refusal_of


def sliced_outcome(
    query: ast.Query, events: Sequence[Event], how: str, edges: Sequence[int], wanted: int, outcome: Outcome
) -> None:
    """Divide a stream by time or by key, and compare the matches of its slices with the reference matcher."""
    first, last = (events[0].time, events[-1].time) if events else (0, 0)
    slicing = slicing_of(make_plan(query), last - first)
    allowed = slicing.time if how == "time" else slicing.key
    if isinstance(allowed, str):
        refusal = refusal_of(f"slices by {how}: {allowed}", OF_SLICES)
        assert refusal is not None, f"not on the list of refusals: slices by {how}: {allowed}"
        outcome.refused.append(refusal)
        return
    numbered = query.schema.sequence is not None
    if isinstance(allowed, Context):
        made = time_cut(list(edges), wanted, allowed, positions=not numbered)
        made = made.with_positions(sliced.counts(events, made)) if made.edges else made
        table = sliced.detected(query, events, SliceAssignment(made.slices, made), numbered=numbered)
    else:
        assert isinstance(allowed, KeyPlan)
        cut, route = sliced.by_key(query, events, wanted, edges)
        table = sliced.detected(query, events, cut, route, numbered=True)
    found = harness.table_rows(query, table)
    harness.assert_same(query, list(events), found, f"cut by {how} at {edges} into {wanted}")
    outcome.paths.add(f"slices by {how}")
