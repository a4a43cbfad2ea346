"""Check that queries can run in parallel, and compute the context of their slices."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from fastcep.errors import ValidationError
from fastcep.plan import Plan
from fastcep.plan.slicing import Context, slicing_of, slicing_refusal
from fastcep.query import ast

__all__ = ["check_functions", "common_context"]


def common_context(plans: Sequence[Plan]) -> Context:
    """Return a context with which the slices of one cut are right for all queries.

    Raises
    ------
    ValidationError
        If a query cannot be cut by time, or if two need slices that begin at different places.
    """
    contexts = [_context(plan) for plan in plans]
    common = Context(
        max(context.nanoseconds for context in contexts),
        max(context.events for context in contexts),
        lcm(*(context.every_nanoseconds or 1 for context in contexts)),
        lcm(*(context.every_events or 1 for context in contexts)),
    )
    by_time = next((p for p, context in zip(plans, contexts, strict=True) if context.every_nanoseconds), None)
    by_events = next((p for p, context in zip(plans, contexts, strict=True) if context.every_events), None)
    if by_time is not None and by_events is not None:
        raise ValidationError(
            f"query {by_time.query.name!r} opens a window every so often and {by_events.query.name!r} every so many "
            "events, so no event begins a slice of both; use a ParallelEngine for each"
        )
    return Context(
        common.nanoseconds, common.events,
        0 if by_time is None else common.every_nanoseconds, 0 if by_events is None else common.every_events,
    )  # fmt: skip


def _context(plan: Plan) -> Context:
    slicing = slicing_of(plan)
    if isinstance(slicing.time, Context):
        return slicing.time
    keyed = not isinstance(slicing.key, str)
    remedy = "use Engine(…, threads=…), which divides it by key" if keyed else "run it in one engine, fastcep.Engine"
    raise ValidationError(slicing_refusal(plan.query.name, [slicing.time], remedy, "time"))


def check_functions(queries: Sequence[ast.Query]) -> None:
    """Check that queries call no user functions, which are registered in one process only.

    Raises
    ------
    ValidationError
        If a query does.
    """
    for query in queries:
        for node in (node for expression in ast.expressions(query) for node in ast.walk(expression)):
            if isinstance(node, ast.UserCall):
                raise ValidationError(
                    f"query {query.name!r} calls {node.signature.name!r}, a function that is registered in this "
                    "process only; use workers='threads'"
                )
