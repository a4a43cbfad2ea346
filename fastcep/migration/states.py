"""The partial states of an operator as columns: size, utility, key."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError

__all__ = ["LARGEST_TOTAL", "Floats", "Ints", "States"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Largest sum of the sizes of all states, in bytes.
LARGEST_TOTAL = 2**62


@dataclass(frozen=True, eq=False)
class States:
    """Partial states of an operator, such as partial matches, key groups or windows.

    Parameters
    ----------
    size
        int64[n]: size of each state as sent, in bytes, at least 1.
    utility
        float64[n]: utility of each state, finite, at least 0; in any unit.
    key
        int64[n]: number of each state, for ties: of two states alike, the one with the smaller key is sent first. By
        default, states are numbered from 0.

    Raises
    ------
    ValidationError
        If a column is not one of numbers, has another length, or a value is out of range.
    """

    size: Ints
    utility: Floats
    key: Ints

    def __init__(self, size: npt.ArrayLike, utility: npt.ArrayLike, key: npt.ArrayLike | None = None) -> None:
        sizes = _integers("size", size)
        utilities = _numbers("utility", utility)
        keys = np.arange(len(sizes), dtype=np.int64) if key is None else _integers("key", key)
        for name, column in (("utility", utilities), ("key", keys)):
            if len(column) != len(sizes):
                raise ValidationError(
                    f"{name}: {len(column):,} values for {len(sizes):,} states; give one value for each size"
                )
        _check("size", sizes, sizes >= 1, "a whole number of bytes, at least 1")
        _check("utility", utilities, np.isfinite(utilities) & (utilities >= 0), "a finite number, at least 0")
        if float(sizes.sum(dtype=np.float64)) >= LARGEST_TOTAL:
            raise ValidationError("size: the sizes add up to 2^62 bytes or more; expected bytes, and less in total")
        if not math.isfinite(_sum(utilities)):
            raise ValidationError("utility: the sum of the utilities is not finite; express them in a larger unit")
        for name, column in (("size", sizes), ("utility", utilities), ("key", keys)):
            column.setflags(write=False)
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.size)

    @property
    def total_size(self) -> int:
        """Size of all states, in bytes."""
        return int(self.size.sum())

    @property
    def total_utility(self) -> float:
        """Utility of all states."""
        return float(self.utility.sum())

    @cached_property
    def relative(self) -> Floats:
        """float64[n]: utility in a unit in which the largest utility is 0.5 to 1.

        The unit is a power of two, so no precision is lost. Utilities near the limits of float64 can be divided then.
        """
        exponent = int(np.frexp(self.utility.max(initial=0.0))[1])
        return np.asarray(np.ldexp(self.utility, -exponent), np.float64)

    @cached_property
    def density(self) -> Floats:
        """float64[n]: relative utility per byte."""
        return np.asarray(self.relative / self.size, np.float64)

    @cached_property
    def by_density(self) -> Ints:
        """int64[n]: the states by descending density; ties by ascending size, then key, then position."""
        return np.lexsort((self.key, self.size, -self.density)).astype(np.int64, copy=False)


def _array(name: str, values: npt.ArrayLike, expected: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0, object)
    if array.ndim == 1 and len(array) == 0 and array.dtype != object:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise ValidationError(
            f"{name}: an array of {array.ndim} dimensions and type {array.dtype}; expected {expected}"
        )
    return array


def _integers(name: str, values: npt.ArrayLike) -> Ints:
    expected = "one integer for each state, in one dimension"
    array = _array(name, values, expected)
    if array.dtype.kind == "f":
        raise ValidationError(f"{name}: an array of type {array.dtype}; expected {expected}")
    if array.dtype.kind == "u" and array.max(initial=0) > np.iinfo(np.int64).max:
        raise ValidationError(f"{name}: {array.max()} does not fit int64; expected at most {np.iinfo(np.int64).max}")
    return array.astype(np.int64)


def _numbers(name: str, values: npt.ArrayLike) -> Floats:
    return _array(name, values, "one number for each state, in one dimension").astype(np.float64)


def _check(name: str, column: npt.NDArray[Any], valid: npt.NDArray[np.bool_], expected: str) -> None:
    if not valid.all():
        first = int(np.argmin(valid))
        raise ValidationError(f"{name}: {column[first]} of state {first}; expected {expected}")


def _sum(utilities: Floats) -> float:
    with np.errstate(over="ignore"):
        return float(utilities.sum())
