"""Convert textual and local times to UTC nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute

from fastcep.events.types import TIMESTAMP
from fastcep.events.units import NANOSECONDS

__all__ = ["convert_times", "convert_times_or_integers", "is_text"]

pc: Any = pyarrow.compute  # its stubs lack overloads

NAIVE = pa.timestamp("ns")
INTEGER = r"^-?\d+$"
ZONE_AT_END = r"\d\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
FRACTION = r"\.(?P<digits>\d{1,9})$"
ISO_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %T", "%Y-%m-%dT%T", "%F %T", "%FT%T")
VECTORISED = frozenset("YmdHMSyjbBaApITFDR%")


def is_text(dtype: Any) -> bool:
    """Return whether an Arrow type holds text, dictionary-encoded or not."""
    if pa.types.is_dictionary(dtype):
        return is_text(dtype.value_type)
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype))


def convert_times(times: Any, time_format: str | None, time_zone: str | None) -> Any:
    """Convert a time column of text or local times to UTC; return other columns unchanged.

    With a format, integers are parsed as text.

    Without a format, text is ISO 8601: a date, or a date and a time with a fraction of up to 9 digits, with or
    without an offset. With a format, a fraction after a final ``%S`` is accepted with or without ``.%f`` in the format.
    A time in an hour that a clock change repeats means its first occurrence; a time in an hour that it skips means the
    moment of the change.

    Parameters
    ----------
    times
        The time column.
    time_format
        A ``strptime`` format, or None for ISO 8601.
    time_zone
        IANA name of the time zone of times without one, or None for UTC.

    Returns
    -------
    pyarrow.Array
        ``timestamp[ns, UTC]`` for text, and for timestamps without a zone if `time_zone` is given; otherwise `times`.

    Raises
    ------
    pyarrow.ArrowInvalid
        If a value is not a time in this format, or lies outside 1678 to 2261.
    """
    if time_format is not None and pa.types.is_integer(times.type):
        times = times.cast(pa.string())  # such as 201801310930 in a file with types
    if is_text(times.type):
        text = pc.utf8_trim_whitespace(times.cast(pa.string()))
        return _parse_iso(text, time_zone) if time_format is None else _parse_format(text, time_format, time_zone)
    if time_zone is not None and pa.types.is_timestamp(times.type) and times.type.tz is None:
        return _to_utc(times.cast(NAIVE), time_zone)
    return times


def convert_times_or_integers(times: Any, time_format: str | None, time_zone: str | None, unit: str) -> Any:
    """Convert a column of times as `convert_times` does; without a format, text may also be integers in `unit`."""
    if time_format is None and is_text(times.type):
        text = pc.utf8_trim_whitespace(times.cast(pa.string()))
        is_number = pc.match_substring_regex(text, INTEGER)
        if pc.any(is_number).as_py():
            null = pa.scalar(None, pa.string())
            numbers = pc.if_else(is_number, text, null).cast(pa.int64())
            scaled = pc.multiply_checked(numbers, pa.scalar(NANOSECONDS[unit], pa.int64()))
            return pc.coalesce(_parse_iso(pc.if_else(is_number, null, text), time_zone), scaled.cast(TIMESTAMP))
    return convert_times(times, time_format, time_zone)


def _to_utc(naive: Any, zone: str | None) -> Any:
    if zone is None or zone == "UTC":
        return naive.cast(TIMESTAMP)
    moments = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="latest").cast(TIMESTAMP)
    pc.subtract_checked(moments.cast(pa.int64()), naive.cast(pa.int64()))  # ArrowInvalid if the shift overflowed int64
    return moments


def _parse_iso(text: Any, zone: str | None) -> Any:
    try:
        naive = text.cast(NAIVE)
    except pa.ArrowInvalid:
        zoned = pc.match_substring_regex(text, ZONE_AT_END)
        null = pa.scalar(None, pa.string())
        naive = pc.if_else(zoned, null, text).cast(NAIVE)
        return pc.coalesce(pc.if_else(zoned, text, null).cast(TIMESTAMP), _to_utc(naive, zone))
    return _to_utc(naive, zone)


def _parse_format(text: Any, time_format: str, zone: str | None) -> Any:
    base = time_format.removesuffix(".%f")
    directives = set(re.findall(r"%(.)", base))
    if not directives <= VECTORISED:
        return _parse_in_python(text, time_format, zone)
    if base in ISO_FORMATS:
        if (pc.min(pc.binary_length(text)).as_py() or 19) < 19:
            raise pa.ArrowInvalid("shorter than its format")
        return _to_utc(text.cast(NAIVE), zone)
    if not base.endswith(("%S", "%T")):
        return _to_utc(_strptime(text, base), zone)
    digits = pc.struct_field(pc.extract_regex(text, FRACTION), "digits")
    if digits.null_count == len(text):
        return _to_utc(_strptime(text, base), zone)
    fraction = pc.utf8_rpad(pc.coalesce(digits, ""), 9, "0").cast(pa.int64())
    seconds = _strptime(pc.replace_substring_regex(text, FRACTION, ""), base)
    return _to_utc(pc.add(seconds.cast(pa.int64()), fraction).cast(NAIVE), zone)


def _strptime(text: Any, time_format: str) -> Any:
    """Parse with Arrow, which accepts 31 February as 3 March. Parse dates that this may have moved again in Python."""
    parsed = pc.strptime(text, format=time_format, unit="s")
    maybe_moved = pc.and_(pc.less_equal(pc.day(parsed), 3), pc.is_in(pc.month(parsed), pa.array([3, 5, 7, 10, 12])))
    _parse_each(text.filter(maybe_moved), lambda value: datetime.strptime(value, time_format))
    return parsed.cast(NAIVE)


def _parse_in_python(text: Any, time_format: str, zone: str | None) -> Any:
    """Parse each distinct value in Python, for formats that Arrow does not have (``%z``, ``%f`` not at the end)."""
    values = text.dictionary_encode()
    parsed = _parse_each(values.dictionary, lambda value: datetime.strptime(value, time_format))
    zoned = [None if moment.tzinfo is None else moment.astimezone(UTC) for moment in parsed]
    naive = [moment if moment.tzinfo is None else None for moment in parsed]
    moments = pc.coalesce(
        pa.array(zoned, pa.timestamp("us", "UTC")).cast(TIMESTAMP),
        _to_utc(pa.array(naive, pa.timestamp("us")).cast(NAIVE), zone),
    )
    return moments.take(values.indices)


def _parse_each(text: Any, parse: Callable[[str], datetime]) -> list[datetime]:
    try:
        return [parse(value) for value in text.to_pylist()]
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None
