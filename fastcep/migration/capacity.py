"""The number of bytes that a link transfers until a deadline."""

from __future__ import annotations

from datetime import timedelta

from fastcep.errors import ValidationError
from fastcep.events.units import NANOSECONDS, parse_duration, parse_size

__all__ = ["bytes_per_second", "capacity_of", "duration"]


def capacity_of(
    deadline: str | timedelta, bandwidth: str | int, latency: str | timedelta = "0s", resume: str | timedelta = "0s"
) -> int:
    """Compute the bytes that arrive early enough: bandwidth · (deadline − latency − resume), rounded down.

    Parameters
    ----------
    deadline
        Time from now until the old host is lost, such as ``"5s"``.
    bandwidth
        Bytes per second, such as ``"10MB"``.
    latency
        Time from the end of sending a state to its arrival.
    resume
        Time that the new host needs to resume the operator.

    Returns
    -------
    int
        Bytes; 0 if latency and resume take the whole time.

    Raises
    ------
    ValidationError
        If a duration or the bandwidth is wrong.
    """
    rate = bytes_per_second(bandwidth)
    left = duration("deadline", deadline) - duration("latency", latency) - duration("resume", resume)
    return max(0, left) * rate // NANOSECONDS["s"]


def duration(name: str, value: str | timedelta) -> int:
    """Return a duration in ns; ValidationError with the name of the option."""
    try:
        return parse_duration(value)
    except ValidationError as error:
        raise ValidationError(f"{name}={value!r}: {error}") from None


def bytes_per_second(bandwidth: str | int) -> int:
    """Return a bandwidth in bytes/s; ValidationError if it is not a size above 0, such as ``"10MB"``."""
    try:
        return parse_size(bandwidth)
    except ValidationError as error:
        raise ValidationError(f"bandwidth={bandwidth!r}: {error}") from None
