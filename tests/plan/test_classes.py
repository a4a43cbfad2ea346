"""Features of partial matches: the states that have them, and the values that each edge computes."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import queries as strategies
from strategies.queries import Case
from strategies.whole_cases import query_cases
from support import harness

import fastcep as fc
from fastcep._core.program.evaluate import evaluate
from fastcep.engine import standby
from fastcep.errors import ParseError, ValidationError
from fastcep.plan import Plan, make_plan
from fastcep.plan.bytecode import CODE, WIDTH, Program
from fastcep.query.patterns import positive_variables

ATTRIBUTES = {"ID": "int64", "V": "int64", "F": "float64", "S": "string"}
SCHEMA = fc.Schema(dict.fromkeys("ABCD", ATTRIBUTES), time="ts", type="type", time_unit="us")
Q1 = "SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 8ms"
KLEENE = "SEQ(A a, B+ b[], C c) WHERE a.ID = b[i].ID WITHIN 8ms"

Classes = dict[str, list[str]]


def plan_of(text: str, classes: Classes, **options: Any) -> Plan:
    return make_plan(fc.parse(f"PATTERN {text}", SCHEMA), classes=classes, **options)


def features(plan: Plan) -> list[str]:
    return [state.features for state in plan.states]


def registers(plan: Plan) -> list[tuple[str, ...]]:
    return [state.register_texts for state in plan.states]


def alone(program: Program, output: int) -> Program:
    """Return the program with only one of its stores, because the evaluator has one output."""
    code: list[int] = []
    for at in range(0, len(program.code), WIDTH):
        word = list(program.code[at : at + WIDTH])
        if word[0] == CODE["store"] and word[1] != output:
            continue
        code += [word[0], 0, *word[2:]] if word[0] == CODE["store"] else word
    return replace(program, code=tuple(code))


def run(program: Program, dtypes: str, inputs: Sequence[tuple[Any, str]]) -> list[Any]:
    """Return the outputs, of these dtypes, for inputs given as value and dtype."""
    columns = [np.array([value or 0], np.float64 if dtype == "f" else np.int64).view(np.int64)
               for value, dtype in inputs]  # fmt: skip
    nulls = [np.array([value is None], np.uint8) for value, _ in inputs]
    outputs = []
    for number, dtype in enumerate(dtypes):
        # Inputs refer to columns by number; here the columns are in the order of the inputs.
        renumbered = replace(alone(program, number), inputs=tuple(("event", place) for place in range(len(inputs))))
        words, missing, *_ = evaluate(renumbered, lambda text: 77, columns, nulls, 1)
        value = words.view(np.float64)[0] if dtype == "f" else words[0]
        outputs.append(None if missing[0] else bool(value) if dtype == "b" else value.item())
    return outputs


def column(plan: Plan, number: int, event: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the value of an event column and its dtype."""
    entry = plan.columns[number]
    if entry.program is None:
        return next(value for name, value in event.items() if SCHEMA.column_of("A", name) == entry.column), entry.dtype
    (value,) = run(entry.program, entry.dtype, [column(plan, other, event) for _, other in entry.program.inputs])
    return value, entry.dtype


def values(plan: Plan, source: int, target: int, row: Mapping[str, Any], event: Mapping[str, Any]) -> list[Any]:
    """Return the features that an edge computes from registers, by their texts, and the attributes of an event."""
    (edge,) = (edge for edge in plan.edges if (edge.source, edge.target, edge.round) == (source, target, ""))
    assert edge.features is not None
    inputs = []
    for kind, number in edge.features.inputs:
        assert kind in ("row", "event")
        if kind == "row":
            state = plan.states[source]
            inputs.append((row[state.register_texts[number]], state.dtypes[number]))
        else:
            inputs.append(column(plan, number, event))
    return run(edge.features, plan.states[target].features, inputs)


