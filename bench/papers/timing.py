"""Measure times: an engine that always saves the same share of the work, and no garbage collection meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import fastcep as fc
from fastcep.evaluation.constant import ConstantDemand, SameDemand
from fastcep.evaluation.setting import UNREACHABLE_BOUND
from fastcep.overload.protocols import Shedder

__all__ = ["SAVED", "constant_engine", "no_garbage_collection"]

#: Share of the work to save, about that of a rate of 120 %.
SAVED = 1 - 1 / 1.2


def constant_engine(query: fc.Query, shedder: Shedder) -> fc.Engine:
    """Return an engine on the wall clock that always saves the same share of the work."""
    return fc.Engine(
        query, clock="wall", store="rows", latency_bound=UNREACHABLE_BOUND, detector=SameDemand(SAVED),
        shedder=ConstantDemand(shedder, SAVED),
    )  # fmt: skip


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect garbage before, because it takes as long as a pass, and not inside."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
