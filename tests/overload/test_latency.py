"""Latency monitor, compared with NumPy over all values."""

from __future__ import annotations

import base64
import json
import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from fastcep.errors import SnapshotError, ValidationError
from fastcep.overload.histogram import LONGEST, Histogram
from fastcep.overload.latency import LatencyMonitor


def drawn(count: int, seed: int = 1) -> Any:
    """Draw latencies over nine decades, in integer picoseconds as on a virtual clock."""
    logs = np.random.default_rng(seed).uniform(0, np.log(1e12), count)
    return np.exp(logs).astype(np.int64) / 1000.0


@given(
    st.lists(st.integers(0, 4_000_000_000_000), max_size=40), st.integers(0, 4_000_000_000_000), st.integers(1, 30),
    st.integers(1, 5), st.sampled_from([None, 1e3, 1e12]), st.lists(st.integers(0, 15), max_size=4),
)  # fmt: skip
def test_a_stretch_is_recorded_as_its_waits(
    arrivals: list[int], now: int, window: int, every: int, bound: float | None, sizes: list[int]
) -> None:
    """The compiled loop of the wall clock counts as `record` does, also waits of more than an hour, and those of 0."""
    stretch, single = LatencyMonitor(window, every, bound), LatencyMonitor(window, every, bound)
    for block in blocks(np.array(arrivals, np.int64), sizes):
        stretch.record_stretch(7.0, len(block), now, block)
        single.record(np.full(len(block), 7.0), np.maximum(now - block, 0).astype(np.float64))
    assert stretch.state() == single.state()


def blocks(values: Any, sizes: list[int]) -> list[Any]:
    edges = np.minimum(np.cumsum([0, *sizes, len(values)]), len(values)).tolist()
    return [values[first:last] for first, last in pairwise(edges)]


def nearest_rank(values: Any, share: float) -> float:
    return float(np.sort(values)[max(0, int(np.ceil(share * len(values))) - 1)])


@given(
    st.lists(st.integers(0, 60), max_size=8), st.integers(1, 100), st.integers(1, 40), st.integers(1, 7), st.booleans()
)
def test_as_all_values(sizes: list[int], count: int, window: int, every: int, queued: bool) -> None:
    """Windows, sums and shares, for any division into blocks."""
    processing = drawn(count)
    event = processing + drawn(count, 2) if queued else processing
    monitor = LatencyMonitor(window, every, bound=1000.0)
    for one, other in zip(blocks(processing, sizes), blocks(event, sizes), strict=True):
        monitor.record(one, other if queued else None)
    for kind, values in (("processing", processing[::every]), ("event", event[::every])):
        last = values[-window:]
        assert monitor.count == monitor.summary(kind)["count"] == len(values)
        assert monitor.smoothed("mean", kind) == pytest.approx(last.mean(), rel=1e-12)
        assert monitor.smoothed("p95", kind) == nearest_rank(last, 0.95)
        assert monitor.smoothed("p99", kind) == nearest_rank(last, 0.99)
        assert monitor.recent(1, kind) == values[-1]
        assert monitor.recent(window, kind) == pytest.approx(last.mean(), rel=1e-12)
        assert monitor.share_over(1000.0, kind) == monitor.share_over(kind=kind) == (values > 1000.0).mean()
        summary = monitor.summary(kind)
        assert summary["mean"] == pytest.approx(values.mean(), rel=1e-12)
        assert summary["max"] == values.max()


@given(st.lists(st.integers(0, 60), max_size=8), st.integers(1, 40), st.integers(1, 7))
def test_blocks_do_not_matter(sizes: list[int], window: int, every: int) -> None:
    """Equal to the last bit, so that a detector decides the same for any batches."""
    values = drawn(200)
    whole, parts = LatencyMonitor(window, every), LatencyMonitor(window, every)
    whole.record(values)
    for block in blocks(values, sizes):
        parts.record(block)
    assert whole.state() == parts.state()
    assert whole.smoothed() == parts.smoothed()
    assert whole.summary() == parts.summary()


def test_percentiles_have_three_digits() -> None:
    values = drawn(20_000)
    monitor = LatencyMonitor()
    for block in blocks(values, [1, 5_000, 3, 4_096, 100]):
        monitor.record(block)
    summary = monitor.summary()
    assert list(summary) == [
        "count", "mean", "p50", "p95", "p99", "p999", "max", "mean_while_shedding",
    ]  # fmt: skip
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
        assert summary[name] == pytest.approx(nearest_rank(values, share), rel=1e-3)


