"""`Auto`: random shedding at once, then a model of the stream that is better on events it was not fitted on."""

from __future__ import annotations

import copy
import logging
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.shedding import positional

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.overload.load import DetectorReading, Load
from fastcep.shedding import Auto, QueueLength, by_name
from fastcep.shedding.auto.mean_demand import MeanDemand
from fastcep.shedding.auto.trial import try_models
from fastcep.shedding.refit.process import FitProcess
from fastcep.shedding.refit.result import FitJob, FitResult

SCHEMA = fc.Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us")
Q1 = fc.parse("PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V WITHIN 4ms", SCHEMA, name="q1")
OPTIONS: dict[str, Any] = {"clock": "virtual", "cost_table": "paper", "index": "key"}
EVENTS = ds1(events=30_000, seed=7, c_values=(2, 10))
SIZE = 9_000


@pytest.fixture(scope="module")
def plain() -> tuple[int, float]:
    """Number of matches, and mean latency, without shedding."""
    engine = fc.Engine(Q1, latency_bound="1s", shedder=None, store="rows", **OPTIONS)
    return len(engine.process(EVENTS)), engine.metrics()["shedding"]["processing_latency"]["mean"]


def engine(bound: float, **options: Any) -> fc.Engine:
    return fc.Engine(Q1, latency_bound=bound, **({"shedder": Auto(history=SIZE)} | OPTIONS | options))


def found(matches: fc.Matches) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = matches.to_arrow().to_pylist()
    return rows


def test_a_bound_alone_sheds(plain: tuple[int, float]) -> None:
    live = fc.Engine(Q1, latency_bound=plain[1] / 2, **OPTIONS)
    assert 0 < len(live.process(EVENTS)) < plain[0]
    shedding = live.metrics()["shedding"]
    assert shedding["shedder"] == "auto" and shedding["dropped_events"] > 0
    assert shedding["model"]["phase"] == "recording" and shedding["model"]["queries"] == {"q1": {"shedder": "random"}}
    assert shedding["model"]["recorded_events"] == 30_000 and shedding["model"]["history_bytes"] > 0
    for nothing in (None, "none"):
        live = fc.Engine(Q1, latency_bound=plain[1] / 2, shedder=nothing, **OPTIONS)
        assert len(live.process(EVENTS)) == plain[0]


def test_a_model_is_taken_when_it_is_better(plain: tuple[int, float], caplog: pytest.LogCaptureFixture) -> None:
    truth, mean = plain
    recall = {}
    for name in ("ri", "auto"):
        live = engine(0.4 * mean, shedder="ri" if name == "ri" else Auto(history=SIZE))
        with caplog.at_level(logging.INFO, "fastcep.shedding"):
            recall[name] = len(live.process(EVENTS)) / truth
        assert live.metrics()["shedding"]["processing_latency"]["mean"] < 1.05 * 0.4 * mean
    assert recall["auto"] > recall["ri"] + 0.15
    model = live.metrics()["shedding"]["model"]
    assert (model["phase"], model["fits"], model["changes"], model["recorded_events"]) == ("waiting", 1, 1, 0)
    trial = model["trials"]["q1"]
    assert trial["taken"] and trial["measured"]["hybrid"] > trial["measured"]["pspice"] > trial["measured"]["baseline"]
    assert sum("shedding by a new model of kind 'hybrid': baseline 0." in text for text in caplog.messages) == 1


def test_runs_do_not_depend_on_batches_or_snapshots(plain: tuple[int, float]) -> None:
    """The fit happens after exactly as many events, also in the middle of a batch."""
    whole, parts, events = engine(plain[1] / 2), engine(plain[1] / 2), EVENTS.slice(0, 16_000)
    expected = found(whole.process(events))
    matches: list[dict[str, Any]] = []
    for number, part in enumerate(events.to_batches(max_chunksize=1777)):
        matches += found(parts.process(part))
        if number % 4 == 2:
            parts = fc.Engine.restore(parts.snapshot())
    assert matches == expected
    one, other = whole.metrics()["shedding"], parts.metrics()["shedding"]
    for key in ("dropped_events", "dropped_partial_matches", "decisions", "demand", "estimated_recall"):
        assert one[key] == other[key]
    assert one["model"]["trials"] == other["model"]["trials"] and one["model"]["fits"] == 1