def test_sum_of_two_variables() -> None:
    """The feature is computed when b arrives; c ends the match, so it has none."""
    plan = plan_of(Q1, {"b": ["a.V + b.V"]})
    assert features(plan) == ["", "i", ""]
    assert [edge.features is None for edge in plan.edges] == [True, False, True]
    assert registers(plan) == [("a.V",), (), ()]
    assert values(plan, 0, 1, {"a.V": 2}, {"V": 40}) == [42]
    assert values(plan, 0, 1, {"a.V": None}, {"V": 40}) == [None]


def test_single_attributes() -> None:
    """Features of the first variable depend on the event alone; values of the row are carried in registers."""
    plan = plan_of(Q1, {"a": ["a.V"], "b": ["a.V", "b.V"]})
    assert features(plan) == ["i", "ii", ""]
    first, second, last = (edge.features for edge in plan.edges)
    assert last is None and first is not None and second is not None
    assert [kind for kind, _ in first.inputs] == ["event"]
    assert [kind for kind, _ in second.inputs] == ["row", "event"]
    assert values(plan, -1, 0, {}, {"V": 3}) == [3]
    assert values(plan, 0, 1, {"a.V": 3}, {"V": 4}) == [3, 4]


def test_registers_are_carried_for_features_alone() -> None:
    plan = plan_of(Q1, {"b": ["a.F * 2 + b.F", "a.S = 'x'", "a.time"]})
    assert registers(plan)[0] == ("a.V", "a.F * 2.0", "a.S = 'x'", "a.time")
    assert features(plan) == ["", "fbi", ""]
    row = {"a.F * 2.0": 3.0, "a.S = 'x'": 1, "a.time": 7}
    assert values(plan, 0, 1, row, {"F": 0.5}) == [3.5, True, 7]


def test_what_a_key_equals_needs_no_register() -> None:
    """The value of the row equals that of the event."""
    plan = plan_of(Q1, {"b": ["a.ID"]})
    assert registers(plan) == registers(plan_of(Q1, {}))
    assert values(plan, 0, 1, {}, {"ID": 5}) == [5]


def test_no_feature_of_what_ends() -> None:
    plan = plan_of(Q1, {"c": ["a.V"], "a": []})
    assert features(plan) == ["", "", ""] and registers(plan) == registers(plan_of(Q1, {}))


def test_kleene_variable() -> None:
    """Aggregates include the new event, on the first edge and on the loop."""
    texts = ["b[last].V - b[first].V", "COUNT(b[])", "SUM(b[].V)", "MAX(b[].F)", "b[1].V", "c.V"]
    plan = plan_of(KLEENE, {"b": texts})
    assert features(plan) == ["", "iiifii", ""]
    assert values(plan, 0, 1, {}, {"V": 4, "F": 0.5}) == [0, 1, 4, 0.5, None, None]
    row = {"b[first].V": 4, "COUNT(b[])": 1, "COUNT(b[].V)": 1, "SUM(b[].V)": 4, "COUNT(b[].F)": 0, "MAX(b[].F)": None,
           "b[1].V": None}  # fmt: skip
    assert set(registers(plan)[1]) == set(row)
    assert values(plan, 1, 1, row, {"V": 10, "F": -1.5}) == [6, 2, 14, -1.5, 10, None]


def test_of_all_elements_means_nothing_here() -> None:
    with pytest.raises(ParseError, match=r"\[i\] refers to all elements") as caught:
        plan_of(KLEENE, {"b": ["a.V", "a.V + b[i].V"]})
    assert str(caught.value).splitlines()[1:] == ["  a.V + b[i].V", "        ^^^^^^"]
    assert str(caught.value).startswith("class of b:1:7: ")


