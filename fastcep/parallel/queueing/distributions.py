"""Distributions of times between arrivals and of service times, as text, and as SciPy distributions.

A time is a float64 in nanoseconds here; the public functions take durations as text, such as ``"300ms"``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError
from fastcep.events import parse_duration
from fastcep.events.units import NANOSECONDS
from fastcep.io.read.value_lines import read_value_lines
from fastcep.option_checks import duration_option

__all__ = [
    "Deterministic", "Distribution", "Exponential", "Family", "Normal", "Pareto", "Samples", "Uniform",
    "parse_distribution", "show_time",
]  # fmt: skip

Floats = npt.NDArray[np.float64]
Duration = str | timedelta

_FORMS = (
    "exponential:MEAN, deterministic:TIME, uniform:LOW:HIGH, normal:MEAN:DEVIATION, pareto:MINIMUM:SHAPE or "
    'samples:FILE, with times such as "300ms"'
)


def show_time(ns: float) -> str:
    """Format a time with four significant digits: ``43_212_345.6`` as ``"43.21ms"``."""
    unit = next((unit for unit in ("s", "ms", "us") if abs(ns) >= NANOSECONDS[unit]), "ns")
    return f"{float(f'{ns / NANOSECONDS[unit]:.4g}'):.12g}{unit}"


#: Range of times and parameters that are not 0, so that their squares and ratios can be computed with.
_SHORTEST, _LONGEST = 1e-12, 1e20


class Distribution(ABC):
    """Distribution of a time that is not negative.

    Attributes
    ----------
    mean
        Mean in ns.
    """

    mean: float

    @abstractmethod
    def quantiles(self, shares: Floats) -> Floats:
        """Return the times in ns that these shares of the times do not exceed."""

    def quantile(self, share: float) -> float:
        """Return the time in ns that this share of the times do not exceed."""
        return float(self.quantiles(np.array([share]))[0])

    @abstractmethod
    def __str__(self) -> str:
        """Return the form that `parse_distribution` takes, with times rounded to four digits."""


class Family(Distribution):
    """A continuous distribution that SciPy has."""

    @property
    @abstractmethod
    def law(self) -> Any:
        """The same distribution as a frozen one of `scipy.stats`, in ns."""

    def quantiles(self, shares: Floats) -> Floats:  # noqa: D102
        return np.asarray(self.law.ppf(shares), np.float64)


@dataclass(frozen=True)
class Exponential(Family):
    """Exponential distribution: the times between events that arrive independently at a constant rate (Poisson)."""

    mean: float

    def __post_init__(self) -> None:
        _check_positive("exponential", mean=self.mean)

    @classmethod
    def of(cls, mean: Duration) -> Self:
        """Return the one with a mean such as ``"300ms"``."""
        return cls(_positive("mean", mean))

    @property
    def law(self) -> Any:  # noqa: D102
        from scipy import stats

        return stats.expon(scale=self.mean)

    def __str__(self) -> str:
        return f"exponential:{show_time(self.mean)}"


@dataclass(frozen=True)
class Deterministic(Distribution):
    """Always the same time."""

    mean: float

    def __post_init__(self) -> None:
        if self.mean != 0:
            _check_positive("deterministic", time=self.mean)

    @classmethod
    def of(cls, time: Duration) -> Self:
        """Return the one with a time such as ``"300ms"``."""
        return cls(_positive("time", time))

    def quantiles(self, shares: Floats) -> Floats:  # noqa: D102
        return np.full(len(shares), self.mean)

    def __str__(self) -> str:
        return f"deterministic:{show_time(self.mean)}"


@dataclass(frozen=True)
class Uniform(Family):
    """All times from `low` to `high` ns are equally likely."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= _LONGEST:
            raise ValidationError(
                f"uniform: the lowest time is {show_time(self.low)} and the highest {show_time(self.high)}; expected "
                "finite times, 0 or more, the lower one first"
            )

    @classmethod
    def of(cls, low: Duration, high: Duration) -> Self:
        """Return the one between two times such as ``"100ms"`` and ``"200ms"``."""
        return cls(float(duration_option("lowest time", low)), _positive("highest time", high))

    @property
    def mean(self) -> float:  # type: ignore[override]
        """Mean in ns."""
        return (self.low + self.high) / 2

    @property
    def law(self) -> Any:  # noqa: D102
        from scipy import stats

        return stats.uniform(self.low, self.high - self.low)

    def __str__(self) -> str:
        return f"uniform:{show_time(self.low)}:{show_time(self.high)}"


@dataclass(frozen=True)
class Normal(Family):
    """Normal distribution, of which only times above 0 count.

    Attributes
    ----------
    center, deviation
        Mean and standard deviation in ns before times below 0 are left out.
    """

    center: float
    deviation: float

    def __post_init__(self) -> None:
        _check_positive("normal", center=self.center, deviation=self.deviation)

    @classmethod
    def of(cls, mean: Duration, deviation: Duration) -> Self:
        """Return the one with a mean and a standard deviation such as ``"100ms"`` and ``"10ms"``."""
        return cls(_positive("mean", mean), _positive("deviation", deviation))

    @property
    def mean(self) -> float:  # type: ignore[override]
        """Mean in ns."""
        return float(self.law.mean())

    @property
    def law(self) -> Any:  # noqa: D102
        from scipy import stats

        return stats.truncnorm(-self.center / self.deviation, np.inf, self.center, self.deviation)

    def __str__(self) -> str:
        return f"normal:{show_time(self.center)}:{show_time(self.deviation)}"


