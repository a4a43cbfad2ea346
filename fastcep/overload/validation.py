"""What shedders and detectors return, checked before anything is done with it.

A shedder may be a user's own class. Its orders become tables that the matcher reads without bounds checks, and its
numbers decide what is dropped. So each value is checked here, whoever made it: a wrong one raises a `ValidationError`
that names the class, the method and the field, and the engine's state has not changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any, NoReturn

import numpy as np

from fastcep.errors import ValidationError
from fastcep.overload.protocols import Classes, Detector, DetectorReading, DropPlan, Shedder, Tree
from fastcep.query import ast
from fastcep.query.patterns import leaves_of

__all__ = [
    "MOST_SLICES", "check_detector", "check_shedder", "checked_classes", "checked_json", "checked_orders",
    "checked_reading", "checked_slices",
]  # fmt: skip

MOST_SLICES = 64
_METHODS = ("check", "classes", "event_classes", "detector", "slices_of", "learn", "decide", "rest", "spec", "metrics",
            "state", "restore")  # fmt: skip
_FLAGS = ("drops_matches", "in_windows", "often", "observes", "cuts")
_SHARES = ("kept", "left", "saved", "counts")
_UNKNOWN = ("kept", "left")  # shares that may be None

#: Chances may be so far outside of 0 to 1, by rounding.
_ROUNDING = 1e-9


def _refuse(who: object, where: str, found: str, expected: str) -> NoReturn:
    kind = "detector" if hasattr(who, "read") else "shedder"
    name = getattr(who, "name", None)
    named = f" {name!r}" if isinstance(name, str) else ""
    raise ValidationError(f"{kind}{named} ({type(who).__name__}), {where}: found {found}, expected {expected}; mend it")


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of the shape {value.shape}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _real(value: object) -> bool:
    return (_whole(value) or isinstance(value, float | np.floating)) and not isnan(value)  # type: ignore[arg-type]


# --------------------------------------------------------------------- once


def check_shedder(shedder: Shedder) -> None:
    """Refuse a shedder that lacks a method, or has an attribute of another type."""
    for method in _METHODS:
        if not callable(getattr(shedder, method, None)):
            _refuse(shedder, method, "no such method", "one; inherit from fastcep.shedding.Shedder")
    if not isinstance(getattr(shedder, "name", None), str) or not shedder.name:
        _refuse(shedder, "name", _shown(getattr(shedder, "name", None)), "a text")
    for flag in _FLAGS:
        if not isinstance(getattr(shedder, flag, None), bool):
            _refuse(shedder, flag, _shown(getattr(shedder, flag, None)), "True or False")
    if not _whole(getattr(shedder, "seed", None)) or not 0 <= shedder.seed < 2**64:
        _refuse(shedder, "seed", _shown(getattr(shedder, "seed", None)), "an integer from 0 to 2**64 - 1")


def check_detector(detector: Detector, made_by: Shedder | None = None) -> Detector:
    """Refuse what is no detector, or has an attribute of another type; ``made_by`` its `Shedder.detector`."""
    for method in ("read", "note_decision", "spec", "state", "restore"):
        if isinstance(detector, type) or not callable(getattr(detector, method, None)):
            if made_by is not None:
                _refuse(made_by, "detector()", _shown(detector), "a detector")
            _refuse(detector, method, "no such method", "one; inherit from fastcep.shedding.Detector")
    if detector.statistic not in ("mean", "p95", "p99"):
        _refuse(detector, "statistic", _shown(detector.statistic), "'mean', 'p95' or 'p99'")
    if not _real(detector.allowed) or not 0 <= detector.allowed < 1:
        _refuse(detector, "allowed", _shown(detector.allowed), "a share from 0 to less than 1")
    return detector


def checked_slices(shedder: Shedder, query: ast.Query) -> int:
    """Into how many slices of time a shedder cuts the windows of a query."""
    slices = shedder.slices_of(query)
    if not _whole(slices) or not 1 <= slices <= MOST_SLICES:
        _refuse(shedder, "slices_of()", _shown(slices), f"an integer from 1 to {MOST_SLICES}")
    return int(slices)


def checked_classes(shedder: Shedder, query: ast.Query, method: str) -> Mapping[str, Classes | Tree]:
    """What ``classes`` or ``event_classes`` says of a query."""
    found = getattr(shedder, method)(query)
    if not isinstance(found, Mapping):
        _refuse(shedder, f"{method}()", _shown(found), "a mapping of variables to Classes or Trees")
    names = [leaf.name for leaf in leaves_of(query.pattern)]
    for variable, own in found.items():
        where = f"{method}()[{variable!r}]"
        if variable not in names:
            _refuse(shedder, where, f"no such variable in query {query.name!r}", f"one of {', '.join(names)}")
        if isinstance(own, Tree):
            _check_tree(shedder, where, own)
        elif isinstance(own, Classes):
            _check_table(shedder, where, own)
        else:
            _refuse(shedder, where, _shown(own), "Classes or a Tree")
    return found


def _check_table(shedder: Shedder, where: str, own: Classes) -> None:
    _check_features(shedder, where, own)
    table, features = own.table, len(own.features)
    if not isinstance(table, np.ndarray) or table.dtype != np.uint8 or table.ndim != features or not table.size:
        _refuse(shedder, f"{where}.table", _shown(table), f"an array of uint8 of {features} dimensions")
    if not isinstance(own.low, tuple) or len(own.low) != len(own.features) or not all(
        _whole(low) and abs(low) < 2**53 for low in own.low
    ):
        _refuse(shedder, f"{where}.low", _shown(own.low), f"a tuple of {len(own.features)} integers below 2**53")


def _check_tree(shedder: Shedder, where: str, own: Tree) -> None:
    _check_features(shedder, where, own)
    kinds = {"feature": np.int32, "threshold": np.float64, "left": np.int32, "right": np.int32, "value": np.uint8}
    size = np.shape(own.feature)
    for name, kind in kinds.items():
        array = getattr(own, name)
        if not isinstance(array, np.ndarray) or array.dtype != kind or not _is_list(array, size):
            _refuse(shedder, f"{where}.{name}", _shown(array), f"an array of {np.dtype(kind)}, an entry per node")
    try:
        own.check()
    except ValidationError as error:
        _refuse(shedder, where, "other nodes", str(error))


def _is_list(array: np.ndarray[Any, Any], size: tuple[int, ...]) -> bool:
    return array.shape == size and array.ndim == 1 and len(array) > 0


def _check_features(shedder: Shedder, where: str, own: Classes | Tree) -> None:
    features = own.features
    if not isinstance(features, tuple) or not all(isinstance(f, str) for f in features):
        _refuse(shedder, f"{where}.features", _shown(features), "a tuple of texts")
    if not 1 <= len(features) <= 64:
        _refuse(shedder, f"{where}.features", _shown(features), "1 to 64 texts")
    if not _whole(own.other) or not 0 <= own.other <= 255:
        _refuse(shedder, f"{where}.other", _shown(own.other), "an integer from 0 to 255")


def checked_json(who: Shedder | Detector, method: str) -> Any:
    """What ``spec``, ``state`` or ``metrics`` says, which must be a mapping that JSON can hold."""
    found = getattr(who, method)()
    if not isinstance(found, Mapping):
        _refuse(who, f"{method}()", _shown(found), "a mapping")
    try:
        json.dumps(found)
    except (TypeError, ValueError, RecursionError) as error:
        _refuse(who, f"{method}()", str(error), "values that JSON can hold: numbers, texts, lists and mappings")
    return found


# ------------------------------------------------------------ at each decision


def checked_reading(detector: Detector, reading: object) -> DetectorReading:
    """What a detector read."""
    if not isinstance(reading, DetectorReading):
        _refuse(detector, "read()", _shown(reading), "a DetectorReading")
    if not _real(reading.excess):
        _refuse(detector, "read().excess", _shown(reading.excess), "a number")
    for name in ("utilisation", "amount"):
        value = getattr(reading, name)
        if value is not None and (not _real(value) or (name == "utilisation" and value < 0)):
            _refuse(detector, f"read().{name}", _shown(value), "a number, or None")
    if not isinstance(reading.why, str):
        _refuse(detector, "read().why", _shown(reading.why), "a text")
    return reading


def checked_orders(shedder: Shedder, orders: object, queries: Sequence[str]) -> Sequence[DropPlan]:
    """The orders of a decision, one for each of the queries."""
    if not isinstance(orders, list | tuple) or len(orders) != len(queries):
        found = f"{len(orders)} orders" if isinstance(orders, list | tuple) else _shown(orders)
        _refuse(shedder, "decide()", found, f"a list of {len(queries)} DropPlan, one per query")
    for name, own in zip(queries, orders, strict=True):
        if not isinstance(own, DropPlan):
            _refuse(shedder, f"decide(), query {name!r}", _shown(own), "a DropPlan")
    return orders


Shape = tuple[int | None, ...]  #: of an array; None: any size from 1 on


def check_orders(shedder: Shedder, query: str, orders: DropPlan, shapes: Mapping[str, tuple[Shape, ...]]) -> None:
    """Refuse orders for a query that its matcher cannot carry out; ``shapes``: those that each table may have."""
    where = f"decide(), query {query!r}, "
    for name, allowed in shapes.items():
        table = getattr(orders, name)
        if table is None:
            continue
        if not allowed:
            _refuse(shedder, where + name, _shown(table), "None, as no window is isolated: set in_windows")
        if not isinstance(table, np.ndarray) or table.dtype != np.float64 or not any(
            _fits(table.shape, shape) for shape in allowed
        ):
            wanted = " or ".join(map(_shape, allowed))
            _refuse(shedder, where + name, _shown(table), f"None or an array of float64 of the shape {wanted}")
        if table.size and not (table.min() >= -_ROUNDING and table.max() <= 1 + _ROUNDING):
            wrong = table[~((table >= -_ROUNDING) & (table <= 1 + _ROUNDING))][0]
            _refuse(shedder, where + name, f"the chance {wrong}", "chances from 0 to 1")
    for name in _SHARES:
        share = getattr(orders, name)
        if share is None and name in _UNKNOWN:
            continue
        if not _real(share) or not -_ROUNDING <= share <= 1 + _ROUNDING:
            _refuse(shedder, where + name, _shown(share), "a share from 0 to 1" + ", or None" * (name in _UNKNOWN))
    if not _whole(orders.bin) or not 1 <= orders.bin < 2**62:
        _refuse(shedder, where + "bin", _shown(orders.bin), "an integer from 1 on")
    if not isinstance(orders.steady, bool | np.bool_):
        _refuse(shedder, where + "steady", _shown(orders.steady), "True or False")


def _shape(shape: Shape) -> str:
    return "(" + ", ".join("n" if size is None else str(size) for size in shape) + ")"


def _fits(found: tuple[int, ...], shape: Shape) -> bool:
    return len(found) == len(shape) and all(
        size >= 1 if wanted is None else size == wanted for size, wanted in zip(found, shape, strict=True)
    )
