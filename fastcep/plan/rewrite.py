"""Quantities of partial matches, and their change when one more event is bound.

A condition is written over the *state view*: quantities as they are in a state. :func:`step` rewrites such an
expression over an edge into one over the source state's quantities and the event, so every quantity is computed once,
incrementally, when an event is bound.

Kinds of quantities of a variable: ``count`` (number of bound events, or of rounds of a group), ``first`` (attribute of
the first or only event), ``last`` (attribute of the ``extra``-th last event), ``at`` (attribute of element ``extra``),
``known`` (number of non-null values), ``sum min max mean m2`` (running aggregates; mean and m2 are Welford's, ``extra``
is the attribute's dtype) and ``part`` (value of a partition attribute). In a repeated group ``first``, ``last`` and
``at`` refer to a round; ``has_first``, ``has_last`` and ``has_at`` test whether that round binds the variable.

``before`` is an aggregate over all elements but the last ``extra``; its attribute is ``(kind, raw dtype, attribute)``.

The quantity ``latest`` has several variables in place of the attribute. It is the position of the last event that any
of them binds, or with ``extra`` 1 of the last event but one. ``latest_time`` is the time of that event.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fastcep.plan.automaton import NO, START, YES, Edge
from fastcep.plan.ir import FALSE, POSITION, TRUE, Op, const, either, quantity, to_float, transform


def is_bound(variable: int) -> Op:
    """Return the test that a variable is bound, in the form that the rewriting recognises."""
    return Op("lt_i", "b", (const(0, "i"), quantity("count", "i", variable)))


def latest(variables: Iterable[int], extra: int = 0) -> Op:
    """Return the quantity ``latest`` of the variables."""
    return Op("q", "i", (), ("latest", -1, extra, tuple(variables)))


def latest_time(variables: Iterable[int]) -> Op:
    """Return the time of the last event that any of the variables binds."""
    return Op("q", "i", (), ("latest_time", -1, 0, tuple(sorted(variables))))


def aggregate_before(lag: int, kind: str, dtype: str, variable: int, raw: str, attr: str) -> Op:
    """Return an aggregate over all elements of a Kleene variable but the last ``lag``."""
    if kind == "count":
        number = quantity("count", "i", variable)
        return Op("sub_i", "i", (number, const(lag, "i"))) if lag else number
    if lag == 0:
        return quantity(kind, dtype, variable, raw, attr)
    return Op("q", dtype, (), ("before", variable, lag, (kind, raw, attr)))


def step(expr: Op, edge: Edge) -> Op:
    """Rewrite ``expr`` (view of ``edge.target``) over the quantities of ``edge.source`` and the event."""

    def leaf(node: Op) -> Op | None:
        variable = _tested_variable(node)
        if variable is not None:
            if variable in (edge.variable, edge.group):
                return TRUE
            return _resolve_test(node, edge.before[variable])
        if node.name != "q":
            return None
        kind, variable, _, attr = node.data
        if kind == "part":
            return Op("event", node.dtype, (), (edge.variable, attr)) if edge.source == START else node
        if kind in ("latest", "latest_time"):
            return _latest(node, edge)
        if variable == edge.group:
            return _rounds(node, edge)
        if variable in edge.peers and kind in ("last", "has_last"):
            return _last_round(node, edge)
        if variable == edge.variable:
            return _after_binding(node, edge)
        if edge.before[variable] == NO:
            return _absent(node)
        return node

    return transform(expr, leaf)


def closed(expr: Op, bound: tuple[int, ...]) -> Op:
    """Rewrite ``expr`` for a match that ends in a state that binds ``bound``: all other variables are absent."""

    def leaf(node: Op) -> Op | None:
        variable = _tested_variable(node)
        if variable is not None:
            return _resolve_test(node, bound[variable])
        if node.name == "q" and node.data[1] >= 0 and bound[node.data[1]] == NO:
            return _absent(node)
        return None

    return transform(expr, leaf)


def _tested_variable(node: Op) -> int | None:
    """Return the variable of an ``is_bound`` test; None for other expressions."""
    if node.name == "lt_i" and node.args[1].name == "q" and node == is_bound(node.args[1].data[1]):
        variable: int = node.args[1].data[1]
        return variable
    return None


def _resolve_test(test: Op, status: int) -> Op:
    return TRUE if status == YES else FALSE if status == NO else test


def _absent(node: Op) -> Op:
    """Return the value of a quantity of a variable that is not bound."""
    kind = node.data[0]
    if kind.startswith("has_"):
        return FALSE
    is_count = kind in ("count", "known") or (kind == "before" and node.data[3][0] == "known")
    return const(0 if is_count else None, node.dtype)


def _latest(node: Op, edge: Edge) -> Op:
    """Rewrite ``latest`` over an edge: the position of its event, or of the last event that a variable bound before."""
    kind, _, extra, variables = node.data
    if edge.variable in variables:
        if extra == 0:
            return Op("event", "i", (), (edge.variable, POSITION if kind == "latest" else "time"))
        extra -= 1
    bound = tuple(variable for variable in variables if edge.before[variable] != NO)
    return replace(node, data=(kind, -1, extra, bound)) if bound else const(None, "i")


def _rounds(count: Op, edge: Edge) -> Op:
    """Rewrite the number of rounds of the edge's group."""
    if edge.round == "first":
        return const(1, "i")
    return Op("add_i", "i", (count, const(1, "i"))) if edge.round == "next" else count


