"""A slow, obvious matcher that every engine path is compared with.

It follows the page on semantics word by word: try every ordered binding, keep those that lie in the window and satisfy
every condition, sort. It reads only the query's syntax tree and shares no code with the engine. Null is ``None``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from user_functions import user_call

from fastcep.query import ast

Value = int | float | bool | str | None
Binding = int | list[int] | None
INT_MIN, INT_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Event:
    """One event: type, time (ns), sequence number and attributes. Its position is its index in the stream's list."""

    type: str
    time: int
    seq: int
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Match:
    """Bindings by variable (sequence number, list of them, or None for an optional not taken), and the last event."""

    bindings: dict[str, Binding]
    detected: int


Chosen = tuple[tuple[int, ...], ...]  # for each member, the stream positions of the events it binds
Bound = dict[str, list[Event]]  # the same by variable


class NotApplicable(Exception):
    """The conjunct mentions an element ``x[k]`` that this match does not have, so it does not apply."""


def find_matches(query: ast.Query, events: Sequence[Event]) -> list[Match]:
    """All matches of ``query`` over ``events`` (in stream order), in the defined order."""
    found = [chosen for chosen in candidates(query, events) if any(chosen) and accepts(query, events, chosen)]
    found.sort(key=order_key)
    return [to_match(query, events, chosen) for chosen in found]


def candidates(
    query: ast.Query, events: Sequence[Event], member: int = 0, start: int = 0, first: int | None = None
) -> Iterator[Chosen]:
    """Every way to bind the members from ``member`` on with ascending events from ``start`` on, inside the window."""
    members = query.pattern.members
    if member == len(members):
        yield ()
        return
    maximum = members[member].maximum
    eligible = [
        position
        for position in range(start, len(events))
        if events[position].type in members[member].types
        and (first is None or in_window(query.window, events, first, position))
    ]
    longest = len(eligible) if maximum is None else min(maximum, len(eligible))
    for size in range(members[member].minimum, longest + 1):
        for chosen in itertools.combinations(eligible, size):
            begin = first if first is not None or not chosen else chosen[0]
            after = chosen[-1] + 1 if chosen else start
            if chosen and begin is not None and not in_window(query.window, events, begin, chosen[-1]):
                continue
            for rest in candidates(query, events, member + 1, after, begin):
                yield (chosen, *rest)


def in_window(window: ast.Window, events: Sequence[Event], first: int, last: int) -> bool:
    """Whether the events at positions ``first`` and ``last`` lie in one window."""
    if isinstance(window, ast.TimeWindow):
        return events[last].time - events[first].time <= window.nanoseconds
    assert isinstance(window, ast.CountWindow | ast.Unbounded), window
    return isinstance(window, ast.Unbounded) or last - first < window.events


def order_key(chosen: Chosen) -> tuple[int, ...]:
    """From the last binding backwards: place in the stream, then pattern position; a shorter match comes first."""
    stream_order = [(position, member) for member, positions in enumerate(chosen) for position in positions]
    return tuple(itertools.chain.from_iterable(reversed(stream_order)))


def to_match(query: ast.Query, events: Sequence[Event], chosen: Chosen) -> Match:
    """Name the bound events by sequence number."""
    bindings: dict[str, Binding] = {}
    for member, positions in zip(query.pattern.members, chosen, strict=True):
        numbers = [events[position].seq for position in positions]
        bindings[member.variable] = numbers if member.repeated else numbers[0] if numbers else None
    return Match(bindings, events[max(itertools.chain.from_iterable(chosen))].seq)


# ------------------------------------------------------------------- conditions


def accepts(query: ast.Query, events: Sequence[Event], chosen: Chosen) -> bool:
    """Whether a complete binding is of one partition and satisfies every conjunct."""
    bound = {
        member.variable: [events[position] for position in positions]
        for member, positions in zip(query.pattern.members, chosen, strict=True)
    }
    return agree(bound, query.partition) and all(holds(part, bound) for part in ast.conjuncts(query.where))


def agree(bound: Bound, names: Sequence[str]) -> bool:
    """Whether all bound events agree pairwise on each attribute; null and NaN agree with nothing, not themselves."""
    everyone = [event for elements in bound.values() for event in elements]
    return all(
        compare("=", attribute(one, name), attribute(other, name)) is True
        for name in names
        for one in everyone
        for other in everyone
    )