def test_a_percentile_is_not_above_the_maximum() -> None:
    monitor = LatencyMonitor()
    monitor.record(np.full(10, 123_456.789))
    assert monitor.summary() == {"count": 10, "mean": 123_456.789, **dict.fromkeys(
        ("p50", "p95", "p99", "p999", "max"), 123_456.789), "mean_while_shedding": 0}  # fmt: skip


def test_the_histogram_is_that_of_single_values() -> None:
    values = np.r_[0, 1, 2_047, 2_048, 2_049, LONGEST, (drawn(6_000) * 1000).astype(np.int64)]
    found, expected = Histogram(), HdrHistogram(1, LONGEST, 3)
    for block in blocks(values, [1, 7, 4_500]):
        found.add(block)
    for value in values.tolist():
        assert expected.record_value(value)
    percents = [0.0, 1e-9, 0.1, 1.0, 25.0, 50.0, 63.2, 95.0, 99.0, 99.9, 99.99, 100.0]
    library = expected.get_percentile_to_value_dict(percents)
    assert found.count == len(values)
    assert found.counts.tolist() == expected.counts[: len(found.counts)]
    assert found.percentiles(percents) == [library[percent] for percent in percents]
    assert Histogram.decoded(found.encoded()).counts.tolist() == found.counts.tolist()


def encoded(*values: int) -> str:
    return base64.b64encode(zlib.compress(np.array(values, dtype="<i8").tobytes())).decode()


@pytest.mark.parametrize("text", ["HISTF", "é", encoded(1), encoded(2, 1, 1, 1), encoded(-1, 1), encoded(1 << 40, 1),
                                  encoded(1, 0), Histogram().encoded()[:-8]])  # fmt: skip
def test_damaged_histograms_are_refused(text: str) -> None:
    with pytest.raises(SnapshotError, match="damaged histogram"):
        Histogram.decoded(text)


def test_more_than_an_hour() -> None:
    monitor = LatencyMonitor()
    monitor.record(np.array([3.7e12, 9e15, 9e15]))
    summary = monitor.summary()
    assert (summary["count"], summary["max"], summary["mean"]) == (3, 9e15, (18e15 + 3.7e12) / 3)
    assert summary["p50"] == pytest.approx(3.6e12, rel=1e-3)


def test_sums_beyond_64_bits() -> None:
    monitor = LatencyMonitor()
    monitor.record(np.full(5_000, 8e15))
    assert monitor.summary()["mean"] == 8e15


def test_before_the_first_value() -> None:
    monitor = LatencyMonitor(bound=1.0)
    monitor.record(np.empty(0))
    for kind in ("processing", "event"):
        assert [monitor.smoothed(name, kind) for name in ("mean", "p95", "p99")] == [0.0, 0.0, 0.0]
        assert (monitor.recent(5, kind), monitor.share_over(kind=kind)) == (0.0, 0.0)
        assert set(monitor.summary(kind).values()) == {0}
    assert monitor.count == 0


def test_the_ring_forgets() -> None:
    monitor = LatencyMonitor(window=3)
    monitor.record(np.array([100.0, 1.0]), np.array([200.0, 2.0]))
    monitor.record(np.array([3.0, 5.0]), np.array([6.0, 10.0]))
    assert (monitor.smoothed(), monitor.smoothed(kind="event")) == (3.0, 6.0)
    assert (monitor.recent(2), monitor.recent(1, "event")) == (4.0, 10.0)
    assert monitor.summary()["max"] == 100.0


def test_state_goes_through_json() -> None:
    values = drawn(5_000)
    monitor, other = (LatencyMonitor(window=100, every=3, bound=50.0) for _ in range(2))
    monitor.record(values[:2_345], values[:2_345] * 2)
    other.record(values[:7])  # replaced by the restored state
    for shedding, block in ((True, values[:20]), (False, values[20:90])):
        monitor.record(block)
        monitor.end_interval(shedding=shedding)
    state = json.loads(json.dumps(monitor.state()))
    other.restore(state)
    for each in (monitor, other):
        each.record(values[2_345:], values[2_345:] * 2)
        each.end_interval(shedding=True)
    assert monitor.state() == other.state()
    for kind in ("processing", "event"):
        assert monitor.summary(kind) == other.summary(kind)
        assert monitor.recent(50, kind) == other.recent(50, kind)


