"""Regression with monotone functions of one variable, choosing the best of four families."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fastcep.errors import ValidationError
from fastcep.overload.protocols import Floats, Ints

__all__ = ["FAMILIES", "Curve", "fit_curve"]

#: Upper limit of the values, so that sums of squares do not overflow.
_MOST = 1e150

#: Terms that contribute less than this share of the largest value count as rounding errors.
_FLAT = 1e-9


@dataclass(frozen=True, slots=True)
class Curve:
    """Non-decreasing function of ``n >= 0``.

    Attributes
    ----------
    family
        ``linear``: ``a + b n``; ``quadratic``: ``a + b n + c n^2``; ``power``: ``a n^b``; ``log-linear``:
        ``exp(a + b n)``, whose logarithm is linear.
    a, b, c
        Parameters; ``c`` is 0 for families without it.
    """

    family: str
    a: float
    b: float
    c: float = 0.0

    def __call__(self, n: float) -> float:
        """Return the value at ``n``."""
        return float(self.values(np.array([n], float))[0])

    def values(self, n: Floats) -> Floats:
        """Return the values at each ``n``, float64[n]."""
        if self.family == "power":
            with np.errstate(over="ignore"):
                return np.minimum(self.a * n**self.b, _MOST)
        if self.family == "log-linear":
            return np.exp(np.minimum(self.a + self.b * n, math.log(_MOST)))
        return self.a + self.b * n + self.c * n * n

    def inverse(self, value: float) -> float:
        """Return the largest ``n`` whose value is at most ``value``: 0 if there is none, infinity if unbounded."""
        if value < self(0.0):
            return 0.0
        if self.flat:
            return math.inf
        if self.family == "power":
            try:
                return float((value / self.a) ** (1 / self.b))
            except OverflowError:
                return math.inf
        if self.family == "log-linear":
            return (math.log(value) - self.a) / self.b
        above = value - self.a
        if above <= 0:
            return 0.0
        root = math.sqrt(self.b * self.b + 4 * self.c * above)
        return 2 * above / (self.b + root)

    @property
    def flat(self) -> bool:
        """True if the function is constant."""
        if self.family == "power":
            return self.a == 0 or self.b == 0
        return self.b == 0 and self.c == 0

    def spec(self) -> dict[str, Any]:
        """Return the parameters as JSON values; ``Curve(**spec)`` restores the curve."""
        return asdict(self)


def fit_curve(n: Sequence[float], values: Sequence[float], folds: int = 5) -> Curve:
    """Fit the family with the smallest cross-validated error.

    The ``i``-th sample is in fold ``i % folds``; the error is the sum of squares over all folds. Of equally good
    families the first in `FAMILIES` is chosen.

    Parameters
    ----------
    n
        Arguments of the samples, at least 0.
    values
        Measured values.
    folds
        Number of folds.

    Returns
    -------
    Curve
        Curve fitted to all samples.

    Raises
    ------
    ValidationError
        If there is no sample, or the lengths differ.
    """
    x, y = np.asarray(n, float), np.asarray(values, float)
    if len(x) == 0 or len(x) != len(y):
        raise ValidationError(f"found {len(x)} arguments and {len(y)} values; expected equal numbers, at least one")
    fold = np.arange(len(x)) % min(folds, len(x))
    errors = {name: _error(fit, x, y, fold) for name, fit in _FITS.items()}
    best = min(errors.values())
    for name, fit in _FITS.items():
        curve = fit(x, y)
        if curve is not None and errors[name] <= best * (1 + 1e-9) + 1e-18 * float(y @ y):
            return curve
    return _linear(x, y)


def _error(fit: Callable[[Floats, Floats], Curve | None], x: Floats, y: Floats, fold: Ints) -> float:
    total = 0.0
    for number in np.unique(fold):
        left_out = fold == number
        if left_out.all():
            return math.inf
        curve = fit(x[~left_out], y[~left_out])
        if curve is None:
            return math.inf
        residuals = curve.values(x[left_out]) - y[left_out]
        total += float(residuals @ residuals)
    return total


def _linear(x: Floats, y: Floats) -> Curve:
    a, b = _rising((x,), y)
    return Curve("linear", a, b)


def _quadratic(x: Floats, y: Floats) -> Curve | None:
    if len(np.unique(x)) < 3:
        return None
    a, b, c = _rising((x, x * x), y)
    return Curve("quadratic", a, b, c)


def _power(x: Floats, y: Floats) -> Curve | None:
    positive = (x > 0) & (y > 0)
    line = _line(np.log(x[positive]), np.log(y[positive]))
    if line is None or abs(line[0]) > math.log(_MOST):
        return None
    return Curve("power", math.exp(line[0]), line[1])


def _log_linear(x: Floats, y: Floats) -> Curve | None:
    positive = y > 0
    line = _line(x[positive], np.log(y[positive]))
    return None if line is None else Curve("log-linear", *line)


def _line(x: Floats, y: Floats) -> tuple[float, float] | None:
    """Return constant and slope of a rising straight line; None if there is none."""
    if len(np.unique(x)) < 2:
        return None
    a, b = _least_squares((x,), y, constant=True)
    return (a, b) if b > 0 else None


def _rising(columns: Sequence[Floats], y: Floats) -> list[float]:
    """Return a constant and a non-negative factor per column.

    Columns with a negative factor are left out. If none remains, or all samples have one argument, the slope is
    unknown. The value is then proportional to the first column, like the time spent per partial match.
    """
    used = list(range(len(columns)))
    while used and len(np.unique(columns[0])) > 1:
        constant, *factors = _least_squares([columns[column] for column in used], y, constant=True)
        lowest = int(np.argmin(factors))
        if factors[lowest] >= 0:
            least = _FLAT * float(np.abs(y).max())
            kept = {
                column: factor if factor * columns[column].max() > least else 0.0
                for column, factor in zip(used, factors, strict=True)
            }
            return [constant, *(kept.get(column, 0.0) for column in range(len(columns)))]
        del used[lowest]
    zeros = [0.0] * (len(columns) - 1)
    if not columns[0].any():
        return [float(y.mean()), 0.0, *zeros]
    (factor,) = _least_squares(columns[:1], y, constant=False)
    return [0.0, max(factor, 0.0), *zeros]


def _least_squares(columns: Sequence[Floats], y: Floats, constant: bool) -> list[float]:
    """Return the factors of the columns, the constant first. Columns are scaled for numerical stability."""
    scales = [1.0] * constant + [float(np.abs(column).max()) or 1.0 for column in columns]
    matrix = np.column_stack([*([np.ones(len(y))] * constant), *columns]) / scales
    return [float(value) for value in np.linalg.lstsq(matrix, y, rcond=None)[0] / scales]


_FITS: dict[str, Callable[[Floats, Floats], Curve | None]] = {
    "linear": _linear, "power": _power, "log-linear": _log_linear, "quadratic": _quadratic,
}  # fmt: skip

#: Names of the families, the simplest first.
FAMILIES = tuple(_FITS)
