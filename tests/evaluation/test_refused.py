"""Inputs that the references support, and early errors for all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.shedding.evaluations import EVENTS, SCHEMA, evaluated, query, stream

import fastcep as fc
from fastcep.evaluation import experiment, oracle
from fastcep.evaluation.features import Values, features
from fastcep.evaluation.generators import Generator, generator_of

V = {"V": Values(1, 10)}


@pytest.mark.thorough
def test_informed_knows_more_than_chance_with_demands_too() -> None:
    """With demands, events have classes as with bounds."""
    rows = evaluated(["informed", "oracle", "ri"], demands="50%").rows
    recall = {row["shedder"]: row["recall"] for row in rows}
    assert recall["oracle"] == 1.0 >= recall["informed"] > recall["ri"] + 0.3
    assert all(row["counts"] for row in rows)


@pytest.mark.thorough
@pytest.mark.parametrize("where", [
    "[ID] AND AVG(b[].V) > c.V",  # events whose type creates no partial match have a feature
    "[ID] AND a.V / (b[0].V - 5) < c.V AND sqrt(a.V - 4) < c.V",  # undefined values
])  # fmt: skip
def test_informed_takes_any_condition(where: str) -> None:
    own = query(f"PATTERN SEQ(A a, B+ b[], C c) WHERE {where} WITHIN 300us")
    (row,) = evaluated("informed", stream().slice(0, 5_000), own, bounds="60%", skip=0.1).rows
    assert row["fired"]


def test_an_expression_that_is_never_defined_is_no_feature() -> None:
    own = query("PATTERN SEQ(A a, B b, C c) WHERE [ID] AND log(0 - a.V) < c.V AND a.V + b.V = c.V WITHIN 1ms")
    assert features(own, V)["a"].features == ("a.V",)
    assert features(query("PATTERN SEQ(A a, B b) WHERE log(0 - a.V) < b.V WITHIN 1ms"), V) == {}


def with_c_values(low: int, high: int, events: int = EVENTS) -> pa.Table:
    """Return DS1 with another range of V for events C."""
    table = stream().slice(0, events)
    values = pa.array(np.random.default_rng(3).integers(low, high + 1, events))
    chosen = pc.if_else(pc.equal(table["type"], "C"), values, table["V"])
    return table.set_column(table.schema.get_field_index("V"), "V", chosen)


@pytest.mark.parametrize(("low", "high"), [(1, 10), (2, 10), (12, 20)])
def test_informed_draws_from_the_generator_of_the_events(low: int, high: int) -> None:
    generator = generator_of(with_c_values(low, high), SCHEMA)
    drawn = generator.draw(20_000, 5)
    values = {kind: pc.min_max(drawn.filter(pc.equal(drawn["type"], kind))["V"]).as_py() for kind in "ABCD"}
    assert values == {"A": default, "B": default, "C": {"min": low, "max": high}, "D": default}


default = {"min": 1, "max": 10}


def test_a_few_events_do_not_determine_the_range() -> None:
    """The smallest and the largest of few values may not be those of the generator."""
    assert generator_of(with_c_values(4, 6, 40), SCHEMA).c_values == (1, 10)


def test_informed_refuses_events_of_another_rate() -> None:
    faster = stream().set_column(stream().schema.get_field_index("ts"), "ts", pc.divide(stream()["ts"], 3))
    with pytest.raises(fc.ValidationError, match=r"ds1, with a mean gap of 9,984 ns .* these have 3,329"):
        evaluated("informed", faster, bounds="60%")


def test_what_a_query_does_not_mention_need_not_be_of_the_generator() -> None:
    schema = fc.Schema({name: {"ID": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us")
    table = stream().set_column(stream().schema.get_field_index("V"), "V", pa.array(["x"] * EVENTS))
    assert generator_of(table, schema).name == "ds1"


NEEDED = "'oracle' needs a query in which a drop changes no other partial match"


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([query(), query(name="q2")], "'oracle' supports only one query"),
        ("PATTERN SEQ(A a, NEG B b, C c) WITHIN 1ms", NEEDED),
        ("PATTERN SEQ(A a, B b) WITHIN 1ms STRATEGY strict_contiguity", NEEDED),
        ("PATTERN SEQ(A a, B b) WINDOW OPEN ON C o CLOSE AFTER 1ms SELECT first", NEEDED),
        ("PATTERN SEQ(A a, B b) WINDOW OPEN ON C o CLOSE AFTER 1ms STRATEGY skip_till_next LIMIT 1 PER WINDOW", NEEDED),
    ],
)
def test_queries_that_the_oracle_does_not_support_are_rejected_early(
    queries: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "truth_of", None)
    with pytest.raises(fc.ValidationError, match=message):
        evaluated(["ri", "oracle"], queries=query(queries) if isinstance(queries, str) else queries, bounds="50%")


def test_the_oracle_may_be_as_late_as_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a thousand events may exceed the bound, also for the oracle."""
    monkeypatch.setattr(oracle, "_by_parts", lambda *_: None)  # it would find more by dropping in some parts only
    short = query("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID AND a.V <= b.V WITHIN 500us")
    (row,) = evaluated(
        "oracle", queries=short, rates="130%", latency_bound="200ns", cost_table="measured", skip=0.1
    ).rows
    assert row["held"] and 0 < row["share_over_bound"] <= 0.001


def test_what_is_rare_is_not_drawn_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a query with very few partial matches, the size of the generated stream is limited."""
    drawn: list[int] = []

    def draw(self: Generator, events: int, seed: int) -> pa.Table:
        drawn.append(events)
        return stream().slice(0, 5_000)

    monkeypatch.setattr(Generator, "draw", draw)
    rare = query("PATTERN SEQ(A a, B b) WHERE a.ID = 1 AND a.V = 1 AND b.ID = 1 AND b.V = 10 WITHIN 20ms")
    evaluated("informed", queries=rare, bounds="60%")
    assert max(drawn) == 4_000_000


def test_what_cannot_make_a_shedder_for_a_seed() -> None:
    def make(seed: int, other: int) -> fc.shedding.Shedder:
        return fc.shedding.RandomEvents(seed + other)

    with pytest.raises(fc.ValidationError, match=r"'make' cannot be called with only a seed \(missing a required"):
        evaluated(make, bounds="50%")
