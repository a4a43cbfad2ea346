"""Strategies that learn: on the first half of the events, or on history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.shedding.evaluations import Sums, evaluated, fixed, stream

import fastcep as fc
from fastcep.evaluation import strategies
from fastcep.shedding import RandomEvents

EVENTS = 40_000


def test_what_was_learned_beats_chance() -> None:
    strategy = Sums()
    document = evaluated(["ri", "rs", strategy], stream(EVENTS), bounds="50%", skip=0.1).document
    recall = {row["shedder"]: row["recall"] for row in document["rows"] if row["counts"]}
    assert list(recall) == ["ri", "rs", "sums"] and recall["sums"] > recall["rs"] + 0.15
    assert document["wins"] == {"50%": "sums"} and strategy.seen == [EVENTS // 2]


@pytest.mark.thorough
def test_all_are_judged_on_the_second_half() -> None:
    events = stream(EVENTS)
    halves = evaluated(["rs", Sums()], events, bounds="50%").document
    alone = evaluated("rs", events.slice(EVENTS // 2), bounds="50%").document
    assert (halves["stream"]["events"], halves["stream"]["fitted_on"]) == (EVENTS // 2, EVENTS // 2)
    assert halves["rows"][0] == alone["rows"][0] and halves["truth"] == alone["truth"]


def test_with_history_all_are_judged_on_all_events() -> None:
    events, strategy = stream(EVENTS), Sums()
    document = evaluated(["rs", strategy], events.slice(20_000), history=events.slice(0, 15_000), bounds="50%").document
    assert (document["stream"]["events"], document["stream"]["fitted_on"]) == (20_000, 15_000)
    assert strategy.seen == [15_000]


def test_what_fit_gives_must_make_shedders() -> None:
    class Wrong(Sums):
        def fit(self, queries: Sequence[fc.Query], history: pa.Table, **engine: Any) -> Any:
            return 5

    with pytest.raises(fc.ValidationError, match=r"strategy 'sums': fit\(\) returned 5, expected a function"):
        evaluated(Wrong(), bounds="50%")


@pytest.fixture
def modelled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Register the shedder ``mo``, which uses a model or is fitted; yield the models and fits it received."""
    received: list[str] = []

    class Modelled(RandomEvents):
        name = "mo"

        def __init__(self, seed: int = 0, model: str = "") -> None:
            super().__init__(seed)
            received.append(model)

        @classmethod
        def fit(cls, queries: Sequence[fc.Query], history: pa.Table, **engine: Any) -> Any:
            received.append(f"fitted on {len(history)}")
            return cls

    kinds = {**strategies.SHEDDERS, "mo": Modelled}
    monkeypatch.setattr("fastcep.overload.names.SHEDDERS", kinds)
    monkeypatch.setattr(strategies, "SHEDDERS", kinds)
    yield received


def test_a_model_goes_to_those_that_take_one(modelled: list[str], tmp_path: Path) -> None:
    document = evaluated(["ri", "mo"], bounds="50%", model=tmp_path).document
    assert document["stream"]["fitted_on"] == 0 and set(modelled) == {str(tmp_path)}
    assert document["rows"][0]["recall"] == document["rows"][1]["recall"]


def test_without_a_model_they_are_fitted(modelled: list[str]) -> None:
    document = evaluated(["ri", "mo"], bounds="50%").document
    assert document["stream"]["fitted_on"] == 10_000 and modelled[0] == "fitted on 10000"


@pytest.mark.thorough
def test_a_shedder_object_is_copied_for_each_run() -> None:
    refuse = [float(total > 10) for total in range(2, 21)]
    shedder = fixed(refuse, 6)
    report = evaluated(shedder, bounds=["80%", "60%"], seeds=[6])
    assert [row["shedder"] for row in report.rows] == ["classes"] * 2
    assert evaluated(shedder, bounds=["80%", "60%"], seeds=[6]).to_json() == report.to_json()
    classes = report.document["shed_by"][1]["queries"]["q1"]["partial_matches"]["b"]
    assert sum(classes["refused"][9:]) > 0 == sum(classes["refused"][:9])