def test_parts_of_and_in_any_order() -> None:
    """A state has the features of one of the variables that can be bound last in it; all its edges compute them."""
    classes = {name: ["a.V + b.V", f"{name}.V"] for name in "abc"}
    plan = plan_of("AND(A a, B b, C c) WHERE a.ID = b.ID WITHIN 8ms", classes)
    by_bound = {"".join("abc"[slot] for slot in state.bindings): number for number, state in enumerate(plan.states)}
    assert [plan.states[by_bound[bound]].features for bound in ("a", "ab", "bc", "abc")] == ["ii", "ii", "ii", ""]
    a, b, c, ab = (by_bound[bound] for bound in ("a", "b", "c", "ab"))
    last = "abc"[plan.states[ab].variable]
    value_of = {"a": 2, "b": 40}
    assert values(plan, -1, a, {}, {"V": 2}) == [None, 2], "b is not there"
    assert values(plan, -1, c, {}, {"V": 2}) == [None, 2]
    assert values(plan, a, ab, {"a.V": 2}, {"V": 40}) == [42, value_of[last]]
    assert values(plan, b, ab, {"b.V": 40}, {"V": 2}) == [42, value_of[last]]
    assert sum(edge.features is not None for edge in plan.edges) == 3 + 6


def test_variables_that_may_be_left_out() -> None:
    plan = plan_of("SEQ(A a, B? b, C c, D d) WITHIN 8ms", {"c": ["a.V", "b.V"]})
    assert features(plan) == ["", "", "ii", ""]
    assert values(plan, 0, 2, {"a.V": 1}, {"V": 9}) == [1, None]
    assert values(plan, 1, 2, {"a.V": 1, "b.V": 2}, {"V": 9}) == [1, 2]


def test_variables_of_a_group() -> None:
    classes = {"g.c": ["COUNT(g[])", "g[last].b.V + g[last].c.V"]}
    plan = plan_of("SEQ(A a, (SEQ(B b, C c))+ g[], D d) WITHIN 8ms", classes)
    assert features(plan) == ["", "", "ii", ""]
    assert values(plan, 1, 2, {"COUNT(g[])": 3, "g[last].b.V": 5}, {"V": 6}) == [3, 11]


def test_store_is_rows() -> None:
    """Classes require rows, so the factorised store is neither tried nor possible."""
    plan = plan_of(Q1, {"b": ["b.V"]}, store="factorised")
    assert (plan.store, plan.rows_only) == ("rows", "partial matches are shed")
    assert plan.why == "only option: partial matches are shed"
    assert plan_of(Q1, {"b": ["b.V"]}, index="key").index == "key"


@pytest.mark.parametrize("text", [Q1, KLEENE, "AND(A a, B b) WITHIN 8ms"])
def test_without_classes_nothing_changes(text: str) -> None:
    query = fc.parse(f"PATTERN {text}", SCHEMA)
    plain = make_plan(query)
    assert pickle.dumps(make_plan(query, classes=None)) == pickle.dumps(plain)
    for classes in ({}, {"a": []}):
        ready = make_plan(query, classes=classes)
        assert ready.sheds and (ready.edges, ready.states, ready.indexes) == (plain.edges, plain.states, plain.indexes)
    assert not any(state.features for state in plain.states) and all(edge.features is None for edge in plain.edges)


def test_a_plan_with_classes_is_a_value() -> None:
    plan = plan_of(KLEENE, {"b": ["SUM(b[].V)", "a.S = 'x'"]})
    assert pickle.loads(pickle.dumps(plan)) == plan == plan_of(KLEENE, {"b": ["SUM(b[].V)", "a.S = 'x'"]})


@pytest.mark.parametrize(("text", "message", "caret"), [
    ("a.V +", "the text ends too early; expected a value or condition", "     ^"),
    ("", "the text ends too early", "^"),
    ("a.V, b.V", "unexpected ','; expected the end or OR", "   ^"),
    ("a.V AS x", "unexpected keyword AS; expected the end or OR", "    ^^"),
    ("b.V + x.V", "unknown variable 'x'; the pattern has a, n, b, c", "      ^^^"),
    ("a.W", "unknown attribute 'W' of A", "^^^"),
    ("a.S + 1", "+ needs numbers", "^^^"),
    ("a", "the name a alone is not a value; write a.attribute", "^"),
    ("n.V + a.V", "n is negated, so a partial match has no event of it; remove n.V", "^^^"),
    ("[ID]", "is allowed only as a separate condition", "^^^^"),
])  # fmt: skip
def test_wrong_expressions(text: str, message: str, caret: str) -> None:
    """Errors name the class and show the position."""
    with pytest.raises(ParseError) as caught:
        plan_of("SEQ(A a, NEG D n, B b, C c) WITHIN 8ms", {"b": ["b.V", text]})
    lines = str(caught.value).split("\n")
    assert lines[0].startswith("class of b:1:") and message in lines[0]
    assert lines[1:] == [f"  {text}", f"  {caret}"]


