"""Quantities of partial matches, and how binding one more event changes them.

A state is "``member`` was bound last". A condition is written over the *state view*: quantities as they are
after the event was bound. :func:`step` rewrites such an expression over an edge into one over the source state's
quantities and the event, so every quantity is computed once, incrementally, when an event is bound.

Kinds of quantities of a member: ``count`` bound events, ``first`` attribute of the first (or only) event, ``last``
attribute of the ``extra``-th last, ``at`` attribute of element ``extra``, ``known`` number of non-null values,
``sum min max mean m2`` running aggregates (mean and m2 are Welford's; ``extra`` is the attribute's dtype), ``part``
value of a partition attribute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fastcep.plan.ir import Op, const, quantity, to_float, transform

START = -1


@dataclass(frozen=True, slots=True)
class Edge:
    """From state ``source`` (``START`` = no event bound yet) to state ``target`` by binding an event to ``target``."""

    source: int
    target: int

    @property
    def loop(self) -> bool:
        """Whether the edge repeats a Kleene member."""
        return self.source == self.target


def step(expr: Op, edge: Edge) -> Op:
    """Rewrite ``expr`` (view of ``edge.target``) over the quantities of ``edge.source`` and the event."""
    bound = Op("lt_i", "b", (const(0, "i"), quantity("count", "i", edge.source)))

    def leaf(node: Op) -> Op | None:
        if node == bound and not edge.loop:
            return const(True, "b")  # the source state has just bound its member
        if node.name != "q":
            return None
        kind, member, extra, attr = node.data
        if kind == "part":
            return _event(node, edge.target, attr) if edge.source == START else node
        if member == edge.target:
            return _taken(node, edge, kind, extra, attr)
        if edge.source < member:  # passed over on this edge, or still to come
            return const(0 if kind in ("count", "known") else None, node.dtype)
        return node

    return transform(expr, leaf)


def closed(expr: Op, state: int) -> Op:
    """Rewrite ``expr`` for a match that ends in ``state``: members after it are absent."""

    def leaf(node: Op) -> Op | None:
        if node.name == "q" and node.data[0] != "part" and node.data[1] > state:
            return const(0 if node.data[0] in ("count", "known") else None, node.dtype)
        return None

    return transform(expr, leaf)


def _event(node: Op, member: int, attr: str) -> Op:
    return Op("event", node.dtype, (), (member, attr))


def _taken(node: Op, edge: Edge, kind: str, extra: int, attr: str) -> Op:
    member, loop = edge.target, edge.loop
    if kind == "count":
        return Op("add_i", "i", (node, const(1, "i"))) if loop else const(1, "i")
    value = _event(node, member, attr)
    if kind == "first":
        return node if loop else value
    if kind == "last":
        if extra == 0:
            return value
        return replace(node, data=(kind, member, extra - 1, attr)) if loop else const(None, node.dtype)
    if kind == "at":
        if not loop:
            return const(None, node.dtype)
        here = Op("eq_i", "b", (quantity("count", "i", member), const(extra, "i")))
        return Op("select", node.dtype, (here, value, node))
    return _aggregated(node, kind, loop, value)


def _aggregated(node: Op, kind: str, loop: bool, value: Op) -> Op:
    _, member, raw, attr = node.data
    value = Op("event", raw, (), value.data)
    known = quantity("known", "i", member, raw, attr) if loop else const(0, "i")
    old = node if loop else const(None, node.dtype)
    if kind == "known":
        return Op("agg_known", "i", (known, value))
    if kind in ("sum", "min", "max"):
        return Op(f"agg_{kind}_{node.dtype}", node.dtype, (old, known, value))
    mean = quantity("mean", "f", member, raw, attr) if loop else const(None, "f")
    if kind == "mean":
        return Op("agg_mean", "f", (mean, known, to_float(value)))
    return Op("agg_m2", "f", (old, mean, known, to_float(value)))
