"""Setting of an evaluation: the options that all runs share, and their engines."""

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

__all__ = ["STORE", "UNREACHABLE_BOUND", "Setting"]

#: Latency bound in ns that no event reaches, used to measure latencies without shedding.
UNREACHABLE_BOUND = 1e12

#: Store of all engines. Dropping partial matches needs rows, and other stores have other costs.
STORE: Store = "rows"


@dataclass(frozen=True)
class Setting:
    """Options that all runs share.

    Attributes
    ----------
    mode
        Kind of targets: ``bounds``, ``rates`` or ``demands``.
    clock, costs, index
        Options of the engines.
    statistic
        Statistic of the processing latency that a bound limits: ``mean``, ``p95`` or ``p99``.
    latency_bound
        With rates: bound on the event latency in ns.
    skip
        Share of the events at the start whose latencies are excluded as warm-up.
    seeds
        Random seeds.
    repeats
        Number of repetitions of each run.
    detectors
        Detectors of the user; empty: the default detector of the shedder.
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
        """Return an engine that measures latencies and drops nothing."""
        return self._engine(queries, latency_bound=UNREACHABLE_BOUND, shedder=None)

    def shedding(self, queries: Sequence[ast.Query], shedder: Shedder, target: Target) -> Engine:
        """Return an engine with a shedder and a target; the shedder must not be used elsewhere."""
        if target.demand is not None:
            options: dict[str, Any] = {
                "shedder": ConstantDemand(shedder, target.demand), "detector": SameDemand(target.demand)
            }  # fmt: skip
            return self._engine(queries, latency_bound=UNREACHABLE_BOUND, **options)
        return self._engine(
            queries, latency_bound=target.bound, shedder=shedder, detector=self.detectors_for(shedder)
        )

    def _engine(self, queries: Sequence[ast.Query], **options: Any) -> Engine:
        return Engine(
            list(queries), clock=self.clock, cost_table=self.costs, index=self.index, store=STORE, **options
        )

    def detectors_for(self, shedder: Shedder) -> list[Detector]:
        """Return the detectors of an engine with a shedder: those of the setting, or the default ones."""
        if self.detectors:
            return [copy.deepcopy(detector) for detector in self.detectors]
        if self.mode == "rates":
            return [shedder.detector("queue")]
        if self.statistic == "mean":
            return [shedder.detector("latency")]
        return [SmoothedLatency(self.statistic)]
