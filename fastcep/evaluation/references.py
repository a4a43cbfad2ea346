"""References by name: upper limits for strategies, from knowledge that a strategy cannot have."""

from __future__ import annotations

from collections.abc import Callable

from fastcep.evaluation.informed import Informed
from fastcep.evaluation.oracle import Oracle
from fastcep.evaluation.protocols import Reference, ReferenceFit, ShedderFactory, ShedderFit

__all__ = ["REFERENCES"]

#: Constructors by name. A reference caches what it learns about an evaluation, so each evaluation creates its own.
REFERENCES: dict[str, Callable[[], Reference | ShedderFactory | ShedderFit | ReferenceFit]] = {
    "oracle": Oracle, "informed": Informed,
}  # fmt: skip
