"""Features of partial matches: in which states there are some, and what each edge computes before a child is made."""

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
from fastcep.engine import query_set as several
from fastcep.errors import ParseError, ValidationError
from fastcep.plan import Plan, make_plan
from fastcep.plan.bytecode import CODE, WIDTH, Program
from fastcep.query.patterns import positive_leaves

ATTRIBUTES = {"ID": "int64", "V": "int64", "F": "float64", "S": "string"}
SCHEMA = fc.Schema(dict.fromkeys("ABCD", ATTRIBUTES), time="ts", type="type", time_unit="us")
Q1 = "SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 8ms"
KLEENE = "SEQ(A a, B+ b[], C c) WHERE a.ID = b[i].ID WITHIN 8ms"

Classes = dict[str, list[str]]


def plan(text: str, classes: Classes, **options: Any) -> Plan:
    return make_plan(fc.parse(f"PATTERN {text}", SCHEMA), classes=classes, **options)


def features(made: Plan) -> list[str]:
    return [state.features for state in made.states]


def registers(made: Plan) -> list[tuple[str, ...]]:
    return [state.register_texts for state in made.states]


def alone(program: Program, output: int) -> Program:
    """The program, but for what it stores elsewhere: the evaluator has one output."""
    code: list[int] = []
    for at in range(0, len(program.code), WIDTH):
        word = list(program.code[at : at + WIDTH])
        if word[0] == CODE["store"] and word[1] != output:
            continue
        code += [word[0], 0, *word[2:]] if word[0] == CODE["store"] else word
    return replace(program, code=tuple(code))


def run(program: Program, dtypes: str, inputs: Sequence[tuple[Any, str]]) -> list[Any]:
    """The outputs, of these dtypes, for inputs of which each has a value and a dtype."""
    columns = [np.array([value or 0], np.float64 if dtype == "f" else np.int64).view(np.int64)
               for value, dtype in inputs]  # fmt: skip
    nulls = [np.array([value is None], np.uint8) for value, _ in inputs]
    found = []
    for number, dtype in enumerate(dtypes):
        # By its number, which is that of a column, an input is found; here they stand in their own order.
        own = replace(alone(program, number), inputs=tuple(("event", place) for place in range(len(inputs))))
        words, missing, *_ = evaluate(own, lambda text: 77, columns, nulls, 1)
        value = words.view(np.float64)[0] if dtype == "f" else words[0]
        found.append(None if missing[0] else bool(value) if dtype == "b" else value.item())
    return found


def column(made: Plan, number: int, event: Mapping[str, Any]) -> tuple[Any, str]:
    """The value of an event's column and its dtype."""
    own = made.columns[number]
    if own.program is None:
        return next((value for name, value in event.items() if SCHEMA.column_of("A", name) == own.column)), own.dtype
    (value,) = run(own.program, own.dtype, [column(made, other, event) for _, other in own.program.inputs])
    return value, own.dtype


def values(made: Plan, source: int, target: int, row: Mapping[str, Any], event: Mapping[str, Any]) -> list[Any]:
    """What an edge computes, of registers with these values, by their texts, and an event with these attributes."""
    (edge,) = (edge for edge in made.edges if (edge.source, edge.target, edge.round) == (source, target, ""))
    assert edge.features is not None
    inputs = []
    for kind, number in edge.features.inputs:
        assert kind in ("row", "event")
        if kind == "row":
            state = made.states[source]
            inputs.append((row[state.register_texts[number]], state.dtypes[number]))
        else:
            inputs.append(column(made, number, event))
    return run(edge.features, made.states[target].features, inputs)


def test_sum_of_two_variables() -> None:
    """Known when b comes, and only there: c ends the match."""
    made = plan(Q1, {"b": ["a.V + b.V"]})
    assert features(made) == ["", "i", ""]
    assert [edge.features is None for edge in made.edges] == [True, False, True]
    assert registers(made) == [("a.V",), (), ()]
    assert values(made, 0, 1, {"a.V": 2}, {"V": 40}) == [42]
    assert values(made, 0, 1, {"a.V": None}, {"V": 40}) == [None]


def test_single_attributes() -> None:
    """The first variable's are known of the event alone; those of a row are carried."""
    made = plan(Q1, {"a": ["a.V"], "b": ["a.V", "b.V"]})
    assert features(made) == ["i", "ii", ""]
    first, second, last = (edge.features for edge in made.edges)
    assert last is None and first is not None and second is not None
    assert [kind for kind, _ in first.inputs] == ["event"]
    assert [kind for kind, _ in second.inputs] == ["row", "event"]
    assert values(made, -1, 0, {}, {"V": 3}) == [3]
    assert values(made, 0, 1, {"a.V": 3}, {"V": 4}) == [3, 4]


