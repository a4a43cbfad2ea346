"""``fastcep degree``: the number of instances that keeps a queue below a limit."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from fastcep import parallel
from fastcep.errors import ValidationError
from fastcep.parallel.queueing.distributions import Distribution, parse_distribution
from fastcep.parallel.queueing.profile import Profile

if TYPE_CHECKING:
    from fastcep.parallel.queueing.fitting import Fit

__all__ = ["degree"]


def degree(
    arrival: str,
    service: str | None,
    profile: Path | None,
    *,
    buffer_limit: int,
    probability: float,
    most: int | None = None,
    json: bool = False,
) -> parallel.Degree:
    """Compute the number of instances, and print it.

    Parameters
    ----------
    arrival, service
        Distributions as text.
    profile
        File with the service times of a query by rate; instead of `service`.
    buffer_limit, probability, most
        See `fastcep.parallel.degree`.
    json
        Print one JSON object instead of a table.

    Raises
    ------
    CapacityError
        If no number of instances is sufficient.
    ValidationError, DataError, FileNotFoundError
        If an option, or a file that it names, is wrong.
    """
    if (service is None) == (profile is None):
        raise ValidationError("give either --service, a distribution, or --profile, a file of fastcep profile")
    times = _parsed("arrival", arrival)
    work = Profile.load(profile).service(1e9 / times.mean) if profile is not None else _parsed("service", str(service))
    options = {} if most is None else {"most": most}
    found = parallel.degree(times, work, buffer_limit, probability, **options)
    given = {"arrival": arrival, "service": f"{profile}" if service is None else service}
    if json:
        print(json_module.dumps(_as_json(found, given, buffer_limit, probability)))
    else:
        _print(found, given, buffer_limit)
    return found


def _parsed(option: str, text: str) -> Distribution:
    try:
        return parse_distribution(text)
    except ValidationError as error:
        raise ValidationError(f"--{option}: {error}") from None


def _as_json(found: parallel.Degree, given: dict[str, str], buffer_limit: int, probability: float) -> dict[str, Any]:
    sides = {}
    for name, used, fit in (
        ("arrival", found.arrival, found.arrival_fit), ("service", found.service, found.service_fit)
    ):  # fmt: skip
        sides[name] = {"given": given[name], "used": str(used), "mean_ns": used.mean, "fit": _fit(fit)}
    return {
        "instances": found.instances, "probability": found.probability,
        "probability_with_fewer": found.probability_with_fewer, "utilisation": found.utilisation,
        "method": found.method, "buffer_limit": buffer_limit, "required_probability": probability, **sides,
    }  # fmt: skip


def _fit(fit: Fit | None) -> dict[str, Any] | None:
    if fit is None:
        return None
    return {
        "distribution": str(fit.distribution), "distance": fit.distance, "probability": fit.probability,
        "accepted": fit.is_accepted, "distances": fit.distances,
    }  # fmt: skip


def _print(found: parallel.Degree, given: dict[str, str], buffer_limit: int) -> None:
    table = Table("", "given", "used", "", box=None)
    for name, used, fit in (
        ("arrivals", found.arrival, found.arrival_fit), ("service", found.service, found.service_fit)
    ):  # fmt: skip
        note = ""
        if fit is not None:
            note = f"closest family {fit.distribution}" + ("" if fit.is_accepted else ", which does not fit")
        table.add_row(name, given["arrival" if name == "arrivals" else "service"], str(used), note)
    Console().print(table)
    print(
        f"{found.instances} instances: at most {buffer_limit} events wait or are being processed with a probability of "
        f"{found.probability:.2%} ({found.method}); {found.utilisation:.0%} busy"
    )
    if found.instances > 1:
        fewer = found.probability_with_fewer
        print(f"{found.instances - 1} instances: " + (f"{fewer:.2%}" if fewer else "the queue grows without limit"))
