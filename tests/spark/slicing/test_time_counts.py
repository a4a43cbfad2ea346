"""Counts of events in cells of time are exact, whatever the cells and the order in which they are added up."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastcep as fc
from fastcep.spark.slicing.statistics import Statistics, StreamStatistics, fault_of
from fastcep.spark.slicing.time_counts import TimeCounts

TIMES = st.lists(
    st.lists(st.one_of(st.integers(-9, 60), st.integers(-(2**63), 2**63 - 1)), max_size=30), min_size=1, max_size=5
)


@given(TIMES, st.integers(1, 12), st.integers(1, 9))
def test_counts(batches: list[list[int]], limit: int, parts: int) -> None:
    total, times = TimeCounts(limit), sorted(time for batch in batches for time in batch)
    for number, batch in enumerate(batches):
        added = total if number % 2 else TimeCounts(limit)
        for half in (batch[::2], batch[1::2]):
            added.add(np.array(half, np.int64))
        if added is not total:
            total.merge(added)
    cells, counts = total.cells()
    assert len(cells) <= max(limit, 2)
    starts = total.starts()
    assert starts == sorted(set(starts))
    below = [bisect_left(times, start) for start in [*starts, 2**64]]
    assert counts.tolist() == [high - low for low, high in pairwise(below)]
    assert sum(counts) == len(times)
    assert set(total.parts(parts)) <= set(starts)
    assert len(total.parts(parts)) < max(parts, 1) or not times


@pytest.mark.thorough
def test_parts_are_equal() -> None:
    """Far from the other events, a few times do not make the cells long."""
    draw = np.random.default_rng(1)
    times = np.concatenate([draw.integers(10**15, 10**15 + 10**6, 1_000_000), [0, 2**62]])
    counts = TimeCounts()
    for part in np.array_split(times, 50):
        counts.add(part)
    assert counts.shift <= 7
    edges = [0, *(int(np.searchsorted(np.sort(times), start)) for start in counts.parts(40)), len(times)]
    assert max(abs(size - 25_000) for size in np.diff(edges)) < 500


def test_a_batch_that_is_not_in_order() -> None:
    counts = TimeCounts()
    counts.add(np.array([3, 1, 3]))
    cells, numbers = counts.cells()
    assert (cells.tolist(), numbers.tolist()) == ([1, 3], [1, 2])


def test_a_sample_counts_as_many_events() -> None:
    """Numbers of events are multiplied, those of faults are not."""
    each = Statistics(group_sizes=np.array([3, 0, 5]))
    weighted = StreamStatistics(events=8, faults={1: 2}, each=[each]).weighted(8)
    assert (weighted.events, weighted.faults, weighted.sampled) == (64, {1: 2}, True)
    assert weighted.each[0].group_sizes.tolist() == [24, 0, 40]
    schema = fc.Schema({"A": {}}, time="at")
    assert (fault_of(weighted, schema, 1) or "").startswith("DataFrame, column 'at': found null in 2 rows, expected")
