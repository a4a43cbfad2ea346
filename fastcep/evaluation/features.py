"""Features that determine the value of a partial match or an event: expressions that divide them into classes.

The value of a partial match is its expected contribution. It depends on the bound events only through the largest
sub-expressions over bound variables in the conditions that are still open: for ``a.V + b.V = c.V``, that is ``a.V``
until b is bound, and then ``a.V + b.V``. Attributes that are only compared for equality with each other, such as
``a.ID = b.ID``, are keys, which carry no information if all keys are equally frequent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.overload.protocols import Classes
from fastcep.query import ast, expression_text, traversal
from fastcep.shedding.hybrid.features import of_events, of_matches

__all__ = ["Values", "event_features", "features"]

#: Maximum number of classes of a variable: a byte holds a class, and one class is for values outside the table.
_MAX_CLASSES = 255
#: Numbers of parts per unit for real values, in order of preference.
_PARTS = (8, 4, 2, 1)
_DRAWS = 4096
_MAX_VALUE = 2.0**53  # float64 does not represent all larger integers

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Values:
    """Range of the values of an attribute.

    Attributes
    ----------
    low, high
        Smallest and largest value.
    integral
        Whether all values are integers.
    """

    low: float
    high: float
    integral: bool = True


def features(query: ast.Query, values: Mapping[str, Values]) -> dict[str, Classes]:
    """Return the classes of partial matches, by the variable bound last.

    Parameters
    ----------
    query
        Query with a sequence of variables.
    values
        Range of each attribute.
    """
    classes = {name: _classes(expressions, values) for name, expressions in of_matches(query).items()}
    return {name: table for name, table in classes.items() if table is not None}


def event_features(query: ast.Query, values: Mapping[str, Values]) -> dict[str, Classes]:
    """Return the classes of events, by variable, from the conditions that compare it with other variables."""
    classes = {name: _classes(expressions, values) for name, expressions in of_events(query).items()}
    return {name: table for name, table in classes.items() if table is not None}


# ----------------------------------------------------------------------------------------------------------- classes


def _classes(expressions: Sequence[ast.Expr], values: Mapping[str, Values]) -> Classes | None:
    """Return a class per combination of feature values, with real values in bins as fine as the maximum allows.

    If there are still too many classes, the feature with the most values is left out.
    """
    chosen = [part for part in dict.fromkeys(expressions) if _has_range(part, values) and len(_sample(part, values))]
    plain = {part for part in chosen if isinstance(part, ast.Attribute)}
    attributes = {(part.qualified_name, part.name, part.places) for part in plain if isinstance(part, ast.Attribute)}
    chosen = [
        part for part in chosen
        if part in plain or not _attributes_of(part) <= attributes
    ]  # fmt: skip
    while chosen:
        for parts in _PARTS:
            ranges = [_range(part, values, parts) for part in chosen]
            sizes = [high - low + 1 for low, high, _ in ranges]
            if math.prod(sizes) <= _MAX_CLASSES:
                texts = tuple(text for _, _, text in ranges)
                table = np.arange(math.prod(sizes), dtype=np.uint8).reshape(sizes)
                return Classes(texts, tuple(low for low, _, _ in ranges), table, int(table.size))
        chosen.pop(int(np.argmax(sizes)))
    return None


def _attributes_of(node: ast.Expr) -> set[tuple[str, str, int]]:
    parts = (part for part in traversal.walk(node) if isinstance(part, ast.Attribute))
    return {(part.qualified_name, part.name, part.places) for part in parts}


def _has_range(node: ast.Expr, values: Mapping[str, Values]) -> bool:
    parts = [part for part in traversal.walk(node) if isinstance(part, ast.Attribute)]
    return bool(parts) and all(part.name in values for part in parts) and not any(map(_is_other, traversal.walk(node)))


def _is_other(node: ast.Expr) -> bool:
    """Return whether the range of an expression is unknown: an aggregate, or a function that is not of numbers."""
    is_other_call = isinstance(node, ast.Call) and node.function not in _FUNCTIONS
    return isinstance(node, ast.Aggregate | ast.UserCall) or is_other_call


def _range(node: ast.Expr, values: Mapping[str, Values], parts: int) -> tuple[int, int, str]:
    """Return the smallest and largest integer value of a feature, and its text; real values are scaled by `parts`."""
    attributes = [part for part in traversal.walk(node) if isinstance(part, ast.Attribute)]
    integral = all(values[part.name].integral for part in attributes) and not any(map(_is_real, traversal.walk(node)))
    sample = _sample(node, values) * (1 if integral else parts)
    text = expression_text(node)
    return int(np.floor(sample.min())), int(np.floor(sample.max())), text if integral else f"({text}) * {parts}"


def _sample(node: ast.Expr, values: Mapping[str, Values]) -> Floats:
    """Draw values of a feature; undefined values, such as the root of a negative number, are left out."""
    random = np.random.default_rng(0)
    drawn = {}
    for part in traversal.walk(node):
        if isinstance(part, ast.Attribute):
            ranged = values[part.name]
            ends = random.choice([ranged.low, ranged.high], _DRAWS)
            inside = random.uniform(ranged.low, ranged.high, _DRAWS)
            drawn[part.qualified_name, part.name, part.places] = np.where(random.random(_DRAWS) < 0.5, ends, inside)
    with np.errstate(all="ignore"):
        sample = np.asarray(_value(node, drawn), np.float64)
    return sample[np.abs(sample) < _MAX_VALUE]


def _is_real(node: ast.Expr) -> bool:
    return isinstance(node, ast.Call) or (isinstance(node, ast.Binary) and node.operator in ("/", "^"))


_FUNCTIONS: dict[str, Any] = {
    "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "floor": np.floor,
    "min": lambda *items: np.minimum.reduce(items), "max": lambda *items: np.maximum.reduce(items),
    "avg": lambda *items: np.mean(items, axis=0),
}  # fmt: skip
_OPERATORS: dict[str, Any] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.mod,
    "^": np.power,
}  # fmt: skip


def _value(node: ast.Expr, drawn: Mapping[tuple[str, str, int], Floats]) -> Any:
    match node:
        case ast.Attribute():
            return drawn[node.qualified_name, node.name, node.places]
        case ast.Unary():
            return -_value(node.operand, drawn)
        case ast.Binary():
            return _OPERATORS[node.operator](_value(node.left, drawn), _value(node.right, drawn))
        case ast.Call():
            return _FUNCTIONS[node.function](*(_value(part, drawn) for part in node.arguments))
        case ast.Literal(int() | float() as number):
            return float(number)
    raise AssertionError(node)
