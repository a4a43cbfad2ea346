"""Time zones in an engine: days and hours around changes of the clocks, against `zoneinfo`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

import fastcep as fc

SCHEMA = fc.Schema({"A": {"v": "int64"}}, time="t", time_unit="s")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A zone, and a day near which its clocks change.
CHANGES = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("America/Sao_Paulo", "2018-11-04"),  # forward at midnight: the day begins at 1 o'clock
    ("America/Havana", "2026-11-01"),  # back to midnight: midnight comes twice, and the day begins at the first
    ("America/St_Johns", "2006-10-29"),  # back a minute after midnight, to the day before
    ("America/Recife", "2000-10-11"),  # forward, and back in the same week
    ("Africa/Freetown", "1939-09-03"),  # twice in four days
    ("Pacific/Apia", "2011-12-30"),  # a day is left out
    ("Asia/Kolkata", "2026-11-27"),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_hours_and_days_near_a_change(zone: str, day: str) -> None:
    middle = datetime.fromisoformat(f"{day}T00:00+00:00")
    times = [middle + timedelta(minutes=10 * step) for step in range(-6 * 144, 6 * 144)]
    seconds = [int((time - EPOCH).total_seconds()) for time in times]
    returned = f"hour(a.time, '{zone}') AS hour, nanoseconds(date(a.time, '{zone}')) AS day"
    query = fc.parse(f"PATTERN SEQ(A a) WITHIN 1h RETURN {returned}", SCHEMA)
    found = fc.Engine(query).process({"t": seconds, "v": [0] * len(seconds)}).to_arrow()
    local = [time.astimezone(ZoneInfo(zone)) for time in times]
    days = [time.replace(hour=0, minute=0, fold=0).astimezone(UTC) for time in local]
    assert found["hour"].to_pylist() == [time.hour for time in local]
    assert found["day"].to_pylist() == [int((time - EPOCH).total_seconds()) * 10**9 for time in days]
