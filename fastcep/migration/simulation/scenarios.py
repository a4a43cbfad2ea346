"""The scenarios of the paper's evaluation: distributions of utilities, and sizes of partial states (section 7)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from fastcep import datasets
from fastcep.errors import ValidationError
from fastcep.io.read.value_lines import read_value_lines
from fastcep.migration.states import LARGEST_TOTAL, Floats, Ints, States
from fastcep.option_checks import check_whole

__all__ = ["SIZES", "UTILITIES", "scenario", "trip_counts"]

#: Distributions of utilities; ``size`` grows with the size of a state.
UTILITIES = ("uniform", "skew10", "skew50", "size")

#: Sizes; any other text is the name of a file.
SIZES = ("equal", "trips")

# A partial match SEQ(A+ B) of a bike and day: key and number of trips, and of each trip the time and three attributes.
_HEADER, _TRIP = 16, 32
_EQUAL = 128
_SKEW = {"uniform": 100.0, "skew10": 90.0, "skew50": 50.0}
_LONGEST_LINE = 40


def scenario(utility: str = "uniform", sizes: str | Path = "equal", states: int = 8000, seed: int = 0) -> States:
    """Generate partial states as in the paper's evaluation.

    Parameters
    ----------
    utility
        - ``"uniform"``: 0 to 100.
        - ``"skew10"``, ``"skew50"``: the same, and utilities above 90 or 50 are multiplied by 10.
        - ``"size"``: the size in bytes to the power of 1.5.
    sizes
        - ``"equal"``: 128 bytes.
        - ``"trips"``: 16 bytes, and 32 for each trip of a bike on a day, of the data set `bayarea_2014`.
        - a file with one size in bytes per line.

        Trips and lines are drawn at random, each at most once if there are enough.
    states
        Number of states, at least 1.
    seed
        Seed of the random numbers.

    Returns
    -------
    States

    Raises
    ------
    ValidationError
        If an argument is wrong.
    DataError, OSError
        If the file has a wrong line, or cannot be read.
    """
    if utility not in UTILITIES:
        raise ValidationError(f"utility={utility!r}: expected one of {', '.join(UTILITIES)}")
    for name, value, least in (("states", states, 1), ("seed", seed, 0)):
        check_whole(name, value, least)
    random = np.random.default_rng(seed)
    size = _sizes(sizes, states, random)
    return States(size, size**1.5 if utility == "size" else _utilities(utility, states, random))


def trip_counts() -> Ints:
    """Return the number of trips of each bike on each day on which it was used, of the data set `bayarea_2014`."""
    trips = pq.read_table(datasets.path("bayarea_2014"), columns=["start_date", "bike_id"])
    days = trips["start_date"].to_numpy().astype("datetime64[D]").astype(np.int64)
    _, counts = np.unique(trips["bike_id"].to_numpy() * 10**6 + days, return_counts=True)
    return counts.astype(np.int64)


def _utilities(name: str, states: int, random: np.random.Generator) -> Floats:
    utility = random.uniform(0, 100, states)
    return np.where(utility > _SKEW[name], 10 * utility, utility)


def _sizes(sizes: str | Path, states: int, random: np.random.Generator) -> Ints:
    if sizes == "equal":
        return np.full(states, _EQUAL, np.int64)
    known = _HEADER + _TRIP * trip_counts() if sizes == "trips" else _read(Path(sizes))
    return random.choice(known, states, replace=len(known) < states)


def _read(path: Path) -> Ints:
    try:
        sizes = read_value_lines(path, _size, "one size in bytes per line")
    except FileNotFoundError:
        raise ValidationError(f"sizes={str(path)!r}: no such file; expected {', '.join(SIZES)} or a file") from None
    return np.array(sizes, np.int64)


def _size(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST_LINE and 1 <= int(text) < LARGEST_TOTAL:
        return int(text)
    raise ValidationError(f"{text!r}; expected a size in bytes, a whole number above 0")