def test_mean_of_the_intervals_in_which_load_was_shed() -> None:
    monitor = LatencyMonitor(window=2)
    for shedding, values in ((False, [9.0]), (True, [1.0, 2.0]), (True, [6.0]), (False, [50.0])):
        monitor.record(np.array(values), 2 * np.array(values))
        monitor.end_interval(shedding=shedding)
    monitor.record(np.array([70.0]))  # of an interval that has not ended
    assert monitor.summary()["mean_while_shedding"] == 3.0
    assert monitor.summary("event")["mean_while_shedding"] == 6.0


def test_older_states_have_no_intervals() -> None:
    monitor = LatencyMonitor()
    monitor.record(np.array([4.0]))
    monitor.end_interval(shedding=True)
    state = monitor.state()
    for kind in ("processing", "event"):
        del state[kind]["ended"], state[kind]["shedding"]
    monitor.restore(state)
    assert monitor.summary()["mean_while_shedding"] == 0
    monitor.record(np.array([5.0]))
    monitor.end_interval(shedding=True)
    assert monitor.summary()["mean_while_shedding"] == 5.0


def test_state_of_nothing() -> None:
    monitor = LatencyMonitor()
    monitor.restore(LatencyMonitor().state())
    monitor.record(np.array([5.0]))
    assert monitor.summary()["p50"] == 5.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": 3}, "window=3, expected 4"),
        ({"bound": None}, "bound=None, expected 2.0"),
        ({"seen": None}, "is damaged"),
        ({"event": {}}, "is damaged"),
        ({"event": {"shedding": [7, 0]}}, "intervals have more values than it counted: 6"),
        ({"event": {"values": [1.0]}}, "does not hold the values that it counted: 6"),
        ({"event": {"histogram": "HISTF"}}, "damaged histogram"),
        ({"event": {"histogram": Histogram().encoded()}}, "does not hold the values that it counted: 6"),
    ],
)
def test_wrong_states_are_refused(change: dict[str, Any], message: str) -> None:
    monitor = LatencyMonitor(window=4, bound=2.0)
    monitor.record(np.arange(6.0))
    before = monitor.state()
    wrong = before | {
        key: before[key] | value if isinstance(value, dict) and value else value for key, value in change.items()
    }
    with pytest.raises(SnapshotError, match=message):
        monitor.restore(wrong)
    assert monitor.state() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window=0: expected at least 1"),
        ({"every": 0}, "every=0: expected at least 1"),
        ({"bound": 0.0}, "bound=0.0: expected nanoseconds, more than 0"),
        ({"bound": -3.0}, "bound=-3.0"),
        ({"bound": float("nan")}, "bound=nan"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        LatencyMonitor(**options)


def test_wrong_calls_are_refused() -> None:
    monitor = LatencyMonitor(window=5, bound=2.0)
    one = np.array([1.0])
    for call, message in (
        (lambda: monitor.record(np.array([1.0, -1.0])), "processing holds a value that is no latency"),
        (lambda: monitor.record(one, np.array([np.nan])), "event holds a value that is no latency"),
        (lambda: monitor.record(one, np.array([np.inf])), "event holds a value that is no latency"),
        (lambda: monitor.record(one, np.array([1.0, 2.0])), "event has 2 values, expected one per event: 1"),
        (lambda: monitor.record(np.array([[1.0]])), "one value per event"),
        (lambda: monitor.smoothed("p50"), "statistic='p50': expected 'mean', 'p95', 'p99'"),
        (lambda: monitor.smoothed(kind="queue"), "kind='queue': expected 'processing' or 'event'"),
        (lambda: monitor.recent(6), "n=6: expected 1 to 5"),
        (lambda: monitor.share_over(3.0), r"share_over\(3.0\): this monitor counts the values above 2.0"),
        (lambda: LatencyMonitor().share_over(), "create it with LatencyMonitor"),
    ):
        with pytest.raises(ValidationError, match=message):
            call()
    assert monitor.count == 0

