"""Models of pSPICE follow the stream: the drift from a model, and fits on recorded events."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import cache
from threading import current_thread

import numpy as np
import pyarrow as pa
import pytest
from support.shedding.markov_models import ABC, fitted, letters, shedding
from support.shedding.shed_runs import query as shed_query
from support.waiting import LIMIT

import fastcep as fc
from fastcep.evaluation.constant import SameDemand
from fastcep.overload.costs import CostTable
from fastcep.shedding import Auto, PSpice
from fastcep.shedding.model import Model
from fastcep.shedding.pspice.drift import Drift
from fastcep.shedding.pspice.fit import fit_pspice
from fastcep.shedding.pspice.refit import matrix_error, refit_models
from fastcep.shedding.refit.result import FitJob

SCHEMA = fc.Schema({name: {"k": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us")
QUERIES = tuple(
    fc.parse(f"PATTERN SEQ(A a, B b, {last} z) WHERE a.k = b.k AND b.k = z.k WITHIN 400 EVENTS", SCHEMA, name=name)
    for name, last in (("c", "C"), ("d", "D"))
)
PART = 10_000
BEFORE, AFTER = (0.25, 0.25, 0.4, 0.1), (0.25, 0.25, 0.1, 0.4)


@cache
def stream(seed: int, before: int, after: int) -> pa.Table:
    """C is frequent at first, and D later."""
    rng = np.random.default_rng(seed)
    types = np.concatenate([rng.choice(4, before, p=BEFORE), rng.choice(4, after, p=AFTER)])
    return pa.table({
        "ts": np.arange(before + after), "type": pa.array(np.array(list("ABCD"))[types]),
        "k": rng.integers(0, 4, before + after),
    })  # fmt: skip


@cache
def models() -> tuple[Model, ...]:
    return tuple(fc.fit(query, stream(1, 20_000, 0), kind="pspice") for query in QUERIES)


@cache
def truth() -> tuple[tuple[int, ...], float]:
    """Matches by part of the stream, and the mean latency."""
    engine = fc.Engine(QUERIES, store="rows", clock="virtual", latency_bound="1h", shedder=None)
    found = tuple(len(engine.process(part)) for part in parts())
    return found, engine.metrics()["shedding"]["processing_latency"]["mean"]


def parts() -> list[pa.Table]:
    table = stream(2, 3 * PART, 5 * PART)
    return [table.slice(first, PART) for first in range(0, len(table), PART)]


def recalls(shedder: PSpice) -> tuple[list[float], fc.Engine]:
    """Return the recall in each part of the stream at half of the latency."""
    expected, mean = truth()
    engine = fc.Engine(QUERIES, store="rows", clock="virtual", latency_bound=mean / 2, shedder=shedder)
    found = [len(engine.process(part)) for part in parts()]
    return [one / all_ for one, all_ in zip(found, expected, strict=True)], engine


@pytest.mark.thorough
def test_recall_comes_back_after_a_change(caplog: pytest.LogCaptureFixture) -> None:
    fixed, _ = recalls(PSpice(models()))
    with caplog.at_level(logging.INFO, "fastcep.shedding"):
        renewed, engine = recalls(PSpice(models(), history=5_000))
    assert fixed[:3] == renewed[:3] and min(fixed[:3]) > 0.45
    assert max(fixed[5:]) < fixed[1] - 0.03 and renewed[-1] > fixed[1] - 0.02  # the model is fitted in the seventh part
    metrics = engine.metrics()["shedding"]["model"]
    assert metrics["changes"] == 1 and metrics["phase"] == "waiting" and metrics["history_bytes"] == 0
    assert all(trial["taken"] and trial["measured"]["error"] > 0.2 for trial in metrics["trials"].values())
    assert any("the stream has changed from the model" in text for text in caplog.messages)


@pytest.mark.thorough
def test_auto_follows_the_drift_of_its_models() -> None:
    """It compares models again when one of its models of pSPICE reports a change, of each query by its own name."""
    _, mean = truth()
    engine = fc.Engine(
        QUERIES, store="rows", clock="virtual", latency_bound=mean / 2, shedder=Auto(model=models(), history=5_000)
    )
    for part in parts()[:3]:
        engine.process(part)
    metrics = engine.metrics()["shedding"]["model"]
    assert metrics["fits"] == 0 and metrics["queries"].keys() == {"c", "d"}
    assert all(one["shedder"] == "pspice" and one["drift"] < 0.25 for one in metrics["queries"].values())
    for part in parts()[3:]:
        engine.process(part)
    assert engine.metrics()["shedding"]["model"]["fits"] == 1


@pytest.mark.thorough
def test_enough_windows_are_recorded_for_the_drift_of_a_new_model() -> None:
    """A history of 1,000 events has two windows and a half."""
    _, mean = truth()
    shedder = PSpice(models(), history=1_000, renew=20_000)
    engine = fc.Engine(QUERIES, store="rows", clock="virtual", latency_bound=mean / 2, shedder=shedder)
    for part in parts()[3:]:
        engine.process(part)
    metrics = engine.metrics()["shedding"]["model"]
    assert metrics["changes"] >= 1, metrics
    assert all(query["drift"] is not None for query in metrics["queries"].values())


def test_on_the_wall_clock_no_decision_waits_for_a_new_model() -> None:
    """Another process fits; the drop order of its model is computed in a thread, and the old one is used until then."""
    shedder = PSpice(models(), history=5_000, renew=5_000)
    engine = fc.Engine(QUERIES, store="rows", latency_bound="1h", detector=SameDemand(0.3), shedder=shedder)
    engine.process(stream(3, 0, 3_000))
    before, compute, threads = shedder._order, shedder._new_order, list[str]()
    assert before is not None
    shedder._new_order = lambda key: (threads.append(current_thread().name), compute(key))[1]  # type: ignore[method-assign]
    end, number = time.monotonic() + LIMIT, 0
    while shedder._order is before:
        assert time.monotonic() < end, shedder.metrics()
        number += 1
        times = pa.array(np.arange(3_000) + 3_000 * number)
        engine.process(stream(3, 0, 3_000).set_column(0, "ts", times))
    assert shedder.metrics()["changes"] >= 1 and set(threads) == {"fastcep drop order"}
    assert engine.metrics()["shedding"]["dropped_partial_matches"] > 0


@pytest.mark.thorough
def test_fits_are_repeated_and_depend_neither_on_batches_nor_on_snapshots() -> None:
    expected, whole = recalls(PSpice(models(), history=5_000, renew=20_000))
    _, mean = truth()
    engine = fc.Engine(
        QUERIES, store="rows", clock="virtual", latency_bound=mean / 2,
        shedder=PSpice(models(), history=5_000, renew=20_000),
    )  # fmt: skip
    found = []
    for number, part in enumerate(parts()):
        found.append(sum(len(engine.process(batch)) for batch in part.to_batches(max_chunksize=1_777)))
        if number in (2, 5):  # while events are recorded, and after a model was replaced
            again = PSpice(models(), history=5_000, renew=20_000)
            engine = fc.Engine.restore(engine.snapshot(), shedder=again)
    assert found == [round(share * number) for share, number in zip(expected, truth()[0], strict=True)]
    one, other = (item.metrics()["shedding"] for item in (whole, engine))
    assert one["model"] == other["model"] and one["model"]["fits"] >= 2
    assert one["dropped_partial_matches"] == other["dropped_partial_matches"]


DRIFTING = (
    "PATTERN SEQ(A a, ANY(2, B b[]), C c) WITHIN 40 EVENTS STRATEGY skip_till_next",
    ABC, f"{ABC} STRATEGY skip_till_next", "PATTERN OR(SEQ(A a, B b), C c) WITHIN 400us",
    *(f"PATTERN SEQ(A a, B b, C c) WINDOW {window}" for window in (
        "OPEN EVERY 64 EVENTS CLOSE AFTER 64 EVENTS", "OPEN EVERY 8 EVENTS CLOSE AFTER 64 EVENTS",
        "OPEN ON D d CLOSE AFTER 64 EVENTS",
    )),
)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("text", DRIFTING)
@pytest.mark.parametrize("demand", [0.05, 0.3, 0.6])
def test_a_drift_is_a_change_of_the_stream(text: str, demand: float) -> None:
    """However much is shed: near 0 on a stream like the history, and above the limit if twice as many matches begin."""
    for types, seed in (("ABCD", 3), ("ABCD", 4), ("AABCD", 3)):
        shedder = PSpice(fitted(text).stored(), renew=10**9)
        shedding(shed_query(text), shedder, demand).process(letters(seed=seed, types=types))
        drift = shedder.metrics()["queries"]["q1"]["drift"]
        assert drift < 0.12 if types == "ABCD" else drift > 0.25, (types, seed)


BURSTS = (
    f"{ABC} STRATEGY skip_till_next", "PATTERN SEQ(A a, B b, C c) WITHIN 400us STRATEGY skip_till_next",
    "PATTERN SEQ(A a, B b, C c) WINDOW OPEN ON D d CLOSE AFTER 40 EVENTS STRATEGY skip_till_next",
)  # fmt: skip


@cache
def bursts(seed: int, share: float) -> pa.Table:
    """A, B and C follow each other at once; the other events are D. So partial matches are young, or never extended."""
    random = np.random.default_rng(seed)
    begins = np.flatnonzero(random.random(30_000) < share)
    begins = begins[np.concatenate([[True], np.diff(begins) > 3]) & (begins < 29_997)]
    types = np.full(30_000, "D")
    for offset, name in enumerate("ABC"):
        types[begins + offset] = name
    types[random.random(30_000) < 0.05] = "A"
    ones = np.ones(30_000, np.int64)
    return pa.table({"type": types, "ID": ones, "V": ones, "ts": np.cumsum(random.integers(1, 20, 30_000))})


@pytest.mark.thorough
@pytest.mark.parametrize("text", BURSTS)
@pytest.mark.parametrize("demand", [0.1, 0.4])
def test_the_drift_is_small_if_the_age_of_a_partial_match_matters(text: str, demand: float) -> None:
    """A Markov chain has no ages: it expects that partial matches of all ages are extended."""
    model = fit_pspice(shed_query(text), bursts(1, 0.05)).stored()
    drifts = []
    for seed, share in ((2, 0.05), (3, 0.05), (2, 0.15)):
        shedder = PSpice(model, renew=10**9)
        shedding(shed_query(text), shedder, demand).process(bursts(seed, share))
        drifts.append(shedder.metrics()["queries"]["q1"]["drift"])
    assert max(drifts[:2]) < 0.12 and drifts[2] > 0.25, drifts


@pytest.mark.sample(1)
@pytest.mark.parametrize("gap", [5, 20])
def test_the_drift_is_small_if_windows_have_more_or_fewer_events(gap: int) -> None:
    """The children per event change with the rate; what the matrix predicts of that counts as an error."""
    text = "PATTERN SEQ(A a, B b, C c) WITHIN 400us"
    shedder = PSpice(fitted(text).stored(), renew=10**9)
    shedding(shed_query(text), shedder, 0.2).process(letters(seed=3, gap=gap))
    metrics = shedder.metrics()["queries"]["q1"]
    assert metrics["window"] == pytest.approx(400 / gap, rel=0.25) and metrics["drift"] < 0.12


def test_windows_of_a_very_different_size_are_not_compared() -> None:
    """Under a Kleene closure the number of partial matches grows exponentially with the window."""
    text = "PATTERN SEQ(A a, B+ b[], C c) WITHIN 90us"
    model = fitted(text)
    drift = Drift(model, 9.0, 8)
    assert drift.is_known
    for window in (9.0, 30.0, 3_000.0):
        drift.expect(window)
        assert 0 < drift.per_event < 100
        drift.add((np.empty(0, np.uint64), np.empty(0), np.empty(0), 0.0, np.empty((0, 0))), 10)
    restored = Drift(model, 9.0, 8)
    restored.restore(drift.state())
    assert np.isfinite(drift._sums).all() and restored.state() == drift.state()


def test_an_uncertain_history_is_no_drift() -> None:
    """As after a burst in one of its windows: the error of the counts is as large as they are."""
    model = fitted()
    assert model.children is not None
    drifts = []
    for error in (model.children.error, model.children.per_event.sum(axis=2)):
        shedder = PSpice(replace(model, children=replace(model.children, error=error)).stored(), renew=10**9)
        shedding(shed_query(ABC), shedder, 0.3).process(letters(seed=3, types="AABCD"))
        drifts.append(shedder.metrics()["queries"]["q1"]["drift"])
    assert drifts[0] > 0.25 and drifts[1] == 0


@pytest.mark.thorough
def test_a_model_is_replaced_if_its_children_differ() -> None:
    """The same transitions, but at another age of the partial matches; otherwise the drift would stay."""
    text = BURSTS[0]
    costs, events = CostTable.named("measured"), bursts(1, 0.05)
    model = fit_pspice(shed_query(text), events)
    assert model.children is not None
    older = model.children.per_event.copy()
    older[1:] = np.roll(older[1:], 20, axis=2)
    later = replace(model.children, per_event=older)
    for children, taken in ((model.children, False), (later, True), (None, True)):
        current = {"q1": replace(model, children=children).stored()}
        result = refit_models(FitJob((shed_query(text),), events, current, costs, "full", 0))["q1"]
        assert (result.model is not None) == taken and result.measured["error"] == 0
        assert (result.measured["children"] > 0.25) == (children is later)


def test_without_counted_children_the_drift_is_unknown() -> None:
    shedder = PSpice(replace(fitted(), children=None).stored())
    shedding(shed_query(ABC), shedder, 0.3).process(letters(seed=3))
    assert shedder.metrics()["queries"]["q1"]["drift"] is None


def test_the_drift_is_unknown_without_ages() -> None:
    text = "PATTERN SEQ(A a, B b) WINDOW OPEN ON D d CLOSE ON C e"
    shedder = PSpice(fitted(text).stored())
    shedding(shed_query(text), shedder, 0.3).process(letters(seed=3))
    assert shedder.metrics()["queries"]["q1"]["drift"] is None


def test_a_model_is_replaced_if_its_matrix_differs() -> None:
    current = dict(zip("cd", models(), strict=True))
    costs = CostTable.named("measured")
    same = refit_models(FitJob(QUERIES, stream(5, 20_000, 0), current, costs, "full", 0))
    other = refit_models(FitJob(QUERIES, stream(5, 0, 20_000), current, costs, "full", 0))
    for name in "cd":
        assert same[name].model is None and same[name].measured["error"] <= 0.05 and "at most 0.05" in same[name].why
        assert other[name].model is not None and other[name].measured["error"] > 0.2
    nothing = refit_models(FitJob(QUERIES, stream(5, 0, 20_000).slice(0, 0), current, costs, "full", 0))
    assert nothing["c"].model is None and "no partial match" in nothing["c"].why


@pytest.mark.thorough
def test_fit_of_several_queries() -> None:
    both = fc.fit(QUERIES, stream(1, 20_000, 0), kind="pspice")
    assert [model.hash for model in both] == [model.hash for model in models()]
    for wrong in ((), (QUERIES[0], QUERIES[0])):
        with pytest.raises(fc.ValidationError, match="expected at least one query, each with a name of its own"):
            fc.fit(wrong, stream(1, 20_000, 0), kind="pspice")


@pytest.mark.thorough
def test_error_of_a_matrix() -> None:
    one, other = (fit_pspice(QUERIES[0], stream(seed, 20_000, 0)) for seed in (1, 5))
    assert matrix_error(one, one) == 0
    assert 0 < matrix_error(one, other) < 0.05
