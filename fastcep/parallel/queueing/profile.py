"""Profile of an operator: the time that it takes for an event, at different arrival rates (paper 5, section V-B)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fastcep.errors import ValidationError
from fastcep.io.write.target import write_text
from fastcep.parallel.queueing.distributions import Deterministic
from fastcep.stored import COUNT, anything, by_name, listed, number, one_of, record

__all__ = ["Profile", "ProfilePoint"]

_FORMAT = "fastcep profile 1"


@dataclass(frozen=True)
class ProfilePoint:
    """Service time at one arrival rate.

    Attributes
    ----------
    rate
        Events per second.
    mean, median, p99
        Mean, median and 99th percentile of the time for an event, in ns.
    samples
        Number of times that were measured; each is the mean over a block of events.
    """

    rate: float
    mean: float
    median: float
    p99: float
    samples: int = 0


#: Smallest ratio of two rates: the power between two that are closer would be rounding errors.
_DIFFERENT = 1 + 1e-6
_TIMES = (1e-3, 1e18)
_TIME = number(*_TIMES)
_CHECK = record({
    "format": one_of(_FORMAT),
    "points": listed(record(
        {"rate": number(1e-9, 1e12), "mean": _TIME, "median": _TIME, "p99": _TIME, "samples": COUNT}
    )),
    "about": by_name(anything),
})  # fmt: skip


@dataclass(frozen=True)
class Profile:
    """Service times of an operator by arrival rate.

    Attributes
    ----------
    points
        Service times, by ascending rate; at least one.
    about
        Where it was measured: query, machine, versions, date.

    Raises
    ------
    ValidationError
        If there is no point, two have the same rate (to a millionth), or a rate or time is not a finite number above 0.
    """

    points: tuple[ProfilePoint, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for point in self.points:
            for name in ("rate", "mean", "median", "p99"):
                value = getattr(point, name)
                if not 0 < value < np.inf:
                    raise ValidationError(
                        f"a profile's point has {name} {value!r}; expected a finite number above 0, times in ns"
                    )
        ordered = tuple(sorted(self.points, key=lambda point: point.rate))
        if not ordered or any(second.rate < first.rate * _DIFFERENT for first, second in pairwise(ordered)):
            raise ValidationError(f"a profile of {len(ordered)} rates: expected at least one, and no rate twice")
        object.__setattr__(self, "points", ordered)

    @classmethod
    def of(cls, p99_by_rate: Mapping[float, float] | Iterable[tuple[float, float]]) -> Profile:
        """Return a profile with the 99th percentile in ns at each rate in events/s."""
        pairs = p99_by_rate.items() if isinstance(p99_by_rate, Mapping) else p99_by_rate
        return cls(tuple(ProfilePoint(float(rate), float(p99), float(p99), float(p99)) for rate, p99 in pairs))

    def p99(self, rate: float) -> float:
        """Return the 99th percentile of the service time in ns at a rate in events/s.

        Between two measured rates it follows a power of the rate. Beyond the lowest and the highest one it does too, by
        the power between the last two, but never falls with the rate: a window of more events takes no less.

        Raises
        ------
        ValidationError
            If the rate is not a finite number above 0.
        """
        if not 0 < rate < np.inf:
            raise ValidationError(f"rate {rate!r}: expected events per second, a finite number above 0")
        rates = np.log([point.rate for point in self.points])
        times = np.log([point.p99 for point in self.points])
        at = np.log(rate)
        if len(rates) > 1:
            segment = int(np.clip(np.searchsorted(rates, at) - 1, 0, len(rates) - 2))
            slope = (times[segment + 1] - times[segment]) / (rates[segment + 1] - rates[segment])
            if rates[0] <= at <= rates[-1] or slope > 0:
                return float(np.exp(np.clip(times[segment] + slope * (at - rates[segment]), *np.log(_TIMES))))
        return float(np.exp(np.interp(at, rates, times)))

    def service(self, rate: float) -> Deterministic:
        """Return the distribution of the service time at a rate in events/s: constant, its 99th percentile."""
        return Deterministic(self.p99(rate))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the profile as JSON; ValidationError if the file cannot be written."""
        write_text(path, self.as_json() + "\n")

    def as_json(self) -> str:
        """Return the profile as JSON."""
        points = [asdict(point) for point in self.points]
        return json.dumps({"format": _FORMAT, "points": points, "about": dict(self.about)}, indent=2)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Profile:
        """Read a profile that `save` has written.

        Raises
        ------
        ValidationError
            If the file is something else.
        FileNotFoundError
            If there is no such file.
        """
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            _CHECK(stored, "")
            return cls(tuple(ProfilePoint(**point) for point in stored["points"]), stored["about"])
        except (ValueError, RecursionError, ValidationError) as error:
            raise ValidationError(
                f"'{path}' is no profile of fastcep ({error}); write one with fastcep profile"
            ) from None
