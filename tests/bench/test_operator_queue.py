"""The simulated queue of the eSPICE paper's operator, and the windows that are open at each event."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import fastcep as fc
from bench.papers.espice.cases import CASES
from bench.papers.espice.operator_queue import latencies_in_queue, open_windows, queue_of_operator

SCHEMA = fc.Schema({"A": {}, "B": {}}, time="ts", type="type", time_unit="us")
BOUND, DECISION = 1e9, 30e3


@pytest.mark.parametrize(
    ("clause", "expected", "size"),
    [
        ("OPEN ON A o CLOSE AFTER 3 EVENTS", [1, 1, 2, 1, 1, 0], 3.0),
        ("OPEN ON A o CLOSE AFTER 3us", [1, 1, 2, 2, 1, 1], 4.0),
        ("OPEN EVERY 2 EVENTS CLOSE AFTER 4 EVENTS", [1, 1, 2, 2, 2, 2], 10 / 3),
    ],
)
def test_open_windows_are_counted_at_each_event(clause: str, expected: list[int], size: float) -> None:
    table = pa.table({"type": list("ABABBB"), "ts": np.arange(6)})
    windows, mean = open_windows(fc.parse(f"PATTERN SEQ(A a, B b) WINDOW {clause}", SCHEMA, name="q"), table)
    assert windows.tolist() == expected and mean == pytest.approx(size)


@pytest.mark.parametrize("load", [1.2, 1.4, 3.0])
@pytest.mark.parametrize("f", [0.5, 0.8])
def test_events_of_equal_cost_wait_for_the_share_f_of_the_bound(load: float, f: float) -> None:
    """Once the queue is full; before that nothing is shed, so events wait as long as in any queue."""
    service, events = 500_000.0, 60_000
    latencies, sheds = latencies_in_queue(
        np.full(events, service), load / service, BOUND, fc.shedding.QueueLength(f=f), 40, DECISION
    )
    first = int(np.flatnonzero(sheds)[0])
    waits = np.arange(first) * service * (1 - 1 / load) + service
    assert latencies[:first] == pytest.approx(waits, abs=DECISION * (1 + first / 40))
    assert latencies[-10_000:] == pytest.approx(np.full(10_000, f * BOUND), rel=0.03)
    assert latencies.max() < 1.03 * f * BOUND


def test_nothing_is_shed_below_the_throughput() -> None:
    latencies, sheds = latencies_in_queue(
        np.full(5_000, 500_000.0), 0.9 / 500_000.0, BOUND, fc.shedding.QueueLength(), 40, DECISION
    )
    assert not sheds.any() and latencies.max() <= 500_000.0 + DECISION


def test_a_part_has_a_row_and_a_series_for_each_rate() -> None:
    result = queue_of_operator(CASES["q4"], ("120%", "140%"), 0.8, 20_000, 3)
    assert [row["target"] for row in result["rows"]] == result["setting"]["targets"] == ["120%", "140%"]
    assert result["truth"]["matches"] > 100
    for row, line in zip(result["rows"], result["series"], strict=True):
        assert row["share_over_bound"] == 0 and row["mean_latency"] <= row["mean_latency_while_shedding"]
        assert row["mean_latency_while_shedding"] == pytest.approx(0.8 * BOUND, rel=0.05)
        assert len(line["x"]) == len(line["latency"]) == 120 and max(line["latency"]) == round(line["largest"])
