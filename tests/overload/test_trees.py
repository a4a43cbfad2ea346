"""Decision trees in the matcher: same classes as in Python, and as by an equal table."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from strategies.trees import tree, trees
from support.shedding.drop_plans import SCHEMA, Quiet, controlled, made, stream
from support.shedding.shed_runs import found

import fastcep as fc
from fastcep.overload import tree_grid
from fastcep.overload.protocols import Tree
from fastcep.shedding import Classes, DropPlan
from fastcep.shedding.lineage import Lineage, observe

#: Limits of the tables that trees become: ranks of integers, search among the thresholds, and no table.
LOOK_UPS: list[dict[str, int]] = [{"_MOST_RANKS": 1 << 16}, {"_MOST_RANKS": 0}, {"_MOST_CELLS": 0}]
TEXT = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.V <= c.V WITHIN 300ns"


def parsed(text: str = TEXT) -> fc.Query:
    return fc.parse(text, SCHEMA, name="q1")


def holes(events: pa.Table, seed: int) -> pa.Table:
    """Replace some values by null or NaN."""
    random = np.random.default_rng(seed)
    for name in ("V", "x"):
        column = events[name].to_pylist()
        for at in random.choice(len(column), len(column) // 5, replace=False):
            column[at] = None
        if name == "x":
            for at in random.choice(len(column), len(column) // 5, replace=False):
                column[at] = float("nan")
        number = events.column_names.index(name)
        events = events.set_column(number, events.schema.field(name), pa.array(column, events.schema.field(name).type))
    return events


@given(
    trees("a.V", "a.x"), trees("a.V + b.V", "b.x"), trees("c.x", "c.V"), st.integers(0, 9), st.sampled_from(LOOK_UPS)
)  # fmt: skip
@settings(max_examples=min(100, settings().max_examples))
def test_the_matcher_tells_the_classes_that_python_does(
    of_a: Tree, of_b: Tree, of_c: Tree, seed: int, look_up: dict[str, int]
) -> None:
    """Nulls and NaN have the class ``other``."""
    with patch.multiple(tree_grid, **look_up):
        check_classes(of_a, of_b, of_c, seed)


def check_classes(of_a: Tree, of_b: Tree, of_c: Tree, seed: int) -> None:
    """Check the classes of all partial matches of a run."""
    own, events = parsed(), holes(stream(150, seed), seed)
    record: Lineage
    told: Any = {"a": of_a, "b": of_b}
    (record,) = observe(own, events, classes=told, event_classes={"c": of_c}).records  # type: ignore[dict-item]
    missing = 0
    for state in range(len(record.plan.states)):
        of = (of_a, of_b, None)[record.plan.states[state].variable]
        if of is None:
            continue
        rows, values, null = record.features(state)
        missing += int((null | np.isnan(values)).any(axis=1).sum())
        assert (record.classes[rows] & 255).tolist() == of.classify(values, null).tolist()
    event(f"some missing: {missing > 0}")
    positions, values, null = record.event_features(2)
    classes = dict(zip(positions.tolist(), of_c.classify(values, null).tolist(), strict=True))
    third = np.flatnonzero(record.variables == 2)
    assert (record.classes[third] >> 8).tolist() == [classes[at] for at in record.events[third].tolist()]


def test_by_hand() -> None:
    nodes = [(0, 1.5, 1, 2, 0), (-1, 0, 0, 0, 3), (1, 0.0, 3, 4, 0), (-1, 0, 0, 0, 1), (-1, 0, 0, 0, 2)]
    of = tree(("x", "y"), nodes, 7)
    values = np.array([[1.5, 9], [1.6, 0], [1.6, 0.1], [np.nan, 0], [0, 0], [np.inf, -np.inf]])
    null = np.zeros((6, 2), bool)
    null[4, 1] = True
    assert of.classify(values, null).tolist() == [3, 1, 2, 7, 7, 1] and of.count == 8


def same_as(table: np.ndarray, low: float, step: float, feature: str, other: int) -> Tree:
    """Return a tree that compares with each value of a table in turn; values beyond get the classes of the ends."""
    nodes: list[Any] = []
    for number, own in enumerate(table[:-1]):
        border = np.nextafter(low + step * (number + 1), -np.inf)
        nodes += [(0, border, len(nodes) + 1, len(nodes) + 2, 0), (-1, 0.0, 0, 0, own)]
    return tree((feature,), [*nodes, (-1, 0.0, 0, 0, table[-1])], other)


@pytest.mark.parametrize("index", ["key", "full"])
@pytest.mark.parametrize(
    ("feature", "tree_feature", "step", "size"),
    [("b.V * 2 + a.V", "b.V * 2 + a.V", 1.0, 7), ("b.x * 4", "b.x", 0.25, 4)],
)
def test_the_same_as_a_table(feature: str, tree_feature: str, step: float, size: int, index: str) -> None:
    """The same events and partial matches are refused, so matches and costs are equal."""
    own, events = parsed(), holes(stream(600, 4), 4)
    random = np.random.default_rng(5)
    table = random.integers(0, 3, size).astype(np.uint8)
    chances = random.choice([0.0, 0.5, 1.0], 4)
    if feature == "b.x * 4":  # nulls and NaN in a float column have the class ``other`` of a table, too
        assert np.isnan([x for x in events["x"].to_pylist() if x is not None]).any()
    runs = []
    for of in (Classes((feature,), (0,), table, 3), same_as(table, 0, step, tree_feature, 3)):
        by_event = {"c": Classes(("c.V",), (0,), np.arange(3, dtype=np.uint8), 3)}
        if isinstance(of, Tree):
            by_event = {"c": same_as(np.arange(3, dtype=np.uint8), 0, 1.0, "c.V", 3)}  # type: ignore[dict-item]
        engine = made(own, Quiet({"b": of}, by_event), index=index)
        states = controlled(engine).plan.states
        births, binds = np.zeros((len(states), 4, 1)), np.zeros((3, 4))
        for number, state in enumerate(states):
            births[number, :, 0] = chances * (state.variable == 1)
        binds[2, 1] = 1.0
        controlled(engine).apply(DropPlan(births=births, binds=binds), 0)
        rows = found(engine.process(events))
        counted = {name: values.tolist() for name, values in controlled(engine).shedding.counted().items()}
        runs.append((rows, counted, engine.metrics()["rows_visited"]))
    assert runs[0] == runs[1]
    assert 0 < len(runs[0][0]) < len(found(made(own, Quiet(), index=index).process(events)))


def test_a_snapshot_is_of_the_same_tree() -> None:
    own, events = parsed(), stream(300, 4)
    of, other = (same_as(np.array([0, 1, own_], np.uint8), 0, 1.0, "a.V", 3) for own_ in (2, 1))
    engine = made(own, Quiet({"a": of}))
    engine.process(events)
    data = engine.snapshot()
    again = fc.Engine.restore(data, shedder=Quiet({"a": of}))
    assert again.metrics()["live_partial_matches"] == engine.metrics()["live_partial_matches"]
    with pytest.raises(fc.SnapshotError):
        fc.Engine.restore(data, shedder=Quiet({"a": other}))