def holds(conjunct: ast.Expr, bound: Bound) -> bool:
    """Whether a top-level conjunct is true, or does not apply to this match."""
    if isinstance(conjunct, ast.SameAttributes):
        return agree(bound, conjunct.names)
    for part in ast.walk(conjunct):
        counted = isinstance(part, ast.Aggregate) and part.function == "COUNT"
        if isinstance(part, ast.Attribute | ast.Aggregate) and not bound[part.variable] and not counted:
            return True  # it mentions an absent variable
    relative = [
        (part.variable, part.index.offset)
        for part in ast.walk(conjunct)
        if isinstance(part, ast.Attribute) and part.index is not None and part.index.kind == "relative"
    ]
    try:
        if not relative:
            return evaluate(conjunct, bound) is True
        reach = max(abs(offset) for _, offset in relative) + max(len(elements) for elements in bound.values())
        return all(
            evaluate(conjunct, bound, i) is True
            for i in range(-reach, reach + 1)
            if all(0 <= i + offset < len(bound[variable]) for variable, offset in relative)
        )
    except NotApplicable:
        return True


def attribute(event: Event, name: str) -> Value:
    """An attribute of an event, built-in or declared."""
    builtin: dict[str, Value] = {"time": event.time, "seq": event.seq, "type": event.type}
    return builtin[name] if name in builtin else event.values.get(name)


def element(node: ast.Attribute, bound: Bound, i: int) -> Event | None:
    """The event that an attribute is read from, None if this match has no such element."""
    elements, index = bound[node.variable], node.index
    if index is None or index.kind == "first":
        position = 0
    elif index.kind == "last":
        position = len(elements) - 1
    else:
        position = index.offset + (i if index.kind == "relative" else 0)
    return elements[position] if 0 <= position < len(elements) else None


def evaluate(node: ast.Expr, bound: Bound, i: int = 0, missing_is_null: bool = False) -> Value:
    """The value of an expression; unknown is ``None``. ``i`` is the index of ``x[i]``."""

    def value(part: ast.Expr) -> Value:
        return evaluate(part, bound, i, missing_is_null)

    match node:
        case ast.Literal(constant):
            return constant
        case ast.DurationLiteral(nanoseconds):
            return nanoseconds
        case ast.Attribute():
            event = element(node, bound, i)
            if event is None and not missing_is_null:
                raise NotApplicable
            return None if event is None else attribute(event, node.name)
        case ast.Aggregate("COUNT", variable, None):
            return len(bound[variable])
        case ast.Aggregate(function, variable, str(name)):
            values = [attribute(event, name) for event in bound[variable]]
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
        case ast.Binary("=" | "!=" | "<" | "<=" | ">" | ">=" as operator, left, right):
            return compare(operator, value(left), value(right))
        case ast.Binary(operator, left, right):
            return arithmetic(operator, number(value(left)), number(value(right)))
        case ast.Membership(operand, literals, negated):
            result: bool | None = False
            for literal in literals:
                result = either(result, compare("=", value(operand), literal.value))
            return negate(result) if negated else result
        case ast.Between(operand, low, high):
            return both(compare("<=", value(low), value(operand)), compare("<=", value(operand), value(high)))
        case ast.Call(function, arguments):
            return call(function, [number(value(argument)) for argument in arguments])
    assert isinstance(node, ast.UserCall), f"no meaning for {node}"
    return user_call(node.signature, [value(argument) for argument in node.arguments])


def truth(value: Value) -> bool | None:
    """Check that a value is a truth value."""
    assert value is None or isinstance(value, bool), value
    return value


def number(value: Value) -> int | float | None:
    """Check that a value is a number or null."""
    assert value is None or (isinstance(value, int | float) and not isinstance(value, bool)), value
    return value


def negate(value: bool | None) -> bool | None:
    """NOT of three values."""
    return None if value is None else not value


