"""Choices of the planner: keys, indexes, registers, guards, births."""

from __future__ import annotations

import pytest

import fastcep as fc
from fastcep.errors import ValidationError
from fastcep.plan import Plan, make_plan
from fastcep.plan.ir import TRUE, Op, all_of, const, count, fold, to_float
from fastcep.plan.plan import EdgePlan

V = {"ID": "int64", "V": "int64", "F": "float64"}
SCHEMA = fc.Schema(dict.fromkeys("ABCD", V), time="ts", type="type", time_unit="us")
TRIPS = fc.Schema({"BikeTrip": {"bike": "int64", "start": "int64", "end": "int64"}})
Q1 = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 8ms"
QS = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V=10 AND b.V = 10 AND c.V=10 WITHIN 1ms"
QK = "PATTERN SEQ(A a, B+ b[], C c) WHERE a.ID = b[i].ID AND a.ID = c.ID AND b[i].V = a.V WITHIN 1ms"
HOT = (
    "PATTERN SEQ(BikeTrip{%d,} a[], BikeTrip b) "
    "WHERE a[i+1].bike = a[i].bike AND a[i+1].start = a[i].end AND a[last].bike = b.bike WITHIN 1h"
)


def plan_of(text: str, schema: fc.Schema = SCHEMA) -> Plan:
    return make_plan(fc.parse(text, schema))


def edges(plan: Plan) -> dict[tuple[int, int], EdgePlan]:
    return {(edge.source, edge.target): edge for edge in plan.edges}


def registers(plan: Plan) -> list[tuple[str, ...]]:
    return [state.register_texts for state in plan.states]


def test_q1() -> None:
    """The sum becomes a hashed key of b's rows, so that state b carries no register and c needs no predicate."""
    plan = plan_of(Q1)
    assert registers(plan) == [("a.V",), (), ()]
    assert [state.registers for state in plan.states] == [1, 0, 0]
    assert [item.key_texts for item in plan.indexes] == [("a.ID",), ("a.V + b.V", "a.ID")]
    assert edges(plan)[0, 1].key_texts == (("a.ID", "b.ID"),)
    assert edges(plan)[1, 2].key_texts == (("a.V + b.V", "c.V"), ("a.ID", "c.ID"))
    assert all(edge.predicate is None for edge in plan.edges)
    assert [state.accepting for state in plan.states] == [False, False, True]
    assert not any(state.needs_birth for state in plan.states)
    assert plan.ring_columns == ()
    assert (plan.window_kind, plan.window) == (0, 8_000_000)


def test_qs() -> None:
    """Conditions on one event are decided before any row is read."""
    plan = plan_of(QS)
    assert registers(plan) == [(), (), ()]
    assert plan.local_texts == (("a.V = 10",), ("b.V = 10",), ("c.V = 10",))
    assert all(program is not None for program in plan.locals)
    assert all(edge.predicate is None for edge in plan.edges)
    assert [len(edge.probe) for edge in plan.edges] == [0, 1, 1]


def test_qk() -> None:
    """The loop and the exit of the Kleene state use different hash keys; b's values need no register."""
    plan = plan_of(QK)
    assert registers(plan) == [(), (), ()]
    assert [(item.state, item.key_texts) for item in plan.indexes] == [
        (0, ("a.ID", "a.V")),
        (1, ("a.ID", "a.V")),
        (1, ("a.ID",)),
    ]
    assert plan.states[1].indexes == (1, 2)
    assert {pair: edge.index for pair, edge in edges(plan).items()} == {(-1, 0): -1, (0, 1): 0, (1, 1): 1, (1, 2): 2}
    assert [state.needs_birth for state in plan.states] == [True, True, False]
    assert all(edge.predicate is None for edge in plan.edges)


def test_hot_paths() -> None:
    plan = plan_of(HOT % 1, TRIPS)
    assert registers(plan) == [(), ()]
    assert [item.key_texts for item in plan.indexes] == [("a[last].bike", "a[last].end"), ("a[last].bike",)]
    assert [item.guard for item in plan.indexes] == [-1, -1]
    assert [state.needs_birth for state in plan.states] == [True, False]


def test_hot_paths_with_a_minimum() -> None:
    """The exit index does not contain rows below the minimum; the count is the only register."""
    plan = plan_of(HOT % 3, TRIPS)
    assert registers(plan) == [("COUNT(a[])",), ()]
    assert plan.indexes[0].guard == -1
    assert plan.indexes[1].guard >= 0


def test_maximum_guards_the_loop_only() -> None:
    plan = plan_of("PATTERN SEQ(A a, B{1,3} b[], C c) WITHIN 1ms")
    by_edge = edges(plan)
    assert plan.indexes[by_edge[1, 1].index].guard >= 0
    assert plan.indexes[by_edge[1, 2].index].guard == -1
    assert (1, 1) not in edges(plan_of("PATTERN SEQ(A a, B{1} b[], C c) WITHIN 1ms"))


def test_edges_with_equal_keys_share_an_index() -> None:
    plan = plan_of("PATTERN SEQ(A a, B? b, C c) WHERE a.ID = b.ID AND a.ID = c.ID WITHIN 1ms")
    by_edge = edges(plan)
    assert by_edge[0, 1].index == by_edge[0, 2].index
    assert sorted(by_edge) == [(-1, 0), (0, 1), (0, 2), (1, 2)]
    assert len(plan.indexes) == 2


def test_guards_are_folded_where_the_variable_is_skipped() -> None:
    by_edge = edges(plan_of("PATTERN SEQ(A a, B? b, C c) WHERE b.V < c.V AND b.ID = c.ID WITHIN 1ms"))
    assert by_edge[0, 2].predicate is None
    assert by_edge[0, 2].probe == ()
    assert "b.V < c.V" in by_edge[1, 2].predicate_texts[0]


