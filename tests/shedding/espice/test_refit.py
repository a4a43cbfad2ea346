"""Models of eSPICE follow the stream: the test of position shares, the drift of types, and fits on recorded events."""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa
import pytest
from support.shedding import positional
from support.shedding.shed_views import view

import fastcep as fc
from fastcep.overload.costs import CostTable
from fastcep.shedding import ESpice
from fastcep.shedding.espice.drift import TypeDrift
from fastcep.shedding.espice.refit import change_of_shares, refit_models
from fastcep.shedding.refit.result import FitJob, FitResult

HALF = 100 * positional.WINDOW


def moved() -> pa.Table:
    """Return a stream whose matches move to another place in the window in its middle."""
    first, second = positional.early(100, 3), positional.early(300, 4, 60)
    later = pa.array(second["ts"].to_numpy() + HALF)
    return pa.concat_tables([first, second.set_column(second.column_names.index("ts"), "ts", later)])


def job(history: pa.Table) -> FitJob:
    query = positional.query()
    return FitJob([query], history, {"q": positional.model(equal_costs=True)}, CostTable("free"), "full", 0)


def result(history: pa.Table) -> FitResult:
    return refit_models(job(history))["q"]


def test_a_model_is_replaced_if_the_position_shares_differ() -> None:
    same = result(positional.early(300, 5))
    assert same.model is None and same.why == "its position shares do not differ from those of the model in use"
    assert same.measured["events_p"] > 0.01 or same.measured["events_v"] < 0.1
    other = result(positional.early(300, 5, 60))
    assert other.model is not None and other.model.kind == "espice" and not other.why
    assert other.measured["matched_p"] < 1e-6 and other.measured["matched_v"] > 0.3
    assert other.model.numbers["positions"] == positional.WINDOW
    nothing = result(positional.early(300, 5).slice(0, 30))
    assert nothing.model is None and "the history has no match of query 'q'" in nothing.why


def test_shares_by_hand() -> None:
    """A hundred observations each: 50 and 50 in one sample, and 90 and 10 in the other, after scaling to windows."""
    before, after = np.array([[50.0, 50.0]]), np.array([[900.0, 100.0]])
    p, v = change_of_shares(before, after, 100, 100)
    square = 2 * 20**2 / 70 + 2 * 20**2 / 30  # expected 70 and 30 of each
    assert v == pytest.approx((square / 200) ** 0.5)
    assert 0 < p < 1e-7  # 6.7e-10; the approximation is rough in the far tail
    assert change_of_shares(before, 3 * before, 100, 30) == (pytest.approx(1, abs=0.1), 0)
    assert change_of_shares(before, np.zeros((1, 2)), 100, 10) == (1.0, 0.0)
    assert change_of_shares(before[:, :1], after[:, :1], 100, 100) == (1.0, 0.0)
    rare = change_of_shares(np.array([[98.0, 1.0, 1.0]]), np.array([[98.0, 2.0, 0.0]]), 10, 10)
    assert rare == (pytest.approx(1, abs=0.1), 0)  # the rare cells are pooled


@pytest.mark.parametrize(("degrees", "square", "p"), [(1, 3.841, 0.05), (5, 15.086, 0.01), (29, 42.557, 0.05)])
def test_the_probability_of_chi_square(degrees: int, square: float, p: float) -> None:
    """Quantiles from tables; samples that differ in alternate cells have this statistic."""
    n = 1e6
    shift = np.sqrt(square / (2 * n))
    pattern = np.where(np.arange(degrees + 1) % 2, 1.0, -1.0)  # as many of each
    base = n / (degrees + 1)
    before, after = base * (1 + shift * pattern)[None, :], base * (1 - shift * pattern)[None, :]
    found, v = change_of_shares(before, after, int(n), int(n))
    assert 2 * n * v**2 == pytest.approx(square, rel=1e-3) and found == pytest.approx(p, rel=0.1)


def test_fits_on_the_stream_follow_it(caplog: pytest.LogCaptureFixture) -> None:
    """Events are recorded and a model is fitted on them, which is used from then on."""
    caplog.set_level(logging.INFO, "fastcep.shedding")
    stream, recall, truth = moved(), {}, fc.Engine(positional.query()).process(moved()).to_arrow()
    _, mean = positional.truth()
    for renew in (10_000, 10_000_000):
        shedder = ESpice(positional.model(equal_costs=True), history=10_000, renew=renew)
        engine = fc.Engine(positional.query(), latency_bound=0.2 * mean, shedder=shedder, **positional.OPTIONS)
        matches = engine.process(stream).to_arrow()
        late = 2 * HALF
        recall[renew] = (matches["window_id"].to_numpy() >= late).sum() / (truth["window_id"].to_numpy() >= late).sum()
        metrics = shedder.metrics()
        assert (metrics["changes"] >= 1) == (renew < 10_000_000), metrics
    assert recall[10_000] > recall[10_000_000] + 0.05
    assert "query 'q': shedding by a new model of kind 'espice'" in caplog.text


@pytest.mark.thorough
def test_snapshots_keep_new_models() -> None:
    stream = moved()
    _, mean = positional.truth()

    def engine() -> fc.Engine:
        shedder = ESpice(positional.model(equal_costs=True), history=10_000, renew=20_000)
        return fc.Engine(positional.query(), latency_bound=0.5 * mean, shedder=shedder, **positional.OPTIONS)

    whole, first = engine(), engine()
    expected = whole.process(stream).to_arrow()
    cut = 51_313
    found = [first.process(stream.slice(0, cut)).to_arrow()]
    model = positional.model(equal_costs=True)
    again = fc.Engine.restore(first.snapshot(), shedder=ESpice(model, history=10_000, renew=20_000))
    found.append(again.process(stream.slice(cut)).to_arrow())
    assert pa.concat_tables(found).equals(expected)
    assert again.metrics()["shedding"] == whole.metrics()["shedding"]


def test_drift_of_types() -> None:
    """Four types in equal shares at first; later a half of the events are of one type, which differs by 0.25."""
    text = "PATTERN SEQ(A a, B b, C c, D d) WITHIN 40 EVENTS"
    drift, seen = TypeDrift(4), np.zeros(4)
    for window in range(60):
        seen += (250, 250, 250, 250) if window < 20 else (500, 167, 167, 166)
        item = view(text, seen=(256 * seen).tolist())
        item.window_size, item.received = 40.0, 40 * (window + 1)
        drift.add(item)
        drift.add(item)  # nothing new
        if window == 14:
            assert drift.value is None
        if window == 19:
            assert drift.value is not None and drift.value < 0.01
    assert drift.value == pytest.approx(0.24, abs=0.02)
    other = TypeDrift(4)
    other.restore(drift.state())
    assert other.value == drift.value and other.state() == drift.state()


def test_no_drift_of_a_stream_that_stays() -> None:
    _, mean = positional.truth()
    shedder = ESpice(positional.model(equal_costs=True))
    fc.Engine(positional.query(), latency_bound=0.5 * mean, shedder=shedder, **positional.OPTIONS).process(
        positional.early(300, 2)
    )
    assert shedder.metrics()["queries"]["q"]["drift"] < 0.1 and not shedder.has_changed()
