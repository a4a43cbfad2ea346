"""Moments and durations as users give them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from fastcep.errors import ValidationError
from fastcep.events.units import format_duration, parse_duration

__all__ = ["duration_text", "nanoseconds"]


def duration_text(value: str | timedelta | None) -> str | None:
    """Give a duration as text, for a snapshot."""
    return None if value is None else format_duration(parse_duration(value))


def nanoseconds(time: object) -> int:
    """Give a moment as int64 nanoseconds since the epoch; a datetime without a zone is UTC.

    Raises
    ------
    ValidationError
        If it is neither an int nor a datetime, or does not fit int64.
    """
    if isinstance(time, datetime):
        aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
        time = (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1_000
    if isinstance(time, bool) or not isinstance(time, int | np.integer):
        raise ValidationError(f"found {time!r}, expected a time: int nanoseconds since the epoch, or a datetime")
    if not -(2**63) <= time < 2**63:
        raise ValidationError(f"time {time} is outside of int64 nanoseconds")
    return int(time)
