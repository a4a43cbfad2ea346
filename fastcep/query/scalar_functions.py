"""Built-in scalar functions: their numbers of arguments, and the dtypes that they take and return."""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence

from fastcep.events.hints import zone_hint
from fastcep.query import ast
from fastcep.query.printer import short_text
from fastcep.query.source import Problem

__all__ = [
    "DTYPE_TEXT", "FUNCTIONS", "NUMBERS", "TEXT_FUNCTIONS", "TIME_FUNCTIONS", "arithmetic_dtype", "call_dtype",
    "counted",
]  # fmt: skip

#: dtypes with which one can calculate.
NUMBERS = ("int64", "float64", "timestamp")
DTYPE_TEXT = {"int64": "an int64", "float64": "a float64", "bool": "a bool", "string": "a string",
              "timestamp": "a timestamp", "null": "NULL"}  # fmt: skip
#: Functions of strings: the dtypes of the arguments (the last one of substr is optional) and of the result.
TEXT_FUNCTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "lower": (("string",), "string"),
    "upper": (("string",), "string"),
    "substr": (("string", "int64", "int64"), "string"),
    "starts_with": (("string", "string"), "bool"),
    "ends_with": (("string", "string"), "bool"),
    "contains": (("string", "string"), "bool"),
    "length": (("string",), "int64"),
}
#: Functions of a time, with an optional time zone, and the dtype of the result.
TIME_FUNCTIONS = {"hour": "int64", "minute": "int64", "dayofweek": "int64", "date": "timestamp", "nanoseconds": "int64"}
#: Minimum and maximum number of arguments (None: no maximum).
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "abs": (1, 1), "sqrt": (1, 1), "exp": (1, 1), "log": (1, 1), "floor": (1, 1),
    "min": (1, None), "max": (1, None), "avg": (1, None), "coalesce": (1, None),
    **{name: (2 if name == "substr" else len(parameters), len(parameters))
       for name, (parameters, _) in TEXT_FUNCTIONS.items()},
    **{name: (1, 1 if name == "nanoseconds" else 2) for name in TIME_FUNCTIONS},
}  # fmt: skip


def counted(least: int, most: int | None) -> str:
    """Return the text of a number of arguments."""
    number = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} or {most}"
    return f"{number} argument{'s' if (most or least) > 1 else ''}"


def arithmetic_dtype(dtypes: Sequence[str]) -> str:
    """Return the dtype of arithmetic on numbers: float64 if any operand is, null only if all operands are.

    A timestamp counts as an int64.
    """
    kinds = {"int64" if dtype == "timestamp" else dtype for dtype in dtypes}
    return next((kind for kind in ("float64", "int64") if kind in kinds), "null")


def choice_dtype(dtypes: Sequence[str]) -> str:
    """Return the dtype of a number that is one of several: a timestamp if all of them are."""
    return "timestamp" if set(dtypes) - {"null"} == {"timestamp"} else arithmetic_dtype(dtypes)


def call_dtype(node: ast.Call, dtypes: Sequence[str]) -> str:
    """Return the dtype of a call, given those of its arguments; raise `Problem` if one has the wrong dtype."""
    function = node.function
    if function == "is null":
        return "bool"
    if function == "like":
        return _like(node, dtypes)
    if function == "case":
        return _case(node, dtypes)
    if function == "coalesce":
        return _common(node.arguments, dtypes, "coalesce")
    if function in TIME_FUNCTIONS:
        return _time(node, dtypes)
    if function in TEXT_FUNCTIONS:
        parameters, result = TEXT_FUNCTIONS[function]
        for argument, dtype, parameter in zip(node.arguments, dtypes, parameters, strict=False):
            if dtype not in (parameter, "null"):
                kind = "a text" if parameter == "string" else "a whole number"
                raise Problem(f"{function} needs {kind}, but {short_text(argument)} is {DTYPE_TEXT[dtype]}", argument)
        return result
    for argument, dtype in zip(node.arguments, dtypes, strict=True):
        if dtype not in (*NUMBERS, "null"):
            raise Problem(f"{function} needs numbers, but {short_text(argument)} is {DTYPE_TEXT[dtype]}", argument)
    if function in ("sqrt", "exp", "log", "avg"):
        return "float64"
    return choice_dtype(dtypes) if function in ("min", "max") else arithmetic_dtype(dtypes)


def _time(node: ast.Call, dtypes: Sequence[str]) -> str:
    time, *zones = node.arguments
    if dtypes[0] not in ("timestamp", "int64", "null"):
        raise Problem(f"{node.function} needs a time, but {short_text(time)} is {DTYPE_TEXT[dtypes[0]]}", time)
    for zone in zones:
        name = zone.value if isinstance(zone, ast.Literal) else None
        try:
            zoneinfo.ZoneInfo(name if isinstance(name, str) else "")
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise Problem(
                f"{short_text(zone)} is not the name of a time zone; expected a text such as 'Europe/Berlin'"
                f"{zone_hint(name) if isinstance(name, str) else ''}",
                zone,
            ) from None
    return TIME_FUNCTIONS[node.function]


def _like(node: ast.Call, dtypes: Sequence[str]) -> str:
    for argument, dtype in zip(node.arguments, dtypes, strict=True):
        if dtype not in ("string", "null"):
            raise Problem(f"LIKE compares texts, but {short_text(argument)} is {DTYPE_TEXT[dtype]}", argument)
    _, pattern, *marks = node.arguments
    mark = ""
    for escape in marks:
        mark = escape.value if isinstance(escape, ast.Literal) and isinstance(escape.value, str) else ""
        if len(mark) != 1:
            raise Problem(f"ESCAPE needs one character, as in ESCAPE '!', not {short_text(escape)}", escape)
    text = pattern.value if isinstance(pattern, ast.Literal) and isinstance(pattern.value, str) else ""
    if mark and text.replace(mark * 2, "").endswith(mark):
        raise Problem(f"the pattern ends in the escape character {mark!r}; write it twice to find it", pattern)
    return "bool"


def _case(node: ast.Call, dtypes: Sequence[str]) -> str:
    """Check the conditions of a CASE and return the dtype that its values share."""
    pairs = len(dtypes) // 2
    for argument, dtype in zip(node.arguments[: 2 * pairs : 2], dtypes[::2], strict=False):
        if dtype not in ("bool", "null"):
            raise Problem(
                f"WHEN needs a condition, but {short_text(argument)} is {DTYPE_TEXT[dtype]}; compare it, as in "
                f"WHEN {short_text(argument)} > 0",
                argument,
            )
    places = [*range(1, 2 * pairs, 2), *([2 * pairs] if len(dtypes) % 2 else [])]
    return _common([node.arguments[place] for place in places], [dtypes[place] for place in places], "CASE")


def _common(arguments: Sequence[ast.Expr], dtypes: Sequence[str], form: str) -> str:
    """Return the dtype of a value that is one of ``arguments``."""
    kinds = {
        "number" if dtype in NUMBERS else dtype: argument for argument, dtype in zip(arguments, dtypes, strict=True)
    }
    kinds.pop("null", None)
    if len(kinds) > 1:
        texts = [
            f"{short_text(argument)} is {DTYPE_TEXT[dtype]}"
            for argument, dtype in zip(arguments, dtypes, strict=True)
            if argument in kinds.values()
        ]
        raise Problem(f"the values of {form} must have the same kind, but {' and '.join(texts[:2])}", arguments[-1])
    known = [dtype for dtype in dtypes if dtype != "null"]
    return choice_dtype(known) if "number" in kinds else known[0] if known else "null"
