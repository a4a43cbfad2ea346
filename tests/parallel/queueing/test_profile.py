"""Service times by rate: interpolation, files and errors."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.errors import ValidationError
from fastcep.parallel.queueing.distributions import Deterministic
from fastcep.parallel.queueing.instance_count import degree
from fastcep.parallel.queueing.profile import Profile, ProfilePoint

POINT: dict[str, Any] = {"rate": 5.0, "mean": 1e6, "median": 9e5, "p99": 2e6, "samples": 100}
#: The service time of the paper's scenario: 1.25 s at 5 events/s, with the square of the rate.
TRAFFIC = Profile.of({rate: 1.25e9 * (rate / 5) ** 2 for rate in (0.5, 1, 2, 5)})

RATES = st.floats(1e-3, 1e9)
TIMES = st.floats(1, 1e12)
PROFILES = st.builds(
    lambda lowest, ratios, times: Profile.of(zip(lowest * np.cumprod([1, *ratios]), times, strict=False)),
    RATES, st.lists(st.floats(1.00001, 1e3), max_size=5), st.lists(TIMES, min_size=6, max_size=6),
)  # fmt: skip


@pytest.mark.parametrize("rate", [0.5, 0.7, 1, 1.5, 3, 5, 0.1, 20])
def test_a_power_of_the_rate_is_found_at_any_rate(rate: float) -> None:
    assert TRAFFIC.p99(rate) == pytest.approx(1.25e9 * (rate / 5) ** 2)


def test_the_degree_of_the_traffic_scenario() -> None:
    assert isinstance(TRAFFIC.service(5), Deterministic)
    assert degree("exponential:200ms", TRAFFIC.service(5), 15, 0.95).instances == 8


@given(PROFILES)
def test_measured_rates_have_the_measured_times(profile: Profile) -> None:
    for point in profile.points:
        assert profile.p99(point.rate) == pytest.approx(point.p99, rel=1e-6)


@given(PROFILES, st.floats(0, 1))
def test_between_two_rates_the_time_is_between_theirs(profile: Profile, share: float) -> None:
    for first, second in zip(profile.points, profile.points[1:], strict=False):
        time = profile.p99(min(first.rate * (second.rate / first.rate) ** share, second.rate))
        low, high = sorted([first.p99, second.p99])
        assert low * (1 - 1e-6) <= time <= high * (1 + 1e-6)


@given(PROFILES, st.floats(1, 1e6), st.floats(1, 1e6))
def test_beyond_the_measured_rates_the_time_never_falls(profile: Profile, first: float, second: float) -> None:
    near, far = sorted([first, second])
    lowest, highest = profile.points[0], profile.points[-1]
    ascending = [lowest.rate / far, lowest.rate / near, lowest.rate]
    times = [*map(profile.p99, ascending)]
    assert all(0 < a <= b * (1 + 1e-6) for a, b in itertools.pairwise(times))
    times = [*map(profile.p99, [highest.rate, highest.rate * near, highest.rate * far])]
    assert all(a <= b * (1 + 1e-6) < np.inf for a, b in itertools.pairwise(times))


def test_one_rate() -> None:
    profile = Profile.of({5: 2e6})
    assert [profile.p99(rate) for rate in (1e-9, 5, 1e9)] == pytest.approx([2e6] * 3)


def test_falling_times_are_not_extrapolated() -> None:
    profile = Profile.of([(4, 2e6), (1, 1e6), (2, 3e6)])
    assert [point.rate for point in profile.points] == [1, 2, 4]
    assert profile.p99(8) == pytest.approx(2e6) and profile.p99(0.5) == pytest.approx(1e6 / 3)


def test_extreme_rates_have_finite_times() -> None:
    profile = Profile.of({1: 1.0, 1.001: 1e6})
    assert profile.p99(1e300) == pytest.approx(1e18) and profile.p99(1e-300) == pytest.approx(1e-3)


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf")])
def test_invalid_rates(rate: float) -> None:
    with pytest.raises(ValidationError, match=f"rate {rate!r}: expected events per second, a finite number above 0"):
        TRAFFIC.p99(rate)


@given(PROFILES)
def test_a_profile_is_stored_exactly(profile: Profile) -> None:
    written = json.loads(profile.as_json())
    assert [ProfilePoint(**point) for point in written["points"]] == [*profile.points]


def test_a_profile_is_loaded_as_saved(tmp_path: Path) -> None:
    path = tmp_path / "é profile.json"
    points = (ProfilePoint(**POINT), ProfilePoint(1 / 3, 0.1, 0.2, 0.3))
    profile = Profile(points, {"queries": ["q"], "nested": [1, None]})
    profile.save(path)
    assert Profile.load(path) == profile
    assert Profile.load(str(path)).as_json() + "\n" == path.read_text(encoding="utf-8")
    TRAFFIC.save(path)
    assert Profile.load(path) == TRAFFIC


def test_a_profile_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=re.escape(f"cannot write '{tmp_path}'")):
        TRAFFIC.save(tmp_path)


def test_a_missing_profile(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Profile.load(tmp_path / "missing")


def stored(point: dict[str, Any] | None = None, **fields: Any) -> str:
    return json.dumps({"format": "fastcep profile 1", "points": [POINT | (point or {})], "about": {}} | fields)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value: line 1 column 1"),
        ("{", "Expecting property name"),
        ("[" * 100_000, "maximum recursion depth"),
        ("null", "found None (NoneType), expected an object with format, points, about"),
        ("{}", "format: found nothing"),
        (stored(format="fastcep profile 2"), "format: found 'fastcep profile 2' (str), expected 'fastcep profile 1'"),
        (stored(points=[]), "a profile of 0 rates: expected at least one"),
        (stored(points=[POINT, POINT]), "a profile of 2 rates: expected at least one, and no rate twice"),
        (stored({"p99": -1}), "points[0].p99: found -1 (int), expected a number from 0.001 to 1e+18"),
        (stored({"p99": float("nan")}), "points[0].p99: found nan"),
        (stored({"rate": 0}), "points[0].rate: found 0 (int), expected a number from 1e-09 to 1e+12"),
        (stored({"samples": 1.5}), "points[0].samples: found 1.5"),
        (stored({"extra": 1}), "points[0]"),
        (stored(about=[1]), "about: found [1] (list), expected an object"),
        (stored().replace("5.0", "9" * 5_000), "4300"),
    ],
)
def test_broken_profiles(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValidationError) as error:
        Profile.load(path)
    assert str(error.value).startswith(f"'{path}' is no profile of fastcep (") and message in str(error.value)
    assert str(error.value).endswith("; write one with fastcep profile")


def test_a_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValidationError, match=r"is no profile of fastcep .*can't decode"):
        Profile.load(path)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({}, "a profile of 0 rates: expected at least one, and no rate twice"),
        ([(1, 2e6), (1, 3e6)], "a profile of 2 rates: expected at least one, and no rate twice"),
        ([(1, 2e6), (1 + 1e-15, 3e6)], "a profile of 2 rates: expected at least one, and no rate twice"),
        ({-1: 1e6}, "a profile's point has rate -1.0; expected a finite number above 0"),
        ({float("nan"): 1e6}, "a profile's point has rate nan"),
        ({1: 0}, "a profile's point has mean 0.0; expected a finite number above 0, times in ns"),
        ({1: float("inf")}, "a profile's point has mean inf"),
    ],
)
def test_invalid_points(points: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Profile.of(points)
