"""Look-ups of text functions and time zones: generated kernels compute what the interpreter computes."""

from __future__ import annotations

import numpy as np
import pytest

import fastcep as fc

SCHEMA = fc.Schema({"A": {"s": "string", "v": "int64"}, "B": {"s": "string", "v": "int64"}}, time="t", type="type")
CONDITIONS = [
    "a.s LIKE '%1%' AND a.v > 2",
    "upper(a.s) = upper(b.s)",
    "length(a.s) < length(b.s)",
    "CASE WHEN a.v IS NULL THEN b.s ELSE lower(a.s) END >= 'w5'",
    "hour(a.time + a.v * 7h, 'Europe/Berlin') = 8",
    "date(a.time + a.v * 101d, 'America/New_York') > TIMESTAMP '1975-06-01'",
    "dayofweek(a.time + a.v * 1d) = dayofweek(b.time + b.v * 1d, 'Asia/Kathmandu')",
]


@pytest.mark.sample(3)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_kernels_agree_with_the_interpreter(monkeypatch: pytest.MonkeyPatch, condition: str) -> None:
    random = np.random.default_rng(5)
    n = 700  # more than two chunks
    events = {
        "type": ["A", "B"] * (n // 2),
        "t": list(range(n)),
        "s": [None if k % 11 == 0 else f"{'wW'[k % 2]}{k % 23}" for k in random.integers(0, 99, n).tolist()],
        "v": [None if k == 7 else k for k in random.integers(0, 40, n).tolist()],
    }
    query = fc.parse(f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 20ns", SCHEMA)
    found = []
    for jit in ("0", "1"):
        monkeypatch.setenv("FASTCEP_JIT", jit)
        engine = fc.Engine(query)
        assert jit == "0" or engine.compile("5min"), engine.metrics()["kernels"]
        found.append(engine.process(events).to_arrow().to_pylist())
    assert found[0] == found[1] and found[0]