def _after_binding(node: Op, edge: Edge) -> Op:
    kind, variable, extra, attr = node.data
    is_first = edge.before[variable] == NO
    old = _absent(node) if is_first else node
    if kind == "count":
        return const(1, "i") if is_first else Op("add_i", "i", (node, const(1, "i")))
    if kind == "before":
        assert isinstance(extra, int)
        return old if is_first else aggregate_before(extra - 1, attr[0], node.dtype, variable, *attr[1:])
    if kind in ("known", "sum", "min", "max", "mean", "m2"):
        return _aggregated(node, not is_first, Op("event", extra, (), (variable, attr)))
    value = TRUE if kind.startswith("has_") else Op("event", node.dtype, (), (variable, attr))
    if edge.group >= 0:
        return _in_round(kind.removeprefix("has_"), extra, edge, value, old)
    if kind == "first":
        return value if is_first else node
    if kind == "last":
        if extra == 0:
            return value
        return _absent(node) if is_first else replace(node, data=(kind, variable, extra - 1, attr))
    assert kind == "at", kind
    return old if is_first else Op("select", node.dtype, (_count_is(variable, extra), value, node))


def _last_round(node: Op, edge: Edge) -> Op:
    """Rewrite an attribute of the ``extra``-th last round, or the test that this round binds the variable."""
    kind, variable, extra, attr = node.data
    if variable == edge.variable and extra == 0:
        return TRUE if kind == "has_last" else Op("event", node.dtype, (), (variable, attr))
    if edge.round == "first" or (edge.round == "next" and extra == 0) or edge.before[variable] == NO:
        return _absent(node)
    if edge.round == "next":
        extra -= 1
    if extra == 0 and edge.now[variable] == NO:
        return _absent(node)
    if extra == 0 and edge.now[variable] == YES and kind == "has_last":
        return TRUE
    return replace(node, data=(kind, variable, extra, attr))


def _in_round(kind: str, extra: int, edge: Edge, value: Op, old: Op) -> Op:
    """Rewrite an attribute of a given round for an edge that binds an event in the current round."""
    target_round = 0 if kind == "first" else extra  # counted from 0
    if edge.round == "first":
        return value if target_round == 0 else old
    if edge.round == "next":
        return old if target_round == 0 else Op("select", old.dtype, (_count_is(edge.group, target_round), value, old))
    return Op("select", old.dtype, (_count_is(edge.group, target_round + 1), value, old))


def _count_is(variable: int, count: int) -> Op:
    return Op("eq_i", "b", (quantity("count", "i", variable), const(count, "i")))


def _aggregated(node: Op, has_previous: bool, value: Op) -> Op:
    kind, variable, raw_dtype, attr = node.data
    known = quantity("known", "i", variable, raw_dtype, attr) if has_previous else const(0, "i")
    old = node if has_previous else const(None, node.dtype)
    if kind == "known":
        return Op("agg_known", "i", (known, value))
    if kind in ("sum", "min", "max"):
        return Op(f"agg_{kind}_{node.dtype}", node.dtype, (old, known, value))
    mean = quantity("mean", "f", variable, raw_dtype, attr) if has_previous else const(None, "f")
    if kind == "mean":
        return Op("agg_mean", "f", (mean, known, to_float(value)))
    return Op("agg_m2", "f", (old, mean, known, to_float(value)))


def any_bound(variables: tuple[int, ...]) -> Op:
    """Return the test that one of the variables is bound."""
    result = FALSE
    for variable in variables:
        result = either(result, is_bound(variable))
    return result
