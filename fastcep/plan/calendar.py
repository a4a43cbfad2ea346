"""Translate functions of the calendar: hour, minute, day of the week and date of a time in a time zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastcep.events.units import NANOSECONDS
from fastcep.plan.ir import Op, const

__all__ = ["Zone", "calendar"]

_DAY, _HOUR, _MINUTE = (NANOSECONDS[unit] for unit in ("d", "h", "min"))


@dataclass(frozen=True, slots=True)
class Zone:
    """The constant of a ``zone`` operation, which returns local time minus UTC at a time.

    Attributes
    ----------
    name
        Name of the time zone.
    by_local_time
        True if the time is local, False if it is UTC.
    """

    name: str
    by_local_time: bool = False


def calendar(function: str, args: Sequence[Op]) -> Op:
    """Return the expression of a call of ``nanoseconds``, ``hour``, ``minute``, ``dayofweek`` or ``date``."""
    time = args[0]
    zone = args[1].data[0] if len(args) > 1 else "UTC"
    local = _integer("add", time, _offset(time, zone)) if zone != "UTC" else time
    if function == "nanoseconds":
        return time
    if function == "hour":
        return _integer("floordiv", _integer("mod", local, _DAY), _HOUR)
    if function == "minute":
        return _integer("floordiv", _integer("mod", local, _HOUR), _MINUTE)
    if function == "dayofweek":  # 1 January 1970 was a Thursday, the fourth day
        return _integer("add", _integer("mod", _integer("add", _integer("floordiv", local, _DAY), 3), 7), 1)
    midnight = _integer("sub", local, _integer("mod", local, _DAY))
    if zone == "UTC":
        return midnight
    # The offset at midnight may differ from the offset at the time.
    return _integer("sub", midnight, _offset(midnight, zone, by_local_time=True))


def _offset(time: Op, zone: str, *, by_local_time: bool = False) -> Op:
    return Op("zone", "i", (time,), (Zone(zone, by_local_time),))


def _integer(operation: str, left: Op, right: Op | int) -> Op:
    return Op(f"{operation}_i", "i", (left, const(right, "i") if isinstance(right, int) else right))
