"""`Engine.partial_matches`: the live partial matches with their key groups, sizes and utilities."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import assume, event, given
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness
from support.shedding.fitted import PAPER, model, stream
from support.shedding.shed_runs import Q1, query
from support.state_transfer import is_keyed, quiet

import fastcep as fc
from fastcep.shedding import Hybrid

SEQUENCE = "PATTERN SEQ(A a, B b, C c) WHERE [ID] WITHIN 10 EVENTS"
SCHEMA = fc.Schema({name: {"ID": "int64"} for name in "ABC"}, type="type", time="ts", time_unit="ns")


def engine_of(case: Case) -> fc.Engine:
    engine = quiet(fc.Engine, case.query, store="rows")
    for data in harness.batches(case.query.schema, case.events, case.batch_sizes):
        engine.process(data)
    return engine


@given(query_cases())
def test_every_live_partial_match_is_listed(case: Case) -> None:
    """Also by key group: the snapshot of a group has exactly those that the table says."""
    assume(is_planned(case.query))
    engine = engine_of(case)
    table = engine.partial_matches()
    live = engine.metrics()["live_partial_matches"]
    event("some" if live else "none")
    waits = any(state.deferred for state in engine._stream.queries.running[0].plan.states)
    assert len(table) <= live if waits else len(table) == live  # matches that wait for time are not listed
    assert pc.all(pc.less_equal(table["started"], table["created"])).as_py() in (True, None)
    assert pc.all(pc.greater(table["bytes"], 0)).as_py() in (True, None)
    if is_keyed(engine) and len(table):
        for group in set(table["key_group"].to_pylist()):
            moved = fc.Engine.restore(engine.snapshot([group]))
            assert len(moved.partial_matches()) == table["key_group"].to_pylist().count(group)


def test_columns() -> None:
    engine = fc.Engine(fc.parse(SEQUENCE, SCHEMA, name="q"), store="rows")
    engine.process({"type": ["A", "C", "B"], "ID": [5, 5, 5], "ts": [1, 2, 3]})
    first, second = engine.partial_matches().to_pylist()
    group = fc.key_group(5)
    assert (first["query"], first["variable"], first["started"], first["created"]) == ("q", "a", 0, 0)
    assert (second["variable"], second["started"], second["created"]) == ("b", 0, 2)
    assert first["key_group"] == second["key_group"] == group and first["utility"] is None and first["class"] == 0


def test_the_factorised_store_is_refused() -> None:
    engine = fc.Engine(fc.parse(SEQUENCE, SCHEMA, name="q"), store="factorised")
    engine.process({"type": ["A"], "ID": [5], "ts": [1]})
    with pytest.raises(fc.ValidationError, match="no single partial matches; create the engine with store='rows'"):
        engine.partial_matches()


def test_utility_is_the_order_of_dropping() -> None:
    """A demand drops for certain only partial matches whose utility is at most the demand."""
    shedder = Hybrid(model())
    engine = fc.Engine(query(Q1, "q1"), clock="virtual", latency_bound="1s", shedder=shedder, **PAPER)
    engine.process(stream().slice(0, 5_000))
    table = engine.partial_matches()
    utility = np.asarray(table["utility"])
    assert table["utility"].null_count == 0 and len(np.unique(utility)) > 3
    control: Any = engine._stream.queries.control
    (view,) = [control._query_view(item) for item in control.queries]
    of_cells = shedder.utility(view)
    assert of_cells is not None
    for demand in (0.3, 0.6):
        (plan,) = shedder.decide(demand, 0.0, [view])
        assert plan.drops is not None
        certain = plan.drops.max()
        assert (of_cells[plan.drops == certain] <= demand).all() and (plan.drops[of_cells > demand] < certain).all()


@pytest.mark.parametrize("pattern", ["SEQ(A+ a[], B b)", "SEQ(A a, A c, B b)"])
def test_partial_matches_that_contiguity_has_cut_off_are_left_out(pattern: str) -> None:
    """Each run needs the next event of its partition, so it ends with the last event of it."""
    schema = fc.Schema({kind: {"k": "string"} for kind in "AB"}, type="type")
    query = fc.parse(f"PATTERN {pattern} WITHIN 1s PARTITION BY k STRATEGY partition_contiguity", schema, name="q")
    engine, draw = fc.Engine(query, store="rows"), random.Random(1)
    types, keys = [draw.choice("AAAB") for _ in range(1_000)], [draw.choice("xyz") for _ in range(1_000)]
    engine.process({"type": types, "ts": list(range(1_000)), "k": keys})
    last = {key: at for at, key in enumerate(keys)}
    table = engine.partial_matches()
    assert set(table["created"].to_pylist()) == {at for at in last.values() if types[at] == "A"}
    assert fc.Engine.restore(engine.snapshot()).partial_matches().equals(table)