def test_registers_are_carried_for_features_alone() -> None:
    made = plan(Q1, {"b": ["a.F * 2 + b.F", "a.S = 'x'", "a.time"]})
    assert registers(made)[0] == ("a.V", "a.F * 2.0", "a.S = 'x'", "a.time")
    assert features(made) == ["", "fbi", ""]
    row = {"a.F * 2.0": 3.0, "a.S = 'x'": 1, "a.time": 7}
    assert values(made, 0, 1, row, {"F": 0.5}) == [3.5, True, 7]


def test_what_a_key_equals_needs_no_register() -> None:
    """Of the row and of the event it is the same."""
    made = plan(Q1, {"b": ["a.ID"]})
    assert registers(made) == registers(plan(Q1, {}))
    assert values(made, 0, 1, {}, {"ID": 5}) == [5]


def test_no_feature_of_what_ends() -> None:
    made = plan(Q1, {"c": ["a.V"], "a": []})
    assert features(made) == ["", "", ""] and registers(made) == registers(plan(Q1, {}))


def test_kleene_variable() -> None:
    """Aggregates are those behind the event, on the way in and around the loop."""
    texts = ["b[last].V - b[first].V", "COUNT(b[])", "SUM(b[].V)", "MAX(b[].F)", "b[1].V", "c.V"]
    made = plan(KLEENE, {"b": texts})
    assert features(made) == ["", "iiifii", ""]
    assert values(made, 0, 1, {}, {"V": 4, "F": 0.5}) == [0, 1, 4, 0.5, None, None]
    row = {"b[first].V": 4, "COUNT(b[])": 1, "COUNT(b[].V)": 1, "SUM(b[].V)": 4, "COUNT(b[].F)": 0, "MAX(b[].F)": None,
           "b[1].V": None}  # fmt: skip
    assert set(registers(made)[1]) == set(row)
    assert values(made, 1, 1, row, {"V": 10, "F": -1.5}) == [6, 2, 14, -1.5, 10, None]


def test_of_all_elements_means_nothing_here() -> None:
    with pytest.raises(ParseError, match=r"\[i\] refers to all elements") as caught:
        plan(KLEENE, {"b": ["a.V", "a.V + b[i].V"]})
    assert str(caught.value).splitlines()[1:] == ["  a.V + b[i].V", "        ^^^^^^"]
    assert str(caught.value).startswith("class of b:1:7: ")


def test_parts_of_and_in_any_order() -> None:
    """A state has the class of one of the variables that may have come last in it; all its edges compute it."""
    made = plan("AND(A a, B b, C c) WHERE a.ID = b.ID WITHIN 8ms", {name: ["a.V + b.V", f"{name}.V"] for name in "abc"})
    by_bound = {"".join("abc"[slot] for slot in state.bindings): number for number, state in enumerate(made.states)}
    assert [made.states[by_bound[bound]].features for bound in ("a", "ab", "bc", "abc")] == ["ii", "ii", "ii", ""]
    a, b, c, ab = (by_bound[bound] for bound in ("a", "b", "c", "ab"))
    last = "abc"[made.states[ab].member]
    own = {"a": 2, "b": 40}
    assert values(made, -1, a, {}, {"V": 2}) == [None, 2], "b is not there"
    assert values(made, -1, c, {}, {"V": 2}) == [None, 2]
    assert values(made, a, ab, {"a.V": 2}, {"V": 40}) == [42, own[last]]
    assert values(made, b, ab, {"b.V": 40}, {"V": 2}) == [42, own[last]]
    assert sum(edge.features is not None for edge in made.edges) == 3 + 6


def test_variables_that_may_be_left_out() -> None:
    made = plan("SEQ(A a, B? b, C c, D d) WITHIN 8ms", {"c": ["a.V", "b.V"]})
    assert features(made) == ["", "", "ii", ""]
    assert values(made, 0, 2, {"a.V": 1}, {"V": 9}) == [1, None]
    assert values(made, 1, 2, {"a.V": 1, "b.V": 2}, {"V": 9}) == [1, 2]


def test_variables_of_a_group() -> None:
    made = plan("SEQ(A a, (SEQ(B b, C c))+ g[], D d) WITHIN 8ms", {"g.c": ["COUNT(g[])", "g[last].b.V + g[last].c.V"]})
    assert features(made) == ["", "", "ii", ""]
    assert values(made, 1, 2, {"COUNT(g[])": 3, "g[last].b.V": 5}, {"V": 6}) == [3, 11]


def test_it_is_rows() -> None:
    """So neither is tried, and asking for the other one is refused as ever."""
    made = plan(Q1, {"b": ["b.V"]}, store="factorised")
    assert (made.store, made.rows_only) == ("rows", "partial matches are shed")
    assert made.why == "only option: partial matches are shed"
    assert plan(Q1, {"b": ["b.V"]}, index="key").index == "key"


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
    made = plan(KLEENE, {"b": ["SUM(b[].V)", "a.S = 'x'"]})
    assert pickle.loads(pickle.dumps(made)) == made == plan(KLEENE, {"b": ["SUM(b[].V)", "a.S = 'x'"]})


