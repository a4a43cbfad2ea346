"""Streams of independent events, models of pSPICE that are fitted to them, and engines at a constant demand."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from fastcep.evaluation.constant import ConstantDemand, SameDemand
from fastcep.shedding import Shedder
from fastcep.shedding.pspice.drop_order import DropOrder
from fastcep.shedding.pspice.fit import fit_pspice
from fastcep.shedding.pspice.model import PSpiceModel
from support.shedding.shed_runs import query
from support.state_transfer import quiet

TABLE = fc.CostTable("mixed", event=3, relevant=5, visited=7, created=11, match=13, refused=0)
DEAR = fc.CostTable("dear", event=3, relevant=5, visited=16 * 7, created=16 * 11, match=16 * 13, refused=0)
ABC = "PATTERN SEQ(A a, B b, C c) WITHIN 40 EVENTS"
EVENTS = 12_000


@cache
def letters(events: int = EVENTS, seed: int = 1, gap: int = 10, types: str = "ABCD") -> pa.Table:
    """Return events of equally frequent types that do not depend on each other, ``gap`` us apart in the mean."""
    print(f"letters: seed {seed}")
    random = np.random.default_rng(seed)
    return pa.table({
        "type": random.choice(list(types), events),
        "ID": np.ones(events, np.int64),
        "V": random.integers(0, 3, events),
        "ts": np.cumsum(random.integers(1, 2 * gap, events)),
    })  # fmt: skip


@cache
def fitted(
    text: str = ABC, name: str = "q1", table: fc.CostTable = TABLE, seed: int = 1, bin: int | None = None
) -> PSpiceModel:
    return fit_pspice(query(text, name), letters(seed=seed), cost_table=table, bin=bin)


def order(*models: PSpiceModel, weights: Any = None, slices: int = 8, by_time: bool = True) -> DropOrder:
    windows, numbers = [model.window for model in models], [slices] * len(models)
    return DropOrder(models, weights or [1.0] * len(models), windows, numbers, by_time=by_time)


def shedding(queries: Any, shedder: Shedder | None, demand: float = 0.0, **options: Any) -> fc.Engine:
    """Return an engine whose shedder gets a constant demand, or one without a shedder."""
    own: dict[str, Any] = {"clock": "virtual", "cost_table": TABLE, "latency_bound": "1s"} | options
    if shedder is None:
        return fc.Engine(queries, **own)
    return quiet(fc.Engine, queries, shedder=ConstantDemand(shedder, demand), detector=SameDemand(demand), **own)
