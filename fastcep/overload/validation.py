"""Validation of what shedders and detectors return, before it is applied.

A shedder may be a user's class. Its drop plans become tables that the matcher reads without bounds checks, so each
value is checked here. An invalid value raises a `ValidationError` that names the class, the method and the field; the
engine's state has not changed then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite, isnan
from typing import Any, NoReturn

import numpy as np

from fastcep.errors import ValidationError
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.load import DetectorReading
from fastcep.overload.match_counts import MatchRate
from fastcep.overload.protocols import Classes, Detector, Floats, QueryView, Shedder, Tree
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables

__all__ = [
    "MOST_SLICES", "check_detector", "check_shedder", "checked_classes", "checked_drop_plans", "checked_json",
    "checked_match_rate", "checked_reading", "checked_slices", "checked_utility",
]  # fmt: skip

MOST_SLICES = 64
_METHODS = ("check", "classes", "event_classes", "detector", "slices_of", "learn", "decide", "utility", "match_rate",
            "stop_shedding", "spec", "metrics", "state", "restore")  # fmt: skip
_FLAGS = ("drops_matches", "in_windows", "often", "observes", "cuts", "limits_backlog")
_SHARES = ("whole_windows", "kept", "left", "saved", "counts", "error", "demand_without_limit")
_UNKNOWN = ("kept", "left")  # shares that may be None

#: Rounding error by which probabilities may lie outside 0 to 1.
_ROUNDING = 1e-9


def _refuse(source: object, where: str, found: str, expected: str) -> NoReturn:
    kind = "detector" if hasattr(source, "read") else "shedder"
    name = getattr(source, "name", None)
    named = f" {name!r}" if isinstance(name, str) else ""
    raise ValidationError(f"{kind}{named} ({type(source).__name__}), {where}: found {found}, expected {expected}")


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of the shape {value.shape}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return (_is_integer(value) or isinstance(value, float | np.floating)) and not isnan(value)  # type: ignore[arg-type]


# --------------------------------------------------------------------- once


def check_shedder(shedder: Shedder) -> None:
    """Check that a shedder has all methods, and attributes of the right types."""
    for method in _METHODS:
        if not callable(getattr(shedder, method, None)):
            _refuse(shedder, method, "no such method", "one; inherit from fastcep.shedding.Shedder")
    if not isinstance(getattr(shedder, "name", None), str) or not shedder.name:
        _refuse(shedder, "name", _describe(getattr(shedder, "name", None)), "a text")
    for flag in _FLAGS:
        if not isinstance(getattr(shedder, flag, None), bool):
            _refuse(shedder, flag, _describe(getattr(shedder, flag, None)), "True or False")
    if not _is_integer(getattr(shedder, "seed", None)) or not 0 <= shedder.seed < 2**64:
        _refuse(shedder, "seed", _describe(getattr(shedder, "seed", None)), "an integer from 0 to 2**64 - 1")


def check_detector(detector: Detector, made_by: Shedder | None = None) -> Detector:
    """Check that a detector, from the user or from ``made_by.detector()``, has all methods and valid attributes."""
    for method in ("read", "note_decision", "spec", "state", "restore"):
        if isinstance(detector, type) or not callable(getattr(detector, method, None)):
            if made_by is not None:
                _refuse(made_by, "detector()", _describe(detector), "a detector")
            _refuse(detector, method, "no such method", "one; inherit from fastcep.shedding.Detector")
    if detector.statistic not in ("mean", "p95", "p99"):
        _refuse(detector, "statistic", _describe(detector.statistic), "'mean', 'p95' or 'p99'")
    if not _is_number(detector.allowed) or not 0 <= detector.allowed < 1:
        _refuse(detector, "allowed", _describe(detector.allowed), "a share from 0 to less than 1")
    return detector


def checked_slices(shedder: Shedder, query: ast.Query) -> int:
    """Return a shedder's number of slices of time for a query, checked."""
    slices = shedder.slices_of(query)
    if not _is_integer(slices) or not 1 <= slices <= MOST_SLICES:
        _refuse(shedder, "slices_of()", _describe(slices), f"an integer from 1 to {MOST_SLICES}")
    return int(slices)


