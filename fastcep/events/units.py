"""Durations: text such as ``"8ms"`` to nanoseconds and back."""

from __future__ import annotations

import re
from datetime import timedelta

import numpy as np

from fastcep.errors import ValidationError

__all__ = ["INT64_MAX", "INT64_MIN", "NANOSECONDS", "format_duration", "format_time", "parse_duration"]

NANOSECONDS: dict[str, int] = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

_DURATION = re.compile(r"\s*([0-9]+)\s*([A-Za-zµ]+)\s*")
_EXPECTED = f'expected a whole number and a unit ({", ".join(NANOSECONDS)}), such as "500us" or "8 ms"'


def parse_duration(value: str | timedelta) -> int:
    """Read a duration.

    Parameters
    ----------
    value
        Text such as ``"500us"``, ``"8 ms"``, ``"1h"``, or a `datetime.timedelta`.

    Returns
    -------
    int
        Nanoseconds, not negative.

    Raises
    ------
    ValidationError
        The value is no duration, is negative, or does not fit int64.
    """
    if isinstance(value, timedelta):
        nanoseconds = ((value.days * 86400 + value.seconds) * 10**6 + value.microseconds) * 1_000
        if nanoseconds < 0:
            raise ValidationError(f"negative duration {value!r}; expected zero or more")
    elif isinstance(value, str):
        found = _DURATION.fullmatch(value)
        if found is None:
            mend = "; write 1.5h as 90min" if "." in value else ""
            raise ValidationError(f"{value!r} is no duration; {_EXPECTED}{mend}")
        number, unit = found.groups()
        if unit not in NANOSECONDS:
            raise ValidationError(f"unknown unit {unit!r} in duration {value!r}; {_EXPECTED}")
        digits = number.lstrip("0") or "0"
        nanoseconds = int(digits) * NANOSECONDS[unit] if len(digits) <= 19 else INT64_MAX + 1
    else:
        raise ValidationError(f"a duration cannot be of type {type(value).__name__}; {_EXPECTED}, or a timedelta")
    if nanoseconds > INT64_MAX:
        raise ValidationError(f"duration {value!r} is too long; expected at most {INT64_MAX} ns (about 292 years)")
    return nanoseconds


def format_duration(ns: int) -> str:
    """Write nanoseconds in the largest unit that is exact, such as ``8_000_000`` as ``"8ms"`` and 0 as ``"0ns"``."""
    if ns == 0:
        return "0ns"
    unit = max((u for u, factor in NANOSECONDS.items() if ns % factor == 0), key=NANOSECONDS.__getitem__)
    return f"{ns // NANOSECONDS[unit]}{unit}"


def format_time(time: int) -> str:
    """Write a time as nanoseconds, or, when it is a plausible date, as ISO text."""
    if abs(time) < 10**17:
        return f"{time} ns"
    return f"{np.datetime64(time, 'ns')}Z"
