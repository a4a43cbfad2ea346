"""Checks of the options of shedders and detectors; errors name the option."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta

from fastcep.errors import ValidationError
from fastcep.events.schema import suggestion
from fastcep.events.units import parse_duration

__all__ = ["as_choice", "as_count", "as_duration", "as_probability", "as_seed", "as_share"]


def as_share(owner: str, option: str, value: object) -> float:
    """Return the value as a float if it is above 0 and at most 1."""
    number = _number(value)
    if number is None or not 0 < number <= 1:
        raise ValidationError(f"{owner}: {option}={value!r}; expected a number above 0 and at most 1, such as 0.9")
    return number


def as_probability(owner: str, option: str, value: object) -> float:
    """Return the value as a float if it is from 0 to 1."""
    number = _number(value)
    if number is None or not 0 <= number <= 1:
        raise ValidationError(f"{owner}: {option}={value!r}; expected a probability from 0 to 1")
    return number


def as_count(owner: str, option: str, value: object, least: int = 1) -> int:
    """Return the value if it is an integer of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValidationError(f"{owner}: {option}={value!r}; expected a whole number, at least {least:,}")
    return value


def as_duration(owner: str, option: str, value: str | timedelta) -> float:
    """Return a duration in ns if it is above 0."""
    try:
        duration = parse_duration(value)
    except ValidationError as error:
        raise ValidationError(f"{owner}: {option}={value!r}: {error}") from None
    if duration <= 0:
        raise ValidationError(f"{owner}: {option}={value!r}; expected a duration above 0, such as '500us'")
    return float(duration)


def as_seed(owner: str, value: object) -> int:
    """Return the value if it is an unsigned integer of 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise ValidationError(f"{owner}: seed={value!r}; expected a whole number from 0 to 2^64 - 1")
    return value


def as_choice(owner: str, option: str, value: object, choices: Sequence[str]) -> str:
    """Return the value if it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        names = ", ".join(repr(choice) for choice in choices)
        raise ValidationError(f"{owner}: {option}={value!r}; expected one of {names}{suggestion(value, choices)}")
    return value


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
