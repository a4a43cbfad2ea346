"""Drop probabilities for a demand, from an order of drops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.shedding.hybrid.drop_order import DropOrder, TableSizes
from fastcep.shedding.hybrid.flow import Flow, Step

SIZES = TableSizes(event_classes=3, classes=3)
#: a extends to b of the same class; events of the same class begin and extend them.
CHILDREN = [(-1, 0, c, c) for c in range(2)] + [(c, s, 2 + c, 2 + c) for c in range(2) for s in range(4)]


def flow(children: Any = CHILDREN) -> Flow:
    """Return a flow of two states and two variables with two classes each."""
    columns = [np.array(column, np.int32) for column in zip(*children, strict=True)]
    ones = np.ones(len(children))
    table = pa.table([*columns, ones, ones, ones], ["source", "slice", "kind", "target", "made", "stored", "matched"])
    return Flow(100.0, 2, 2, 2, 2, 4, table, pa.table({}), np.ones(4), np.ones(2))


@st.composite
def drop_orders(draw: Any) -> list[Step]:
    """Draw drops that save and lose more and more, some of them together; the first may lose nothing."""
    size = draw(st.integers(0, 8))
    saved = np.cumsum([draw(st.sampled_from([0.0, 0.02, 0.1])) for _ in range(size)])
    lost = np.cumsum([draw(st.sampled_from([0.0, 0.0, 0.01, 0.1])) for _ in range(size)])
    steps = []
    for number in range(size):
        events = draw(st.booleans())
        of, item, at = draw(st.integers(0, 1)), draw(st.integers(0, 1)), 0 if events else draw(st.integers(0, 3))
        steps.append(Step(events, of, item, at, float(saved[number]), float(1 - lost[number])))
    return steps


demands = st.floats(0.001, 0.999)


@given(drop_orders(), demands, demands)
def test_what_a_smaller_demand_drops_a_larger_one_drops_too(steps: list[Step], one: float, other: float) -> None:
    levels = DropOrder(steps, flow())
    less, more = (levels.choose(demand, SIZES) for demand in sorted((one, other)))
    assert (less.binds <= more.binds + 1e-12).all() and less.kept >= more.kept - 1e-12
    assert less.saved <= more.saved + 1e-12
    assert ((less.cells <= more.cells + 1e-12) | (more.cells == 0).all(axis=2, keepdims=True)).all()
    if all(not step.events and step.slice for step in steps):  # otherwise some may be unreachable
        assert (less.cells <= more.cells + 1e-12).all()
    for chosen in (less, more):
        for chances in (chosen.binds, chosen.cells):
            assert ((chances >= 0) & (chances <= 1)).all()
        assert (np.diff(chosen.cells, axis=2) >= 0).all()  # from a slice on
        assert chosen.binds.shape == (2, 3) and chosen.cells.shape == (2, 3, 4)
        assert not chosen.binds[:, 2].any() and not chosen.cells[:, 2].any()  # classes that are not in the flow


@given(drop_orders(), demands)
def test_a_demand_is_met_and_no_more_but_what_is_free(steps: list[Step], demand: float) -> None:
    levels = DropOrder(steps, flow())
    assert (np.diff(levels.saved) >= 0).all() and (np.diff(levels.kept) <= 0).all()
    chosen = levels.choose(demand, SIZES)
    free = max((step.saved for step in steps if step.kept >= 1 - 1e-9), default=0.0)
    most = max((step.saved for step in steps), default=0.0)
    assert chosen.saved == pytest.approx(min(max(demand, free), most))
    if demand <= free:
        assert chosen.kept >= 1 - 1e-9


STEPS = [
    Step(True, 0, 1, 0, 0.2, 1.0),
    Step(False, 1, 1, 2, 0.3, 1.0),
    Step(False, 0, 0, 1, 0.5, 0.8),
    Step(True, 1, 0, 0, 0.7, 0.5),
    Step(False, 0, 0, 0, 0.9, 0.0),
]


@pytest.mark.parametrize("demand", [1e-6, 0.1, 0.3])
def test_what_is_free_is_always_dropped(demand: float) -> None:
    chosen = DropOrder(STEPS, flow()).choose(demand, SIZES)
    assert chosen.binds.tolist() == [[0, 1, 0], [0, 0, 0]] and (chosen.kept, chosen.saved) == (1, 0.3)


def test_chances_are_mixed() -> None:
    """Half of the saving of the next step: each of its drops has probability one half."""
    levels = DropOrder(STEPS, flow())
    half, three = levels.choose(0.4, SIZES), levels.choose(0.65, SIZES)
    assert half.cells[0, 0].tolist() == pytest.approx([0, 0.5, 0.5, 0.5]) and half.binds[1, 0] == 0
    assert (half.kept, half.saved) == (pytest.approx(0.9), pytest.approx(0.4))
    assert three.cells[0, 0].tolist() == [0, 1, 1, 1] and three.binds[1].tolist() == [pytest.approx(0.75), 0, 0]
    assert (three.kept, three.saved) == (pytest.approx(0.575), pytest.approx(0.65))
    assert levels.choose(0.99, SIZES).kept == 0 and levels.choose(0.99, SIZES).saved == 0.9


def test_what_is_not_born_is_not_refused() -> None:
    """No b of class 1 is created, as the events that begin its a are not tried. Births of other groups are refused."""
    steps = [Step(False, 1, 1, 0, 0.1, 1.0), Step(False, 1, 0, 2, 0.2, 1.0)]
    before = DropOrder(steps, flow()).choose(0.2, SIZES)
    assert before.cells[1].tolist() == [[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
    a_is_not_born = DropOrder([*steps, Step(False, 0, 1, 0, 0.3, 1.0)], flow()).choose(0.3, SIZES)
    assert a_is_not_born.cells[0, 1].tolist() == [1] * 4 and not a_is_not_born.cells[1, 1].any()
    a_falls_later = DropOrder([*steps, Step(False, 0, 1, 1, 0.3, 1.0)], flow()).choose(0.3, SIZES)
    assert a_falls_later.cells[1, 1].tolist() == [1] * 4
    b_is_not_tried = DropOrder([*steps, Step(True, 1, 1, 0, 0.3, 1.0)], flow()).choose(0.3, SIZES)
    assert not b_is_not_tried.cells[1, 1].any() and b_is_not_tried.cells[1, 0].tolist() == [0, 0, 1, 1]
    a_is_not_tried = DropOrder([*steps, Step(True, 0, 1, 0, 0.3, 1.0)], flow()).choose(0.3, SIZES)
    assert a_is_not_tried.binds[0].tolist() == [0, 1, 0]
    assert a_is_not_tried.cells[1, 1].tolist() == [1] * 4  # an older a may still be live


def test_what_saves_nothing_more_does_not_go_with_what_is_free() -> None:
    free = Step(True, 0, 1, 0, 0.2, 1.0)
    levels = DropOrder([free, Step(True, 1, 1, 0, 0.2, 0.9), Step(True, 1, 0, 0, 0.4, 0.8)], flow())
    assert (levels.choose(0.1, SIZES).kept, levels.choose(0.1, SIZES).saved) == (1, 0.2)
    assert levels.choose(0.1, SIZES).binds.tolist() == [[0, 1, 0], [0, 0, 0]]
    assert levels.choose(0.4, SIZES).binds.tolist() == [[0, 1, 0], [1, 1, 0]] and levels.choose(0.4, SIZES).kept == 0.8


def test_nothing_to_drop() -> None:
    chosen = DropOrder([], flow()).choose(0.5, SIZES)
    assert not chosen.binds.any() and not chosen.cells.any() and (chosen.kept, chosen.saved) == (1, 0)
