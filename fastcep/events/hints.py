"""Ends of messages about unknown names, dtypes, units and time zones: the name that was probably meant."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from collections.abc import Iterable

__all__ = ["dtype_hint", "suggestion", "unit_hint", "unit_of", "zone_hint"]

_DTYPES = ("int64", "float64", "bool", "string", "timestamp")
_UNITS = ("ns", "us", "ms", "s", "min", "h", "d")
_DTYPE_WORDS = {
    "int64": "int integer long bigint int32 int16 int8 uint8 uint16 uint32 uint64 short byte smallint i64",
    "float64": "float double real decimal numeric number float32 f64",
    "bool": "boolean bit",
    "string": "str text varchar char object utf8 category",
    "timestamp": "datetime datetime64 date time timestamptz timestamp_ntz",
}
#: Least similarity of a name that is suggested.
_CLOSE = 0.65
_UNIT_WORDS = {
    "ns": "nanosecond nanoseconds nano nanos nsec",
    "us": "microsecond microseconds micro micros usec µs",
    "ms": "millisecond milliseconds milli millis msec",
    "s": "second seconds sec secs",
    "min": "minute minutes mins m",
    "h": "hour hours hr hrs",
    "d": "day days",
}


def suggestion(name: object, options: Iterable[object]) -> str:
    """Return the end of a message about an unknown name: the closest valid name, or the first few."""
    valid = [str(option) for option in options]
    if not valid:
        return ""
    close = difflib.get_close_matches(str(name), valid, n=1)
    if not close:
        close = [option for option in valid if option.lower() == str(name).lower()]
    elif difflib.SequenceMatcher(None, str(name).lower(), close[0].lower()).ratio() < _CLOSE:
        close = []  # a name that is hardly similar would mislead
    if close:
        return f"; did you mean {close[0]!r}?"
    remedy = "choose one of them" if len(valid) > 1 else "write that"
    return f"; there is {', '.join(map(repr, valid[:8]))}{', …' if len(valid) > 8 else ''}; {remedy}"


def dtype_hint(dtype: object) -> str:
    """Return the end of a message about an unknown dtype: the dtype that was probably meant; empty if there is none."""
    return _hint(dtype.__name__ if isinstance(dtype, type) else dtype, _DTYPE_WORDS, _DTYPES)


def unit_hint(unit: object) -> str:
    """Return the end of a message about an unknown unit of time: the unit that was probably meant, if there is one."""
    return _hint(unit, _UNIT_WORDS, _UNITS)


def unit_of(word: str) -> str | None:
    """Return the unit of time that a word such as ``minutes`` names; None if it names none."""
    return _named(word, _UNIT_WORDS)


def zone_hint(zone: object) -> str:
    """Return the end of a message about an unknown time zone: a zone of a similar name, if there is one."""
    zones = sorted(zoneinfo.available_timezones())
    word = str(zone).replace(" ", "_").lower()
    found = [name for name in zones if word and name.lower().rpartition("/")[2] == word]
    offset = re.fullmatch(r"(?:UTC|GMT)?([+-])0?(\d{1,2})(?::?00)?", str(zone).strip())
    if offset:  # the names of these zones have the sign of POSIX
        return f"; for this offset write 'Etc/GMT{'-' if offset[1] == '+' else '+'}{offset[2]}'"
    found = found or difflib.get_close_matches(str(zone), zones, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _hint(word: object, words: dict[str, str], valid: tuple[str, ...]) -> str:
    named = _named(word, words) or next(iter(difflib.get_close_matches(str(word).strip().lower(), valid, n=1)), None)
    return f"; did you mean {named!r}?" if named else ""


def _named(word: object, words: dict[str, str]) -> str | None:
    text = str(word).strip().lower()
    return next((name for name, synonyms in words.items() if text == name or text in synonyms.split()), None)