def checked_classes(shedder: Shedder, query: ast.Query, method: str) -> Mapping[str, Classes | Tree]:
    """Return the classes of a query by ``method``, ``classes`` or ``event_classes``, checked."""
    by_variable = getattr(shedder, method)(query)
    if not isinstance(by_variable, Mapping):
        _refuse(shedder, f"{method}()", _describe(by_variable), "a mapping of variables to Classes or Trees")
    names = [variable.name for variable in pattern_variables(query.pattern)]
    for variable, classes in by_variable.items():
        where = f"{method}()[{variable!r}]"
        if variable not in names:
            _refuse(shedder, where, f"no such variable in query {query.name!r}", f"one of {', '.join(names)}")
        if isinstance(classes, Tree):
            _check_tree(shedder, where, classes)
        elif isinstance(classes, Classes):
            _check_table(shedder, where, classes)
        else:
            _refuse(shedder, where, _describe(classes), "Classes or a Tree")
    return by_variable


def _check_table(shedder: Shedder, where: str, classes: Classes) -> None:
    _check_features(shedder, where, classes)
    table, features = classes.table, len(classes.features)
    if not isinstance(table, np.ndarray) or table.dtype != np.uint8 or table.ndim != features or not table.size:
        _refuse(shedder, f"{where}.table", _describe(table), f"an array of uint8 of {features} dimensions")
    if (
        not isinstance(classes.low, tuple)
        or len(classes.low) != features
        or not all(_is_integer(low) and abs(low) < 2**53 for low in classes.low)
    ):
        _refuse(shedder, f"{where}.low", _describe(classes.low), f"a tuple of {features} integers below 2**53")


def _check_tree(shedder: Shedder, where: str, tree: Tree) -> None:
    _check_features(shedder, where, tree)
    kinds = {"feature": np.int32, "threshold": np.float64, "left": np.int32, "right": np.int32, "value": np.uint8}
    size = np.shape(tree.feature)
    for name, kind in kinds.items():
        array = getattr(tree, name)
        if not isinstance(array, np.ndarray) or array.dtype != kind or not _is_list(array, size):
            _refuse(shedder, f"{where}.{name}", _describe(array), f"an array of {np.dtype(kind)}, an entry per node")
    try:
        tree.check()
    except ValidationError:
        _refuse(shedder, where, "an invalid tree", "splits that use known features and point to later nodes")


def _is_list(array: np.ndarray[Any, Any], size: tuple[int, ...]) -> bool:
    return array.shape == size and array.ndim == 1 and len(array) > 0


def _check_features(shedder: Shedder, where: str, classes: Classes | Tree) -> None:
    features = classes.features
    if not isinstance(features, tuple) or not all(isinstance(f, str) for f in features):
        _refuse(shedder, f"{where}.features", _describe(features), "a tuple of texts")
    if not 1 <= len(features) <= 64:
        _refuse(shedder, f"{where}.features", _describe(features), "1 to 64 texts")
    if not _is_integer(classes.other) or not 0 <= classes.other <= 255:
        _refuse(shedder, f"{where}.other", _describe(classes.other), "an integer from 0 to 255")


def checked_json(source: Shedder | Detector, method: str) -> Any:
    """Return the result of ``spec``, ``state`` or ``metrics``, checked to be a mapping that JSON can hold."""
    mapping = getattr(source, method)()
    if not isinstance(mapping, Mapping):
        _refuse(source, f"{method}()", _describe(mapping), "a mapping")
    try:
        json.dumps(mapping)
    except (TypeError, ValueError, RecursionError) as error:
        _refuse(source, f"{method}()", str(error), "values that JSON can hold: numbers, texts, lists and mappings")
    return mapping


def checked_utility(shedder: Shedder, view: QueryView) -> Floats | None:
    """Return the shedder's utility of the partial matches of a query, checked."""
    utility = shedder.utility(view)
    expected = (len(view.plan.states), view.classes, view.slices)
    if utility is not None and (
        not isinstance(utility, np.ndarray) or utility.dtype != np.float64 or utility.shape != expected
    ):
        wanted = f"None or an array of float64 of the shape {expected}"
        _refuse(shedder, f"utility(), query {view.plan.query.name!r}", _describe(utility), wanted)
    return utility


# ------------------------------------------------------------ at each decision


