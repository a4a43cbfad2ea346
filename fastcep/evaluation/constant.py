"""Shed a constant share of the work, independent of the latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.match_counts import MatchRate
from fastcep.overload.protocols import Classes, Detector, QueryView, Shedder, Tree
from fastcep.query import ast

__all__ = ["ConstantDemand", "SameDemand"]


class ConstantDemand(Shedder):
    """Shedder with a constant demand.

    The inner shedder sees a previous demand of 0 at its first decision, and the constant demand at all later ones.

    Parameters
    ----------
    inner
        Shedder that decides.
    demand
        Share of the work to save.
    """

    def __init__(self, inner: Shedder, demand: float) -> None:
        self.inner, self.demand = inner, demand
        self.name, self.seed = inner.name, inner.seed
        self.drops_matches, self.in_windows = inner.drops_matches, inner.in_windows
        self.often, self.slices = inner.often, inner.slices
        self.limits_backlog = inner.limits_backlog
        self._decided = False

    def check(self, query: ast.Query) -> None:
        """Reject queries that the inner shedder rejects."""
        self.inner.check(query)

    def classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of the inner shedder."""
        return self.inner.classes(query)

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the event classes of the inner shedder."""
        return self.inner.event_classes(query)

    def detector(self, of: str) -> Detector:
        """Return a detector with a constant demand."""
        return SameDemand(self.demand)

    def slices_of(self, query: ast.Query) -> int:
        """Return the number of age slices of the inner shedder."""
        return self.inner.slices_of(query)

    def learn(self, views: Sequence[QueryView]) -> None:
        """Let the inner shedder learn."""
        self.inner.learn(views)

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the drop plan of the inner shedder for the constant demand."""
        before = self.demand if self._decided else 0.0
        self._decided = True
        return self.inner.decide(self.demand, before, views)

    def match_rate(self, query: ast.Query) -> MatchRate | None:
        """Return the match rate of the inner shedder."""
        return self.inner.match_rate(query)

    def stop_shedding(self) -> None:
        """Stop the inner shedder."""
        self.inner.stop_shedding()

    def spec(self) -> dict[str, Any]:
        """Return the specification of the inner shedder, with the demand."""
        return {**self.inner.spec(), "demand": self.demand}

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of the inner shedder."""
        return self.inner.metrics()

    def state(self) -> dict[str, Any]:
        """Return the state of the shedder as JSON values."""
        return {"inner": self.inner.state(), "decided": self._decided}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state` returned."""
        self.inner.restore(state["inner"])
        self._decided = state["decided"]


class SameDemand(Detector):
    """Detector with a constant demand, independent of the load.

    Parameters
    ----------
    demand
        Share of the work to save.
    """

    name = "constant"

    def __init__(self, demand: float) -> None:
        self.demand = demand

    def read(self, load: Load) -> DetectorReading:
        """Return the constant demand."""
        why = f"constant demand: save {self.demand:.1%} of the work"
        return DetectorReading(0.0, amount=self.demand, of_present=False, why=why)

    def spec(self) -> dict[str, Any]:
        """Return the name and options as JSON values."""
        return {"name": self.name, "demand": self.demand}
