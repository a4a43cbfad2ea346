"""Checks of options that several parts of the package share; their errors begin with the name of the option."""

from __future__ import annotations

from datetime import timedelta

from fastcep.errors import ValidationError
from fastcep.events.units import parse_duration

__all__ = ["check_whole", "duration_option"]


def check_whole(option: str, value: object, least: int, most: int | None = None) -> None:
    """Raise a ValidationError if a value is not an int, or a bool, or not from `least` to `most` (None: no limit)."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value and (most is None or value <= most):
        return
    expected = f", at least {least:,}" if most is None else f" from {least:,} to {most:,}"
    raise ValidationError(f"{option}={value!r}: expected a whole number{expected}")


def duration_option(option: str, value: str | timedelta, *, positive: bool = False) -> int:
    """Return a duration in ns; ValidationError if it is none, or if it is 0 and must be `positive`."""
    try:
        duration = parse_duration(value)
    except ValidationError as error:
        raise ValidationError(f"{option}={value!r}: {error}") from None
    if positive and duration == 0:
        raise ValidationError(f"{option}={value!r}: expected more than 0")
    return duration
