"""For-all conditions that several edges carry: each edge needs its own program."""

from __future__ import annotations

import random

import harness
import pytest

import fastcep as fc

SCHEMA = fc.Schema({name: {"k": "int64", "m": "int64"} for name in "ABCD"}, time="ts", type="type")


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN SEQ(A+ a[], B* b[], C? c, D d) WHERE a[i].k > COUNT(b[]) AND d.m > a[last].m WITHIN 1s",
        "PATTERN SEQ(A+ a[], B* b[], C? c, D? d) WHERE a[i].k >= COUNT(b[]) + 1 AND SUM(a[].m) > 2 WITHIN 1s",
    ],
)
def test_a_condition_on_edges_with_different_targets(text: str) -> None:
    query = fc.parse(text, SCHEMA)
    found = 0
    for seed in range(60):
        draw = random.Random(seed)
        events = (f"{draw.choice('AABCD')}(k={draw.randint(0, 2)},m={draw.randint(0, 2)})@{i}" for i in range(7))
        stream = harness.stream(SCHEMA, line := " ".join(events))
        expected = [row[0] for row in harness.expected_rows(query, stream)]
        assert [row[0] for row in harness.rows(query, None, stream, [3])] == expected, line
        found += len(expected)
    assert found > 30