def checked_match_rate(shedder: Shedder, query: ast.Query) -> MatchRate | None:
    """Return the match rate that a shedder knows for a query, checked."""
    rate = shedder.match_rate(query)
    if rate is None:
        return None
    is_valid = isinstance(rate, MatchRate) and all(_is_number(value) and isfinite(value) for value in rate)
    if not is_valid or rate.events <= 0 or min(rate.matches, rate.window) < 0:
        expected = "None or a MatchRate: a number of events above 0, of matches and of events in a window from 0 on"
        _refuse(shedder, f"match_rate(), query {query.name!r}", _describe(rate), expected)
    return rate


def checked_reading(detector: Detector, reading: object) -> DetectorReading:
    """Return the reading of a detector, checked."""
    if not isinstance(reading, DetectorReading):
        _refuse(detector, "read()", _describe(reading), "a DetectorReading")
    if not _is_number(reading.excess):
        _refuse(detector, "read().excess", _describe(reading.excess), "a number")
    for name in ("utilisation", "amount"):
        value = getattr(reading, name)
        if value is not None and (not _is_number(value) or (name == "utilisation" and value < 0)):
            _refuse(detector, f"read().{name}", _describe(value), "a number, or None")
    if not isinstance(reading.why, str):
        _refuse(detector, "read().why", _describe(reading.why), "a text")
    return reading


def checked_drop_plans(shedder: Shedder, plans: object, queries: Sequence[str]) -> Sequence[DropPlan]:
    """Return the drop plans of a decision, checked to be one per query."""
    if not isinstance(plans, list | tuple) or len(plans) != len(queries):
        found = f"{len(plans)} drop plans" if isinstance(plans, list | tuple) else _describe(plans)
        _refuse(shedder, "decide()", found, f"a list of {len(queries)} DropPlan, one per query")
    for name, plan in zip(queries, plans, strict=True):
        if not isinstance(plan, DropPlan):
            _refuse(shedder, f"decide(), query {name!r}", _describe(plan), "a DropPlan")
    return plans


Shape = tuple[int | None, ...]  #: of an array; None: any size from 1 on


def check_drop_plan(shedder: Shedder, query: str, plan: DropPlan, shapes: Mapping[str, tuple[Shape, ...]]) -> None:
    """Check a drop plan for a query; ``shapes`` lists the shapes that each table may have."""
    where = f"decide(), query {query!r}, "
    for name, allowed in shapes.items():
        table = getattr(plan, name)
        if table is None:
            continue
        if not allowed:
            _refuse(shedder, where + name, _describe(table), "None, as no window is isolated: set in_windows")
        if (
            not isinstance(table, np.ndarray)
            or table.dtype != np.float64
            or not any(_fits(table.shape, shape) for shape in allowed)
        ):
            expected = " or ".join(map(_shape, allowed))
            _refuse(shedder, where + name, _describe(table), f"None or an array of float64 of the shape {expected}")
        if table.size and not (table.min() >= -_ROUNDING and table.max() <= 1 + _ROUNDING):
            wrong = table[~((table >= -_ROUNDING) & (table <= 1 + _ROUNDING))][0]
            _refuse(shedder, where + name, f"the probability {wrong}", "probabilities from 0 to 1")
    for name in _SHARES:
        share = getattr(plan, name)
        if share is None and name in _UNKNOWN:
            continue
        if not _is_number(share) or not -_ROUNDING <= share <= 1 + _ROUNDING:
            _refuse(shedder, where + name, _describe(share), "a share from 0 to 1" + ", or None" * (name in _UNKNOWN))
    if plan.whole_windows and not shapes["windows"]:
        expected = "0, as no window is isolated: set in_windows"
        _refuse(shedder, where + "whole_windows", _describe(plan.whole_windows), expected)
    if not _is_integer(plan.bin) or not 1 <= plan.bin < 2**62:
        _refuse(shedder, where + "bin", _describe(plan.bin), "an integer from 1 on")
    for name in ("steady", "work_limit"):
        if not isinstance(getattr(plan, name), bool | np.bool_):
            _refuse(shedder, where + name, _describe(getattr(plan, name)), "True or False")
    if not plan.work_limit and plan.demand_without_limit <= 0:
        _refuse(shedder, where + "work_limit", "False", "True, or a demand_without_limit above 0")


def _shape(shape: Shape) -> str:
    return "(" + ", ".join("n" if size is None else str(size) for size in shape) + ")"


def _fits(sizes: tuple[int, ...], shape: Shape) -> bool:
    return len(sizes) == len(shape) and all(
        size >= 1 if expected is None else size == expected for size, expected in zip(sizes, shape, strict=True)
    )
