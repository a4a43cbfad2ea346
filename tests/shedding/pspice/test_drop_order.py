"""The drop order of pSPICE: cells in ascending utility, what cuts save and keep, and selections between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.shedding.markov_models import ABC, DEAR, TABLE, fitted, letters, order
from support.shedding.shed_runs import query

import fastcep as fc
from fastcep.shedding.pspice.drop_order import DropOrder
from fastcep.shedding.pspice.fit import fit_pspice
from fastcep.shedding.pspice.occupancy import Occupancy

QUERIES = [
    ABC, f"{ABC} STRATEGY skip_till_next", "PATTERN SEQ(A a, B b, C c) WITHIN 3 EVENTS",
    "PATTERN SEQ(A a, B+ b[], C c) WITHIN 9 EVENTS", "PATTERN AND(A a, B b) WITHIN 300us",
    "PATTERN SEQ(A a, B b, C c) WINDOW OPEN EVERY 50 EVENTS CLOSE AFTER 50 EVENTS",
    "PATTERN OR(SEQ(A a, B b), C c) WITHIN 20 EVENTS",
]  # fmt: skip


def other(text: str = ABC, table: fc.CostTable = TABLE, seed: int = 2) -> Any:
    return fitted(text, "q2", table, seed)


@pytest.mark.sample(12)
@pytest.mark.parametrize("slices", [1, 8, 32])
@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize("text", QUERIES)
def test_cuts(text: str, by_time: bool, slices: int) -> None:
    """Cells of a lower utility go first, and what two neighbouring cuts save differs little."""
    of_all = order(fitted(text), other(), slices=slices, by_time=by_time)
    utilities = np.concatenate([table.ravel() for table in of_all.utilities])
    ranks = np.concatenate([table.ravel() for table in of_all._ranks])
    assert (np.diff(utilities[np.argsort(ranks)]) >= 0).all() and sorted(ranks) == list(range(len(ranks)))
    cuts = of_all._cuts
    assert cuts[0] == 0 and cuts[-1] == len(ranks) and (np.diff(cuts) > 0).all() and len(cuts) < 200
    assert (np.diff(of_all.saved)[np.diff(cuts) > 2**-20] <= 1 / 64 + 1e-12).all()


@pytest.mark.parametrize("slices", [1, 8, 32])
@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize("text", QUERIES)
def test_what_cuts_save_and_keep(text: str, by_time: bool, slices: int) -> None:
    """From nothing to everything: as the forward model computes it for the cells of a selection."""
    model = fitted(text)
    of_one = order(model, slices=slices, by_time=by_time)
    assert of_one.saved[0] == 0 and (np.diff(of_one.saved) >= 0).all() and of_one.saved[-1] <= 1
    assert (of_one.kept[0] == 1).all() and (np.diff(of_one.kept[:, 0]) <= 0).all()
    occupancy = Occupancy(model, model.window, slices)
    shape = len(model.states), slices
    total = occupancy.outcome(np.ones((1, *shape)))
    for saved in of_one.saved[[1, len(of_one.saved) // 2, -1]].tolist():
        selection = of_one.choose(saved)
        outcome = occupancy.outcome(1 - selection.cells[0][None])
        assert 1 - outcome.work[0] / (total.work[0] + occupancy.fixed) == pytest.approx(
            selection.saved + occupancy.fixed / (total.work[0] + occupancy.fixed)
        )
        assert outcome.matches[0] / total.matches[0] == pytest.approx(selection.kept[0], abs=1e-9)
    alone = occupancy.outcome(np.zeros((1, *shape)))
    assert of_one.kept[-1, 0] == pytest.approx(alone.matches[0] / total.matches[0], abs=1e-9)


def test_everything_is_dropped_at_the_last_cut() -> None:
    of_both = order(fitted(), other(QUERIES[3]))
    selection = of_both.choose(1.0)
    assert all((cells[0] == 1).all() for cells in selection.cells)  # nothing is left in further states
    assert selection.kept == (0, 0) and selection.saved == of_both.saved[-1] < 1
    assert selection.saved == of_both.choose(0.999).saved == of_both.choose(5.0).saved


def test_nothing_is_dropped_without_a_demand() -> None:
    for demand in (0.0, -1.0):
        selection = order(fitted(), other()).choose(demand)
        assert not any(cells.any() for cells in selection.cells)
        assert (selection.kept, selection.saved) == ((1, 1), 0)


def test_selections_lie_between_cuts() -> None:
    """They save exactly the demand; at most one cell is dropped in part."""
    of_both = order(fitted(), other(QUERIES[3]))
    before = (1.0, 1.0)
    for demand in np.linspace(0.001, of_both.saved[-1], 200):
        selection = of_both.choose(float(demand))
        assert selection.saved == pytest.approx(demand)
        assert all(new <= old + 1e-12 for new, old in zip(selection.kept, before, strict=True))
        parts = np.concatenate([cells.ravel() for cells in selection.cells])
        assert np.sum((parts > 0) & (parts < 1)) <= 1
        before = selection.kept
        dropped = [utility[cells == 1] for utility, cells in zip(of_both.utilities, selection.cells, strict=True)]
        spared = [utility[cells == 0] for utility, cells in zip(of_both.utilities, selection.cells, strict=True)]
        lowest = min((float(item.min()) for item in spared if item.size), default=np.inf)
        assert max((float(item.max()) for item in dropped if item.size), default=-1.0) <= lowest
    level = len(of_both.saved) // 2
    low, high = of_both.saved[level], of_both.saved[level + 1]
    middle = of_both.choose(float(0.75 * low + 0.25 * high))
    assert middle.kept == pytest.approx((0.75 * of_both.kept[level] + 0.25 * of_both.kept[level + 1]).tolist())


def test_queries_share_one_order_by_cost() -> None:
    """The same query twice, but one costs 16 times as much: its partial matches go first, except for pspice--."""
    cheap, dear = fitted(), fitted(ABC, "q2", DEAR)
    assert dear.time.max() == pytest.approx(16 * cheap.time.max())
    together = order(cheap, dear)
    assert together.utilities[1][:2] == pytest.approx(together.utilities[0][:2] / 16)
    kept = together.choose(0.3).kept
    assert kept[0] == 1 > 0.9 > kept[1]
    kept = order(cheap, dear, by_time=False).choose(0.3).kept
    assert kept[0] == pytest.approx(kept[1], abs=0.2)  # cells of equal utility go one after the other
    assert together.choose(0.3).kept[0] + together.choose(0.3).kept[1] > sum(kept) + 0.05


def test_queries_share_one_order_by_weight() -> None:
    """A query with three times the weight loses less; the scale of the weights does not matter."""
    models = fitted(), other()
    equal, weighted = order(*models), order(*models, weights=[1.0, 3.0])
    assert weighted.utilities[1] == pytest.approx(3 * equal.utilities[1])
    assert equal.choose(0.4).kept[0] == pytest.approx(equal.choose(0.4).kept[1], abs=0.1)  # cells go one by one
    kept = weighted.choose(0.4).kept
    assert kept[1] > 0.6 > 0.5 > kept[0]
    scaled = order(*models, weights=[10.0, 30.0])
    assert scaled.choose(0.4).kept == pytest.approx(kept)


def test_remaining_events_follow_from_the_window() -> None:
    """With half of the window, utilities are those of half the remaining events."""
    model = fitted()
    of_half = DropOrder([model], [1.0], [20.0], [4], by_time=False)
    probability, _ = model.at(20 * (1 - (np.arange(4) + 0.5) / 4))
    assert of_half.completions[0] == pytest.approx(probability.T)
    assert of_half.utilities[0] == pytest.approx(probability.T / model.probability.max())
    assert (np.diff(of_half.utilities[0][0]) < 0).all()  # less remains, less completes


@pytest.mark.parametrize(
    "table", [fc.CostTable("none"), fc.CostTable("event", event=5), fc.CostTable("zero", event=0, visited=0)]
)
def test_drops_that_save_nothing_are_not_made(table: fc.CostTable) -> None:
    of_one = order(fitted(ABC, "q1", table))
    assert not of_one.saved.any()
    for demand in (0.2, 0.999):
        assert not of_one.choose(demand).cells[0].any() and of_one.choose(demand).kept == (1,)


def test_a_history_without_matches() -> None:
    """All partial matches are worth nothing: they go in any order, and no match is lost."""
    model = fit_pspice(query(ABC), letters(2_000, types="ABD"), cost_table=TABLE)
    of_one = order(model)
    assert (of_one.kept == 1).all() and of_one.choose(0.5).saved == pytest.approx(0.5)
    both = order(model, other())
    assert both.choose(0.05).kept == (1, 1)  # the useless ones go first


def test_numbers_beyond_all_bounds() -> None:
    model = fitted("PATTERN SEQ(A a, B+ b[], C c) WITHIN 9 EVENTS")
    for window in (1_000.0, 32_000.0, 1e9):
        of_both = DropOrder([model, other()], [1.0, 1e9], [window, 40.0], [32, 8], by_time=True)
        for table in (of_both.saved, of_both.kept, *of_both.utilities):
            assert np.isfinite(table).all()
        assert (np.diff(of_both._cuts) > 0).all()
        assert np.isfinite(of_both.choose(0.5).kept).all()


def test_each_query_has_its_own_slices() -> None:
    models = fitted(), other()
    both = DropOrder(models, [1.0, 1.0], [40.0, 40.0], [8, 1], by_time=True)
    assert [table.shape[1] for table in (*both.utilities, *both.choose(0.5).cells)] == [8, 1, 8, 1]
    assert both.choose(0.4).saved == pytest.approx(0.4)
