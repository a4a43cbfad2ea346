"""Hybrid shedding with the covering knapsack of the paper."""

from __future__ import annotations

import pytest
from support.shedding.fitted import model, shed, truth
from support.shedding.shed_runs import assert_within

import fastcep as fc
from fastcep.shedding import Hybrid
from fastcep.shedding.hybrid.knapsack_shedder import HybridKnapsack


@pytest.mark.sample(1)
@pytest.mark.parametrize("exact", [True, False])
def test_it_saves_work_with_true_matches_only(exact: bool) -> None:
    """It saves more than demanded; the drop order loses less for that work."""
    found, live = shed(HybridKnapsack(model(), exact=exact), 0.6)
    assert_within(found, truth())
    by_order, ordered = shed(Hybrid(model()), 0.88 if exact else 0.93)
    created, of_order = (engine.metrics()["rows_created"] for engine in (live, ordered))
    _, without = shed(Hybrid(model()), 0.0)
    assert created < 0.4 * without.metrics()["rows_created"] and of_order < 1.2 * created
    assert 0.1 * len(truth()) < len(found) < 1.02 * len(by_order)


def test_options() -> None:
    assert HybridKnapsack(model(), exact=False).spec()["exact"] is False
    with pytest.raises(fc.ValidationError, match="shedder 'hybrid-knapsack': exact=1; expected True or False"):
        HybridKnapsack(model(), exact=1)  # type: ignore[arg-type]
