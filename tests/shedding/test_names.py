"""Shedders and detectors by name, and errors of their options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.shedding.shed_views import Q1, SCHEMA

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.errors import ValidationError
from fastcep.overload.names import MODELS
from fastcep.shedding import Detector, Shedder, by_name, detector_by_name
from fastcep.shedding.names import DETECTORS, SHEDDERS

PLAIN = ("ri", "si", "rs", "ss", "pm-bl", "e-bl", "bl")
NEEDED: dict[str, Any] = {"classes": {}, "refuse": {"a": [0.5]}}


@pytest.mark.parametrize("spelling", [*PLAIN, "classes"])
def test_shedders_by_name(spelling: str) -> None:
    shedder: Shedder = by_name(spelling, seed=3, **(NEEDED if spelling == "classes" else {}))
    assert (shedder.name, shedder.seed, shedder.slices) == (spelling, 3, 1)
    assert shedder.spec()["name"] == spelling and shedder.spec()["seed"] == 3
    assert json.loads(json.dumps(shedder.spec())) == shedder.spec()
    query = fc.parse(Q1, SCHEMA, name="q")
    shedder.check(query)
    assert shedder.classes(query) == {}
    assert shedder.drops_matches is (spelling in ("rs", "ss", "pm-bl", "classes"))
    assert shedder.in_windows is (spelling == "bl")
    assert list(shedder.decide(0.5, 0.0, [])) == []


def test_all_names_are_tested() -> None:
    assert set(SHEDDERS) == {*PLAIN, "classes", "hybrid", "hyi", "hys", "pspice", "pspice--", "espice", "auto"}
    assert set(DETECTORS) == {"latency", "queue", "prediction", "memory"}


@pytest.mark.parametrize("spelling", sorted(DETECTORS))
def test_detectors_by_name(spelling: str) -> None:
    detector: Detector = detector_by_name(spelling)
    assert detector.name == spelling and detector.statistic == "mean"
    again = detector_by_name(
        **{("spelling" if key == "name" else key): value for key, value in detector.spec().items()}
    )
    assert again.spec() == detector.spec()


def test_a_shedder_names_its_usual_detectors() -> None:
    shedder = by_name("ri")
    kinds = ["latency", "queue", "memory"]
    assert [shedder.detector(of).name for of in kinds] == kinds
    with pytest.raises(ValidationError, match="detector='speed'; expected one of 'latency', 'queue', 'memory'"):
        shedder.detector("speed")


@pytest.mark.parametrize(
    ("spelling", "options", "message"),
    [
        ("pmbl", {}, "unknown shedder 'pmbl'; did you mean 'pm-bl'"),
        ("zzz", {}, "unknown shedder 'zzz'; there is 'ri', 'si'"),
        ("hybrid", {}, "shedder 'hybrid' needs model"),
        ("hybrid", {"model": []}, r"shedder 'hybrid': model=\[\]; expected at least one"),
        ("hys", {"model": [], "explore": 2}, "shedder 'hys': explore=2; expected"),
        ("pspice--", {}, "shedder 'pspice--' needs model; fit a model with"),
        ("espice", {}, "shedder 'espice' needs model; fit a model with"),
        ("oracle", {}, "'oracle' is not a shedder but a reference"),
        ("ri", {"sed": 1}, "'ri' has no option 'sed'; did you mean 'seed'"),
        ("ri", {"seed": -1}, "shedder 'ri': seed=-1; expected a whole number"),
        ("rs", {"seed": 1.5}, "seed=1.5"),
        ("ss", {"seed": True}, "seed=True"),
        ("ri", {"seed": 1 << 64}, "expected a whole number from 0 to"),
        ("classes", {"refuse": {}}, "'classes' needs classes"),
    ],
)
def test_wrong_shedders(spelling: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        by_name(spelling, **options)


@pytest.mark.parametrize(
    ("spelling", "options", "message"),
    [
        ("latncy", {}, "unknown detector 'latncy'; did you mean 'latency'"),
        ("latency", {"statistic": "p98"}, "statistic='p98'; expected one of 'mean', 'p95', 'p99'; did you mean"),
        ("latency", {"set_point": 0}, "set_point=0; expected a number above 0 and at most 1"),
        ("latency", {"set_point": float("nan")}, "set_point=nan"),
        ("queue", {"f": 1.0}, "f=1 leaves no room"),
        ("queue", {"f": "0.8"}, "f='0.8'"),
        ("queue", {"q_max": 0}, "q_max=0; expected a whole number, at least 1"),
        ("prediction", {"buffer": "-1ms"}, "detector 'prediction': buffer: "),
        ("prediction", {"samples": 3}, "samples=3; expected a whole number, at least 10"),
        ("prediction", {"refit": 0}, "refit=0"),
        ("memory", {"share": 1.1}, "detector 'memory': share=1.1"),
    ],
)
def test_wrong_detectors(spelling: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        detector_by_name(spelling, **options)


def test_the_room_is_at_hand() -> None:
    assert fc.shedding.RandomEvents(seed=4).spec() == {"name": "ri", "seed": 4}
    assert repr(fc.shedding.RandomEvents(seed=4)) == "RandomEvents(seed=4)"


# ---------------------------------------------------------------------- other packages


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that registers shedders and a kind of model."""
    (tmp_path / "other_shedders.py").write_text(
        """
from fastcep.shedding import Model, RandomMatches

class Third(RandomMatches):
    name = "third"

def fit_third(query, history, *, size=1):
    return Model("third", query, {"size": size}, {"events": len(history)})

def fit_wrong(query, history):
    return 5
"""
    )
    info = tmp_path / "other_shedders-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-shedders\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[fastcep.shedders]\nthird = other_shedders:Third\nbroken = other_shedders:Missing\nrs = other_shedders:Third\n"
        "[fastcep.models]\nthird = other_shedders:fit_third\nwrong = other_shedders:fit_wrong\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for registry in (SHEDDERS, MODELS):
        monkeypatch.setitem(registry.__dict__, "_places", None)  # removed after the test, or restored
        del registry.__dict__["_places"]