@pytest.mark.parametrize(("text", "message", "caret"), [
    ("a.V +", "the text ends too early; expected a value or condition", "     ^"),
    ("", "the text ends too early", "^"),
    ("a.V, b.V", "unexpected ','; expected the end or OR", "   ^"),
    ("a.V AS x", "unexpected keyword AS; expected the end or OR", "    ^^"),
    ("b.V + x.V", "unknown variable 'x'; the pattern has a, n, b, c", "      ^^^"),
    ("a.W", "unknown attribute 'W' of A", "^^^"),
    ("a.S + 1", "+ needs numbers", "^^^"),
    ("a", "a is an event, not a value; write a.attribute", "^"),
    ("n.V + a.V", "n is negated, so a partial match has no event of it; remove n.V", "^^^"),
    ("[ID]", "is allowed only as a separate condition", "^^^^"),
])  # fmt: skip
def test_wrong_expressions(text: str, message: str, caret: str) -> None:
    """They name the class and show where."""
    with pytest.raises(ParseError) as caught:
        plan("SEQ(A a, NEG D n, B b, C c) WITHIN 8ms", {"b": ["b.V", text]})
    told = str(caught.value).split("\n")
    assert told[0].startswith("class of b:1:") and message in told[0]
    assert told[1:] == [f"  {text}", f"  {caret}"]


@pytest.mark.parametrize(("classes", "message"), [
    ({"bb": ["a.V"]}, "class of 'bb': query 'query' binds no such variable; did you mean 'b'?"),
    ({"n": ["a.V"]}, "class of 'n': query 'query' binds no such variable; it is negated"),
    ({"b": "a.V"}, "class of 'b': expected a list of expressions as strings, found 'a.V'"),
    ({"b": [1]}, "class of 'b': expected a list of expressions as strings, found [1]"),
    ({"b": ["a.V"] * 65}, "class of 'b': 65 expressions, expected at most 64"),
])  # fmt: skip
def test_wrong_classes(classes: Any, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        plan("SEQ(A a, NEG D n, B b, C c) WITHIN 8ms", classes)
    assert message in str(caught.value)


def test_too_much_to_carry() -> None:
    wide = fc.Schema({name: {f"x{number}": "int64" for number in range(70)} for name in "ABC"}, type="type")
    query = fc.parse("PATTERN SEQ(A a, B b, C c) WITHIN 8ms", wide)
    classes = {"b": [" + ".join(f"a.x{number}" for number in range(0, 70, 2)) + " + b.x1"]}
    assert make_plan(query, classes=classes).states[0].registers == 1, "the sum is carried, not what it is of"
    classes = {"b": [f"a.x{number} + b.x{number}" for number in range(60)]}
    assert make_plan(query, classes=classes).states[0].registers == 60
    query = fc.parse("PATTERN SEQ(A a, B b, C c) WHERE " + " AND ".join(f"a.x{n} < c.x{n}" for n in range(60, 70))
                     + " WITHIN 8ms", wide)  # fmt: skip
    with pytest.raises(ValidationError, match="would carry 70 values for later conditions and classes, expected at"):
        make_plan(query, classes=classes)


def classes_of(query: fc.Query) -> Classes:
    """Of every variable: all that is bound, in a few words each."""
    texts: list[str] = []
    for leaf in positive_leaves(query.pattern):
        variable, inner = leaf.key
        path = "k" if inner is None else f"{inner}.k"
        many = [f"{variable}[last].{path}", f"{variable}[first].{path}", f"SUM({variable}[].{path})"]
        texts += many if leaf.repeated else [f"{variable}.{path}"]
    sums = [f"{one} + {other}" for one, other in pairwise(texts)]
    return {leaf.name: [*texts, *sums][:64] for leaf in positive_leaves(query.pattern)}


@given(st.one_of(strategies.cases(), query_cases()), st.sampled_from(["full", "key", "off"]))
def test_any_query(case: Case, index: str) -> None:
    """Every edge into a state with features has what it reads, and rows that carry more make the same matches."""
    made = make_plan(case.query, classes=classes_of(case.query), index=index)
    for edge in made.edges:
        target = made.states[edge.target]
        assert (edge.features is not None) == bool(target.features) == bool(target.indexes)
        for kind, number in () if edge.features is None else edge.features.inputs:
            assert kind == "event" or (kind == "row" and edge.source >= 0)
            assert number < (len(made.columns) if kind == "event" else made.states[edge.source].registers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(several, "plan_for", lambda *_, **__: made)
        found = harness.rows(case.query, None, case.events, case.batch_sizes)
    harness.assert_same(case.query, case.events, found, f"with classes, index={index!r}")