def both(left: bool | None, right: bool | None) -> bool | None:
    """AND of three values."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def either(left: bool | None, right: bool | None) -> bool | None:
    """OR of three values."""
    return negate(both(negate(left), negate(right)))


def compare(operator: str, left: Value, right: Value) -> bool | None:
    """A comparison; with null it is unknown. An int compared with a float becomes a float first."""
    if left is None or right is None:
        return None
    if operator in ("=", "!="):
        assert all(isinstance(left, kind) == isinstance(right, kind) for kind in (str, bool)), (left, right)
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
        return (left == right) is (operator == "=")
    one, other = same_kind([number(left), number(right)])
    return {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[operator]


# --------------------------------------------------------------------- numbers


def same_kind(values: Sequence[int | float | None]) -> list[int] | list[float]:
    """The values, all as floats if any is one."""
    if any(isinstance(value, float) for value in values):
        return [float(value) for value in values if value is not None]
    return [value for value in values if isinstance(value, int)]


def checked(value: int | float) -> int | float | None:
    """Null if an integer does not fit 64 bits."""
    return None if isinstance(value, int) and not INT_MIN <= value <= INT_MAX else value


def arithmetic(operator: str, left: int | float | None, right: int | float | None) -> int | float | None:
    """``+ - * / // % ^`` of two numbers."""
    if left is None or right is None:
        return None
    if operator == "/":
        return divide(float(left), float(right))
    if operator == "^":
        return power(float(left), float(right))
    one, other = same_kind([left, right])
    if operator in ("+", "-", "*"):
        return checked({"+": one + other, "-": one - other, "*": one * other}[operator])
    assert operator in ("//", "%"), operator
    if other == 0:
        return None if isinstance(one, int) else divide(one, other) if operator == "//" else math.nan
    return checked(one // other) if operator == "//" else one % other


def divide(left: float, right: float) -> float:
    """IEEE division."""
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def power(base: float, exponent: float) -> float:
    """The C function ``pow``."""
    try:
        return math.pow(base, exponent)
    except (OverflowError, ValueError) as error:
        odd = exponent % 2 == 1
        if isinstance(error, OverflowError) or base == 0:  # too large, or zero to a negative power
            return math.copysign(math.inf, base) if odd else math.inf
        return math.nan  # a fractional power of a negative number


def call(function: str, arguments: Sequence[int | float | None]) -> int | float | None:
    """A scalar function; null if any argument is null."""
    if any(argument is None for argument in arguments):
        return None
    values = same_kind(arguments)
    if function in ("min", "max"):
        return smallest_or_largest(function, values)
    if function == "avg":
        total = float(values[0])
        for value in values[1:]:
            total += value
        return total / len(values)
    (value,) = values
    if function == "abs":
        return checked(abs(value))
    if function == "floor":
        if isinstance(value, int) or not math.isfinite(value):
            return value
        return math.copysign(float(math.floor(value)), value)
    real = float(value)
    if function == "sqrt":
        return math.sqrt(real) if real >= 0 else math.nan
    if function == "log":
        return -math.inf if real == 0 else math.log(real) if real > 0 else math.nan
    assert function == "exp", function
    try:
        return math.exp(real)
    except OverflowError:
        return math.inf


def smallest_or_largest(function: str, values: Sequence[int | float]) -> int | float:
    """Minimum or maximum; NaN if any value is."""
    if any(math.isnan(value) for value in values):
        return math.nan
    return min(values) if function.lower() == "min" else max(values)


def aggregate(function: str, values: Sequence[Value]) -> int | float | None:
    """An aggregate of the values that are not null."""
    if function == "COUNT":
        return len(values)
    numbers = [value for value in map(number, values) if value is not None]
    if function == "STDDEV":
        return deviation([float(value) for value in numbers])
    if not numbers:
        return None
    if function in ("MIN", "MAX"):
        return smallest_or_largest(function, numbers)
    assert function in ("SUM", "AVG"), function
    total: int | float | None = numbers[0]
    for value in numbers[1:]:
        total = None if total is None else checked(total + value)
    if function == "SUM" or total is None:
        return total
    return float(total) / len(numbers)


def deviation(values: Sequence[float]) -> float | None:
    """The sample's standard deviation by Welford's recurrence."""
    n, mean, squares = 0, 0.0, 0.0
    for value in values:
        n += 1
        difference = value - mean
        mean += difference / n
        squares += difference * (value - mean)
    return None if n < 2 else math.sqrt(squares / (n - 1))


# ---------------------------------------------------------------------- RETURN


def return_values(query: ast.Query, match: Match, events: Sequence[Event]) -> dict[str, Value | list[Value]]:
    """The RETURN columns of a match. An absent variable's attributes and a missing ``x[k]`` are null."""
    by_sequence = {event.seq: event for event in events}
    bound: Bound = {}
    for variable, binding in match.bindings.items():
        numbers = binding if isinstance(binding, list) else [] if binding is None else [binding]
        bound[variable] = [by_sequence[sequence] for sequence in numbers]
    return {item.name: return_value(item.expression, bound) for item in query.returns}


def return_value(node: ast.Expr, bound: Bound) -> Value | list[Value]:
    """One RETURN column: a list for ``x[].a``, else a value; a part that does not exist counts as null."""
    if isinstance(node, ast.AttributeList):
        return [attribute(event, node.name) for event in bound[node.variable]]
    return evaluate(node, bound, missing_is_null=True)
