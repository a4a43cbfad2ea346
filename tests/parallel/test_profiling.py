"""Profiles of queries on real trips. No test depends on the times that are measured."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastcep as fc
import fastcep.datasets
from fastcep.errors import OrderError, SchemaError, ValidationError
from fastcep.parallel import Profile, degree, measure_profile, profiling

COLUMNS = {"bike": "bike_id", "start": "start_terminal", "end": "end_terminal"}
SCHEMA = fc.Schema({"Trip": dict.fromkeys(COLUMNS, "int64")}, time="start_date", sources={"Trip": COLUMNS})
#: Enough time for each rate to be measured 100 times, and no more.
SHORT = 1e-9


def parsed(text: str, name: str = "q") -> fc.Query:
    return fc.parse(text, SCHEMA, name=name)


TRIANGLE = parsed(
    """PATTERN SEQ(Trip a, Trip b, Trip c) WHERE a.end = b.start AND b.end = c.start AND c.end = a.start
       AND a.bike != b.bike AND b.bike != c.bike WITHIN 20min""", "triangle",
)  # fmt: skip
PAIR = parsed("PATTERN SEQ(Trip a, Trip b) WHERE a.end = b.start AND [bike] WITHIN 1h", "pair")


@pytest.fixture(scope="module")
def trips() -> pa.Table:
    return pq.read_table(fastcep.datasets.path("bayarea_2014")).sort_by("start_date").slice(0, 4_000)


def natural_rate(table: pa.Table) -> float:
    seconds = np.diff(table["start_date"].to_numpy()[[0, -1]])[0] / np.timedelta64(1, "s")
    return float((len(table) - 1) / seconds)


def test_rates_around_that_of_the_events(trips: pa.Table) -> None:
    profile = measure_profile(TRIANGLE, trips, seconds=SHORT)
    expected = natural_rate(trips) * np.array([0.25, 0.5, 1, 2, 4])
    assert [point.rate for point in profile.points] == pytest.approx(expected.tolist())
    for point in profile.points:
        assert point.samples >= 100 and 0 < point.median <= point.p99 and point.mean > 0
    assert profile.about["queries"] == ["triangle"] and {"machine", "versions", "date"} <= profile.about.keys()


def test_rates_that_are_given(trips: pa.Table, tmp_path: Any) -> None:
    profile = measure_profile([TRIANGLE, PAIR], trips, [0.5, 0.01], seconds=SHORT)
    assert [point.rate for point in profile.points] == [0.01, 0.5]
    assert profile.about["queries"] == ["triangle", "pair"]
    profile.save(tmp_path / "profile.json")
    assert Profile.load(tmp_path / "profile.json") == profile
    assert degree("exponential:1min", profile.service(1 / 60), 15, 0.95).instances == 1


def test_rates_of_an_array(trips: pa.Table) -> None:
    rates: Any = np.array([1, 2])
    assert [point.rate for point in measure_profile(TRIANGLE, trips, rates, seconds=SHORT).points] == [1.0, 2.0]


def test_all_events_are_measured_in_enough_time(trips: pa.Table) -> None:
    """After the window of 20 minutes come nearly all events, in blocks of 1/100 of them."""
    (point,) = measure_profile(TRIANGLE, trips, [natural_rate(trips)], seconds=1e6).points
    times = trips["start_date"].to_numpy()
    first = int(np.searchsorted(times, times[0] + np.timedelta64(20, "m"), "right"))
    block = min(64, (len(trips) - first) // 100)
    assert point.samples == (len(trips) - first) // block


def test_the_first_window_is_not_measured(monkeypatch: pytest.MonkeyPatch, trips: pa.Table) -> None:
    """At each rate, the times are stretched so that the window has as many events as at that rate."""
    seen: list[tuple[int, float]] = []

    def measure(queries: Any, events: Any, times: Any, first: int, rate: float, seconds: float) -> Any:
        assert (np.diff(times) >= 0).all() and times[first] - times[0] > 20 * 60 * 10**9 >= times[first - 1] - times[0]
        assert (len(times) - 1) / (times[-1] - times[0]) * 1e9 == pytest.approx(rate)
        seen.append((first, rate))
        return profiling.ProfilePoint(rate, 1.0, 1.0, 1.0)

    monkeypatch.setattr(profiling, "_measure", measure)
    measure_profile(TRIANGLE, trips, [0.01, 0.1, 1.0])
    counts = [first for first, _ in seen]
    assert counts == sorted(counts) and counts[-1] > 10 * counts[0]


@pytest.mark.parametrize(
    ("query", "first"),
    [("WITHIN 500 EVENTS", 500), pytest.param("WITHIN UNBOUNDED", 400, id="a tenth if the window is unlimited")],
)
@pytest.mark.filterwarnings("ignore:query 'q' is WITHIN UNBOUNDED")
def test_other_windows(monkeypatch: pytest.MonkeyPatch, trips: pa.Table, query: str, first: int) -> None:
    found = []

    def measure(queries: Any, events: Any, times: Any, first: int, rate: float, seconds: float) -> Any:
        found.append(first)
        return profiling.ProfilePoint(rate, 1.0, 1.0, 1.0)

    monkeypatch.setattr(profiling, "_measure", measure)
    measure_profile(parsed(f"PATTERN SEQ(Trip a, Trip b) WHERE [bike] {query}"), trips, [1.0])
    assert found == [first]


@pytest.mark.filterwarnings("ignore:query 'q' is WITHIN UNBOUNDED")
def test_an_unlimited_window_is_measured(trips: pa.Table) -> None:
    query = parsed("PATTERN SEQ(Trip a, Trip b) WHERE a.end = b.start AND [bike] WITHIN UNBOUNDED")
    (point,) = measure_profile([query, TRIANGLE], trips, [1.0], seconds=SHORT).points
    assert point.samples >= 100 and point.p99 > 0


def test_rates_without_enough_events_are_left_out(trips: pa.Table) -> None:
    """A window of 5 days: at twice the rate, all events come within it."""
    query = parsed("PATTERN SEQ(Trip a, Trip b) WHERE [bike] WITHIN 5d")
    rates = [point.rate for point in measure_profile(query, trips, seconds=SHORT).points]
    assert rates == pytest.approx((natural_rate(trips) * np.array([0.25, 0.5, 1])).tolist())
    with pytest.raises(ValidationError, match="too few events: at 1 events/s, 0 of 4,000 events come after"):
        measure_profile(query, trips, [natural_rate(trips), 1.0], seconds=SHORT)


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("300d", "too few events: at 0.00175487 events/s, 0 of 4,000 events come after the first window, and at least "
                 "100 are expected; pass more events or a lower rate"),
        ("3901 EVENTS", "0.00175487 events/s, 99 of 4,000 events come after"),
        ("50000 EVENTS", "0.00175487 events/s, 0 of 4,000 events come after"),
    ],
)  # fmt: skip
def test_too_few_events(trips: pa.Table, window: str, message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        measure_profile(parsed(f"PATTERN SEQ(Trip a, Trip b) WHERE [bike] WITHIN {window}"), trips)


@pytest.mark.parametrize(
    ("count", "message"), [(0, "0 events that last 0 ns have no rate"), (1, "1 events that last 0 ns have no rate")]
)
def test_events_without_a_rate(trips: pa.Table, count: int, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        measure_profile(PAIR, trips.slice(0, count))
    with pytest.raises(ValidationError, match="300 events that last 0 ns have no rate"):
        measure_profile(PAIR, pa.concat_tables([trips.slice(0, 1)] * 300))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rates": []}, "rates is empty; expected at least one rate in events per second, or None"),
        ({"rates": [1.0, 0.0]}, "rate 0.0: expected events per second, above 0 and at most 1e9"),
        ({"rates": [-1.0]}, "rate -1.0: expected"),
        ({"rates": [float("nan")]}, "rate nan: expected"),
        ({"rates": [2e9]}, "rate 2000000000.0: expected"),
        ({"rates": [1e-9]}, "rate 1e-09: 4,000 events would last for 4e+12 s, and times end after 7.83e+09 s; give a"),
        ({"rates": [1.0, 1.0]}, "a profile of 2 rates: expected at least one, and no rate twice"),
        ({"seconds": 0}, "seconds=0: expected a number above 0"),
        ({"seconds": float("nan")}, "seconds=nan: expected a number above 0"),
        ({"seconds": float("inf")}, "seconds=inf: expected a number above 0"),
    ],
)
def test_invalid_options(trips: pa.Table, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        measure_profile(PAIR, trips, **{"seconds": SHORT} | options)


def test_invalid_events(trips: pa.Table) -> None:
    with pytest.raises(OrderError, match=r"row 2, column 'start_date': time .* is before"):
        measure_profile(PAIR, trips.slice(0, 300).take(list(range(299, -1, -1))))
    with pytest.raises(SchemaError, match="no column 'start_date'"):
        measure_profile(PAIR, pa.table({"x": [1]}))
    with pytest.raises(ValidationError, match="cannot read events from int"):
        measure_profile(PAIR, 3)
    with pytest.raises(ValidationError, match="an engine needs at least one query"):
        measure_profile([], trips)
