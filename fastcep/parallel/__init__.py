"""Several instances of an engine: on one machine, with the result of a single one, and how many of them are needed.

Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastcep.extras import load_name

if TYPE_CHECKING:
    from fastcep.parallel.adaptation.forecast import forecast
    from fastcep.parallel.adaptation.loop import AdaptationLoop
    from fastcep.parallel.adaptation.options import Adaptation
    from fastcep.parallel.adaptation.simulation import simulate
    from fastcep.parallel.engine import ParallelEngine
    from fastcep.parallel.profiling import measure_profile
    from fastcep.parallel.queueing.distributions import (
        Deterministic,
        Distribution,
        Exponential,
        Normal,
        Pareto,
        Samples,
        Uniform,
        parse_distribution,
    )
    from fastcep.parallel.queueing.fitting import fit
    from fastcep.parallel.queueing.instance_count import Degree, degree
    from fastcep.parallel.queueing.profile import Profile, ProfilePoint

__all__ = [
    "Adaptation", "AdaptationLoop", "Degree", "Deterministic", "Distribution", "Exponential", "Normal",
    "ParallelEngine", "Pareto", "Profile", "ProfilePoint", "Samples", "Uniform", "degree", "fit", "forecast",
    "measure_profile", "parse_distribution", "simulate",
]  # fmt: skip

_MODULE_OF = dict.fromkeys(__all__, "queueing.distributions") | {
    "Adaptation": "adaptation.options",
    "AdaptationLoop": "adaptation.loop",
    "Degree": "queueing.instance_count",
    "ParallelEngine": "engine",
    "Profile": "queueing.profile",
    "ProfilePoint": "queueing.profile",
    "degree": "queueing.instance_count",
    "fit": "queueing.fitting",
    "forecast": "adaptation.forecast",
    "measure_profile": "profiling",
    "simulate": "adaptation.simulation",
}


def __getattr__(name: str) -> Any:
    return load_name(__name__, _MODULE_OF, name)


def __dir__() -> list[str]:
    return sorted(__all__)