@pytest.mark.parametrize(("classes", "message"), [
    ({"bb": ["a.V"]}, "class of 'bb': query 'query' binds no such variable; did you mean 'b'?"),
    ({"n": ["a.V"]}, "class of 'n': query 'query' binds no such variable; it is negated"),
    ({"b": "a.V"}, "class of 'b': expected a list of expressions as strings, found 'a.V'"),
    ({"b": [1]}, "class of 'b': expected a list of expressions as strings, found [1]"),
    ({"b": ["a.V"] * 65}, "class of 'b': 65 expressions, expected at most 64"),
])  # fmt: skip
def test_wrong_classes(classes: Any, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        plan_of("SEQ(A a, NEG D n, B b, C c) WITHIN 8ms", classes)
    assert message in str(caught.value)


def test_too_much_to_carry() -> None:
    wide = fc.Schema({name: {f"x{number}": "int64" for number in range(70)} for name in "ABC"}, type="type")
    query = fc.parse("PATTERN SEQ(A a, B b, C c) WITHIN 8ms", wide)
    classes = {"b": [" + ".join(f"a.x{number}" for number in range(0, 70, 2)) + " + b.x1"]}
    assert make_plan(query, classes=classes).states[0].registers == 1, "the sum is carried, not its operands"
    classes = {"b": [f"a.x{number} + b.x{number}" for number in range(60)]}
    assert make_plan(query, classes=classes).states[0].registers == 60
    query = fc.parse("PATTERN SEQ(A a, B b, C c) WHERE " + " AND ".join(f"a.x{n} < c.x{n}" for n in range(60, 70))
                     + " WITHIN 8ms", wide)  # fmt: skip
    with pytest.raises(ValidationError, match="would carry 70 values for later conditions and classes, expected at"):
        make_plan(query, classes=classes)


def classes_of(query: fc.Query) -> Classes:
    """Return for every variable a few expressions over the variables bound before it."""
    texts: list[str] = []
    for variable in positive_variables(query.pattern):
        own, inner = variable.key
        path = "k" if inner is None else f"{inner}.k"
        many = [f"{own}[last].{path}", f"{own}[first].{path}", f"SUM({own}[].{path})"]
        texts += many if variable.repeated else [f"{own}.{path}"]
    sums = [f"{one} + {other}" for one, other in pairwise(texts)]
    return {variable.name: [*texts, *sums][:64] for variable in positive_variables(query.pattern)}


@given(st.one_of(strategies.cases(), query_cases()), st.sampled_from(["full", "key", "off"]))
def test_any_query(case: Case, index: str) -> None:
    """Every edge to a state with features has its inputs, and additional registers do not change the matches."""
    plan = make_plan(case.query, classes=classes_of(case.query), index=index)
    for edge in plan.edges:
        target = plan.states[edge.target]
        assert (edge.features is not None) == bool(target.features) == bool(target.indexes)
        for kind, number in () if edge.features is None else edge.features.inputs:
            assert kind == "event" or (kind == "row" and edge.source >= 0)
            assert number < (len(plan.columns) if kind == "event" else plan.states[edge.source].registers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standby, "plan_for", lambda *_, **__: plan)
        rows = harness.rows(case.query, None, case.events, case.batch_sizes)
    harness.assert_same(case.query, case.events, rows, f"with classes, index={index!r}")
