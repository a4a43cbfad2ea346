"""Convert times and durations that users pass to an engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from fastcep.errors import ValidationError
from fastcep.events.units import format_duration, parse_duration

__all__ = ["duration_text", "nanoseconds"]


def duration_text(value: str | timedelta | None) -> str | None:
    """Return a duration as text, for a snapshot; None stays None."""
    return None if value is None else format_duration(parse_duration(value))


def nanoseconds(time: object) -> int:
    """Convert a time to int64 nanoseconds since the epoch; a datetime without a zone is UTC.

    Raises
    ------
    ValidationError
        If the time is neither an int nor a datetime, or does not fit int64.
    """
    if isinstance(time, datetime):
        aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        since_epoch = aware - datetime(1970, 1, 1, tzinfo=UTC)
        seconds = since_epoch.days * 86_400 + since_epoch.seconds
        time = seconds * 1_000_000_000 + since_epoch.microseconds * 1_000
    if isinstance(time, bool) or not isinstance(time, int | np.integer):
        raise ValidationError(
            f"found {time!r}, expected a time: int nanoseconds since the epoch, or a datetime, such as "
            "datetime(2024, 5, 1, tzinfo=UTC)"
        )
    if not -(2**63) <= time < 2**63:
        raise ValidationError(f"time {time} is outside the range of int64 nanoseconds")
    return int(time)
