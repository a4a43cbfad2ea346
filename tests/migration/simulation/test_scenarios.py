"""Scenarios of the simulation: utilities, sizes, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fastcep as fc
from fastcep.migration import scenario
from fastcep.migration.simulation.scenarios import trip_counts


def test_the_same_seed_gives_the_same_states() -> None:
    first, again, other = (scenario("skew10", "trips", 500, seed) for seed in (1, 1, 2))
    assert first.size.tolist() == again.size.tolist() != other.size.tolist()
    assert first.utility.tolist() == again.utility.tolist() != other.utility.tolist()


@pytest.mark.parametrize(("name", "limit"), [("skew10", 90), ("skew50", 50)])
def test_high_utilities_are_multiplied_by_ten(name: str, limit: int) -> None:
    plain, skewed = scenario("uniform").utility, scenario(name).utility
    assert len(plain) == 8_000 and 0 <= plain.min() < 0.1 and 99.9 < plain.max() <= 100
    assert (skewed == np.where(plain > limit, 10 * plain, plain)).all()
    assert (skewed > 100).mean() == pytest.approx((100 - limit) / 100, abs=0.02)


def test_utilities_that_grow_with_the_size() -> None:
    states = scenario("size", "trips", 300)
    assert states.utility == pytest.approx(states.size**1.5)


def test_sizes_of_trips() -> None:
    counts = trip_counts()
    assert counts.sum() == 326_339 and counts.min() == 1 and len(counts) > 100_000
    sizes = scenario("uniform", "trips").size
    trips = (sizes - 16) / 32
    assert (trips == trips.round()).all() and trips.min() == 1
    assert trips.mean() == pytest.approx(counts.mean(), rel=0.05)
    assert np.unique(scenario("uniform", "equal").size).tolist() == [128]


def test_sizes_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "sizes.txt"
    path.write_text("5\n\n 70 \n900\n")
    assert sorted(scenario("uniform", path, 3).size.tolist()) == [5, 70, 900]
    assert set(scenario("uniform", str(path), 100).size.tolist()) == {5, 70, 900}


@pytest.mark.parametrize("line", ["0", "-1", "1.5", "x", "٣", "9" * 30, "9" * 5000])
def test_wrong_lines(tmp_path: Path, line: str) -> None:
    path = tmp_path / "sizes.txt"
    path.write_text(f"5\n{line}\n", encoding="utf-8")
    with pytest.raises(fc.DataError, match=r"sizes.txt, line 2: .*; expected a size in bytes, a whole number above 0"):
        scenario("uniform", path, 3)


def test_other_wrong_files(tmp_path: Path) -> None:
    path = tmp_path / "sizes.txt"
    path.write_text("\n")
    with pytest.raises(fc.DataError, match="no values; expected one size in bytes per line"):
        scenario("uniform", path)
    path.write_bytes(b"5\n\xff\n")
    with pytest.raises(fc.DataError, match="not UTF-8 at byte 2"):
        scenario("uniform", path)
    with pytest.raises(fc.ValidationError, match="no such file; expected equal, trips or a file"):
        scenario("uniform", tmp_path / "other.txt")
    with pytest.raises(IsADirectoryError):
        scenario("uniform", tmp_path)


def test_wrong_arguments() -> None:
    with pytest.raises(fc.ValidationError, match="utility='skew5': expected one of uniform, skew10, skew50, size"):
        scenario("skew5")
    with pytest.raises(fc.ValidationError, match="states=0: expected a whole number, at least 1"):
        scenario(states=0)
    with pytest.raises(fc.ValidationError, match="seed=-1: expected a whole number, at least 0"):
        scenario(seed=-1)
