"""The match rate that shedders report: as many matches as an engine finds in the history of the model."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from support.shedding.markov_models import TABLE, letters, shedding
from support.shedding.shed_runs import query

import fastcep as fc
from fastcep.evaluation.constant import ConstantDemand, SameDemand
from fastcep.shedding import Auto, Hybrid, Model, PSpice, by_name
from fastcep.shedding.hybrid.model import HybridModel
from fastcep.shedding.pspice.model import PSpiceModel

ABC = "PATTERN SEQ(A a, B b, C c)"
PLAIN = {
    f"{ABC} WITHIN 40 EVENTS", f"{ABC} WITHIN 400us STRATEGY skip_till_next", "PATTERN AND(A a, B b) WITHIN 30 EVENTS",
    "PATTERN SEQ(A a, B+ b[], C c) WITHIN 9 EVENTS", f"{ABC} WINDOW OPEN EVERY 50 EVENTS CLOSE AFTER 50 EVENTS",
    f"{ABC} WINDOW OPEN ON D d CLOSE AFTER 80 EVENTS", f"{ABC} WINDOW OPEN EVERY 8 EVENTS CLOSE AFTER 64 EVENTS",
    f"{ABC} WINDOW OPEN EVERY 8 EVENTS CLOSE AFTER 64 EVENTS STRATEGY skip_till_next",
}  # fmt: skip
WITH_POLICIES = {
    f"{ABC} WITHIN 40 EVENTS SELECT first", f"{ABC} WITHIN 40 EVENTS CONSUME consumed",
    f"{ABC} WINDOW OPEN EVERY 50 EVENTS CLOSE AFTER 50 EVENTS LIMIT 1 PER WINDOW",
    f"{ABC} WINDOW OPEN EVERY 8 EVENTS CLOSE AFTER 64 EVENTS LIMIT 1 PER WINDOW",
}  # fmt: skip
CASES = sorted([*((text, kind) for text in PLAIN for kind in ("hybrid", "pspice")),
                *((text, "hybrid") for text in WITH_POLICIES)])  # fmt: skip


@cache
def model(text: str, kind: str) -> Model:
    return fc.fit(query(text), letters(), kind=kind, cost_table=TABLE)


@cache
def matches_of(text: str) -> fc.Matches:
    return fc.Engine(query(text)).process(letters())


@pytest.mark.sample(4)
@pytest.mark.parametrize(("text", "kind"), CASES)
def test_it_counts_what_an_engine_finds(text: str, kind: str) -> None:
    """Matches of overlapping windows count once in each, and policies discard some."""
    found = len(matches_of(text))
    read: Any = HybridModel if kind == "hybrid" else PSpiceModel
    rate = read.of(model(text, kind)).match_rate
    assert found > 100 and rate is not None and rate[:2] == (len(letters()), found)
    size = {f"{ABC} WITHIN 400us STRATEGY skip_till_next": 40.6}.get(text)
    assert size is None or rate.window == pytest.approx(size, rel=0.02)


@pytest.mark.parametrize("kind", ["hybrid", "espice"])
def test_auto_has_that_of_its_model(kind: str) -> None:
    text = f"{ABC} WINDOW OPEN EVERY 50 EVENTS CLOSE AFTER 50 EVENTS LIMIT 1 PER WINDOW"
    expected = HybridModel.of(model(text, kind)).match_rate if kind == "hybrid" else None
    assert Auto(model=model(text, kind)).match_rate(query(text)) == expected
    assert Auto().match_rate(query(text)) is None is by_name("rs").match_rate(query(text))


@pytest.mark.sample(1)
@pytest.mark.parametrize("timed_out", [False, True])
def test_pspice_has_one_only_where_it_would_notice_a_change(timed_out: bool) -> None:
    """It counts nothing in isolated windows, which engines have that report partial matches that time out."""
    text = f"{ABC} WINDOW OPEN EVERY 8 EVENTS CLOSE AFTER 64 EVENTS"
    for shedder in (PSpice(model(text, "pspice")), Auto(model=model(text, "pspice"))):
        assert shedder.match_rate(query(text)) is None
        shedding(query(text), shedder, 0.5, timed_out=timed_out).process(letters(seed=3))
        assert (shedder.match_rate(query(text)) is None) == timed_out


def test_a_model_of_an_earlier_version_has_none() -> None:
    text = f"{ABC} WITHIN 40 EVENTS"
    stored = model(text, "hybrid")
    numbers = {name: value for name, value in stored.numbers.items() if name != "match_rate"}
    old = Model(stored.kind, stored.query, stored.parameters, numbers, stored.parts)
    assert Hybrid(old).match_rate(query(text)) is None


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["hybrid", "pspice"])
def test_it_is_unknown_after_a_change_of_the_stream(kind: str) -> None:
    text = f"{ABC} WITHIN 40 EVENTS"
    live = shedding(query(text), by_name(kind, model=model(text, kind)), 0.5)
    control, same = live._stream.queries.control, letters(seed=3)
    live.process(same)
    assert control.shedder.match_rate(query(text))[:2] == (len(letters()), len(matches_of(text)))
    other = letters(seed=4, types="AAAAAABCD")
    late = pa.array(other["ts"].to_numpy() + same["ts"][-1].as_py())
    live.process(other.set_column(other.column_names.index("ts"), "ts", late))
    assert control.shedder.match_rate(query(text)) is None


@pytest.mark.parametrize("kind", ["hybrid", "pspice"])
def test_an_engine_that_is_restored_has_the_same_estimate(kind: str) -> None:
    text = f"{ABC} WITHIN 40 EVENTS"

    def shedder() -> ConstantDemand:
        return ConstantDemand(by_name(kind, model=model(text, kind)), 0.8)

    live = shedding(query(text), by_name(kind, model=model(text, kind)), 0.8)
    live.process(letters(seed=3).slice(0, 7_777))
    again = fc.Engine.restore(live.snapshot(), shedder=shedder(), detector=SameDemand(0.8))
    keys = ("matches", "recent_matches", "estimated_recall", "estimated_recall_interval")
    one, other = (engine.metrics()["shedding"] for engine in (live, again))
    assert [one[key] for key in keys] == [other[key] for key in keys]
    assert live._stream.queries.control.queries[0].recall._recent[-1].historical > 0
