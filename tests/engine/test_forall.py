"""For-all conditions on several edges: each edge needs its own program."""

from __future__ import annotations

import random

import pytest
from support import harness

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


def test_a_condition_over_all_elements_that_is_always_true() -> None:
    """It reads no event, so no event is kept for it."""
    text = (
        "PATTERN SEQ(NEG A n, A+ a[], A b) WHERE a[i].k = 1 AND a[i].k = 1 OR COUNT(a[]) > 0 "
        "WINDOW EVERY 3 EVENTS CLOSE AFTER 5s"
    )
    query = fc.parse(text, SCHEMA)
    stream = harness.stream(SCHEMA, "A(k=0,m=0)@0 A(k=1,m=0)@1 A(k=1,m=1)@2 A(k=2,m=1)@3")
    expected = [row[0] for row in harness.expected_rows(query, stream)]
    assert [row[0] for row in harness.rows(query, None, stream, [1])] == expected
