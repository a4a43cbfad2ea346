"""String codes are freed when nothing can use them again, and codes in use keep their texts."""

from __future__ import annotations

import numpy as np
import pytest
from support import harness, letters

import fastcep as fc

ATTRIBUTES = {"user": "string", "word": "string"}
SCHEMA = fc.Schema({"A": ATTRIBUTES, "B": ATTRIBUTES}, time="ts", type="type")
BATCH = 5_000


@pytest.mark.thorough
def test_a_stream_of_ever_new_strings_keeps_few() -> None:
    query = fc.parse(
        "PATTERN SEQ(A a, B b) WHERE a.user = b.user AND a.word != b.word AND a.word != 'never' WITHIN 4ns "
        "RETURN a.word AS first, b.word AS second",
        SCHEMA,
    )
    engine = fc.Engine(query)
    held = []
    for start in range(1, 40 * BATCH, BATCH):  # odd, so that a pair straddles every boundary
        numbers = range(start, start + BATCH)
        matches = engine.process(
            {
                "type": ["A" if number % 2 == 0 else "B" for number in numbers],
                "user": [f"user {number // 2}" for number in numbers],
                "word": [f"word {number}" for number in numbers],
                "ts": list(numbers),
            }
        )
        for row in matches.to_arrow().to_pylist():
            assert row["b"] == row["a"] + 1
            assert (row["first"], row["second"]) == (f"word {row['a'] + 1}", f"word {row['b'] + 1}")
        held.append(engine.metrics()["strings"])
    assert engine.metrics()["matches"] == 40 * BATCH // 2 - 1
    assert max(held) < 1 << 17  # of 300,000


def test_strings_are_forgotten_on_a_quiet_stream() -> None:
    schema = fc.Schema({"A": {"s": "string"}, "B": {"s": "string"}}, type="type")
    one = letters.engine("PATTERN SEQ(A a, B b) WHERE a.s = b.s AND a.s != 'x' WITHIN 10ns RETURN a.s", schema)
    n = 20_000
    for number in range(6):
        names = [f"{number}-{k // 2}" for k in range(n)]
        found = one.process({"type": ["A", "B"] * (n // 2), "s": names, "ts": np.arange(n) * 5 + number * n * 10})
        assert found.to_arrow()["a.s"].to_pylist() == names[::2]
        one.advance((number + 1) * n * 10)
    assert one.metrics()["live_partial_matches"] == 0
    one.process({"type": ["A", "B"], "s": ["x", "x"], "ts": [10**9, 10**9]})
    assert one.metrics()["matches"] == 6 * n // 2
    assert harness.matches("PATTERN SEQ(A a) WHERE a.s = 'x' WITHIN 1s", schema, "A(s='x')") == [{"a": 0}]
