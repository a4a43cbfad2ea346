"""Utilities of partial states: counts, sizes, shedders, functions."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.partial_states import rebuilt
from support.shedding.fitted import PAPER, model, stream
from support.shedding.shed_runs import Q1
from support.shedding.shed_runs import query as shed_query
from support.snapshot_engines import running

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.migration import partition
from fastcep.shedding import Hybrid

SEQUENCE = "PATTERN SEQ(A a, B b, C c) WHERE [k] WITHIN 60ns"
TRAILING = "PATTERN SEQ(A a, B b, NEG C c) WHERE [k] AND c.v > a.v WITHIN 40ns"


def test_counts() -> None:
    engine = running(SEQUENCE, store="rows")
    table = engine.partial_matches()
    assert partition(engine).states.utility.tolist() == [1.0] * len(table)
    states = partition(engine, "key group").states
    groups = table["key_group"].to_pylist()
    assert states.utility.tolist() == [groups.count(group) for group in states.key.tolist()]


def test_sizes_and_random_numbers() -> None:
    engine = running(SEQUENCE, store="rows")
    states = partition(engine, utility="size").states
    assert states.utility.tolist() == (states.size**1.5).tolist()
    one, same, other = (partition(engine, utility="random", seed=seed).states.utility for seed in (1, 1, 2))
    assert one.tolist() == same.tolist() != other.tolist()
    assert 0 <= one.min() < one.max() < 1


def test_a_function_gets_the_table_of_partial_matches() -> None:
    engine = running(SEQUENCE, store="rows")
    seen: list[pa.Table] = []

    def age(table: pa.Table) -> Any:
        seen.append(table)
        return pc.subtract(100, table["started"])

    states = partition(engine, "key", age).states
    (table,) = seen
    assert table.drop_columns("state").equals(engine.partial_matches())
    for state in range(len(states)):
        started = table.filter(pc.equal(table["state"], state))["started"].to_pylist()
        assert states.utility[state] == sum(100 - start for start in started) > 0
    alone = partition(engine, utility=age).states
    assert sorted(alone.utility.tolist()) == sorted(100 - start for start in table["started"].to_pylist())


def test_copies_of_a_row_in_several_indexes_are_one_partial_match() -> None:
    engine = running("PATTERN AND(A a, B b, C c) WHERE a.k = b.k AND b.v = c.v AND a.v <= c.v WITHIN 60ns")
    table = engine.partial_matches()
    seen: list[list[int]] = []

    def numbers(table: pa.Table) -> Any:
        seen.append(table["state"].to_pylist())
        return np.ones(len(table))

    states = partition(engine, utility=numbers).states
    assert len(states) == len(table) == engine.metrics()["live_partial_matches"]
    assert sorted(seen[0]) == list(range(len(table)))


def test_a_waiting_match_is_worth_as_much_as_the_best_partial_match() -> None:
    engine = running(TRAILING)
    partial, waiting = len(engine.partial_matches()), engine.metrics()["waiting_matches"]
    assert partial and waiting
    utility = partition(engine, utility=lambda table: np.arange(len(table))).states.utility
    assert utility.tolist() == [*range(partial), *[partial - 1] * waiting]
    assert partition(engine).states.utility.tolist() == [1.0] * (partial + waiting)
    alone = running("PATTERN SEQ(A a, NEG C c) WHERE [k] WITHIN 40ns")
    assert not len(alone.partial_matches()) and alone.metrics()["waiting_matches"]
    assert set(partition(alone).states.utility.tolist()) == {1.0}


def test_an_engine_without_state() -> None:
    engine = running(SEQUENCE, events=0, store="rows")
    for utility in ("auto", "count", "size", "random", lambda table: []):
        assert len(partition(engine, utility=utility).states) == 0  # type: ignore[arg-type]


def test_the_factorised_store_counts_events() -> None:
    engine = running(SEQUENCE, store="factorised")
    assert partition(engine, "key").states.utility.sum() == engine.metrics()["live_partial_matches"]
    for utility, words in [(lambda table: [], "no table of partial matches for a function"),
                           ("shedder", "'shedder' is unknown")]:  # fmt: skip
        with pytest.raises(fc.ValidationError, match=words):
            partition(engine, "key", utility)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("utility", "message"),
    [
        ("shedder", "'shedder' is unknown, because the engine has no shedder that knows .* use 'count'"),
        ("best", "utility: found 'best'; expected one of 'auto', 'shedder', 'count', 'size', 'random', or a function"),
        (7, "utility: found 7; expected"),
        (lambda table: None, "the function returned .* expected .* finite numbers"),
        (lambda table: ["x"] * len(table), "the function returned list .*; expected"),
        (lambda table: [1.0], r"returned an array of the shape \(1,\); expected 25 finite numbers"),
        (lambda table: np.full(len(table), np.nan), "returned nan for partial match 0; expected"),
        (lambda table: np.full(len(table), -1), "returned -1.0 for partial match 0; expected"),
        (lambda table: table["utility"], "returned nan for partial match 0"),
    ],
)
def test_wrong_utilities(utility: Any, message: str) -> None:
    engine = running(SEQUENCE, store="rows")
    with pytest.raises(fc.ValidationError, match=message):
        partition(engine, utility=utility)


def test_the_utility_of_a_shedder() -> None:
    """States have the utility of their partial matches, and an engine that is built from them sheds alike."""
    options: dict[str, Any] = {"clock": "virtual", "shedder": Hybrid(model())}
    engine = fc.Engine(shed_query(Q1, "q1"), latency_bound="1s", **options, **PAPER)
    engine.process(stream().slice(0, 5_000))
    known = engine.partial_matches()["utility"].to_pylist()
    for utility in ("auto", "shedder"):
        assert sorted(partition(engine, utility=utility).states.utility.tolist()) == sorted(known)
    assert partition(engine, utility="count").states.utility.tolist() == [1.0] * len(known)
    built = rebuilt(engine, random.Random(2), options | {"shedder": Hybrid(model())})
    assert built.partial_matches()["utility"].to_pylist() == known
    rest = stream().slice(5_000, 500)
    assert built.process(rest).to_arrow() == engine.process(rest).to_arrow()


def test_the_utility_of_pspice() -> None:
    """The probability of completion, for the work that it still takes, grows with the state of a partial match."""
    schema = fc.Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us")
    query = fc.parse("PATTERN SEQ(A a, B b, C c, D d) WHERE [ID] AND a.V <= b.V WITHIN 4ms", schema, name="q")
    fitted = fc.fit(query, ds1(events=10_000, seed=1), kind="pspice")
    engine = fc.Engine(
        query, latency_bound="1s", clock="virtual", cost_table="measured", store="rows",
        shedder=fc.shedding.PSpice(fitted),
    )  # fmt: skip
    engine.process(ds1(events=3_000, seed=2))
    table = engine.partial_matches()
    states = partition(engine, "partial match", "shedder").states
    assert sorted(states.utility.tolist()) == sorted(table["utility"].to_pylist())
    means = {row["variable"]: row["utility_mean"] for row in table.group_by("variable").aggregate(
        [("utility", "mean")]).to_pylist()}  # fmt: skip
    assert 0 < means["a"] < means["b"] < means["c"]


def test_an_overload_control_that_sleeps_wakes_up() -> None:
    """Otherwise its shedder would know no utilities, and the new engine could not take the state of another plan."""
    engine = fc.Engine(shed_query(Q1, "q1"), clock=lambda: 0, latency_bound="1s", shedder=Hybrid(model()), **PAPER)
    engine.process(stream().slice(0, 500))
    if not engine.metrics()["shedding"]["asleep"]:
        engine._stream.switch(True)
    parts = partition(engine, utility="shedder")
    assert not engine.metrics()["shedding"]["asleep"]
    assert len(parts.states) == len(engine.partial_matches())
