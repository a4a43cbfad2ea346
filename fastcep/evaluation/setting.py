"""Under which conditions all runs of an evaluation take place."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fastcep.engine import Engine
from fastcep.evaluation.constant import ConstantDemand, SameDemand
from fastcep.evaluation.targets import Target
from fastcep.option_types import Clock, Index, Statistic, Store
from fastcep.overload.costs import CostTable
from fastcep.overload.protocols import Detector, Shedder
from fastcep.query import ast
from fastcep.shedding import SmoothedLatency

__all__ = ["MEASURES", "STORE", "Setting"]

#: A bound that no event comes to: latencies are measured.
MEASURES = 1e12

#: Of all engines. What drops partial matches needs rows, and another store would have other costs.
STORE: Store = "rows"


@dataclass(frozen=True)
class Setting:
    """What all runs have in common.

    Attributes
    ----------
    mode
        What is varied: ``bounds``, ``rates`` or ``demands``.
    clock, costs, index
        Of the engines.
    statistic
        Of the processing latency that a bound is on: ``mean``, ``p95`` or ``p99``.
    latency_bound
        On the event latency, with rates; ns.
    skip
        Share of the events at the beginning whose latencies are not judged.
    seeds
        Of what is drawn.
    repeats
        How often each run is made.
    detectors
        That a user gave; empty: the shedder's usual one.
    """

    mode: str
    clock: Clock = "virtual"
    costs: CostTable = field(default_factory=lambda: CostTable.named("measured"))
    index: Index = "full"
    statistic: Statistic = "mean"
    latency_bound: float | None = None
    skip: float = 0.02
    seeds: tuple[int, ...] = (0,)
    repeats: int = 1
    detectors: tuple[Detector, ...] = ()

    def plain(self, queries: Sequence[ast.Query]) -> Engine:
        """Make an engine that measures latencies and drops nothing."""
        return self._engine(queries, latency_bound=MEASURES, shedder=None)

    def shedding(self, queries: Sequence[ast.Query], shedder: Shedder, target: Target) -> Engine:
        """Make an engine whose load a shedder, which is not used anywhere else, brings to the target."""
        if target.demand is not None:
            own: dict[str, Any] = {
                "shedder": ConstantDemand(shedder, target.demand), "detector": SameDemand(target.demand)
            }  # fmt: skip
            return self._engine(queries, latency_bound=MEASURES, **own)
        return self._engine(
            queries, latency_bound=target.bound, shedder=shedder, detector=self._detectors(shedder)
        )

    def _engine(self, queries: Sequence[ast.Query], **more: Any) -> Engine:
        return Engine(
            list(queries), clock=self.clock, cost_table=self.costs, index=self.index, store=STORE, **more
        )

    def _detectors(self, shedder: Shedder) -> list[Detector]:
        if self.detectors:
            return [copy.deepcopy(detector) for detector in self.detectors]
        if self.mode == "rates":
            return [shedder.detector("queue")]
        if self.statistic == "mean":
            return [shedder.detector("latency")]
        return [SmoothedLatency(self.statistic)]
