"""Validation of models on the later part of the history: features, recalls, warnings and fallbacks."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.shedding.shed_runs import query

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.overload.protocols import Tree
from fastcep.shedding.hybrid import pieces
from fastcep.shedding.hybrid.feature_selection import held_out_gain
from fastcep.shedding.hybrid.model import HybridModel
from fastcep.shedding.hybrid.pieces import observed_piece
from fastcep.shedding.hybrid.replay import drop_curves, random_curve

JOBS = fc.Schema({name: {"job": "int64", "kind": "int64"} for name in "ABC"}, time="ts", type="type", time_unit="us")
IDENTIFIED = fc.parse(
    "PATTERN SEQ(A a, B b, C c) WHERE a.job = b.job AND b.job = c.job AND a.kind = b.kind AND b.kind = c.kind"
    " WITHIN 3ms",
    JOBS,
    name="jobs",
)
PAPER = fc.CostTable.named("paper")
OPTIONS: dict[str, Any] = {"cost_table": "paper", "index": "full"}


def jobs(events: int = 40_000, seed: int = 1, hashed: bool = False) -> pa.Table:
    """Stream of jobs, numbered in order, that last 15,000 events; half of them have matches, low kinds more."""
    random = np.random.default_rng(seed)
    job = np.arange(events) // 600 + random.integers(0, 25, events)
    kind = np.minimum(random.geometric(0.4, events), 8)
    types = np.where((job // 6 % 2 == 0) & (kind < 4), random.choice(list("ABC"), events), "A")
    if hashed:
        job = job * 2_654_435_761 % 2**32
    return pa.table({"type": types, "job": job, "kind": kind, "ts": np.arange(events) * 10})


@pytest.mark.sample(1)
@pytest.mark.parametrize("hashed", [False, True])
def test_identifiers_are_no_features(hashed: bool) -> None:
    history = jobs(hashed=hashed)
    assert any("job" in name for name in features(fc.fit(IDENTIFIED, history, validate=False, **OPTIONS)))
    model = fc.fit(IDENTIFIED, history, **OPTIONS)
    assert not any("job" in name for name in features(model)) and any("kind" in name for name in features(model))
    report = model.validation
    assert report is not None and {item["feature"].split(".")[1] for item in report["removed"]} >= {"job"}
    assert (np.array(report["held_out_recall"]) >= np.array(report["random_recall"]) - 0.01).all()


def features(model: fc.Model) -> set[str]:
    own = HybridModel.of(model)
    return {name for kinds in (own.classes, own.event_classes) for item in kinds.values() for name in item.features}


def test_excluded_attributes_are_no_features() -> None:
    model = fc.fit(IDENTIFIED, jobs(), exclude=["job"], **OPTIONS)
    assert features(model) == {"a.kind", "b.kind", "c.kind"} and model.parameters["exclude"] == ["job"]
    assert model.validation is not None and model.validation["removed"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exclude": ["jobs"]}, r"exclude=\['jobs'\]: no type of event has an attribute 'jobs'; did you mean 'job'"),
        ({"exclude": "job"}, r"exclude='job'; expected a list of attributes, such as \['job'\]"),
        ({"exclude": ["job"], "features": {"a": ["a.job % 2"]}}, "which uses the excluded attribute 'job'"),
    ],
)
def test_wrong_exclusions(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        fc.fit(IDENTIFIED, jobs(2_000), **options, **OPTIONS)


def test_a_stationary_stream_keeps_its_features(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "fastcep.shedding"):
        model = fc.fit(query(), ds1(events=20_000, seed=3), cost_table="paper", index="key")
    report = model.validation
    assert report is not None and not caplog.records and report["warning"] is None and report["removed"] == []
    held_out, estimated, chance = (
        np.array(report[name]) for name in ("held_out_recall", "estimated_recall", "random_recall")
    )
    assert np.abs(held_out - estimated).max() < 0.05 and (held_out > chance + 0.1).all()
    assert features(model) == {name for names in report["features"].values() for name in names}
    model.save(tmp_path / "m")
    again = fc.load_model(tmp_path / "m")
    assert again.validation == report and HybridModel.of(again).stored().validation == report


def test_the_held_out_recall_is_that_of_an_engine() -> None:
    """An engine that sheds half of the work of the later events finds what the replay predicts."""
    own, events = query(), ds1(events=30_000, seed=6)
    options: dict[str, Any] = {"cost_table": "paper", "index": "key"}
    report = fc.fit(own, events, **options).validation
    assert report is not None
    model = fc.fit(own, events.slice(0, 21_000), validate=False, **options)
    shedder = fc.shedding.Hybrid(model, adapt=False)
    judged = [lambda seed: shedder, "rs"]
    rows = fc.evaluate(own, events.slice(21_000), shedders=judged, demands=["50%"], **options).rows
    held_out, chance = report["held_out_recall"][1], report["random_recall"][1]
    assert rows[0]["recall"] == pytest.approx(held_out, abs=0.06)
    assert rows[1]["recall"] == pytest.approx(chance, abs=0.06)


def test_changed_stream(caplog: pytest.LogCaptureFixture) -> None:
    """In the last third other values match: the estimate is wrong, and the model is not worse than random shedding."""
    first, last = ds1(events=20_000, seed=1, c_values=(2, 6)), ds1(events=9_000, seed=2, c_values=(14, 20))
    late = pa.array(last["ts"].to_numpy() + first["ts"][-1].as_py() + 10)
    history = pa.concat_tables([first, last.set_column(last.column_names.index("ts"), "ts", late)])
    with caplog.at_level(logging.WARNING, "fastcep.shedding"):
        report = fc.fit(query(), history, cost_table="paper", index="key").validation
    assert report is not None and report["removed"]
    assert (np.array(report["held_out_recall"]) >= np.array(report["random_recall"]) - 0.01).all()


def test_age_may_mislead() -> None:
    """Partial matches are completed early in the window at first, and late in it afterwards."""
    schema = fc.Schema({name: {"key": "int64"} for name in "AB"}, time="ts", type="type", time_unit="us")
    own = fc.parse("PATTERN SEQ(A a, B b) WHERE a.key <= b.key AND a.key >= b.key WITHIN 1ms", schema, name="delays")
    number = np.arange(3_000)
    after = np.where(number < 2_100, 150, 900)
    start = number * 20
    order = np.argsort(np.concatenate([start, start + after]), kind="stable")
    history = pa.table({"type": np.repeat(["A", "B"], 3_000)[order], "key": np.tile(number % 100, 2)[order],
                        "ts": np.concatenate([start, start + after])[order]})  # fmt: skip
    model = fc.fit(own, history, **OPTIONS)
    report = model.validation
    assert HybridModel.of(fc.fit(own, history, validate=False, **OPTIONS)).flow.slices == 4
    assert report is not None and report["slices"] == HybridModel.of(model).flow.slices == 1
    assert (np.array(report["held_out_recall"]) >= np.array(report["random_recall"]) - 0.01).all()


def test_a_short_history_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "fastcep.shedding"):
        model = fc.fit(query(), ds1(events=60, seed=1), cost_table="paper", index="key")
    report = model.validation
    assert report is not None and "held_out_recall" not in report and caplog.messages == [report["warning"]]
    assert "history of 60 events is too short to validate the model of query" in report["warning"]
    stored = {state["variable"]: state for state in report["states"]}
    assert f"a: {stored['a']['partial_matches']}, {stored['a']['useful']} of which led to a match" in report["warning"]


def test_only_the_last_part_of_a_large_history_is_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    history = ds1(events=12_000, seed=4)
    options: dict[str, Any] = {"cost_table": "paper", "index": "key"}
    whole = fc.fit(query(), history, **options)
    monkeypatch.setattr(pieces, "_VALIDATED", 8_000)
    part = fc.fit(query(), history, **options)
    assert whole.validation is not None and part.validation is not None
    counts = [report["matches"]["earlier"] for report in (whole.validation, part.validation)]
    assert 20 < counts[1] < counts[0] / 2
    assert HybridModel.of(part).flow.events == HybridModel.of(whole).flow.events == 12_000


def test_no_validation() -> None:
    model = fc.fit(query(), ds1(events=5_000, seed=1), validate=False, cost_table="paper", index="key")
    assert model.validation is None and HybridModel.of(model).validation is None


def test_unseen_values_of_trees_are_never_dropped() -> None:
    """Values outside the range of the history have a class that no drop order contains."""
    schema = fc.Schema({name: {"x": "float64"} for name in "AB"}, time="ts", type="type", time_unit="us")
    own = fc.parse("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 300us", schema, name="reals")
    random = np.random.default_rng(3)
    history = pa.table({"type": random.choice(list("AB"), 8_000), "x": random.normal(0, 1, 8_000),
                        "ts": np.arange(8_000) * 10})  # fmt: skip
    model = HybridModel.of(fc.fit(own, history, **OPTIONS))
    tree = model.classes["a"]
    assert isinstance(tree, Tree)
    unseen = int(tree.classify(np.array([[1e6]]), np.zeros((1, 1), bool))[0])
    assert unseen == tree.classify(np.array([[-1e6]]), np.zeros((1, 1), bool))[0] == tree.count - 1
    assert not any(not step.events and step.number == unseen for step in model.flow.steps(model.costs))


def test_curves() -> None:
    """Without classes that differ, half of the droppable work is half of the matches or more; ends are fixed."""
    account = observed_piece(query(), ds1(events=6_000, seed=2), {"a": [], "b": []}, {}, 2, PAPER, "key")
    early, late = account.restricted(0, 3_000), account.restricted(3_000, 6_000)
    chance = random_curve(late)
    assert chance.recall(np.array([0.0, 1.0])).tolist() == [1.0, 0.0]
    assert (np.diff(chance.saved) >= 0).all() and (np.diff(chance.kept) <= 0).all()
    for curve in drop_curves(early, late, {}, {}):
        assert curve.recall(np.array([0.0, 1.0])).tolist() == [1.0, 0.0]
        assert (np.diff(curve.saved) >= 0).all() and (np.diff(curve.kept) <= 0).all()
        assert curve.recall(np.array([0.5]))[0] > chance.recall(np.array([0.5]))[0] - 0.05


def test_gain() -> None:
    random = np.random.default_rng(0)
    bins, early = random.integers(0, 4, 4_000), np.arange(4_000) < 2_000
    weights = np.ones(4_000)
    level = bins + random.normal(0, 1, 4_000)
    assert 0.4 < held_out_gain(bins, [(level, weights)], early, ~early) < 0.7
    assert held_out_gain(bins, [(np.where(early, level, 100 + level), weights)], early, ~early) > 0.4
    assert held_out_gain(bins, [(np.where(early, level, -level), weights)], early, ~early) == 0
    assert held_out_gain(bins, [(random.normal(0, 1, 4_000), weights)], early, ~early) == 0
    assert held_out_gain(np.where(early, bins, 9), [(level, weights)], early, ~early) == 0