def test_guards_are_folded_where_the_variable_was_just_bound() -> None:
    """On an edge from b its conditions have no guard, so its equalities are keys."""
    plan = plan_of("PATTERN SEQ(A a, B? b, C c) WHERE b.V < c.V AND b.ID = c.ID WITHIN 1ms")
    edge = edges(plan)[1, 2]
    assert edge.predicate_texts == ("b.V < c.V",)
    assert edge.key_texts == (("b.ID", "c.ID"),)
    assert registers(plan) == [(), ("b.V",), ()]


def test_absent_kleene_counts_zero() -> None:
    plan = plan_of("PATTERN SEQ(A a, B* b[], C c) WHERE COUNT(b[]) = 0 WITHIN 1ms")
    by_edge = edges(plan)
    assert by_edge[0, 2].predicate is None, "0 = 0 was folded away"
    assert plan.indexes[by_edge[1, 2].index].guard >= 0


def test_residuals_and_float_keys() -> None:
    plan = plan_of("PATTERN SEQ(A a, B b) WHERE a.F = b.V AND a.V < b.V AND a.ID != b.ID WITHIN 1ms")
    (edge,) = [edge for edge in plan.edges if edge.source == 0]
    assert edge.key_texts == (("a.F", "b.V"),)
    assert set(edge.predicate_texts) == {"a.V < b.V", "a.ID != b.ID"}
    assert set(plan.states[0].register_texts) == {"a.V", "a.ID"}


def test_partition_is_a_key_of_every_edge() -> None:
    for text in ("PATTERN SEQ(A a, B+ b[], C c) WITHIN 1ms PARTITION BY ID",
                 "PATTERN SEQ(A a, B+ b[], C c) WHERE [ID] WITHIN 1ms"):  # fmt: skip
        plan = plan_of(text)
        assert all(len(edge.probe) == 1 for edge in plan.edges if edge.source >= 0)
        assert all(program is not None for program in plan.locals), "null keys are refused at the event"


def test_needs_birth() -> None:
    """Birth numbers are needed only if rows of several states are merged, or an event could extend its own row."""
    def births(text: str) -> list[bool]:
        return [state.needs_birth for state in plan_of(text).states]

    assert births("PATTERN SEQ(A a, B b) WITHIN 1ms") == [False, False]
    assert births("PATTERN SEQ(A a, A b) WITHIN 1ms") == [True, False]
    assert births("PATTERN SEQ(A a, (A|B) b) WITHIN 1ms") == [True, False]
    assert births("PATTERN SEQ(A a, B? b, C c) WITHIN 1ms") == [True, True, False]
    assert births("PATTERN SEQ(A a, B+ b[]) WITHIN 1ms") == [True, True]


def test_variables_and_windows() -> None:
    plan = plan_of("PATTERN SEQ(A a, (A|B) b, B c) WITHIN 5 EVENTS")
    assert plan.type_variables == (0b011, 0b110, 0, 0)
    assert (plan.window_kind, plan.window) == (1, 5)
    assert plan_of("PATTERN SEQ(A a) WITHIN UNBOUNDED").window_kind == 2
    states = plan_of("PATTERN SEQ(A a, B? b, C* c[]) WITHIN 1s").states
    assert [state.accepting for state in states] == [True, True, True]


def test_ring_columns() -> None:
    """Only columns that RETURN or for-all conditions read are kept."""
    assert plan_of("PATTERN SEQ(A a, B b) WHERE a.V < b.V WITHIN 1ms").ring_columns == ()
    returned = plan_of("PATTERN SEQ(A a, B b) WITHIN 1ms RETURN a.V + b.ID AS x").ring_columns
    assert [SCHEMA.columns[column].source for column in returned] == ["ID", "V"]
    walked = plan_of("PATTERN SEQ(A+ a[], B b) WHERE a[i].F < b.V WITHIN 1ms").ring_columns
    assert [SCHEMA.columns[column].source for column in walked] == ["F"]


def test_computed_once_per_event() -> None:
    plan = plan_of("PATTERN SEQ(A a, B b) WHERE a.V * a.V + 1 = b.V * b.V WITHIN 1ms")
    assert {column.text for column in plan.columns if column.program is not None} == {"(a.V * a.V) + 1", "b.V * b.V"}
    assert registers(plan) == [(), ()]


def test_too_deep_a_condition_is_refused() -> None:
    expression = "b.V"
    for _ in range(60):
        expression = f"a.V - ({expression})"
    with pytest.raises(ValidationError, match="nested deeper"):
        plan_of(f"PATTERN SEQ(A a, B b) WHERE {expression} > 0 WITHIN 1ms")


def test_folding() -> None:
    condition = Op("lt_i", "b", (count(0), const(3, "i")))
    assert fold(Op("guard", "b", (TRUE, condition))) == condition
    assert fold(Op("guard", "b", (const(False, "b"), condition))) == TRUE
    assert fold(Op("lt_i", "b", (const(2, "i"), const(3, "i")))) == TRUE
    assert fold(Op("lt_i", "b", (const(None, "i"), const(3, "i")))).name == "lt_i", "null stays"
    assert all_of([TRUE, condition, TRUE]) == condition
    assert all_of([]) == TRUE
    assert to_float(const(2, "i")) == const(2.0, "f")


def test_constants_tell_types_and_zeros_apart() -> None:
    assert const(1, "i") != const(1.0, "i")
    assert const(0.0, "f") != const(-0.0, "f")
    assert const(float("nan"), "f") == const(float("nan"), "f")
