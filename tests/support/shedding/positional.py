"""Stream whose matches lie early in the window, and whose late events only cost work."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from fastcep.query import ast
from fastcep.shedding import Model

__all__ = ["SCHEMA", "WINDOW", "early", "model", "query", "truth"]

TYPES = ("O", "A", "B", "C", "N")
SCHEMA = fc.Schema({name: {"k": "int64"} for name in TYPES}, time="ts", type="type", time_unit="us")
WINDOW = 200
OPTIONS: dict[str, Any] = {"clock": "virtual", "cost_table": "paper"}


def query(clauses: str = f"WINDOW OPEN ON O o CLOSE AFTER {WINDOW} EVENTS", name: str = "q") -> ast.Query:
    return fc.parse(f"PATTERN SEQ(A a, B b, C c) WHERE a.k + b.k = c.k {clauses}", SCHEMA, name=name)


@cache
def early(windows: int, seed: int, offset: int = 0) -> pa.Table:
    """Each window opens with O. From event 10 + `offset` on, there are 50 with some A, B, C; later only some A, B."""
    rng = np.random.default_rng(seed)
    kinds = np.full((windows, WINDOW), TYPES.index("N"))
    kinds[:, 0] = 0
    late = np.where(rng.random((windows, WINDOW)) < 0.3, rng.integers(1, 3, (windows, WINDOW)), 4)
    kinds[:, 60 + offset :] = late[:, 60 + offset :]
    useful = np.where(rng.random((windows, 50)) < 0.2, rng.integers(1, 4, (windows, 50)), 4)
    kinds[:, 10 + offset : 60 + offset] = useful
    flat = kinds.ravel()
    return pa.table({
        "ts": np.arange(len(flat)), "type": np.array(TYPES)[flat], "k": rng.integers(0, 3, len(flat)),
    })  # fmt: skip


@cache
def model(*, equal_costs: bool = False) -> Model:
    return fc.fit(query(), early(300, 1), kind="espice", equal_costs=equal_costs)


@cache
def truth() -> tuple[list[Any], float]:
    """Return the matches in the stream of seed 2, and the mean latency, with isolated windows."""
    engine = fc.Engine(query(), latency_bound="1h", shedder=None, timed_out=True, **OPTIONS)
    matches = engine.process(early(300, 2)).to_arrow().to_pylist()
    return matches, engine.metrics()["shedding"]["processing_latency"]["mean"]
