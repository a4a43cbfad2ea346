"""Shedders and detectors by their spelling."""

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

#: What has a name already but is not built yet; and what knows more than a shedder can.
_LATER = ("pspice", "pspice--", "espice")
_REFERENCES = ("oracle", "informed")


def by_name(spelling: str, **options: Any) -> Shedder:
    """Make a shedder.

    Parameters
    ----------
    spelling
        Such as ``"ri"``, see `SHEDDERS`.
    **options
        Of the class.

    Returns
    -------
    Shedder
        A new one.

    Raises
    ------
    ValidationError
        If there is none of that name, or it does not take these options.
    """
    if spelling in _REFERENCES:
        raise ValidationError(f"{spelling!r} is no shedder but a reference that others are held to: see fc.evaluate")
    if spelling in _LATER:
        known = ", ".join(map(repr, SHEDDERS))
        raise ValidationError(f"shedder {spelling!r} comes in a later version; there is {known}")
    return _make("shedder", SHEDDERS, spelling, options)


def detector_by_name(spelling: str, **options: Any) -> Detector:
    """Make a detector, such as ``"latency"``; see `by_name`."""
    return _make("detector", DETECTORS, spelling, options)


def _make(what: str, kinds: Mapping[str, type[T]], spelling: str, options: Mapping[str, Any]) -> T:
    if spelling not in kinds:
        raise ValidationError(f"unknown {what} {spelling!r}{suggestion(spelling, kinds)}")
    kind = kinds[spelling]
    parameters = inspect.signature(kind).parameters
    for option in options:
        if option not in parameters:
            raise ValidationError(f"{what} {spelling!r} has no option {option!r}{suggestion(option, parameters)}")
    missing = [name for name, of in parameters.items() if of.default is of.empty and name not in options]
    if missing:
        fits = "; fit a model with fastcep.fit(), and give it or its folder" if "model" in missing else ""
        raise ValidationError(f"{what} {spelling!r} needs {' and '.join(missing)}{fits}")
    return kind(**options)
