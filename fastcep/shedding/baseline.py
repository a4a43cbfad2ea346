"""What all shedders without a model have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastcep.engine.overload.protocols import Classes, Detector, Orders, View
from fastcep.query import ast
from fastcep.shedding.detectors import MemoryUse, QueueLength, SmoothedLatency
from fastcep.shedding.options import as_choice, as_seed

__all__ = ["Baseline"]


class Baseline:
    """A shedder for every query, which tells no classes apart and learns nothing.

    Parameters
    ----------
    seed
        Of what is drawn.

    Raises
    ------
    ValidationError
        If the seed is none.
    """

    name = ""
    drops_matches = False
    in_windows = False
    often = False
    slices = 1

    def __init__(self, seed: int = 0) -> None:
        self.seed = as_seed(f"shedder {self.name!r}", seed)

    def check(self, query: ast.Query) -> None:
        """Take every query."""

    def classes(self, query: ast.Query) -> Mapping[str, Classes]:
        """All partial matches are of one class."""
        return {}

    def detector(self, of: str) -> Detector:
        """The detector that it usually goes with: of ``latency`` (processing), ``queue``, or ``memory``."""
        kinds: dict[str, type[Detector]] = {"latency": SmoothedLatency, "queue": QueueLength, "memory": MemoryUse}
        return kinds[as_choice(f"shedder {self.name!r}", "detector", of, tuple(kinds))]()

    def decide(self, demand: float, before: float, views: Sequence[View]) -> Sequence[Orders]:
        """Say for each query what to drop, to save the share ``demand`` of the work; ``before`` was demanded last."""
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        """Its name and options, as JSON has them."""
        return {"name": self.name, "seed": self.seed}

    def state(self) -> dict[str, Any]:
        """It learns nothing: what it goes by is counted by the matchers."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.seed})"
