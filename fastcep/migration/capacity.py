"""The number of bytes that a link transfers until a deadline."""

from __future__ import annotations

from datetime import timedelta

from fastcep.errors import ValidationError
from fastcep.events.units import NANOSECONDS, parse_size
from fastcep.option_checks import duration_option

__all__ = ["bytes_per_second", "capacity_of"]


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
    left = duration_option("deadline", deadline)
    left -= duration_option("latency", latency) + duration_option("resume", resume)
    return max(0, left) * rate // NANOSECONDS["s"]


def bytes_per_second(bandwidth: str | int) -> int:
    """Return a bandwidth in bytes/s; ValidationError if it is not a size above 0, such as ``"10MB"``."""
    try:
        return parse_size(bandwidth)
    except ValidationError as error:
        raise ValidationError(f"bandwidth={bandwidth!r}: {error}") from None
