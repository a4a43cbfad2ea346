"""Check that queries can run in parallel, and compute the context of their slices."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from math import lcm

from fastcep.engine.longest_windows import longest_windows
from fastcep.errors import ValidationError
from fastcep.plan import Plan
from fastcep.plan.slicing import Context, slicing_of, slicing_refusal
from fastcep.query import ast, traversal

__all__ = ["check_functions", "common_context", "watched_windows"]


def common_context(plans: Sequence[Plan], longest: Sequence[int | None]) -> Context:
    """Return a context with which the slices of one cut are right for all queries.

    Parameters
    ----------
    plans
        Plans of the queries.
    longest
        For each query, the maximum length in ns of windows that events open and close; None if unknown.

    Raises
    ------
    ValidationError
        If a query cannot be cut by time, or if two need slices that begin at different places.
    """
    contexts = [_context(plan, limit) for plan, limit in zip(plans, longest, strict=True)]
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


def _context(plan: Plan, longest: int | None) -> Context:
    slicing = slicing_of(plan, longest)
    if isinstance(slicing.time, Context):
        return slicing.time
    keyed = not isinstance(slicing.key, str)
    remedy = "use Engine(…, threads=…), which divides it by key" if keyed else "run it in one engine, fastcep.Engine"
    if slicing.time.startswith("CLOSE ON"):
        remedy = f"give longest_window, such as '10min', if the windows have a maximum length, or {remedy}"
    raise ValidationError(slicing_refusal(plan.query.name, [slicing.time], remedy, "time"))


def watched_windows(
    queries: Sequence[ast.Query], longest_window: str | timedelta | None
) -> tuple[list[int | None], list[ast.Query]]:
    """Return for each query the maximum length of its windows in ns, and the queries that find longer ones.

    Raises
    ------
    ValidationError
        If there is a maximum, but no query with windows that events open and close.
    """
    found: dict[str, tuple[int | None, ast.Query | None]] = {}
    for query in queries:
        window = query.window
        by_events = isinstance(window, ast.ExplicitWindow) and window.opening.types and window.closing.types
        if by_events or len(queries) == 1:
            found[query.name] = longest_windows(query, longest_window)
    if longest_window is not None and not found:
        raise ValidationError(
            f"longest_window={longest_window!r}: no query has windows that open and close on events (OPEN ON … CLOSE "
            "ON …); omit it"
        )
    limits = [found.get(query.name, (None, None))[0] for query in queries]
    return limits, [watch for _, watch in found.values() if watch is not None]


def check_functions(queries: Sequence[ast.Query]) -> None:
    """Check that queries call no user functions, which are registered in one process only.

    Raises
    ------
    ValidationError
        If a query does.
    """
    for query in queries:
        for node in (node for expression in traversal.expressions(query) for node in traversal.walk(expression)):
            if isinstance(node, ast.UserCall):
                raise ValidationError(
                    f"query {query.name!r} calls {node.signature.name!r}, a function that is registered in this "
                    "process only; use workers='threads'"
                )