def test_without_overload_the_matches_are_the_same(plain: tuple[int, float]) -> None:
    live = engine(20 * plain[1])
    assert len(live.process(EVENTS)) == plain[0]
    shedding = live.metrics()["shedding"]
    assert shedding["model"]["changes"] == 1
    assert shedding["dropped_events"] == shedding["dropped_partial_matches"] == 0


def test_a_history_without_matches_gives_no_model() -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V AND c.V > 99 WITHIN 4ms"
    query = fc.parse(text, SCHEMA, name="q")
    live = fc.Engine(query, latency_bound="1s", shedder=Auto(history=5_000), **OPTIONS)
    live.process(EVENTS.slice(0, 6_000))
    model = live.metrics()["shedding"]["model"]
    assert (model["fits"], model["changes"], model["phase"]) == (1, 0, "waiting")
    assert model["trials"]["q"]["why"] and model["queries"] == {"q": {"shedder": "random"}}


@pytest.mark.thorough
def test_a_model_is_renewed_after_some_events() -> None:
    live = engine(1e9, shedder=Auto(history=3_000, renew=4_000))
    live.process(EVENTS)
    model = live.metrics()["shedding"]["model"]
    assert model["fits"] == 4  # 3,000 events recorded, 4,000 not recorded, and so on
    assert "current" in model["trials"]["q1"]["measured"]


def test_the_history_is_the_last_events() -> None:
    auto = Auto(history=1_000)
    for first in range(0, 3_000, 300):
        auto.record(EVENTS.slice(first, 300))
    assert pa.concat_tables(auto._history) == EVENTS.slice(2_000, 1_000)


def test_negation_is_shed_by_partial_matches() -> None:
    """Dropping events could cause false matches."""
    query = fc.parse("PATTERN SEQ(A a, NEG B b, C c) WHERE [ID] WITHIN 2ms", SCHEMA, name="q")
    everything = fc.Engine(query, latency_bound="1s", shedder=None, **OPTIONS)
    truth = found(everything.process(EVENTS))
    bound = everything.metrics()["shedding"]["processing_latency"]["mean"] / 2
    live = fc.Engine(query, latency_bound=bound, **OPTIONS)
    matches = found(live.process(EVENTS))
    assert 0 < len(matches) < len(truth) and all(match in truth for match in matches[::50])
    assert live.metrics()["shedding"]["dropped_events"] == 0


def test_without_rows_events_are_shed() -> None:
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] WITHIN 2ms", SCHEMA, name="q")
    options = {"clock": "virtual", "cost_table": "paper", "store": "factorised"}
    everything = fc.Engine(query, latency_bound="1s", shedder=None, **options)
    everything.process(EVENTS)
    bound = everything.metrics()["shedding"]["processing_latency"]["mean"] / 2
    live = fc.Engine(query, latency_bound=bound, **options)
    live.process(EVENTS)
    shedding = live.metrics()["shedding"]
    assert shedding["dropped_events"] > 0 and shedding["model"]["phase"] == "without rows"


@pytest.mark.thorough
def test_queries_may_come_and_go(plain: tuple[int, float]) -> None:
    live = engine(20 * plain[1])
    live.process(EVENTS.slice(0, 15_000))
    assert live.metrics()["shedding"]["model"]["queries"]["q1"]["shedder"] == "hybrid"
    other = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] AND a.V > b.V WITHIN 1ms", SCHEMA, name="q2")
    live.add(other)
    live.replace("q1", fc.parse("PATTERN SEQ(A a, C c) WHERE [ID] WITHIN 1ms", SCHEMA, name="q1"))
    live.process(EVENTS.slice(15_000))
    assert live.metrics()["shedding"]["model"]["queries"] == {"q1": {"shedder": "random"}, "q2": {"shedder": "random"}}