def test_a_shedder_of_another_package(package: None) -> None:
    assert by_name("third", seed=2).spec() == {"name": "third", "seed": 2}
    query = fc.parse(Q1, SCHEMA, name="q")
    engine = fc.Engine(query, latency_bound="1s", shedder="third")
    assert engine.metrics()["shedding"]["shedder"] == "third"
    report = fc.evaluate(query, ds1(events=3000), shedders="third", bounds="50%", cost_table="paper")
    assert report.rows[0]["shedder"] == "third"
    assert type(by_name("rs")).__name__ == "RandomMatches"  # names of fastcep cannot be replaced
    with pytest.raises(ValidationError, match="'broken' of package 'other-shedders' cannot be loaded from"):
        by_name("broken")


def test_a_kind_of_model_of_another_package(package: None, tmp_path: Path) -> None:
    query = fc.parse(Q1, SCHEMA, name="q")
    model = fc.fit(query, ds1(events=300), kind="third", size=3)
    model.save(tmp_path / "model")
    assert fc.load_model(tmp_path / "model").parameters == {"size": 3}
    for kind, option in (("third", "sizes"), ("hybrid", "slicess")):
        with pytest.raises(ValidationError, match=f"model '{kind}' has no option '{option}'; did you mean"):
            fc.fit(query, ds1(events=300), kind=kind, **{option: 3})
    with pytest.raises(ValidationError, match="kind='wrong': its function returned int, expected a Model"):
        fc.fit(query, ds1(events=300), kind="wrong")
    with pytest.raises(ValidationError, match=r"kind='fourth': .*; there is 'hybrid', 'pspice', 'espice', 'third'"):
        fc.fit(query, ds1(events=300), kind="fourth")
