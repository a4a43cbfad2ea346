"""Models of fewer classes: which are merged, and that the flow is that of the merged classes."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import pytest
from support.shedding.fitted import EVENTS, PAPER, shed
from support.shedding.shed_runs import Q1, query

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.shedding import Hybrid
from fastcep.shedding.hybrid.attribution import Account
from fastcep.shedding.hybrid.coarsening import _Pool
from fastcep.shedding.hybrid.drop_order import DropOrder, TableSizes
from fastcep.shedding.hybrid.fit import fit_hybrid, observed_piece
from fastcep.shedding.hybrid.flow import count_flow
from fastcep.shedding.hybrid.model import HybridModel

LONG = Q1.replace("2ms", "8ms")


@cache
def fitted(**options: Any) -> HybridModel:
    return fit_hybrid(query(LONG), ds1(events=EVENTS // 2, seed=21, c_values=(2, 10)), **PAPER | options)


def count(model: HybridModel) -> int:
    return sum(table.count for tables in (model.classes, model.event_classes) for table in tables.values())


def account_of(model: HybridModel) -> Account:
    names, of_events = (
        {name: list(table.features) for name, table in tables.items()}
        for tables in (model.classes, model.event_classes)
    )
    history = ds1(events=EVENTS // 2, seed=21, c_values=(2, 10))
    return observed_piece(model.query, history, names, of_events, 4, model.costs, "key")


@pytest.mark.thorough
def test_the_flow_is_that_of_the_merged_classes() -> None:
    model = fitted(order_cost="300us")
    assert count(model) < count(fitted())
    flow = count_flow(account_of(model), model.classes, model.event_classes)
    assert model.flow.children.equals(flow.children) and model.flow.looks.equals(flow.looks)
    assert (model.flow.asked == flow.asked).all() and (model.flow.lengths == flow.lengths).all()
    assert model.flow.dispersion == pytest.approx(flow.dispersion)
    members = {(row["of"], row["variable"], row["class"]) for row in model.values.to_pylist()}
    assert len(members) == len(model.values) <= count(model)
    assert sum(model.values["members"].to_pylist()) == sum(fitted().values["members"].to_pylist())
    assert HybridModel.of(model.stored()).steps(True, True) == model.steps(True, True)


@pytest.mark.thorough
def test_as_many_classes_are_merged_as_needed() -> None:
    """The order of fewer classes takes fewer updates, and loses a little more."""
    full, coarse, coarser = fitted(), fitted(order_cost="300us"), fitted(order_cost="100us")
    updates = [each.flow.counted_steps(each.costs)[1] for each in (full, coarse, coarser)]
    assert updates[0] > 15_000 >= updates[1] > 5_000 >= updates[2]
    assert count(full) > count(coarse) > count(coarser) > len(coarser.classes) + len(coarser.event_classes)
    smaller = fitted(decision_cost=timedelta(microseconds=55))
    entries = smaller.flow.states * smaller.flow.stride * 4 + smaller.flow.members * smaller.flow.event_stride
    assert count(smaller) < count(full) and entries * 30 <= 5_000


@pytest.mark.sample(1)
@pytest.mark.parametrize("demand", [0.3, 0.6, 0.8])
def test_a_coarser_model_loses_little_more(demand: float) -> None:
    kept = []
    for model in (fitted(), fitted(order_cost="300us")):
        sizes = TableSizes(model.flow.event_stride, model.flow.stride)
        kept.append(DropOrder(model.steps(True, True), model.flow).choose(demand, sizes).kept)
    assert kept[1] == pytest.approx(kept[0], abs=0.08)


def test_those_are_merged_first_that_lose_least() -> None:
    """Contribution per consumption 0, 0, 1, 1.1 and 9; the last class did not occur."""
    consumption = np.array([10.0, 5, 10, 10, 10, 0])[:, None]
    pool = _Pool(np.array([0.0, 0, 1, 1.1, 9, 0])[:, None] * consumption, consumption)
    losses = []
    for _ in range(4):
        losses.append(pool.least)
        pool.merge()
        if len(losses) == 2:
            assert pool.labels.tolist() == [0, 0, 1, 1, 2, 3]
    assert losses[:2] == [0, pytest.approx(0.5)] and losses == sorted(losses)
    assert losses[2] == pytest.approx(15 * 20 / 35 * 1.05)  # of the rarer worse class, what the better one loses
    assert pool.least == np.inf and pool.labels.tolist() == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("option", ["decision_cost", "order_cost"])
@pytest.mark.parametrize(
    ("value", "message"), [("0ms", "expected a duration above 0, such as '500us'"), ("5", "5"), (5, "5")]
)
def test_limits_are_durations(option: str, value: Any, message: str) -> None:
    with pytest.raises(fc.ValidationError, match=f"fit of 'hybrid': {option}=.*{message}"):
        fc.fit(query(), ds1(events=1_000, seed=1), **{option: value})


def test_what_a_decision_takes_is_stored_and_is_not_part_of_the_hash(tmp_path: Any) -> None:
    model = fitted().stored()
    assert model.decision_cost is not None and 0 < model.decision_cost < 1e9 and model.measured["order_cost"] > 0
    model.save(tmp_path / "m")
    again = fc.load_model(tmp_path / "m")
    assert again.measured == model.measured and again.hash == model.hash
    again.measured.clear()
    assert again.decision_cost is None
    assert fc.load_model(tmp_path / "m").hash == fc.shedding.Model(
        again.kind, again.query, again.parameters, again.numbers, again.parts).hash  # fmt: skip


def test_a_coarse_model_can_shed() -> None:
    matches, engine = shed(Hybrid(fitted(order_cost="300us").stored()), 0.6, own=query(LONG))
    assert matches and engine.metrics()["shedding"]["dropped_partial_matches"] > 0
