"""Monotone functions of one variable, fitted to samples; the best of four families."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fastcep.errors import ValidationError
from fastcep.overload.protocols import Floats, Ints

__all__ = ["FAMILIES", "Curve", "fit_curve"]

#: What no value is above, so that squares of them can be summed up.
_MOST = 1e150

#: What makes less than this share of the values is rounding.
_FLAT = 1e-9


@dataclass(frozen=True, slots=True)
class Curve:
    """A function of ``n >= 0`` that never falls.

    Attributes
    ----------
    family
        ``linear``: ``a + b n``; ``quadratic``: ``a + b n + c n^2``; ``power``: ``a n^b``; ``log-linear``:
        ``exp(a + b n)``, whose logarithm is linear.
    a, b, c
        Its parameters; ``c`` is 0 where there is none.
    """

    family: str
    a: float
    b: float
    c: float = 0.0

    def __call__(self, n: float) -> float:
        """The value at ``n``."""
        return float(self.values(np.array([n], float))[0])

    def values(self, n: Floats) -> Floats:
        """The values at all of ``n``."""
        if self.family == "power":
            with np.errstate(over="ignore"):
                return np.minimum(self.a * n**self.b, _MOST)
        if self.family == "log-linear":
            return np.exp(np.minimum(self.a + self.b * n, math.log(_MOST)))
        return self.a + self.b * n + self.c * n * n

    def inverse(self, value: float) -> float:
        """The largest ``n`` whose value is at most ``value``: 0 if there is none, infinite if there is no end."""
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
        """Whether it has the same value everywhere."""
        if self.family == "power":
            return self.a == 0 or self.b == 0
        return self.b == 0 and self.c == 0

    def spec(self) -> dict[str, Any]:
        """Its parameters, as JSON has them: ``Curve(**spec)`` is the same."""
        return asdict(self)


def fit_curve(n: Sequence[float], values: Sequence[float], folds: int = 5) -> Curve:
    """Fit the family that predicts best what it was not fitted to.

    The ``i``-th sample is in fold ``i % folds``; the error is the sum of the squares over all folds. Of families that
    are equally good the first of `FAMILIES` is taken.

    Parameters
    ----------
    n
        Where there are samples, not negative.
    values
        What was measured there.
    folds
        How many parts are left out in turn.

    Returns
    -------
    Curve
        Fitted to all samples.

    Raises
    ------
    ValidationError
        If there is no sample.
    """
    x, y = np.asarray(n, float), np.asarray(values, float)
    if len(x) == 0 or len(x) != len(y):
        raise ValidationError(f"found {len(x)} places and {len(y)} values; expected as many of both, and at least one")
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
    for part in np.unique(fold):
        out = fold == part
        if out.all():
            return math.inf
        curve = fit(x[~out], y[~out])
        if curve is None:
            return math.inf
        off = curve.values(x[out]) - y[out]
        total += float(off @ off)
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
    known = (x > 0) & (y > 0)
    line = _line(np.log(x[known]), np.log(y[known]))
    if line is None or abs(line[0]) > math.log(_MOST):
        return None
    return Curve("power", math.exp(line[0]), line[1])


def _log_linear(x: Floats, y: Floats) -> Curve | None:
    known = y > 0
    line = _line(x[known], np.log(y[known]))
    return None if line is None else Curve("log-linear", *line)


def _line(x: Floats, y: Floats) -> tuple[float, float] | None:
    """A straight line that rises, or None."""
    if len(np.unique(x)) < 2:
        return None
    a, b = _least_squares((x,), y, constant=True)
    return (a, b) if b > 0 else None


def _rising(columns: Sequence[Floats], y: Floats) -> list[float]:
    """A constant and a factor per column, none of which is negative.

    Columns whose factor would be negative are left out. If none remains, or all samples are at one place, nothing is
    known about the rise: then the value is proportional to the first column, as what is spent on each partial match is.
    """
    used = list(range(len(columns)))
    while used and len(np.unique(columns[0])) > 1:
        constant, *factors = _least_squares([columns[at] for at in used], y, constant=True)
        lowest = int(np.argmin(factors))
        if factors[lowest] >= 0:
            least = _FLAT * float(np.abs(y).max())
            found = {at: b if b * columns[at].max() > least else 0.0 for at, b in zip(used, factors, strict=True)}
            return [constant, *(found.get(at, 0.0) for at in range(len(columns)))]
        del used[lowest]
    rest = [0.0] * (len(columns) - 1)
    if not columns[0].any():
        return [float(y.mean()), 0.0, *rest]
    (factor,) = _least_squares(columns[:1], y, constant=False)
    return [0.0, max(factor, 0.0), *rest]


def _least_squares(columns: Sequence[Floats], y: Floats, constant: bool) -> list[float]:
    """The factors of the columns, the constant first; the columns are scaled, so that none drowns others."""
    scales = [1.0] * constant + [float(np.abs(column).max()) or 1.0 for column in columns]
    matrix = np.column_stack([*([np.ones(len(y))] * constant), *columns]) / scales
    return [float(value) for value in np.linalg.lstsq(matrix, y, rcond=None)[0] / scales]


_FITS: dict[str, Callable[[Floats, Floats], Curve | None]] = {
    "linear": _linear, "power": _power, "log-linear": _log_linear, "quadratic": _quadratic,
}  # fmt: skip

#: The simplest first.
FAMILIES = tuple(_FITS)
