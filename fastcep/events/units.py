"""Parse and format durations, sizes and times, such as ``"8ms"``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import numpy as np

from fastcep.errors import ValidationError

__all__ = [
    "INT64_MAX", "INT64_MIN", "NANOSECONDS", "format_duration", "format_time", "iso_time", "parse_duration",
    "parse_size", "parse_time",
]  # fmt: skip

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

_BYTES: dict[str, int] = {"B": 1} | {
    f"{prefix}{unit}": base**power
    for power, prefix in enumerate("KMGT", 1)
    for unit, base in (("iB", 1024), ("B", 1000))
}
_SIZE = re.compile(r"\s*([0-9]{1,18})\s*([A-Za-z]*)\s*")
_DURATION = re.compile(r"\s*([0-9]+)(?:\.([0-9]+))?\s*([A-Za-zµ]+)\s*")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)(?:\.(\d{1,9}))?(Z|[+-]\d\d(?::?\d\d)?)?")
_EXPECTED = f'expected a number and a unit ({", ".join(NANOSECONDS)}), such as "500us" or "0.5 s"'


def parse_duration(value: str | timedelta) -> int:
    """Parse a duration.

    Parameters
    ----------
    value
        Text such as ``"500us"``, ``"0.5 s"``, ``"1h"``, or a `datetime.timedelta`. A decimal must be a whole number of
        nanoseconds; it is converted exactly.

    Returns
    -------
    int
        Nanoseconds, not negative.

    Raises
    ------
    ValidationError
        The value is not a duration, is negative, or does not fit int64.
    """
    if isinstance(value, timedelta):
        nanoseconds = ((value.days * 86400 + value.seconds) * 10**6 + value.microseconds) * 1_000
        if nanoseconds < 0:
            raise ValidationError(f"negative duration {value!r}; expected zero or more")
    elif isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None:
            raise ValidationError(f"{value!r} is no duration; {_EXPECTED}")
        whole, decimals, unit = match.groups()
        if unit not in NANOSECONDS:
            raise ValidationError(f"unknown unit {unit!r} in duration {value!r}; {_EXPECTED}")
        digits, decimals = whole.lstrip("0"), (decimals or "").rstrip("0")
        if len(digits) > 19:
            nanoseconds = INT64_MAX + 1
        else:
            scale = 10 ** min(len(decimals), 17)  # no unit has a factor 2**17, so further decimals cannot be exact
            nanoseconds, rest = divmod(int((digits + decimals[:17]) or "0") * NANOSECONDS[unit], scale)
            if rest or len(decimals) > 17:
                raise ValidationError(f"duration {value!r} is not a whole number of nanoseconds; round it to 1 ns")
    else:
        raise ValidationError(f"a duration cannot be of type {type(value).__name__}; {_EXPECTED}, or a timedelta")
    if nanoseconds > INT64_MAX:
        raise ValidationError(f"duration {value!r} is too long; expected at most {INT64_MAX} ns (about 292 years)")
    return nanoseconds


def parse_size(value: str | int) -> int:
    """Parse a number of bytes: an int, or text such as ``"4096"``, ``"512MiB"`` (powers of 1024) or ``"2 GB"`` (1000).

    Raises
    ------
    ValidationError
        The value is not a size, is zero or does not fit int64.
    """
    expected = f'expected a whole number of bytes above 0, or one with a unit ({", ".join(_BYTES)}), such as "512MiB"'
    size = 0
    if isinstance(value, str):
        match = _SIZE.fullmatch(value)
        units = {"": 1} | {unit.lower(): factor for unit, factor in _BYTES.items()}
        if match is not None and match[2].lower() in units:
            size = int(match[1]) * units[match[2].lower()]
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    if not 0 < size <= INT64_MAX:
        raise ValidationError(f"{value!r} is no size; {expected}")
    return size


def format_duration(ns: int) -> str:
    """Format nanoseconds in the largest unit that is exact: ``8_000_000`` as ``"8ms"``, 0 as ``"0ns"``."""
    if ns == 0:
        return "0ns"
    unit = max((name for name, factor in NANOSECONDS.items() if ns % factor == 0), key=NANOSECONDS.__getitem__)
    return f"{ns // NANOSECONDS[unit]}{unit}"


def format_time(time: int) -> str:
    """Format a time as ISO text if it is a plausible date, otherwise as nanoseconds."""
    if abs(time) < 10**17 or not INT64_MIN < time <= INT64_MAX:
        return f"{time} ns"
    return f"{np.datetime64(time, 'ns')}Z"


def iso_time(time: int) -> str:
    """Return the ISO text of nanoseconds since the epoch, in UTC; `parse_time` reads it."""
    seconds, fraction = divmod(time, 10**9)
    moment = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{digits}Z"


def parse_time(text: str) -> int:
    """Parse ISO 8601 text: a date, or a date and a time with up to 9 decimals; without an offset it is UTC.

    Returns
    -------
    int
        Nanoseconds since the epoch.

    Raises
    ------
    ValidationError
        The text is not a time, or it does not fit int64.
    """
    match = _TIME.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        moment = datetime.fromisoformat(f"{match[1]}{match[3] or ''}")
    except ValueError:
        raise ValidationError(
            f"{text!r} is not a time; expected a date or a date and a time, such as '2026-11-27' or "
            "'2026-11-27T08:30:00.5+01:00'"
        ) from None
    since = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    nanoseconds = (since.days * 86400 + since.seconds) * 10**9 + int((match[2] or "").ljust(9, "0"))
    if not INT64_MIN <= nanoseconds <= INT64_MAX:
        raise ValidationError(f"the time {text!r} does not fit int64 nanoseconds; expected one from 1678 to 2261")
    return nanoseconds
