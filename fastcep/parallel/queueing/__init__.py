"""Queueing theory: how many instances keep a queue below a limit, given how events arrive and how long they take."""

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
from fastcep.parallel.queueing.instance_count import Degree, degree

__all__ = [
    "Degree", "Deterministic", "Distribution", "Exponential", "Normal", "Pareto", "Samples", "Uniform", "degree",
    "parse_distribution",
]  # fmt: skip
