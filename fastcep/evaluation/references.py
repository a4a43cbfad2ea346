"""References by their spelling: what is possible if more is known than a strategy can know."""

from __future__ import annotations

from collections.abc import Callable

from fastcep.evaluation.informed import Informed
from fastcep.evaluation.oracle import Oracle
from fastcep.evaluation.protocols import Reference, ReferenceFit, ShedderFactory, ShedderFit

__all__ = ["REFERENCES"]

#: By name, what makes one: it remembers what it has found out, and goes with the evaluation that it was made for.
REFERENCES: dict[str, Callable[[], Reference | ShedderFactory | ShedderFit | ReferenceFit]] = {
    "oracle": Oracle, "informed": Informed,
}  # fmt: skip
