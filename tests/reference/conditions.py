"""Conditions and RETURN of the reference matcher: the value of an expression in a match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fastcep.query import ast, traversal
from reference.texts import FORMS, form, ordered
from reference.user_functions import user_call
from reference.values import Value, aggregate, arithmetic, both, call, checked, compare, either, negate, number, truth


@dataclass(frozen=True)
class Event:
    """An event: type, time (ns), sequence number and attributes. Its position is its index in the stream's list."""

    type: str
    time: int
    seq: int
    values: Mapping[str, Value] = field(default_factory=dict)


# The elements of each variable, by its full name: none if it is empty. Of a group's variable there is one entry for
# each round, None where the round does not bind it; the group's own name has an entry for each round too (any value).
# A variable of an OR branch that is not taken is missing altogether.
Bound = Mapping[str, Sequence[Event | None]]


class NotApplicable(Exception):
    """The conjunct mentions an element ``x[k]`` that this match does not have, so the conjunct does not apply."""


def agree(everyone: Iterable[Event], names: Sequence[str]) -> bool:
    """Return True if all events agree pairwise on each attribute; null and NaN agree with nothing."""
    events = list(everyone)
    return all(
        compare("=", attribute(one, name), attribute(other, name)) is True
        for name in names
        for one in events
        for other in events
    )


def holds(conjunct: ast.Expr, bound: Bound) -> bool:
    """Return True if a top-level conjunct is true, or does not apply to this match."""
    for part in traversal.walk(conjunct):
        if isinstance(part, ast.Attribute | ast.Aggregate):
            if part.qualified_name not in bound:
                return True  # it mentions a variable of a branch not taken
            counts = isinstance(part, ast.Aggregate) and part.name is None and part.index is None
            if not any(bound[part.qualified_name]) and not counts:
                return True  # it mentions an absent variable, other than by COUNT(x[])
    relative = [
        (bound[part.qualified_name], offset) for part in traversal.walk(conjunct) for offset in relative_offsets(part)
    ]
    try:
        if not relative:
            return evaluate(conjunct, bound) is True
        reach = max(abs(offset) for _, offset in relative) + max(len(elements) for elements in bound.values())
        return all(
            evaluate(conjunct, bound, i) is True
            for i in range(-reach, reach + 1)
            if all(0 <= i + offset < len(elements) and elements[i + offset] for elements, offset in relative)
        )
    except NotApplicable:
        return True


def relative_offsets(part: ast.Expr) -> list[int]:
    """Return the offsets from i of the elements that must exist: of ``x[i+1]``, and for ``AVG(x[..i-1].a)`` 0 and -1.

    ``COUNT(x[..i-1])`` counts no element too, so only element i must exist.
    """
    if isinstance(part, ast.Aggregate) and part.index is not None:
        return [0] if part.name is None else [0, part.index.offset]
    if isinstance(part, ast.Attribute) and part.index is not None and part.index.kind == "relative":
        return [part.index.offset]
    return []


def so_far(node: ast.Aggregate, bound: Bound, i: int) -> Sequence[Event | None]:
    """Return the elements of an aggregate: all, or for a running aggregate those up to its index."""
    elements = bound[node.qualified_name]
    return elements if node.index is None else elements[: i + node.index.offset + 1]


def attribute(event: Event, name: str) -> Value:
    """An attribute of an event, built-in or declared."""
    builtin: dict[str, Value] = {"time": event.time, "seq": event.seq, "type": event.type}
    return builtin[name] if name in builtin else event.values.get(name)


def earlier_name(name: str, places: int) -> str:
    """Return the name under which an event has the attribute of an earlier event; no attribute has a name like it."""
    return f"\0{places} before: {name}"


def element(node: ast.Attribute, bound: Bound, i: int) -> Event | None:
    """Return the event that an attribute is read from, None if this match has no such element."""
    elements, index = bound[node.qualified_name], node.index
    if index is None or index.kind == "first":
        position = 0
    elif index.kind == "last":
        position = len(elements) - 1 + index.offset
    else:
        position = index.offset + (i if index.kind == "relative" else 0)
    return elements[position] if 0 <= position < len(elements) else None


def evaluate(node: ast.Expr, bound: Bound, i: int = 0, missing_is_null: bool = False) -> Value:
    """Evaluate an expression; unknown is ``None``. ``i`` is the index of ``x[i]``."""

    def value(part: ast.Expr) -> Value:
        return evaluate(part, bound, i, missing_is_null)

    match node:
        case ast.Literal(constant):
            return constant
        case ast.DurationLiteral(nanoseconds) | ast.TimestampLiteral(nanoseconds):
            return nanoseconds
        case ast.Attribute():
            event = element(node, bound, i)
            if event is None and not missing_is_null:
                raise NotApplicable
            name = earlier_name(node.name, node.places) if node.places else node.name
            return None if event is None else attribute(event, name)
        case ast.Aggregate("COUNT", name=None):
            return len(so_far(node, bound, i))
        case ast.Aggregate(function, name=str(name)):
            values = [attribute(event, name) for event in so_far(node, bound, i) if event is not None]
            return aggregate(function, [each for each in values if each is not None])
        case ast.Unary("-", operand):
            operand_value = number(value(operand))
            return None if operand_value is None else checked(-operand_value)
        case ast.Unary("NOT", operand):
            return negate(truth(value(operand)))
        case ast.Binary("AND", left, right):
            return both(truth(value(left)), truth(value(right)))
        case ast.Binary("OR", left, right):
            return either(truth(value(left)), truth(value(right)))
        case ast.Binary("=" | "!=" as operator, left, right):
            return compare(operator, value(left), value(right))
        case ast.Binary("<" | "<=" | ">" | ">=" as operator, left, right):
            return ordered(operator, value(left), value(right))
        case ast.Binary(operator, left, right):
            return arithmetic(operator, number(value(left)), number(value(right)))
        case ast.Membership(operand, literals, negated):
            result: bool | None = False
            for literal in literals:
                result = either(result, compare("=", value(operand), literal.value))
            return negate(result) if negated else result
        case ast.Between(operand, low, high):
            return both(ordered("<=", value(low), value(operand)), ordered("<=", value(operand), value(high)))
        case ast.Call(function) if function in FORMS:
            return form(node, value)
        case ast.Call(function, arguments):
            return call(function, [number(value(argument)) for argument in arguments])
    assert isinstance(node, ast.UserCall), f"no meaning for {node}"
    return user_call(node.signature, [value(argument) for argument in node.arguments])


def return_value(node: ast.Expr, bound: Bound) -> Value | list[Value]:
    """Return a RETURN column: a list for ``x[].a``, otherwise a value; a part that does not exist counts as null."""
    if isinstance(node, ast.AttributeList):
        return [None if event is None else attribute(event, node.name) for event in bound[node.qualified_name]]
    return evaluate(node, bound, missing_is_null=True)
