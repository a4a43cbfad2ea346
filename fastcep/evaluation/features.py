"""What the rest of a query wants to know of a partial match, or of an event: expressions by which to tell them apart.

A partial match is worth what may still come of it. That depends on the values of what it binds only through the largest
sub-expressions over its variables in the conditions that are not decided yet: of ``a.V + b.V = c.V`` that is ``a.V`` as
long as b is not bound, and then ``a.V + b.V``. Attributes that are compared for equality with each other only, such as
``a.ID = b.ID``, are keys, and tell nothing where all keys are equally frequent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.overload.protocols import Classes
from fastcep.query import ast, expression_text
from fastcep.shedding.hybrid.features import of_events, of_matches

__all__ = ["Values", "event_features", "features"]

#: Classes of a variable: a byte holds their number, and one is for what is not in the table.
_MOST = 255
#: Into how many parts of a unit reals are cut, if there is room.
_PARTS = (8, 4, 2, 1)
_DRAWS = 4096
_FAR = 2.0**53  # values are no whole numbers of int64 beyond

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Values:
    """What values an attribute has.

    Attributes
    ----------
    low, high
        The smallest and the largest.
    whole
        Whether they are whole numbers.
    """

    low: float
    high: float
    whole: bool = True


def features(query: ast.Query, values: Mapping[str, Values]) -> dict[str, Classes]:
    """How to tell partial matches apart, by the variable bound last.

    Parameters
    ----------
    query
        A sequence of variables.
    values
        By attribute.
    """
    found = {name: _classes(wanted, values) for name, wanted in of_matches(query).items()}
    return {name: own for name, own in found.items() if own is not None}


def event_features(query: ast.Query, values: Mapping[str, Values]) -> dict[str, Classes]:
    """How to tell events apart, by the variable that they may be bound to: by what conditions with others want."""
    found = {name: _classes(wanted, values) for name, wanted in of_events(query).items()}
    return {name: own for name, own in found.items() if own is not None}


# ----------------------------------------------------------------------------------------------------------- classes


def _classes(wanted: Sequence[ast.Expr], values: Mapping[str, Values]) -> Classes | None:
    """A class per combination of values; reals are cut into as fine parts as there is room for.

    What has most values is left out where there is none.
    """
    chosen = [part for part in dict.fromkeys(wanted) if _ranged(part, values) and len(_found(part, values))]
    plain = {part for part in chosen if isinstance(part, ast.Attribute)}
    attributes = {(part.leaf, part.name) for part in plain if isinstance(part, ast.Attribute)}
    chosen = [
        part for part in chosen
        if part in plain or not {(a.leaf, a.name) for a in ast.walk(part) if isinstance(a, ast.Attribute)} <= attributes
    ]  # fmt: skip
    while chosen:
        for parts in _PARTS:
            ranges = [_range(part, values, parts) for part in chosen]
            sizes = [high - low + 1 for low, high, _ in ranges]
            if math.prod(sizes) <= _MOST:
                texts = tuple(text for _, _, text in ranges)
                table = np.arange(math.prod(sizes), dtype=np.uint8).reshape(sizes)
                return Classes(texts, tuple(low for low, _, _ in ranges), table, int(table.size))
        chosen.pop(int(np.argmax(sizes)))
    return None


def _ranged(node: ast.Expr, values: Mapping[str, Values]) -> bool:
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Attribute)]
    return bool(parts) and all(part.name in values for part in parts) and not any(
        isinstance(part, ast.Aggregate | ast.UserCall) for part in ast.walk(node)
    )  # fmt: skip


def _range(node: ast.Expr, values: Mapping[str, Values], parts: int) -> tuple[int, int, str]:
    """The smallest and largest whole number that the feature has, and its text."""
    own = [part for part in ast.walk(node) if isinstance(part, ast.Attribute)]
    whole = all(values[part.name].whole for part in own) and not any(map(_is_real, ast.walk(node)))
    found = _found(node, values) * (1 if whole else parts)
    text = expression_text(node)
    return int(np.floor(found.min())), int(np.floor(found.max())), text if whole else f"({text}) * {parts}"


def _found(node: ast.Expr, values: Mapping[str, Values]) -> Floats:
    """Values that the feature has, without what is none: as in a query, such as the root of a negative number."""
    random = np.random.default_rng(0)
    drawn = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute):
            of = values[part.name]
            ends, inside = random.choice([of.low, of.high], _DRAWS), random.uniform(of.low, of.high, _DRAWS)
            drawn[part.leaf, part.name] = np.where(random.random(_DRAWS) < 0.5, ends, inside)
    with np.errstate(all="ignore"):
        found = np.asarray(_value(node, drawn), np.float64)
    return found[np.abs(found) < _FAR]


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


def _value(node: ast.Expr, drawn: Mapping[tuple[str, str], Floats]) -> Any:
    match node:
        case ast.Attribute():
            return drawn[node.leaf, node.name]
        case ast.Unary():
            return -_value(node.operand, drawn)
        case ast.Binary():
            return _OPERATORS[node.operator](_value(node.left, drawn), _value(node.right, drawn))
        case ast.Call():
            return _FUNCTIONS[node.function](*(_value(part, drawn) for part in node.arguments))
        case ast.Literal(int() | float() as number):
            return float(number)
    raise AssertionError(node)