@dataclass(frozen=True)
class Pareto(Family):
    """Pareto distribution: at least `minimum` ns, longer than ``x`` with the probability ``(minimum / x) ** shape``."""

    minimum: float
    shape: float

    def __post_init__(self) -> None:
        _check_positive("pareto", minimum=self.minimum, shape=self.shape)

    @classmethod
    def of(cls, minimum: Duration, shape: float | str) -> Self:
        """Return the one with a minimum such as ``"50ms"``, and a shape above 1."""
        try:
            number = float(shape)
        except (TypeError, ValueError):
            number = np.nan
        if not 1 < number < np.inf:
            raise ValidationError(f"shape {shape!r} of a Pareto distribution: expected a number above 1 (finite mean)")
        return cls(_positive("minimum", minimum), number)

    @property
    def mean(self) -> float:  # type: ignore[override]
        """Mean in ns; infinite if the shape is at most 1."""
        return self.minimum * self.shape / (self.shape - 1) if self.shape > 1 else np.inf

    @property
    def law(self) -> Any:  # noqa: D102
        from scipy import stats

        return stats.pareto(self.shape, scale=self.minimum)

    def __str__(self) -> str:
        return f"pareto:{show_time(self.minimum)}:{self.shape:.4g}"


@dataclass(frozen=True, eq=False)
class Samples(Distribution):
    """Measured times, in the order in which they were measured.

    Parameters
    ----------
    times
        Times in ns, [n], not negative.
    name
        Name of the file, for messages.
    """

    times: Floats
    name: str = "samples"

    def __post_init__(self) -> None:
        try:
            values = np.asarray(self.times)
        except ValueError:  # lists of different lengths
            values = np.empty(0, object)
        if values.ndim != 1 or not len(values) or values.dtype.kind not in "iuf":
            raise ValidationError(
                f"{self.name}: found an array of type {values.dtype} and shape {values.shape}; expected a list of at "
                "least one time in ns, as a number"
            )
        times = values.astype(np.float64)
        wrong = ~((times >= 0) & (times <= _LONGEST))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise ValidationError(
                f"{self.name}: time number {at + 1} is {times[at]}; expected ns, from 0 to {_LONGEST:g}"
            )
        object.__setattr__(self, "times", times)

    @cached_property
    def mean(self) -> float:  # type: ignore[override]
        """Mean in ns."""
        return float(self.times.mean())

    def quantiles(self, shares: Floats) -> Floats:  # noqa: D102
        return np.quantile(self.times, shares, method="inverted_cdf")

    def __str__(self) -> str:
        return f"samples:{self.name}"


#: Name of a form: how it is built from its parts, and how many there are.
_KINDS: dict[str, tuple[Callable[..., Distribution], int]] = {
    "exponential": (Exponential.of, 1),
    "deterministic": (Deterministic.of, 1),
    "uniform": (Uniform.of, 2),
    "normal": (Normal.of, 2),
    "pareto": (Pareto.of, 2),
}


def parse_distribution(text: str) -> Distribution:
    """Parse a distribution.

    Parameters
    ----------
    text
        ``exponential:MEAN``, ``deterministic:TIME``, ``uniform:LOW:HIGH``, ``normal:MEAN:DEVIATION``,
        ``pareto:MINIMUM:SHAPE``, all with times such as ``300ms``; or ``samples:FILE``, a text file with one time per
        line.

    Raises
    ------
    ValidationError
        If the text is something else.
    DataError
        If a line of the file is no time.
    FileNotFoundError
        If there is no such file.
    """
    kind, _, rest = text.partition(":")
    if kind == "samples" and rest:
        return read_samples(Path(rest))
    parts = rest.split(":")
    if kind not in _KINDS or len(parts) != _KINDS[kind][1] or not all(parts):
        raise ValidationError(f"{text!r} is no distribution; expected {_FORMS}")
    try:
        return _KINDS[kind][0](*parts)
    except ValidationError as error:
        raise ValidationError(f"{text!r}: {error}") from None


def read_samples(path: Path) -> Samples:
    """Read a text file with one time per line, such as ``12.5ms``; empty lines are left out."""
    times = read_value_lines(path, parse_duration, "one time per line, such as 12.5ms")
    return Samples(np.array(times, np.float64), str(path))


def _check_positive(kind: str, **parameters: float) -> None:
    for name, value in parameters.items():
        if not _SHORTEST <= value <= _LONGEST:
            raise ValidationError(
                f"{kind}: {name} is {value}; expected a number from {_SHORTEST:g} to {_LONGEST:g} (times in ns)"
            )


def _positive(option: str, value: Duration) -> float:
    return float(duration_option(option, value, positive=True))
