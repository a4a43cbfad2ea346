"""Values of the reference matcher: comparisons, three-valued logic, numbers and aggregates. Null is ``None``."""

from __future__ import annotations

import math
from collections.abc import Sequence

Value = int | float | bool | str | None
INT_MIN, INT_MAX = -(2**63), 2**63 - 1


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
    """Compare two values; with null the result is unknown. An int compared with a float becomes a float first."""
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
    """Return the values, all as floats if any is one."""
    if any(isinstance(value, float) for value in values):
        return [float(value) for value in values if value is not None]
    return [value for value in values if isinstance(value, int)]


def checked(value: int | float) -> int | float | None:
    """Return null if an integer does not fit 64 bits."""
    return None if isinstance(value, int) and not INT_MIN <= value <= INT_MAX else value


def arithmetic(operator: str, left: int | float | None, right: int | float | None) -> int | float | None:
    """Compute ``+ - * / // % ^`` of two numbers."""
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
    """Call a scalar function; null if any argument is null."""
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
    """Return the minimum or maximum; NaN if any value is."""
    if any(math.isnan(value) for value in values):
        return math.nan
    return min(values) if function.lower() == "min" else max(values)


def aggregate(function: str, values: Sequence[Value]) -> int | float | None:
    """Aggregate the values that are not null."""
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
    """Return the sample's standard deviation by Welford's recurrence."""
    n, mean, squares = 0, 0.0, 0.0
    for value in values:
        n += 1
        difference = value - mean
        mean += difference / n
        squares += difference * (value - mean)
    return None if n < 2 else math.sqrt(squares / (n - 1))
