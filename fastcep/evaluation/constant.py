"""Shedding of a fixed share of the work, whatever the latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastcep.overload.protocols import Classes, Detector, DetectorReading, DropPlan, Load, QueryView, Shedder, Tree
from fastcep.query import ast

__all__ = ["ConstantDemand", "SameDemand"]


class ConstantDemand(Shedder):
    """A shedder of which always the same is demanded.

    It is told that before the first decision nothing was dropped, and afterwards as much as now.

    Parameters
    ----------
    inner
        The shedder.
    demand
        The share of the work that it is to save.
    """

    def __init__(self, inner: Shedder, demand: float) -> None:
        self.inner, self.demand = inner, demand
        self.name, self.seed = inner.name, inner.seed
        self.drops_matches, self.in_windows = inner.drops_matches, inner.in_windows
        self.often, self.slices = inner.often, inner.slices
        self._decided = False

    def check(self, query: ast.Query) -> None:
        """Refuse what the inner one refuses."""
        self.inner.check(query)

    def classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Those of the inner one."""
        return self.inner.classes(query)

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Those of the inner one."""
        return self.inner.event_classes(query)

    def detector(self, of: str) -> Detector:
        """One that always says the same."""
        return SameDemand(self.demand)

    def slices_of(self, query: ast.Query) -> int:
        """Those of the inner one."""
        return self.inner.slices_of(query)

    def learn(self, views: Sequence[QueryView]) -> None:
        """Let the inner one learn."""
        self.inner.learn(views)

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """What the inner one decides on its demand."""
        before = self.demand if self._decided else 0.0
        self._decided = True
        return self.inner.decide(self.demand, before, views)

    def stop_shedding(self) -> None:
        """The inner one rests, too."""
        self.inner.stop_shedding()

    def spec(self) -> dict[str, Any]:
        """That of the inner one, with the demand."""
        return {**self.inner.spec(), "demand": self.demand}

    def metrics(self) -> dict[str, Any]:
        """What people may want to know of the inner one."""
        return self.inner.metrics()

    def state(self) -> dict[str, Any]:
        """What it has learned, as JSON has it."""
        return {"inner": self.inner.state(), "decided": self._decided}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        self.inner.restore(state["inner"])
        self._decided = state["decided"]


class SameDemand(Detector):
    """A detector that always demands the same, however high the load.

    Parameters
    ----------
    demand
        The share of the work to be saved.
    """

    name = "constant"

    def __init__(self, demand: float) -> None:
        self.demand = demand

    def read(self, load: Load) -> DetectorReading:
        """Judge nothing."""
        return DetectorReading(0.0, amount=self.demand, why=f"{self.demand:.1%} of the work are to be saved")

    def spec(self) -> dict[str, Any]:
        """Its name and options, as JSON has them."""
        return {"name": self.name, "demand": self.demand}