@pytest.mark.thorough
@pytest.mark.parametrize("demand", [None, 0.7])
def test_another_process_fits_as_this_one(demand: float | None) -> None:
    job = FitJob([Q1], EVENTS.slice(0, 9_000), {}, fc.CostTable.named("paper"), "key", 0, demand)
    expected = try_models(job)["q1"]
    background = FitProcess(Auto.fit_task, job)
    while (trials := background.poll()) is None:
        time.sleep(0.02)
    assert trials["q1"].measured == expected.measured
    assert trials["q1"].model is not None and expected.model is not None
    assert trials["q1"].model.hash == expected.model.hash


def test_a_process_that_ends_early_is_reported() -> None:
    background = FitProcess(
        Auto.fit_task, FitJob([Q1], EVENTS.slice(0, 9_000), {}, fc.CostTable.named("paper"), "key", 0)
    )
    background._process.kill()
    while (trials := background.poll()) is None:
        time.sleep(0.02)
    assert trials["q1"].model is None and "the fitting process ended with code -9" in trials["q1"].why


def test_on_the_wall_clock_another_process_fits(plain: tuple[int, float]) -> None:
    """The engine goes on meanwhile; without overload it finds all matches."""
    live = fc.Engine(Q1, latency_bound="1h", shedder=Auto(history=SIZE), index="key", cost_table="paper")
    parts = EVENTS.to_batches(max_chunksize=3_000)
    matches = sum(len(live.process(part)) for part in parts[:4])
    assert live.metrics()["shedding"]["model"]["phase"] == "fitting"
    place = 4
    while live.metrics()["shedding"]["model"]["phase"] == "fitting":
        time.sleep(0.05)
        live.process(shifted(EVENTS.slice(0, 5_000), place))
        place += 1
    model = live.metrics()["shedding"]["model"]
    assert matches > 0 and model["changes"] == 1 and model["queries"]["q1"]["shedder"] == "hybrid"


