"""Targets of strategies: bounds, rates or demands, as users specify them and as numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fastcep.errors import ValidationError
from fastcep.events import parse_duration

__all__ = ["MAX_SHARE_OVER", "MODES", "Target", "TargetSpec", "parse_bound", "parse_targets"]

#: Kinds of targets.
MODES = ("bounds", "rates", "demands")

#: With rates, maximum share of the events whose latency may exceed the bound.
MAX_SHARE_OVER = 0.001

_PERCENT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")
_EXPECTED = {
    "bounds": "expected a share of the latency without shedding such as '50%', a duration such as '500us', or a "
    "number of nanoseconds",
    "rates": "expected a share of the maximum rate without shedding such as '120%', or a number of events/s",
    "demands": "expected a share of the work such as '30%', above 0% and below 100%",
}


@dataclass(frozen=True)
class Target:
    """Target of a run.

    Attributes
    ----------
    label
        Text of the specification.
    bound
        Latency bound in ns; None: no bound.
    rate
        Arrival rate in events per second; None: events arrive when the engine takes them.
    demand
        Share of the work to save; None: the detector determines it.
    """

    label: str
    bound: float | None = None
    rate: float | None = None
    demand: float | None = None


@dataclass(frozen=True)
class TargetSpec:
    """Target as specified: a share of a value measured without shedding, or a fixed value."""

    label: str
    share: float | None = None
    value: float | None = None

    def resolve(self, measured: float) -> float:
        """Return the value of the target; a share is relative to ``measured``."""
        if self.value is not None:
            return self.value
        assert self.share is not None
        return self.share * measured


def parse_targets(mode: str, targets: Any) -> tuple[TargetSpec, ...]:
    """Parse the option ``bounds``, ``rates`` or ``demands``: one target, or a sequence of targets.

    Raises
    ------
    ValidationError
        If there is no target, a target is malformed, or targets are not unique.
    """
    items = list(targets) if isinstance(targets, Sequence) and not isinstance(targets, str) else [targets]
    if not items:
        raise ValidationError(f"{mode}=[]: {_EXPECTED[mode]}, one or several")
    specs = tuple(_parse(mode, item) for item in items)
    for number, spec in enumerate(specs):
        if spec.label in [other.label for other in specs[:number]]:
            raise ValidationError(f"{mode}: found {spec.label} twice; give each target once")
    return specs


def parse_bound(option: str, value: Any) -> float:
    """Parse a latency in ns: a duration, or a number of nanoseconds."""
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


def _parse(mode: str, item: Any) -> TargetSpec:
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
    """Return a number as float; 0.0 for other values."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
