"""Time to compute a model of pSPICE for windows of 32,000 events from transition counts, and its drop order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastcep as fc
from fastcep.shedding.counts import transition_counts
from fastcep.shedding.pspice.drop_order import DropOrder
from fastcep.shedding.pspice.fit import model_of_counts

SCHEMA = fc.Schema({name: {} for name in "ABCDEFGHIJK"}, time="ts", type="type", time_unit="us")
STEPS = ", ".join(f"{name} v{name}" for name in "ABCDEFGHIJ")
QUERY = fc.parse(f"PATTERN SEQ({STEPS}) WITHIN 32000 EVENTS STRATEGY skip_till_next", SCHEMA, name="q1")


@pytest.fixture(scope="module")
def counts() -> pa.Table:
    random = np.random.default_rng(1)
    types = random.choice(list("ABCDEFGHIJK"), 5_000, p=[0.01] * 10 + [0.9])
    return transition_counts(QUERY, pa.table({"type": types, "ts": np.arange(5_000)}), cost_table="paper")


def test_model(benchmark: Any, counts: pa.Table) -> None:
    model = benchmark(model_of_counts, QUERY, counts, None)
    assert model.window == 32_000
    if benchmark.stats is not None:
        assert benchmark.stats.stats.median < 0.5


def test_drop_order(benchmark: Any, counts: pa.Table) -> None:
    model = model_of_counts(QUERY, counts, None)
    order = benchmark(lambda: DropOrder([model], [1.0], [model.window], [32], by_time=True))
    assert order.saved[-1] > 0
