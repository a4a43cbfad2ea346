"""Exact order of drops: its contributions agree with the generator, and a flow gives nearly the same order."""

from __future__ import annotations

import numpy as np
import pytest
from reference.drop_order import Groups, drops
from support.shedding.shed_runs import Q1, query

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.evaluation.features import Values, event_features, features
from fastcep.shedding.hybrid.attribution import Account
from fastcep.shedding.hybrid.flow import count_flow
from fastcep.shedding.lineage import Lineage, observe

PAPER = fc.CostTable.named("paper")
VALUES = {"V": Values(1, 10)}
EVENTS, GAP, WINDOW = 60_000, 10_000, 2_000_000  # ns
SLICES = 4


@pytest.fixture(scope="module")
def observed() -> tuple[Lineage, np.ndarray]:
    table = ds1(events=EVENTS, seed=11)
    own = features(query(), VALUES), event_features(query(), VALUES)
    (record,) = observe(query(), table, index="key", classes=own[0], event_classes=own[1]).records
    return record, table["ts"].to_numpy() * 1000


def test_contribution_of_q1(observed: tuple[Lineage, np.ndarray]) -> None:
    """A pair of the sum s leads to as many matches as events C with its ID and V = s come in the rest of the window.

    A partial match of A alone with V = v: as pairs come of it that lead to some. All arrivals are Poisson, nearly.
    """
    groups = Groups(*observed, SLICES, PAPER)
    lost, *_ = groups.weigh()
    each = (WINDOW / GAP / 4 / 10 / 10) ** 2 / 2  # B and C of given ID and V, one after the other in a window
    starts = EVENTS / 4 / 10  # A with one V
    pairs = {s: sum(1 for a in range(1, 11) for b in range(1, 11) if a + b == s) for s in range(2, 21)}
    for s in range(2, 11):
        assert lost[groups.n_classes + s - 2].sum() == pytest.approx(starts * pairs[s] * each, rel=0.2)
    assert lost[groups.n_classes + 9 : groups.n_classes + 19].sum() == 0
    for v in range(1, 10):
        whole = lost[v - 1].sum()
        by_slice = (1 - np.arange(SLICES) / SLICES) ** 2 - (1 - np.arange(1, SLICES + 1) / SLICES) ** 2
        assert whole == pytest.approx(starts * (10 - v) * each, rel=0.2)
        assert lost[v - 1] / whole == pytest.approx(by_slice, abs=0.08)


def test_what_nothing_is_dropped_of_costs_what_the_engine_counts(observed: tuple[Lineage, np.ndarray]) -> None:
    groups = Groups(*observed, SLICES, PAPER)
    _, _, _, _, cost, matches = groups.weigh()
    engine = fc.Engine(query(), index="key", store="rows")
    found = engine.process(ds1(events=EVENTS, seed=11))
    metrics = engine.metrics()
    assert matches == len(found)
    assert cost == pytest.approx(metrics["rows_visited"] + metrics["rows_created"], rel=1e-12)


def test_steps_save_more_and_more(observed: tuple[Lineage, np.ndarray]) -> None:
    steps = drops(*observed, SLICES, PAPER)
    assert [step.saved for step in steps] == sorted(step.saved for step in steps)
    assert [step.kept for step in steps] == sorted((step.kept for step in steps), reverse=True)
    assert steps[-1].kept == 0
    free = [step for step in steps if step.kept == 1]
    hopeless = {(step.owner, step.number) for step in free if not step.events}
    assert {(0, 9), *((1, number) for number in range(9, 19))} <= hopeless  # V = 10, and sums above 10
    assert {(step.owner, step.number) for step in free if step.events} == {(0, 9), (1, 9), (2, 0)}
    assert 0.45 < free[-1].saved < 0.55


def test_windows_of_events() -> None:
    own = query(Q1.replace("2ms", "200 EVENTS"))
    table = ds1(events=10_000, seed=2)
    (record,) = observe(own, table, index="key", classes=features(own, VALUES)).records
    steps = drops(record, table["ts"].to_numpy() * 1000, SLICES, PAPER)
    assert steps[0].kept == 1 and steps[-1].kept == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("slices", [1, 4])
def test_a_flow_gives_about_the_same_order(observed: tuple[Lineage, np.ndarray], slices: int) -> None:
    """At any saved share of the work, nearly the same share of matches is kept."""
    record, times = observed
    own, of_events = features(query(), VALUES), event_features(query(), VALUES)
    names = ({name: of.features for name, of in told.items()} for told in (own, of_events))
    steps = count_flow(Account(record, times, slices, PAPER, *names), own, of_events).steps(PAPER)
    exact = drops(record, times, slices, PAPER)
    saved = np.linspace(0.05, 0.95, 19)
    left, expected = (
        np.interp(saved, [0.0, *(step.saved for step in order)], [1.0, *(step.kept for step in order)])
        for order in (steps, exact)
    )
    assert np.abs(left - expected).max() < 0.06 and (left - expected).min() > -0.02
