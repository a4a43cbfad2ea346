"""Cached models of hybrid shedding, and engines that use them at a constant demand."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.evaluation.constant import ConstantDemand, SameDemand
from fastcep.shedding import Model, Shedder
from support.shedding.shed_runs import Q1, found, query

PAPER: dict[str, Any] = {"cost_table": "paper", "index": "key"}
EVENTS = 40_000


@cache
def model(text: str = Q1, name: str = "q1", slices: int = 4) -> Model:
    """Fit a model on events that no test processes, without validation, which doubles the time."""
    history = ds1(events=EVENTS, seed=21)
    return fc.fit(query(text, name), history, slices=slices, validate=False, **PAPER)


@cache
def stream(seed: int = 11, c_values: tuple[int, int] = (1, 10), events: int = EVENTS) -> pa.Table:
    return ds1(events=events, seed=seed, c_values=c_values)


@cache
def truth(text: str = Q1, seed: int = 11) -> list[Any]:
    return found(fc.Engine(query(text), index="key", store="rows").process(stream(seed)))


def shed(shedder: Shedder, demand: float, events: pa.Table | None = None, own: Any = None) -> tuple[Any, fc.Engine]:
    """Return the matches at a constant demand from the first decision on, and the engine."""
    live = fc.Engine(
        query() if own is None else own, clock="virtual", latency_bound="1s", detector=SameDemand(demand),
        shedder=ConstantDemand(shedder, demand), **PAPER,
    )  # fmt: skip
    return found(live.process(stream() if events is None else events)), live
