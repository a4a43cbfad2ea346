"""What strategies are to reach: bounds, rates or demands, as a user writes them and in numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fastcep.errors import ValidationError
from fastcep.events import parse_duration

__all__ = ["LATE", "MODES", "Target", "TargetSpec", "parse_bound", "wanted"]

#: What is varied.
MODES = ("bounds", "rates", "demands")

#: With rates, this share of the events may be later than the bound.
LATE = 0.001

_PERCENT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")
_EXPECTED = {
    "bounds": "expected a share of the latency without shedding such as '50%', a duration such as '500us', or a "
    "number of nanoseconds",
    "rates": "expected a share of what the engine reaches without shedding such as '120%', or a number of events/s",
    "demands": "expected a share of the work such as '30%', above 0% and below 100%",
}


@dataclass(frozen=True)
class Target:
    """What a run is to reach.

    Attributes
    ----------
    label
        As it was written.
    bound
        On the latency, ns; None: none is set.
    rate
        At which events arrive, per second; None: each when it is taken.
    demand
        The share of the work to be saved; None: what the bound asks for.
    """

    label: str
    bound: float | None = None
    rate: float | None = None
    demand: float | None = None


@dataclass(frozen=True)
class TargetSpec:
    """A target as it was written: a share of what is measured without shedding, or a value."""

    label: str
    share: float | None = None
    value: float | None = None

    def of(self, whole: float) -> float:
        """The value, where ``whole`` is what a share is of."""
        if self.value is not None:
            return self.value
        assert self.share is not None
        return self.share * whole


def wanted(mode: str, given: Any) -> tuple[TargetSpec, ...]:
    """Read what was given as ``bounds``, ``rates`` or ``demands``: one, or a sequence.

    Raises
    ------
    ValidationError
        If there is none, one is not understood, or one is there twice.
    """
    items = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not items:
        raise ValidationError(f"{mode}=[]: {_EXPECTED[mode]}, one or several")
    found = tuple(_read(mode, item) for item in items)
    for number, item in enumerate(found):
        if item.label in [other.label for other in found[:number]]:
            raise ValidationError(f"{mode}: {item.label} is there twice; name each once")
    return found


def parse_bound(option: str, value: Any) -> float:
    """Read a latency: a duration, or a number of nanoseconds."""
    if isinstance(value, str | timedelta):
        try:
            number = float(parse_duration(value))
        except ValidationError as error:
            raise ValidationError(f"{option}={value!r}: {error}") from None
    else:
        number = _number(value)
    if not 0 < number < float("inf"):
        raise ValidationError(f"{option}={value!r}: expected a time above 0, such as '500us', or nanoseconds")
    return number


def _read(mode: str, item: Any) -> TargetSpec:
    percent = _PERCENT.fullmatch(item) if isinstance(item, str) else None
    if percent is not None:
        share = float(percent[1]) / 100
        if share <= 0 or (mode == "demands" and share >= 1):
            raise ValidationError(f"{mode}={item!r}: {_EXPECTED[mode]}")
        return TargetSpec(item.strip(), share=share)
    if mode == "bounds" and isinstance(item, str | timedelta):
        try:
            value = float(parse_duration(item))
        except ValidationError:
            value = 0.0
    else:
        value = _number(item)
    if not 0 < value < float("inf") or mode == "demands":
        raise ValidationError(f"{mode}={item!r}: {_EXPECTED[mode]}")
    unit = " ns" if mode == "bounds" else " events/s"
    return TargetSpec(str(item) if isinstance(item, str | timedelta) else f"{value:,.12g}{unit}", value=value)


def _number(value: Any) -> float:
    """The number; 0.0 of what is none."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
