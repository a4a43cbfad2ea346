"""Options of shedders and detectors: what is wrong with one is told by its name."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fastcep.errors import ValidationError
from fastcep.events.schema import suggestion

__all__ = ["as_chance", "as_choice", "as_count", "as_seed", "as_share"]


def as_share(owner: str, option: str, value: object) -> float:
    """Give a number above 0 and at most 1."""
    number = _number(value)
    if number is None or not 0 < number <= 1:
        raise ValidationError(f"{owner}: {option}={value!r}; expected a number above 0 and at most 1, such as 0.9")
    return number


def as_chance(owner: str, option: str, value: object) -> float:
    """Give a number from 0 to 1."""
    number = _number(value)
    if number is None or not 0 <= number <= 1:
        raise ValidationError(f"{owner}: {option}={value!r}; expected a chance from 0 to 1")
    return number


def as_count(owner: str, option: str, value: object, least: int = 1) -> int:
    """Give a whole number that is not smaller than ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValidationError(f"{owner}: {option}={value!r}; expected a whole number, at least {least:,}")
    return value


def as_seed(owner: str, value: object) -> int:
    """Give a whole number of 64 bits without sign."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise ValidationError(f"{owner}: seed={value!r}; expected a whole number from 0 to 2^64 - 1")
    return value


def as_choice(owner: str, option: str, value: object, choices: Sequence[str]) -> str:
    """Give one of the choices."""
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValidationError(f"{owner}: {option}={value!r}; expected one of {known}{suggestion(value, choices)}")
    return value


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
