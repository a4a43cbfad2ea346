"""Typed expressions of the plan.

An :class:`Op` is an immutable tree. Its leaves define the sources of values:

``const``  ``(value,)``                      a constant (None is null)
``event``  ``(variable, attribute)``           the event that is being bound to ``variable``; `POSITION` and `PREVIOUS`
                                           are attributes too
``col``    ``(column,)``                     the same, resolved to a physical column or built-in
``q``      ``(kind, variable, extra, attr)``   a *quantity* of a partial match (see :mod:`fastcep.plan.rewrite`)
``elem``   ``(variable, offset, attribute)``   element ``i + offset`` of a Kleene variable (for-all conditions only)
``run``    ``(variable, offset, kind, raw dtype, attribute)``  aggregate over the elements up to ``i + offset``
                                           (for-all conditions only)
``neg``    ``(variable, attribute)``           an event of a negated variable (its conditions only)

A ``call`` of a user-defined function has the function's `Signature` as data.

Physical types (``dtype``): ``i`` int64, ``f`` float64, ``b`` bool and ``s`` string code, the last two carried as int64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import is_
from typing import Any, NamedTuple

DTYPES = {"int64": "i", "float64": "f", "bool": "b", "string": "s", "timestamp": "i", "null": "i"}

#: Built-in columns without a name in queries: the position of an event in the stream, and that of the event before it
#: (in its partition, if `Plan.partition` is set; -1 if there is none).
POSITION, PREVIOUS = -5, -6


class Earlier(NamedTuple):
    """In place of an attribute: attribute ``name`` of the event ``places`` before an event (`fastcep.plan.earlier`)."""

    name: str
    places: int


@dataclass(frozen=True, slots=True)
class Op:
    """One node: operation ``name``, physical ``dtype``, operands ``args`` and constant ``data``.

    ``sources`` are its non-constant leaves, each as its name and the first item of its data.
    """

    name: str
    dtype: str
    args: tuple[Op, ...] = ()
    data: tuple[Any, ...] = ()
    _hash: int = field(init=False, repr=False)
    sources: frozenset[tuple[Any, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Stored, because computing them traverses the whole tree.
        args, data = self.args, self.data
        sources: frozenset[tuple[Any, ...]] = frozenset()
        if args:
            sources = args[0].sources.union(*[arg.sources for arg in args[1:]]) if len(args) > 1 else args[0].sources
        elif self.name != "const":
            sources = frozenset(((self.name, *data[:1]),))
        object.__setattr__(self, "_hash", hash((self.name, self.dtype, args, tuple(map(repr, data)) if data else ())))
        object.__setattr__(self, "sources", sources)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Op):
            return False
        a, b = self, other
        while a is not b:
            if (a._hash, a.name, a.dtype, a.args[1:]) != (b._hash, b.name, b.dtype, b.args[1:]):
                return False
            if len(a.args) != len(b.args) or tuple(map(repr, a.data)) != tuple(map(repr, b.data)):
                return False
            if not a.args:
                return True
            a, b = a.args[0], b.args[0]
        return True

    def spine(self, stop: Callable[[Op], bool] = lambda node: not node.args) -> tuple[Op, list[Op]]:
        """Follow first operands until ``stop`` holds; return that node and the nodes around it, innermost first.

        A chain such as ``a OR b OR c`` nests in its first operands, possibly thousands of levels deep. Code that walks
        trees therefore iterates over first operands and recurses only into the others.
        """
        chain: list[Op] = []
        node = self
        while not stop(node):
            chain.append(node)
            node = node.args[0]
        return node, chain[::-1]

    def __reduce__(self) -> tuple[Any, ...]:
        first, chain = self.spine()
        return _chained, (first.name, first.dtype, first.data, [(n.name, n.dtype, n.args[1:], n.data) for n in chain])


def _chained(name: str, dtype: str, data: tuple[Any, ...], links: list[tuple[Any, ...]]) -> Op:
    """Rebuild a tree, for `pickle` and `copy`."""
    node = Op(name, dtype, (), data)
    for name, dtype, others, data in links:
        node = Op(name, dtype, (node, *others), data)
    return node


class ValueSet:
    """The constants of an ``in_i`` or ``in_f`` operation: distinct numbers, bools or strings of one dtype.

    Parameters
    ----------
    values
        Constants, without null and NaN.
    """

    __slots__ = ("_text", "values")

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = tuple(dict.fromkeys(values))
        self._text = f"ValueSet({self.values!r})"  # cached, because an Op compares it often

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueSet) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        return ValueSet, (self.values,)


def const(value: Any, dtype: str) -> Op:
    """Return a constant leaf; ``value`` None is null."""
    return Op("const", dtype, (), (value,))


TRUE = const(True, "b")
FALSE = const(False, "b")


def quantity(kind: str, dtype: str, variable: int, extra: int | str = 0, attr: str | Earlier = "") -> Op:
    """Return a quantity leaf (see :mod:`fastcep.plan.rewrite`)."""
    return Op("q", dtype, (), (kind, variable, extra, attr))


def count(variable: int) -> Op:
    """Return the quantity for the number of events that ``variable`` has bound (0 if absent)."""
    return quantity("count", "i", variable)


def to_float(value: Op) -> Op:
    """Return ``value`` converted to float64."""
    if value.dtype == "f":
        return value
    if value.name == "const":
        return const(None if value.data[0] is None else float(value.data[0]), "f")
    return Op("i2f", "f", (value,))


def key_pair(row: Op, event: Op) -> tuple[Op, Op]:
    """Return two values that must be equal as words of a key."""
    row, event = promote(row, event) if "f" in (row.dtype, event.dtype) else (row, event)
    if row.dtype == "f":
        return Op("key_f", "f", (row,)), Op("key_f", "f", (event,))
    return row, event


def equality(expr: Op, of_event: str) -> tuple[Op, Op] | None:
    """Return `key_pair` of an equality between a value of the row and one of ``of_event`` leaves; None otherwise."""
    if expr.name in ("eq_i", "eq_f", "partition"):
        for row, event in (expr.args, expr.args[::-1]):
            if only(row, "q") and only(event, of_event):
                return key_pair(row, event)
    return None


def promote(left: Op, right: Op) -> tuple[Op, Op]:
    """Convert both sides to one physical type: int64 and float64 to float64, null to the type of the other side."""
    if left.dtype == right.dtype:
        return left, right
    for a, b in ((left, right), (right, left)):
        if a.name == "const" and a.data[0] is None:
            fixed = const(None, b.dtype)
            return (fixed, right) if a is left else (left, fixed)
    return to_float(left), to_float(right)


def compare(operator: str, left: Op, right: Op) -> Op:
    """Return ``left operator right``, with ``operator`` one of eq ne lt le."""
    left, right = promote(left, right)
    return Op(operator + ("_f" if left.dtype == "f" else "_i"), "b", (left, right))


def leaves(node: Op) -> Iterator[Op]:
    """Yield the leaves of ``node`` that are not constants."""
    stack = [node]
    while stack:
        node = stack.pop()
        if not node.args and node.name != "const":
            yield node
        stack.extend(reversed(node.args))


def only(node: Op, *names: str) -> bool:
    """Return whether ``node`` has non-constant leaves and all of them are of the given kinds."""
    return bool(node.sources) and all(source[0] in names for source in node.sources)


def transform(node: Op, leaf: Callable[[Op], Op | None]) -> Op:
    """Replace every subtree for which ``leaf`` returns a replacement, and fold constants."""
    chain: list[Op] = []
    while (replacement := leaf(node)) is None and node.args:
        chain.append(node)
        node = node.args[0]
    result = node if replacement is None else replacement
    for outer in reversed(chain):
        args = (result, *(transform(arg, leaf) for arg in outer.args[1:]))
        unchanged = all(map(is_, args, outer.args))
        result = fold(outer if unchanged else Op(outer.name, outer.dtype, args, outer.data))
    return result


def fold(node: Op) -> Op:
    """Simplify guards, and integer comparisons of counts, with constant operands."""
    args = node.args
    if node.name == "guard" and args[0].name == "const":
        return args[1] if args[0].data[0] else TRUE
    if node.name in ("lt_i", "le_i", "eq_i") and all(a.name == "const" and a.data[0] is not None for a in args):
        x, y = args[0].data[0], args[1].data[0]
        return const({"lt_i": x < y, "le_i": x <= y, "eq_i": x == y}[node.name], "b")
    if node.name == "not" and args[0] in (TRUE, FALSE):
        return FALSE if args[0] == TRUE else TRUE
    if node.name == "select" and args[0].name == "const":
        return args[1] if args[0].data[0] else args[2]
    if node.name in ("and", "or"):
        for one, other in (args, args[::-1]):
            if one in (TRUE, FALSE):
                return other if one == (TRUE if node.name == "and" else FALSE) else one
    return node


def either(left: Op, right: Op) -> Op:
    """Return ``left OR right``, simplified."""
    return fold(Op("or", "b", (left, right)))


def all_of(parts: list[Op]) -> Op:
    """Return the conjunction of ``parts``."""
    result: Op | None = None
    for part in parts:
        if part == TRUE:
            continue
        result = part if result is None else Op("and", "b", (result, part))
    return TRUE if result is None else result
