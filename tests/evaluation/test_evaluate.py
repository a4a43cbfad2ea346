"""Evaluations, compared with engines that the tests run directly."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support.shedding.evaluations import EVENTS, Everything, evaluated, query, stream
from support.shedding.shed_runs import engine, found

import fastcep as fc
from fastcep.evaluation import references, rows
from fastcep.evaluation.document import is_monotonic
from fastcep.evaluation.outcome import Outcome
from fastcep.overload.drop_plan import DropPlan
from fastcep.shedding import QueueLength, RandomEvents, SmoothedLatency, by_name

SKIPPED = EVENTS // 50


def latencies(live: fc.Engine) -> list[np.ndarray[Any, Any]]:
    blocks: list[np.ndarray[Any, Any]] = []
    live.listen(lambda processing, event: blocks.append(processing))
    return blocks


def judged(blocks: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return np.concatenate(blocks)[SKIPPED:]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["ri", "rs"])
@pytest.mark.parametrize("seed", [0, 3])
def test_bounds_against_sets_of_matches(name: str, seed: int) -> None:
    (row,) = evaluated(name, bounds="60%", seeds=[seed]).rows
    plain = engine(query(), store="rows")
    blocks = latencies(plain)
    truth = set(found(plain.process(stream())))
    bound = 0.6 * judged(blocks).mean()
    assert row["bound"] == pytest.approx(bound)

    live = engine(query(), by_name(name, seed=seed), row["bound"], detector=SmoothedLatency(), store="rows")
    blocks = latencies(live)
    shed_matches = set(found(live.process(stream())))
    assert (row["recall"], row["precision"]) == (len(shed_matches & truth) / len(truth), 1.0)
    assert row["mean_latency"] == pytest.approx(judged(blocks).mean())
    assert row["p95_latency"] == np.quantile(judged(blocks), 0.95, method="inverted_cdf")
    assert row["share_over_bound"] == (judged(blocks) > row["bound"]).mean()
    assert row["throughput"] == pytest.approx(EVENTS / np.concatenate(blocks).sum() * 1e9)
    shedding = live.metrics()["shedding"]
    assert row["shed_events"] == shedding["dropped_events"]
    assert row["shed_matches"] == shedding["dropped_partial_matches"]
    assert row["estimated_recall"] == shedding["estimated_recall"]
    assert row["held"] is bool(judged(blocks).mean() <= row["bound"])


def test_false_matches_lower_the_precision() -> None:
    negated = query("PATTERN SEQ(A a, NEG B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID WITHIN 2ms")
    report = evaluated(RandomEvents(), queries=negated, bounds="50%")
    (row,) = report.rows
    live = engine(negated, RandomEvents(), row["bound"], detector=SmoothedLatency(), store="rows")
    truth = set(found(engine(negated, store="rows").process(stream())))
    shed_matches = set(found(live.process(stream())))
    true = len(shed_matches & truth)
    assert (row["recall"], row["precision"]) == (true / len(truth), true / len(shed_matches))
    assert row["precision"] < 1 and not report.document["query"]["monotonic"]


def test_rates_against_a_replay() -> None:
    report = evaluated(["ri", "rs"], rates=["150%"], latency_bound="10us")
    fastest = fc.maximum_rate(lambda: engine(query(), store="rows"), [stream()])
    assert report.document["setting"]["maximum_rate"] == pytest.approx(fastest)
    row = report.rows[1]
    live = engine(query(), by_name("rs"), 10_000, detector=QueueLength(), store="rows")
    matches: list[fc.Matches] = []
    run = fc.replay(live, [stream()], row["rate"], skip=0.02, collect=matches.append)
    assert row["rate"] == pytest.approx(1.5 * fastest)
    assert (row["share_over_bound"], row["mean_latency"]) == (run.share_over_bound, pytest.approx(run.mean_event))
    assert row["recall"] == sum(map(len, matches)) / report.document["truth"]["matches"]
    assert row["held"] is (run.share_over_bound <= 0.001) and row["fired"]
    assert max(report.document["series"][1]["latency"]) == run.longest_event


def test_demands_are_constant_from_the_first_decision_on() -> None:
    demands: list[tuple[float, float]] = []

    class Recording(RandomEvents):
        def decide(self, demand: float, before: float, views: Any) -> Any:
            demands.append((demand, before))
            return super().decide(demand, before, views)

    (row,) = evaluated(Recording, demands="30%").rows
    assert set(demands[1:]) == {(0.3, 0.3)} and demands[0] == (0.3, 0.0) and len(demands) > 100
    assert (row["demand"], row["bound"], row["share_over_bound"], row["held"]) == (0.3, None, None, None)
    assert row["counts"] and row["recall"] == pytest.approx(0.7, abs=0.05)


@pytest.mark.sample(1)
@pytest.mark.parametrize("statistic", ["p95", "p99"])
def test_bounds_on_percentiles(statistic: str) -> None:
    document = evaluated("rs", bounds="50%", statistic=statistic).document
    (row,) = document["rows"]
    assert row["bound"] == 0.5 * document["truth"][f"{statistic}_latency"]
    assert row["held"] is (row[f"{statistic}_latency"] <= row["bound"])
    assert row["held"] and row["share_over_bound"] <= {"p95": 0.05, "p99": 0.01}[statistic]


def test_a_detector_object_is_copied_for_each_run() -> None:
    detector = QueueLength()
    options: dict[str, Any] = {"rates": "150%", "latency_bound": "10us"}
    events = stream().slice(0, 6_000)
    by_object, by_name, default = (
        evaluated("ri", events, seeds=2, **options | own).rows
        for own in ({"detector": detector}, {"detector": "queue"}, {})
    )
    assert by_object == by_name == default and detector.q_max == 0
    assert all(row["fired"] for row in default)


def test_a_run_in_which_nothing_was_shed_does_not_count() -> None:
    report = evaluated(["ri", "rs"], bounds="1000%")
    assert [(row["held"], row["fired"], row["counts"]) for row in report.rows] == [(True, False, False)] * 2
    assert report.rows[0]["why"] == "detector never fired: mean latency 0.1 of the bound"
    assert report.document["wins"] == {"1000%": None}
    with pytest.raises(fc.ValidationError, match=r"2 of 2 rows do not count.*ri at 1000%, seed 0: .*tighter bound"):
        _one_line(report)


def test_a_bound_that_no_shedder_holds_does_not_count() -> None:
    report = evaluated(["ri", "pm-bl"], bounds=["0.1%", "60%"])
    first, second = report.rows[:2]
    assert (first["held"], first["counts"], second["counts"]) == (False, False, False)
    assert first["why"].startswith("bound not held: mean latency ")
    assert report.document["wins"]["0.1%"] is None and report.document["wins"]["60%"] in ("ri", "pm-bl")
    with pytest.raises(fc.ValidationError, match=r"2 of 4 rows .*give a larger bound, a lower rate or more events"):
        _one_line(report)


def test_a_rate_that_the_engine_takes_without_shedding_does_not_count() -> None:
    (row,) = evaluated("ri", rates="50%", latency_bound="100us").rows
    assert row["why"] == "detector never fired: 0 % of the events were later than the bound"


def test_a_demand_that_a_shedder_does_not_act_on_does_not_count() -> None:
    class Idle(RandomEvents):
        name = "idle"

        def decide(self, demand: float, before: float, views: Any) -> Any:
            return [DropPlan() for _ in views]

    report = evaluated([Idle, "ri"], demands="50%")
    first, second = report.rows
    assert (first["recall"], first["counts"], first["why"]) == (1.0, False, "nothing was shed")
    assert second["counts"] and report.document["wins"] == {"50%": None}  # strategies save different amounts


def test_a_bound_may_be_near_what_events_cost_that_are_dropped() -> None:
    """Most events have types that no variable names, and cost less than events that a variable can bind."""
    rare = query("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID AND a.V = 1 AND b.V = 1 WITHIN 40ms")
    document = evaluated("ri", queries=rare, bounds="80%", cost_table="measured", skip=0.5).document
    costs = document["setting"]["cost_table"]["nanoseconds"]
    assert costs["event"] < document["rows"][0]["bound"] < costs["event"] + costs["relevant"]


@pytest.mark.parametrize("shedders", ["ri", "oracle"])
def test_there_must_be_something_to_judge(shedders: str) -> None:
    with pytest.raises(fc.ValidationError, match=r"skip=0\.9999 leaves none of 5,000 events to evaluate"):
        evaluated(shedders, stream().slice(0, 5_000), bounds="500us", skip=0.9999)


@pytest.mark.parametrize(
    ("share", "text"), [(0.5, "0.5"), (1.0, "1"), (1.6667, "1.667"), (1.00004, "1.00004"), (1 + 1e-9, "1.000000001")]
)
def test_a_share_just_above_1_is_not_rounded_to_1(share: float, text: str) -> None:
    assert rows._near_one(share) == text


def _one_line(report: Any) -> None:
    try:
        report.check()
    except fc.ValidationError as error:
        raise fc.ValidationError(str(error).replace("\n", " ")) from None


def test_few_true_matches_give_no_ratios() -> None:
    document = evaluated(["ri", "rs"], stream().slice(0, 6000), bounds="50%", skip=0.2).document
    assert 0 < document["truth"]["matches"] < 1000
    assert [(row["recall"], row["precision"]) for row in document["rows"]] == [(None, None)] * 2
    assert document["wins"] == {"50%": None}


@pytest.mark.thorough
def test_references_do_not_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(references.REFERENCES, "oracle", Everything)

    class ReferenceFit(RandomEvents):
        name, label, reference = "knows", "knows more", True

    document = evaluated(["oracle", ReferenceFit, "rs"], bounds="60%").document
    assert document["setting"]["strategies"] == [
        {"name": "everything", "label": "all that there is", "reference": True},
        {"name": "knows", "label": "knows more", "reference": True},
        {"name": "rs", "label": "random matches", "reference": False},
    ]
    assert document["rows"][0]["recall"] == 1.0 and document["wins"] == {"60%": "rs"}


def test_several_queries_over_one_stream() -> None:
    queries = [query(), query("PATTERN SEQ(C x, D y) WHERE x.ID = y.ID WITHIN 1ms", "q2")]
    document = evaluated("ri", queries=queries, bounds="50%").document
    truth = engine(queries, store="rows").process(stream())
    assert document["truth"]["matches"] == len(truth) and document["query"]["names"] == ["q1", "q2"]
    by_query = document["shed_by"][0]["queries"]
    assert list(by_query["q1"]["events"]) == ["A", "B", "C"] and list(by_query["q2"]["events"]) == ["C", "D"]
    seen = np.unique(stream()["type"].to_numpy(zero_copy_only=False), return_counts=True)
    assert by_query["q2"]["events"]["D"]["seen"] == dict(zip(*seen, strict=True))["D"]
    dropped = sum(item["dropped"] for own in by_query.values() for item in own["events"].values())
    places = sum(item["seen"] for own in by_query.values() for item in own["events"].values())
    (row,) = document["rows"]
    assert (row["shed_events"], row["shed_event_ratio"]) == (dropped, dropped / places)


@pytest.mark.thorough
def test_events_dropped_from_windows_are_no_share_of_events() -> None:
    windows = query("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WINDOW OPEN ON C o CLOSE AFTER 200us")
    in_windows, in_stream = evaluated(["bl", "e-bl"], queries=windows, bounds="60%").rows
    assert in_windows["shed_events"] > 0 and in_windows["shed_event_ratio"] is None
    assert in_stream["shed_event_ratio"] > 0


def test_events_of_types_to_ignore_are_left_out() -> None:
    schema = fc.Schema(
        {name: {"ID": "int64", "V": "int64"} for name in "ABC"}, time="ts", type="type", time_unit="us",
        other_types="ignore",
    )  # fmt: skip
    the_query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms", schema, name="q")
    document = evaluated("ri", queries=the_query, rates="110%", latency_bound="5us").document
    assert document["stream"]["events"] == sum(name != "D" for name in stream()["type"].to_pylist())
    assert document["truth"]["matches"] == len(fc.Engine(the_query).process(stream()))


@pytest.mark.thorough
def test_lines_over_time_and_what_the_document_says() -> None:
    document = evaluated(["ri", "rs"], bounds=["90%", 3], seeds=2, source="/some/where/ds1.csv").document
    assert [(row["target"], row["shedder"], row["seed"]) for row in document["rows"]] == [
        (target, name, seed) for target in ("90%", "3 ns") for name in ("ri", "rs") for seed in (0, 1)
    ]
    assert document["stream"] == {"source": "ds1.csv", "events": EVENTS, "fitted_on": 0, "span": 199_727_000}
    assert "machine" not in document and "spread" not in document["rows"][0]
    setting = document["setting"]
    assert (setting["mode"], setting["store"], setting["targets"]) == ("bounds", "rows", ["90%", "3 ns"])
    assert setting["cost_table"]["name"] == "paper" and setting["cost_table"]["nanoseconds"]["visited"] == 1
    assert len(document["series"]) == len(document["shed_by"]) == 4
    for line in document["series"]:
        assert len(line["x"]) == len(line["latency"]) == 240 and line["x"][-1] == EVENTS - 1 and line["seed"] == 0
    assert document["query"]["monotonic"] and "PATTERN SEQ(A a, B b, C c)" in document["query"]["text"]


@pytest.mark.thorough
def test_the_same_bytes_twice_however_the_events_come() -> None:
    first = evaluated(["ri", "rs"], bounds="50%").to_json()
    batches = stream().to_batches(max_chunksize=777)
    columns = {name: stream()[name].to_numpy(zero_copy_only=False) for name in stream().column_names}
    for events in (stream(), type(stream()).from_batches(batches), columns):
        assert evaluated(["ri", "rs"], events, bounds="50%").to_json() == first
    assert first.endswith("}\n") and json.loads(first)["format"] == 1


def test_progress_is_reported_after_each_run() -> None:
    progress: list[tuple[int, int]] = []
    evaluated(["ri", "rs"], bounds=["90%", "50%"], progress=lambda done, of: progress.append((done, of)))
    assert progress == [(number, 4) for number in range(5)]


def test_episodes_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        evaluated("ri", bounds="50%")
    assert caplog.records == []


@pytest.mark.thorough
def test_what_is_logged_afterwards_is_what_was_before() -> None:
    """Logging is unchanged even if threads share the runs."""
    level = logging.getLogger("fastcep.shedding").level
    with ThreadPoolExecutor(4) as pool:
        shared = evaluated(["ri", "rs"], bounds="50%", seeds=4, runner=pool)
    logger = logging.getLogger("fastcep.shedding")
    assert (logger.level, logger.filters) == (level, [])
    assert shared.to_json() == evaluated(["ri", "rs"], bounds="50%", seeds=4).to_json()


def test_an_error_in_a_run_says_which() -> None:
    class Breaks(RandomEvents):
        def decide(self, demand: float, before: float, views: Any) -> Any:
            raise fc.ModelError("no idea")

    with pytest.raises(fc.ModelError, match="no idea") as caught:
        evaluated(Breaks, bounds="50%", seeds=[7])
    assert caught.value.__notes__[-1:] == ["shedder 'ri', target 50%, seed 7"]


def test_on_the_wall_clock_rows_have_medians_and_their_spread() -> None:
    document = fc.evaluate(
        query(), stream(), shedders=["ri"], bounds=["50%"], clock="wall", repeats=3, index="key"
    ).document
    (row,) = document["rows"]
    assert set(document["machine"]) == {"cpu", "cores", "python", "numpy"}
    assert document["setting"]["repeats"] == 3
    for name in ("recall", "mean_latency", "throughput"):
        least, most = row["spread"][name]
        assert least <= row[name] <= most
    assert row["held"] is (row["mean_latency"] <= row["bound"])


def test_on_the_wall_clock_a_runner_is_noted() -> None:
    class Here:
        def map(self, function: Any, items: Any, /) -> Any:
            return map(function, items)

    document = fc.evaluate(
        query(), stream(), shedders="ri", rates="150%", latency_bound="1ms", clock="wall", repeats=1, runner=Here()
    ).document
    assert "disturb" in document["machine"]["note"] and document["setting"]["maximum_rate"] > 0
    (row,) = document["rows"]
    assert row["spread"]["recall"] == [row["recall"], row["recall"]]


@pytest.mark.parametrize(
    ("text", "monotonic"),
    [
        ("SEQ(A a, B b) WITHIN 1ms", True),
        ("SEQ(A a, B+ b[], C? c) WITHIN 1ms", True),
        ("AND(A a, B b) WINDOW OPEN ON C o CLOSE AFTER 1ms", True),
        ("SEQ(A a, NEG B b, C c) WITHIN 1ms", False),
        ("SEQ(A a, NEXT B b) WITHIN 1ms", True),  # dropped events keep their positions
        ("SEQ(A a, B+ b[] CONSECUTIVE) WITHIN 1ms", True),
        ("PERIODIC(A a, 10us, B b) WITHIN 1ms", False),
        ("SEQ(A a, B b) WITHIN 1ms STRATEGY skip_till_next", False),
        ("SEQ(A a, B b) WITHIN 1ms SELECT first", False),
        ("SEQ(A a, B b) WITHIN 1ms CONSUME consumed", False),
        ("SEQ(A a, B b) WINDOW OPEN ON C o CLOSE AFTER 1ms LIMIT 1 PER WINDOW", False),
        ("SEQ(A a, B b) WITHIN 1ms AFTER MATCH SKIP TO NEXT", False),
    ],
)
def test_which_queries_are_monotonic(text: str, monotonic: bool) -> None:
    assert is_monotonic(query(f"PATTERN {text}")) is monotonic


def test_events_that_are_kept_from_one_variable_are_shed() -> None:
    """They are not dropped while another variable can bind them."""
    numbers = (1, 1, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0, 0, 1, 1)
    assert not Outcome(*numbers).fired and Outcome(*numbers, withheld=1).fired