def shifted(table: pa.Table, times: int) -> pa.Table:
    """Return the events, later by ``times`` lengths of the whole stream."""
    number = table.column_names.index("ts")
    return table.set_column(number, "ts", pa.compute.add(table["ts"], (times + 1) * 10**9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": 10}, "shedder 'auto': history=10; expected a whole number, at least 1,000"),
        ({"renew": 0}, "shedder 'auto': renew=0"),
        ({"seed": -1}, "shedder 'auto': seed=-1"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        by_name("auto", **options)


def test_one_shedder_is_for_one_engine() -> None:
    auto = Auto()
    fc.Engine(Q1, latency_bound="1s", shedder=auto)
    with pytest.raises(fc.ValidationError, match="belongs to another engine"):
        fc.Engine(Q1, latency_bound="1s", shedder=auto)


def test_a_model_to_begin_with() -> None:
    model = fc.fit(Q1, EVENTS.slice(0, 9_000), cost_table="paper", index="key")
    live = fc.Engine(Q1, latency_bound="1s", model=model, **OPTIONS)
    assert live.metrics()["shedding"]["model"]["queries"]["q1"]["shedder"] == "hybrid"
    other = fc.parse("PATTERN SEQ(A a, C c) WHERE [ID] WITHIN 1ms", SCHEMA, name="q1")
    with pytest.raises(fc.ModelError, match="fit one for this query"):
        fc.Engine(other, latency_bound="1s", model=model)


# ------------------------------------------------------------ isolated windows


ISOLATED = positional.query(
    "WINDOW OPEN ON O o CLOSE AFTER 200 EVENTS STRATEGY skip_till_next SELECT first LIMIT 3 PER WINDOW"
)


@pytest.mark.thorough
def test_drops_in_windows_are_tried_where_windows_are_isolated() -> None:
    """Only the position in the window tells which events matter; under SELECT each it would have to isolate windows."""
    job = FitJob([ISOLATED], positional.early(200, 3), {}, fc.CostTable.named("paper"), "full", 0)
    result = try_models(job)["q"]
    assert set(result.measured) >= {"baseline", "hybrid", "espice"}
    assert result.model is not None and result.measured[result.model.kind] == max(result.measured.values())
    shared = FitJob([positional.query()], job.history, {}, job.costs, "full", 0)
    assert "espice" not in try_models(shared)["q"].measured


@pytest.mark.thorough
def test_a_model_of_espice_is_not_taken_where_type_and_position_say_little() -> None:
    """All types and values of DS1 are equally likely. Which partial matches complete depends on their attributes."""
    query = fc.parse(
        "PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V "
        "WINDOW OPEN EVERY 500 EVENTS CLOSE AFTER 500 EVENTS LIMIT 1000000 PER WINDOW", SCHEMA, name="q",
    )  # fmt: skip
    job = FitJob([query], fc.datasets.ds1(events=20_000, seed=1), {}, fc.CostTable.named("paper"), "full", 0)
    result = try_models(job)["q"]
    assert result.model is not None and result.model.kind == "hybrid"
    assert result.measured["espice"] < result.measured["hybrid"] - 0.1


def test_it_sheds_by_a_model_of_espice() -> None:
    model, events = fc.fit(ISOLATED, positional.early(150, 1), kind="espice"), positional.early(150, 2)
    truth = fc.Engine(ISOLATED, latency_bound="1h", shedder=None, **positional.OPTIONS)
    every = len(truth.process(events))
    mean = truth.metrics()["shedding"]["processing_latency"]["mean"]
    recall = {}
    for shedder in (Auto(model=model), fc.shedding.ESpice(model), fc.shedding.RandomEvents()):
        live = fc.Engine(ISOLATED, latency_bound=0.7 * mean, shedder=shedder, **positional.OPTIONS)
        first = len(live.process(events.slice(0, 15_100)))
        again = Auto(model=model) if isinstance(shedder, Auto) else shedder
        if isinstance(shedder, Auto):
            live = fc.Engine.restore(live.snapshot(), shedder=again)
        recall[shedder.name] = (first + len(live.process(events.slice(15_100)))) / every
        assert live.metrics()["shedding"]["dropped_in_windows"] > 0 or shedder.name == "ri"
        if isinstance(shedder, Auto):
            metrics = live.metrics()["shedding"]["model"]
            assert metrics["queries"]["q"]["shedder"] == "espice" and metrics["queries"]["q"]["window"] == 200
    assert recall["auto"] == recall["espice"] > recall["ri"] + 0.1


def test_a_model_that_misses_the_bound_counts_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """A latency of 1.32 of the bound counts as much as 0.3 less recall."""
    recalls = {"hybrid": (0.9, 1.32), "pspice": (0.7, 1.0), "random": (0.5, 1.0)}
    bounds = set()

    def run(queries: Any, events: Any, shedder: Any, bound: Any, options: Any) -> tuple[Any, float]:
        bounds.add(bound)
        assert options["cost_table"].decision == 0.0  # a decision would cost as much as hundreds of events
        recall, latency = (1.0, 2.0) if shedder is None else recalls[shedder.metrics_of("q1")["shedder"]]
        return [np.arange(round(1000 * recall), dtype=np.uint64)], latency * (bound or 1000.0)

    monkeypatch.setattr("fastcep.shedding.auto.trial._run", run)
    job = FitJob([Q1], EVENTS.slice(0, 9_000), {}, fc.CostTable.named("paper"), "key", 0)
    result = try_models(job)["q1"]
    assert result.model is not None and result.model.kind == "pspice"
    assert bounds == {None, 1_600.0, 1_000.0, 500.0}  # shares of the mean latency, 2,000 ns
    assert dict(result.measured) == pytest.approx({"baseline": 0.5, "hybrid": 0.9, "pspice": 0.7})
    recalls["pspice"] = (0.7, 1.3)
    assert try_models(job)["q1"].model.kind == "hybrid"  # type: ignore[union-attr]
    recalls["hybrid"] = (0.4, 1.0)
    recalls["pspice"] = (0.7, 1.5)
    result = try_models(job)["q1"]
    assert result.why == "its held-out recall is 0.400, without it 0.500" and not result.random
    current = fc.fit(Q1, EVENTS.slice(0, 9_000), kind="pspice", cost_table="paper", index="key")
    assert try_models(replace(job, current={"q1": current}))["q1"].random
    recalls["random"] = (0.1, 1.0)
    assert not try_models(replace(job, current={"q1": current}))["q1"].random


@pytest.mark.parametrize(
    ("demand", "kind", "recalls"),
    [
        (None, "pspice", (0.7, 0.75)),
        (0.2, "hybrid", (1.0, 0.8)),
        (0.01, "hybrid", (1.0, 0.8)),  # less than under any bound of the trial
        (0.35, "hybrid", (0.85, 0.775)),  # halfway between two of them
        (0.75, "pspice", (0.4, 0.7)),
    ],
)
def test_models_are_chosen_for_the_demand(
    monkeypatch: pytest.MonkeyPatch, demand: float | None, kind: str, recalls: tuple[float, float]
) -> None:
    """The kind that is best while little is shed need not be the best while much is."""
    by_share = {"hybrid": {0.8: 1.0, 0.5: 0.7, 0.25: 0.4}, "pspice": {0.8: 0.8, 0.5: 0.75, 0.25: 0.7}}

    def run(queries: Any, events: Any, shedder: Any, bound: Any, options: Any) -> tuple[Any, float]:
        if shedder is None:
            return [np.arange(1000, dtype=np.uint64)], 2000.0
        of_kind = by_share.get(shedder.metrics_of("q1")["shedder"], {})
        return [np.arange(round(1000 * of_kind.get(bound / 2000, 0.1)), dtype=np.uint64)], bound

    monkeypatch.setattr("fastcep.shedding.auto.trial._run", run)
    job = FitJob([Q1], EVENTS.slice(0, 9_000), {}, fc.CostTable.named("paper"), "key", 0, demand)
    result = try_models(job)["q1"]
    assert result.model is not None and result.model.kind == kind
    assert dict(result.measured) == pytest.approx({"baseline": 0.1, "hybrid": recalls[0], "pspice": recalls[1]})


JOBS: list[FitJob] = []


def remember(job: FitJob) -> dict[str, FitResult]:
    """A fit that returns no model."""
    JOBS.append(job)
    return {query.name: FitResult(why="not tried") for query in job.queries}


class Remembering(Auto):
    """`Auto` whose fits are only remembered."""

    fit_task = f"{__name__}:remember"


def test_the_demand_is_that_while_load_was_shed_during_the_recording(plain: tuple[int, float]) -> None:
    """Also across a snapshot, and not while nothing was shed."""
    JOBS.clear()
    options = {"history": 4_000, "renew": 4_000}
    live = engine(20 * plain[1], shedder=Remembering(**options))
    live.process(EVENTS.slice(0, 5_000))
    assert [job.demand for job in JOBS] == [None]
    for share in (0.7, 0.4):
        JOBS.clear()
        whole = engine(share * plain[1], shedder=Remembering(**options))
        whole.process(EVENTS)
        parts = engine(share * plain[1], shedder=Remembering(**options))
        parts.process(EVENTS.slice(0, 3_000))
        parts = fc.Engine.restore(parts.snapshot(), shedder=Remembering(**options))
        parts.process(EVENTS.slice(3_000))
        first = [job.demand for job in JOBS[: len(JOBS) // 2]]
        assert len(first) == 4 and first == [job.demand for job in JOBS[len(JOBS) // 2 :]]
        assert all(demand is not None and abs(demand - (1 - share)) < 0.12 for demand in first[1:])
    JOBS.clear()
    auto = Remembering(**options)
    live = engine(0.4 * plain[1], shedder=auto)
    live.process(EVENTS.slice(0, 4_000))
    assert JOBS[0].demand is not None and auto.end_recording() is None
    live.process(EVENTS.slice(4_000, 4_000))
    assert auto.end_recording() is None  # nothing is recorded until the next fit is due
    live.process(EVENTS.slice(8_000, 2_000))
    assert auto.end_recording() == pytest.approx(0.6, abs=0.12)


class OfPresent(QueueLength):
    """Detector that demands half of the live partial matches."""

    def read(self, load: Load) -> DetectorReading:
        """Return this demand."""
        return DetectorReading(1.0, amount=0.5, of_present=True)


def test_a_demand_of_live_partial_matches_is_not_one_of_work(plain: tuple[int, float]) -> None:
    auto = Auto(history=SIZE)
    live = engine(plain[1], shedder=auto, detector=OfPresent())
    live.process(EVENTS.slice(0, 5_000))
    assert live.metrics()["shedding"]["demand"] == 0.5 and auto.end_recording() is None


def test_events_without_a_demand_do_not_count() -> None:
    demands = MeanDemand()
    for demand, events in ((0.0, 50), (0.5, 1_000), (0.7, 100), (0.0, 300), (0.2, 5_000)):
        demands.add(demand, events)
    assert demands.mean == pytest.approx((100 * 0.5 + 300 * 0.7) / 400)
    demands.restart()
    assert demands.mean is None
    demands.add(0.0, 10)
    assert demands.mean == 0.2


@pytest.mark.thorough
def test_several_queries_are_shed_by_one_order() -> None:
    """Many partial matches of one query hardly ever complete: with models of one kind, most of the work is saved there.

    The models are chosen by what they find together.
    """
    texts = {
        "many": "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND b.ID = c.ID AND c.V = 2 AND a.V = 2 WITHIN 2ms",
        "few": "PATTERN SEQ(A a, D d) WHERE [ID] AND a.V = d.V WITHIN 1ms",
    }
    queries = [fc.parse(text, SCHEMA, name=name) for name, text in texts.items()]
    job = FitJob(queries, EVENTS.slice(0, 12_000), {}, fc.CostTable.named("paper"), "key", 0)
    results = try_models(job)
    assert results["many"].measured == results["few"].measured
    measured = dict(results["many"].measured)
    assert {"baseline", "hybrid", "pspice"} <= set(measured) <= {"baseline", "hybrid", "pspice", "mixed"}
    assert max(measured.values()) > measured["baseline"] + 0.05
    models = {name: fc.fit(query, EVENTS.slice(0, 9_000), kind="pspice", cost_table="paper", index="key")
              for name, query in zip(texts, queries, strict=True)}  # fmt: skip
    joint, of_auto = fc.shedding.PSpice(list(models.values())), Auto(model=list(models.values()))
    found = []
    for shedder in (joint, of_auto):
        live = fc.Engine(queries, latency_bound=measured_mean(queries) / 2, shedder=shedder, store="rows", **OPTIONS)
        found.append(live.process(EVENTS).counts())
    assert found[0] == found[1]


def measured_mean(queries: list[fc.Query]) -> float:
    """Return the mean latency of queries without shedding, in seconds."""
    live = fc.Engine(queries, latency_bound="1s", shedder=None, store="rows", **OPTIONS)
    live.process(EVENTS)
    return float(live.metrics()["shedding"]["processing_latency"]["mean"])


@pytest.mark.thorough
def test_removed_queries_have_no_part_in_a_fit() -> None:
    other = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] AND a.V > b.V WITHIN 1ms", SCHEMA, name="q2")
    measured = []
    for queries in ([Q1], [Q1, other]):
        live = fc.Engine(queries, latency_bound="1s", shedder=Auto(history=9_000), **OPTIONS)
        live.process(EVENTS.slice(0, 5_000))
        if len(queries) > 1:
            live.remove("q2")
        live.process(EVENTS.slice(5_000, 5_000))
        measured.append(live.metrics()["shedding"]["model"]["trials"])
    assert measured[0] == measured[1] and set(measured[0]) == {"q1"}
    live.remove("q1")
    live.process(EVENTS.slice(10_000))
    assert live.metrics()["shedding"]["model"]["queries"] == {}  # the model of a removed query is not kept


@pytest.mark.thorough
def test_a_query_that_is_added_to_an_empty_engine_gets_a_model() -> None:
    """Events that were recorded while the engine had no query do not delay the first fit."""
    live = fc.Engine(Q1, latency_bound="1s", shedder=Auto(history=5_000), **OPTIONS)
    live.remove("q1")
    live.process(EVENTS.slice(0, 6_000))
    assert live.metrics()["shedding"]["model"]["fits"] == 0
    live.add(Q1)
    live.process(EVENTS.slice(6_000, 6_000))
    assert live.metrics()["shedding"]["model"]["queries"]["q1"]["shedder"] == "hybrid"


def test_another_query_does_not_change_what_a_model_has_learned() -> None:
    other = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] AND a.V > b.V WITHIN 1ms", SCHEMA, name="q2")
    for kind in ("hybrid", "pspice"):
        history = EVENTS.slice(0, 9_000)
        models = [fc.fit(query, history, kind=kind, cost_table="paper", index="key") for query in (Q1, other)]
        auto = Auto(model=models)
        fc.Engine([Q1, other], latency_bound="1s", shedder=auto, **OPTIONS)
        shedder = auto._by_model.shedder_of("q1")
        auto.take_models({"q2": models[1]})
        assert auto._by_model.shedder_of("q1") is shedder
        auto.shed_at_random(["q2"])
        assert auto._by_model.shedder_of("q1") is shedder and auto._by_model.shedder_of("q2") is None


@pytest.mark.sample("wall")
@pytest.mark.parametrize("clock", ["wall", "virtual"])
def test_models_of_pspice_are_replaced_while_it_sheds(clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of all its queries follows; on the wall clock a thread computes it."""
    other = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] AND a.V > b.V WITHIN 1ms", SCHEMA, name="q2")
    hybrid, pspice = (
        {query.name: FitResult(fc.fit(query, EVENTS.slice(0, 9_000), kind=kind, cost_table="paper", index="key"))
         for query in (Q1, other)}
        for kind in ("hybrid", "pspice")
    )  # fmt: skip
    results = iter([
        {"q1": hybrid["q1"], "q2": pspice["q2"]}, {"q2": pspice["q2"]}, pspice,
        {"q1": pspice["q1"], "q2": FitResult(None, {}, "worse", random=True)}, hybrid,
    ])  # fmt: skip

    class Fitted:
        """Fit that is over at once."""

        process = 0

        def __init__(self, task: str, job: FitJob) -> None:
            self.poll = lambda: next(results)

    monkeypatch.setattr("fastcep.shedding.refit.shedder.FitProcess", Fitted)
    monkeypatch.setattr("fastcep.shedding.refit.shedder.fit_function", lambda task: lambda job: next(results))
    monkeypatch.setattr("fastcep.shedding.refit.shedder._POLL", 500)
    models = [pspice[name].model for name in ("q1", "q2")]
    options = {**OPTIONS, "clock": clock, "store": "rows"}
    auto = Auto(model=models, history=1_000, renew=1_000)
    live = fc.Engine([Q1, other], latency_bound="5ns", shedder=auto, **options)
    seen: list[tuple[str, str]] = []
    for batch in EVENTS.to_batches(max_chunksize=500):
        live.process(batch)
        shedding = live.metrics()["shedding"]
        kinds = tuple(shedding["model"]["queries"][name]["shedder"] for name in ("q1", "q2"))
        if not seen or seen[-1] != kinds:
            seen.append(kinds)
        if shedding["model"]["fits"] == 5 and shedding["model"]["phase"] == "waiting":
            break
        if clock == "virtual":
            live = fc.Engine.restore(live.snapshot())
    assert shedding["decisions"] > 3 and shedding["demand"] > 0
    assert seen == [
        ("pspice", "pspice"), ("hybrid", "pspice"), ("pspice", "pspice"), ("pspice", "random"), ("hybrid", "hybrid"),
    ]  # fmt: skip


def test_an_old_model_gives_way_to_random_shedding(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fc.fit(Q1, EVENTS.slice(0, 9_000), cost_table="paper", index="key")
    live = engine(1e9, shedder=Auto(model=model, history=3_000, renew=3_000))
    worse = FitResult(None, {"baseline": 0.5, "current": 0.3}, "worse", random=True)
    monkeypatch.setattr("fastcep.shedding.refit.shedder.fit_function", lambda task: lambda job: {"q1": worse})
    live.process(EVENTS.slice(0, 5_000))
    assert live.metrics()["shedding"]["model"]["queries"]["q1"]["shedder"] == "hybrid"
    live.process(EVENTS.slice(5_000, 2_000))
    model_metrics = live.metrics()["shedding"]["model"]
    assert model_metrics["queries"]["q1"] == {"shedder": "random"} and model_metrics["changes"] == 1


def test_a_given_model_is_kept_for_a_query_that_is_added_later() -> None:
    """Also after a snapshot; a fitted model of a removed query is not."""
    other = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] AND a.V > b.V WITHIN 1ms", SCHEMA, name="q2")
    models = [fc.fit(query, EVENTS.slice(0, 9_000), cost_table="paper", index="key") for query in (Q1, other)]
    live = fc.Engine(Q1, latency_bound="1s", shedder=Auto(model=models), **OPTIONS)
    live.process(EVENTS.slice(0, 1_000))
    live = fc.Engine.restore(live.snapshot())
    live.add(fc.parse("PATTERN SEQ(A a, C c) WHERE [ID] WITHIN 1ms", SCHEMA, name="q3"))
    live.add(other)
    live.process(EVENTS.slice(1_000, 1_000))
    of_query = live.metrics()["shedding"]["model"]["queries"]
    assert {name: of["shedder"] for name, of in of_query.items()} == {"q1": "hybrid", "q2": "hybrid", "q3": "random"}


def test_models_of_other_kinds_are_rejected() -> None:
    model = fc.fit(Q1, EVENTS.slice(0, 9_000), cost_table="paper", index="key")
    other = copy.copy(model)
    object.__setattr__(other, "kind", "own")
    with pytest.raises(fc.ModelError, match="shedder 'auto' takes models of kind 'hybrid', 'pspice', 'espice'; found"):
        Auto(model=other)


@pytest.mark.thorough
def test_the_model_is_fitted_on_the_whole_history() -> None:
    job = FitJob([Q1], EVENTS.slice(0, 12_000), {}, fc.CostTable.named("paper"), "key", 0)
    model = try_models(job)["q1"].model
    assert model is not None
    assert model.hash == fc.fit(Q1, job.history, kind=model.kind, cost_table="paper", index="key", seed=0).hash


@pytest.mark.thorough
def test_a_query_with_few_matches_gets_no_model() -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V AND a.V = 2 WITHIN 50us"
    rare = fc.parse(text, SCHEMA, name="r")
    job = FitJob([Q1, rare], EVENTS.slice(0, 9_000), {}, fc.CostTable.named("paper"), "key", 0)
    results = try_models(job)
    assert results["q1"].model is not None and results["r"].model is None
    assert "matches, fewer than 20" in results["r"].why


def test_a_model_of_espice_for_shared_windows_is_rejected() -> None:
    with pytest.raises(fc.ModelError, match="'auto' takes a model of kind 'espice' only for a query that isolates its"):
        fc.Engine(
            positional.query(), latency_bound="1s", shedder=Auto(model=positional.model()), **positional.OPTIONS
        )
