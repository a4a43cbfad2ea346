"""Base class of shedders without a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastcep.overload.protocols import Detector, Shedder
from fastcep.shedding.detectors import MemoryUse, QueueLength, SmoothedLatency
from fastcep.shedding.options import as_choice, as_seed

__all__ = ["Baseline"]


class Baseline(Shedder):
    """Shedder for any query, without classes and without learning.

    Parameters
    ----------
    seed
        Seed of all random decisions.

    Raises
    ------
    ValidationError
        If the seed is invalid.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed: int = as_seed(f"shedder {self.name!r}", seed)

    def detector(self, of: str) -> Detector:
        """Return the default detector for ``latency`` (processing), ``queue`` or ``memory``."""
        kinds: dict[str, Callable[[], Detector]] = {
            "latency": SmoothedLatency, "queue": QueueLength, "memory": MemoryUse,
        }  # fmt: skip
        return kinds[as_choice(f"shedder {self.name!r}", "detector", of, tuple(kinds))]()

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        return {"name": self.name, "seed": self.seed}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.seed})"
