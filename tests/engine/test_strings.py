"""String codes are forgotten when nothing can meet them again, and codes in use keep their texts."""

from __future__ import annotations

import fastcep as fc

ATTRIBUTES = {"user": "string", "word": "string"}
SCHEMA = fc.Schema({"A": ATTRIBUTES, "B": ATTRIBUTES}, time="ts", type="type")
BATCH = 5_000


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
