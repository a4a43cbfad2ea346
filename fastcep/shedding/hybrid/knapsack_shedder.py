"""Hybrid shedding with the covering knapsack of the paper, for comparison with the drop order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastcep.errors import ValidationError
from fastcep.shedding.hybrid.covering_knapsack import CoveringKnapsack
from fastcep.shedding.hybrid.drop_order import Selector
from fastcep.shedding.hybrid.shedder import Hybrid
from fastcep.shedding.model import ModelSource

__all__ = ["HybridKnapsack"]


class HybridKnapsack(Hybrid):
    """Drops what the covering knapsack of the paper selects (hybrid, section IV-B). See `Hybrid`.

    Parameters
    ----------
    model, seed, options
        As for `Hybrid`.
    exact
        True: solve the knapsack by dynamic programming. False: greedily, by ascending contribution per consumption.
    """

    name = "hybrid-knapsack"

    def __init__(
        self, model: ModelSource | Sequence[ModelSource], seed: int = 0, *, exact: bool = True, **options: Any
    ) -> None:
        if not isinstance(exact, bool):
            raise ValidationError(f"shedder {self.name!r}: exact={exact!r}; expected True or False")
        self._exact = exact
        super().__init__(model, seed, **options)

    def _new_selector(self, name: str) -> Selector:
        model, flow = self._models[name], self._flows[name].flow
        return CoveringKnapsack(flow, model.costs, self.events, self.rows, self._exact, model.percentile_factor)

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        return super().spec() | {"exact": self._exact}
