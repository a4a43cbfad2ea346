"""Calibration: the fit on counters with known costs, and a short real run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fastcep.arrivals import calibration as module
from fastcep.arrivals.calibration import COUNTERS, WORKLOADS, TimedRun, calibrate, fit, measure, workload_stream
from fastcep.arrivals.shedding_costs import measure_shedding
from fastcep.errors import ValidationError
from fastcep.overload.costs import OPERATIONS

COSTS = {"event": 1.5, "relevant": 20.0, "visited": 4.0, "created": 12.0, "match": 7.25}


def counters() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.random.default_rng(3).integers(1, 1_000_000, (12, len(COUNTERS))).astype(np.float64)


def test_the_fit_finds_what_was_put_in() -> None:
    counts = counters()
    assert fit(counts, counts @ list(COSTS.values())) == pytest.approx(list(COSTS.values()))


def test_no_cost_is_negative() -> None:
    counts = counters()
    costs = fit(counts, counts @ [1.5, 20.0, -1.0, 12.0, 7.25])
    assert costs[2] == 0.0
    assert (costs[[0, 1, 3, 4]] > 0).all()


def test_every_run_counts_the_same() -> None:
    """Of two contradictory runs, one of which takes 500 times as long, the long one has no more weight."""
    costs = fit(np.array([[1.0], [1000.0]]), np.array([2.0, 1000.0]))
    assert costs == pytest.approx([1.2])  # the least squares of x/2 − 1 and x/1 − 1


def test_a_table_from_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has the fitted costs and those measured separately; its error is the median."""
    counts = counters().astype(int).tolist()
    runs = [
        TimedRun(str(k), dict(zip(COUNTERS, row, strict=True)), float(np.dot(row, list(COSTS.values()))))
        for k, row in enumerate(counts)
    ]
    monkeypatch.setattr(module, "measure", lambda *_: runs)
    monkeypatch.setattr(module, "workload_stream", lambda: None)
    monkeypatch.setattr(module, "measure_shedding", lambda *_: {"refused": 2.0, "purged": 2.0, "decision": 20_000.0})
    calibration = calibrate("own", 1.0)
    assert calibration.table.name == "own"
    assert {key: getattr(calibration.table, key) for key in COSTS} == COSTS
    assert (calibration.table.refused, calibration.table.purged, calibration.table.decision) == (2.0, 2.0, 20_000.0)
    assert calibration.about["fitted"] == list(COUNTERS)
    assert calibration.about["measured_apart"] == [name for name in OPERATIONS if name not in COUNTERS]
    assert calibration.error == calibration.about["median_relative_error"] == pytest.approx(0, abs=1e-9)
    assert [row["name"] for row in calibration.about["runs"]] == [run.name for run in runs]
    assert calibration.about["machine"]["cores"] >= 1
    assert calibration.about["machine"]["cpu"]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValidationError, match="expected more than 0"):
        calibrate("x", seconds)


def test_counters_of_real_runs(kernels: Path) -> None:
    chosen = {name: WORKLOADS[name] for name in ("events", "matches of one")}
    events, single = measure(chosen, workload_stream(2_000), 1e-9)
    assert events.counts == {"event": 2_000, "relevant": 0, "visited": 0, "created": 0, "match": 0}
    matches = single.counts["match"]
    assert single.counts == {"event": 2_000, "relevant": matches, "visited": 0, "created": 0, "match": matches}
    assert matches > 400
    assert min(events.nanoseconds, single.nanoseconds) > 0


def test_the_interpreter_is_not_measured() -> None:
    """FASTCEP_JIT is 0 in all tests without the fixture `kernels`."""
    with pytest.raises(ValidationError, match="cannot calibrate: the generated kernels are not in use"):
        measure({"Q1": WORKLOADS["Q1, 1 ms"]}, workload_stream(10), 1e-9)


def test_counters_differ_independently() -> None:
    """The workloads distinguish the operations: no counter is a linear combination of the others."""
    import fastcep as fc

    schema = fc.Schema(
        {name: {"ID": "int64", "V": "int64"} for name in "ABCDEF"}, time="ts", type="type", time_unit="us"
    )
    stream, rows = workload_stream(20_000), []
    for text in WORKLOADS.values():
        engine = fc.Engine(fc.parse(f"PATTERN {text}", schema), store="rows")
        engine.process(stream)
        rows.append([engine.metrics()[name] for name in COUNTERS.values()])
    counts = np.array(rows, dtype=np.float64)
    assert np.linalg.matrix_rank(counts / counts.max(axis=0), tol=0.05) == len(COUNTERS)


def test_what_shedding_costs_is_measured(kernels: Path) -> None:
    """Visiting a row and a decision take some time; rejecting a new partial match may take none."""
    costs = measure_shedding(workload_stream(20_000), 2.0, 20.0)
    assert set(costs) == {"refused", "purged", "decision"}
    assert costs["purged"] > 0 and costs["decision"] > 0 and 0 <= costs["refused"] <= 22
