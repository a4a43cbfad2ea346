"""Typed expressions of the plan.

An :class:`Op` is an immutable tree. Its leaves say where a value comes from:

``const``  ``(value,)``                      a constant (None is null)
``event``  ``(member, attribute)``           the event that is being bound to ``member``; `POSITION` and `PREVIOUS`
                                           count as attributes too
``col``    ``(column,)``                     the same, resolved to a physical column or built-in
``q``      ``(kind, member, extra, attr)``   a *quantity* of a partial match (see :mod:`fastcep.plan.rewrite`)
``elem``   ``(member, offset, attribute)``   element ``i + offset`` of a Kleene variable (for-all conditions only)
``neg``    ``(member, attribute)``           an event of a negated variable (its conditions only)

A ``call`` of a user's function has the function's `Signature` as data.

Physical types (``dtype``): ``i`` int64, ``f`` float64, ``b`` bool and ``s`` string code, the last two carried as int64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

DTYPES = {"int64": "i", "float64": "f", "bool": "b", "string": "s", "null": "i"}

#: Built-in columns that no query can name: where an event stands in the stream, and where the event before it does (in
#: its partition, if `Plan.partition` says so; -1 for none).
POSITION, PREVIOUS = -5, -6


@dataclass(frozen=True, slots=True)
class Op:
    """One node: operation ``name``, physical ``dtype``, operands ``args`` and constant ``data``."""

    name: str
    dtype: str
    args: tuple[Op, ...] = ()
    data: tuple[Any, ...] = ()

    def __hash__(self) -> int:
        return hash((self.name, self.dtype, self.args, tuple(map(repr, self.data))))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Op)
            and self.name == other.name
            and self.dtype == other.dtype
            and self.args == other.args
            and tuple(map(repr, self.data)) == tuple(map(repr, other.data))
        )


def const(value: Any, dtype: str) -> Op:
    """A constant leaf; ``value`` None is null."""
    return Op("const", dtype, (), (value,))


TRUE = const(True, "b")
FALSE = const(False, "b")


def quantity(kind: str, dtype: str, member: int, extra: int | str = 0, attr: str = "") -> Op:
    """A quantity leaf (see :mod:`fastcep.plan.rewrite`)."""
    return Op("q", dtype, (), (kind, member, extra, attr))


def count(member: int) -> Op:
    """How many events ``member`` has bound (0 when absent)."""
    return quantity("count", "i", member)


def to_float(value: Op) -> Op:
    """``value`` as float64."""
    if value.dtype == "f":
        return value
    if value.name == "const":
        return const(None if value.data[0] is None else float(value.data[0]), "f")
    return Op("i2f", "f", (value,))


def key_pair(row: Op, event: Op) -> tuple[Op, Op]:
    """Two values that must be equal, as words of a key."""
    row, event = promote(row, event) if "f" in (row.dtype, event.dtype) else (row, event)
    if row.dtype == "f":
        return Op("key_f", "f", (row,)), Op("key_f", "f", (event,))
    return row, event


def equality(expr: Op, of_event: str) -> tuple[Op, Op] | None:
    """``key_pair`` of an expression that equates something of the row with something of an ``of_event`` leaf."""
    if expr.name in ("eq_i", "eq_f", "partition"):
        for row, event in (expr.args, expr.args[::-1]):
            if only(row, "q") and only(event, of_event):
                return key_pair(row, event)
    return None


def promote(left: Op, right: Op) -> tuple[Op, Op]:
    """Give both sides one physical type: int64 beside float64 becomes float64; null takes the other's type."""
    if left.dtype == right.dtype:
        return left, right
    for a, b in ((left, right), (right, left)):
        if a.name == "const" and a.data[0] is None:
            fixed = const(None, b.dtype)
            return (fixed, right) if a is left else (left, fixed)
    return to_float(left), to_float(right)


def compare(operator: str, left: Op, right: Op) -> Op:
    """``left operator right`` with ``operator`` one of eq ne lt le."""
    left, right = promote(left, right)
    return Op(operator + ("_f" if left.dtype == "f" else "_i"), "b", (left, right))


def leaves(node: Op) -> Iterator[Op]:
    """Yield the leaves of ``node`` that are not constants."""
    if not node.args:
        if node.name != "const":
            yield node
        return
    for arg in node.args:
        yield from leaves(arg)


def only(node: Op, *names: str) -> bool:
    """Whether ``node`` has leaves and all of them are of the given kinds."""
    found = {leaf.name for leaf in leaves(node)}
    return bool(found) and found <= set(names)


def transform(node: Op, leaf: Callable[[Op], Op | None]) -> Op:
    """Replace every sub-tree for which ``leaf`` gives a replacement; fold what became constant."""
    new = leaf(node)
    if new is not None:
        return new
    if not node.args:
        return node
    args = tuple(transform(arg, leaf) for arg in node.args)
    return fold(node if args == node.args else replace(node, args=args))


def fold(node: Op) -> Op:
    """Simplify guards, and integer comparisons of counts, whose operands are constant."""
    args = node.args
    if node.name == "guard" and args[0].name == "const":
        return args[1] if args[0].data[0] else TRUE
    if node.name in ("lt_i", "le_i", "eq_i") and all(a.name == "const" and a.data[0] is not None for a in args):
        x, y = args[0].data[0], args[1].data[0]
        return const({"lt_i": x < y, "le_i": x <= y, "eq_i": x == y}[node.name], "b")
    if node.name == "select" and args[0].name == "const":
        return args[1] if args[0].data[0] else args[2]
    if node.name in ("and", "or"):
        for one, other in (args, args[::-1]):
            if one in (TRUE, FALSE):
                return other if one == (TRUE if node.name == "and" else FALSE) else one
    return node


def either(left: Op, right: Op) -> Op:
    """``left OR right``."""
    return fold(Op("or", "b", (left, right)))


def all_of(parts: list[Op]) -> Op:
    """The conjunction of ``parts``."""
    result: Op | None = None
    for part in parts:
        if part == TRUE:
            continue
        result = part if result is None else Op("and", "b", (result, part))
    return TRUE if result is None else result
