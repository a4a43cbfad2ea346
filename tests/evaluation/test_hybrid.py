"""Hybrid shedding in evaluations: fitted on history, on the first half, or with a model on disk."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.shedding.evaluations import PAPER, evaluated, query, stream

import fastcep as fc
from fastcep.shedding import Hybrid, HybridFit

pytestmark = pytest.mark.thorough

EVENTS = 30_000


def history() -> pa.Table:
    return stream(2 * EVENTS).slice(EVENTS)


@pytest.fixture(scope="module")
def model() -> fc.shedding.Model:
    return fc.fit(query(), history(), **PAPER)


def recall(document: Any) -> dict[str, float]:
    assert all(row["counts"] for row in document["rows"])
    return {row["shedder"]: row["recall"] for row in document["rows"]}


def test_fitted_on_history(model: fc.shedding.Model) -> None:
    """With the costs and the index of the evaluation: as the model that is fitted by hand."""
    options: dict[str, Any] = {"bounds": "40%", "skip": 0.1}
    document = evaluated(["rs", "hybrid", "hyi", "hys"], stream(EVENTS), history=history(), **options).document
    assert (document["stream"]["events"], document["stream"]["fitted_on"]) == (EVENTS, EVENTS)
    recalls = recall(document)
    assert min(recalls[name] for name in ("hybrid", "hyi", "hys")) > recalls["rs"] + 0.05
    by_hand = evaluated(partial(Hybrid, model), stream(EVENTS), **options).document
    assert by_hand["rows"][0]["recall"] == recalls["hybrid"] and by_hand["stream"]["fitted_on"] == 0
    other = evaluated("hybrid", stream(EVENTS), history=history(), **options | {"index": "full"}).document
    assert other["rows"][0]["mean_latency"] != document["rows"][1]["mean_latency"]


def test_fitted_on_the_first_half() -> None:
    events = stream(2 * EVENTS)
    halves = evaluated("hybrid", events, bounds="40%").document
    assert (halves["stream"]["events"], halves["stream"]["fitted_on"]) == (EVENTS, EVENTS)
    alone = evaluated("hybrid", events.slice(EVENTS), history=events.slice(0, EVENTS), bounds="40%").document
    assert halves["rows"] == alone["rows"]


def test_by_a_model_on_disk(model: fc.shedding.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    options: dict[str, Any] = {"bounds": ["60%", "40%"], "seeds": 2}
    document = evaluated(["ri", "hybrid", "hys"], stream(EVENTS), model=tmp_path / "m", **options).document
    assert document["stream"]["fitted_on"] == 0
    fitted = evaluated(["ri", "hybrid", "hys"], stream(EVENTS), history=history(), **options).document
    assert document["rows"] == fitted["rows"]
    with pytest.raises(fc.ValidationError, match="none of the shedders takes a model"):
        evaluated("ri", stream(EVENTS), model=tmp_path / "m", bounds="60%")
    with pytest.raises(fc.errors.ModelError, match="does not exist"):
        evaluated("hybrid", stream(EVENTS), model=tmp_path / "none", bounds="60%")
    with pytest.raises(fc.errors.ModelError, match="fit one for this query"):
        evaluated("hybrid", stream(EVENTS), query("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 2ms"),
                  model=tmp_path / "m", bounds="60%")  # fmt: skip


def test_a_shedder_with_a_model_is_taken_as_it_is(model: fc.shedding.Model) -> None:
    """It is not fitted again, although its class can be."""
    shedder = Hybrid(model, 5, adapt=False)
    document = evaluated(shedder, stream(EVENTS), bounds="40%", seeds=[5]).document
    assert document["stream"]["fitted_on"] == 0
    same = evaluated(partial(Hybrid, model, adapt=False), stream(EVENTS), bounds="40%", seeds=[5]).document
    assert same["rows"][0]["recall"] == document["rows"][0]["recall"]


def test_with_other_options() -> None:
    kinds = [HybridFit("hys", "one slice", {"slices": 1}), HybridFit("hys", "four", options={"explore": 0.0})]
    document = evaluated(kinds, stream(EVENTS), history=history(), bounds="40%").document
    recalls = recall(document)
    assert list(recalls) == ["one slice", "four"] and recalls["four"] > recalls["one slice"]
    with pytest.raises(fc.ValidationError, match="HybridFit: kind='hy'; expected one of 'hybrid', 'hyi', 'hys'"):
        HybridFit("hy")


def test_in_processes(model: fc.shedding.Model) -> None:
    """Strategies with models can be pickled."""
    import pickle

    makes = HybridFit("hybrid").fit([query()], history(), cost_table=fc.CostTable.named("paper"), index="key")
    again = pickle.loads(pickle.dumps(makes))
    assert again(3).spec() == makes(3).spec() == Hybrid(model, 3).spec()
