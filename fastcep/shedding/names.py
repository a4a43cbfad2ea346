"""Create shedders and detectors by their spelling."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

from fastcep.errors import ValidationError
from fastcep.events.schema import suggestion
from fastcep.overload.protocols import Detector, Shedder
from fastcep.shedding.classes import FixedClasses
from fastcep.shedding.detectors import MemoryUse, QueueLength, SmoothedLatency
from fastcep.shedding.events import PatternWeightedEvents, RandomEvents, SelectivityEvents, TypeWeightedEvents
from fastcep.shedding.hybrid import Hybrid, HybridInput, HybridState
from fastcep.shedding.matches import BernoulliMatches, RandomMatches, SelectivityMatches
from fastcep.shedding.prediction import PredictedLatency

__all__ = ["DETECTORS", "SHEDDERS", "by_name", "detector_by_name"]

T = TypeVar("T")

SHEDDERS: Mapping[str, type[Shedder]] = {
    kind.name: kind
    for kind in (
        RandomEvents, SelectivityEvents, RandomMatches, SelectivityMatches, BernoulliMatches, TypeWeightedEvents,
        PatternWeightedEvents, FixedClasses, Hybrid, HybridInput, HybridState,
    )
}  # fmt: skip
DETECTORS: Mapping[str, type[Detector]] = {
    kind.name: kind for kind in (SmoothedLatency, QueueLength, PredictedLatency, MemoryUse)
}

#: Names of planned shedders, and of the references of `fastcep.evaluate`, which use knowledge of the future.
_LATER = ("pspice", "pspice--", "espice")
_REFERENCES = ("oracle", "informed")


def by_name(spelling: str, **options: Any) -> Shedder:
    """Create a shedder by its spelling.

    Parameters
    ----------
    spelling
        Spelling such as ``"ri"``, see `SHEDDERS`.
    **options
        Options of the class.

    Returns
    -------
    Shedder
        A new shedder.

    Raises
    ------
    ValidationError
        If the spelling or an option is unknown, or a required option is missing.
    """
    if spelling in _REFERENCES:
        raise ValidationError(f"{spelling!r} is not a shedder but a reference for comparisons: see fc.evaluate")
    if spelling in _LATER:
        names = ", ".join(map(repr, SHEDDERS))
        raise ValidationError(f"shedder {spelling!r} comes in a later version; available are {names}")
    return _make("shedder", SHEDDERS, spelling, options)


def detector_by_name(spelling: str, **options: Any) -> Detector:
    """Create a detector by its spelling, such as ``"latency"``; see `by_name`."""
    return _make("detector", DETECTORS, spelling, options)


def _make(role: str, classes: Mapping[str, type[T]], spelling: str, options: Mapping[str, Any]) -> T:
    if spelling not in classes:
        raise ValidationError(f"unknown {role} {spelling!r}{suggestion(spelling, classes)}")
    kind = classes[spelling]
    parameters = inspect.signature(kind).parameters
    for option in options:
        if option not in parameters:
            raise ValidationError(f"{role} {spelling!r} has no option {option!r}{suggestion(option, parameters)}")
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty and name not in options
    ]
    if missing:
        hint = "; fit a model with fastcep.fit(), and give it or its folder" if "model" in missing else ""
        raise ValidationError(f"{role} {spelling!r} needs {' and '.join(missing)}{hint}")
    return kind(**options)
