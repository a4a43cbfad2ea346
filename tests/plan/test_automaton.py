"""States and edges of patterns."""

from __future__ import annotations

import pytest

import fastcep as fc
from fastcep.plan.automaton import MAYBE, NO, START, YES, Automaton, build_automaton
from fastcep.query.patterns import count_states

SCHEMA = fc.Schema({name: {"v": "int64"} for name in "ABCD"}, time="t", type="type")


def automaton_of(pattern: str) -> Automaton:
    return build_automaton(fc.parse(f"PATTERN {pattern} WITHIN 1h", SCHEMA).pattern)


def moves(pattern: str) -> list[str]:
    """Edges as ``source-variable>target``; ``+`` repeats the variable, ``(`` starts a group, ``)(`` starts a round."""
    automaton = automaton_of(pattern)
    marks = {"first": "(", "next": ")(", "": ""}
    return [
        f"{'start' if edge.source == START else edge.source}-{marks[edge.round]}"
        f"{automaton.variables[edge.variable].name}"
        f"{'+' if edge.again else ''}>{edge.target}"
        for edge in automaton.edges
    ]


def sides(pattern: str) -> list[tuple[int, frozenset[int], frozenset[int]]]:
    """Negated variables with the variables before and after them."""
    return [(item.variable, item.before, item.after) for item in automaton_of(pattern).negated]


def accepting(pattern: str) -> list[int]:
    return [number for number, state in enumerate(automaton_of(pattern).states) if state.accepting]


def test_a_sequence_has_one_state_per_variable() -> None:
    pattern = "SEQ(A a, B? b, C+ c[])"
    assert moves(pattern) == ["start-a>0", "0-b>1", "0-c>2", "1-c>2", "2-c+>2"]
    assert accepting(pattern) == [2]
    assert automaton_of(pattern).states[2].bound == (YES, MAYBE, YES)
    assert automaton_of(pattern).states[0].open == {1, 2}
    assert automaton_of(pattern).states[2].open == {2}


def test_nested_sequences_are_one() -> None:
    assert moves("SEQ(A a, SEQ(B b, C c))") == moves("SEQ(A a, B b, C c)")


def test_the_parts_of_and_come_in_every_order() -> None:
    assert moves("AND(A a, B b)") == ["start-a>0", "1-a>2", "start-b>1", "0-b>2"]
    assert accepting("AND(A a, B b)") == [2]
    assert moves("AND(SEQ(A a, B b), C c)") == [
        "start-a>0", "1-a>3", "0-b>2", "3-b>4", "start-c>1", "0-c>3", "2-c>4",
    ]  # fmt: skip


def test_or_keeps_to_its_branch() -> None:
    assert moves("OR(A a, SEQ(B b, C c))") == ["start-a>0", "start-b>1", "1-c>2"]
    assert accepting("OR(A a, SEQ(B b, C c))") == [0, 2]
    assert automaton_of("OR(A a, SEQ(B b, C c))").branches == {0: (0,), 1: (1, 2), 2: (1, 2)}


def test_any_is_complete_with_n() -> None:
    pattern = "ANY(2, A a, B b, A c)"
    assert accepting(pattern) == [3, 4, 5]
    assert automaton_of(pattern).sets == ((0, 1, 2),)
    assert automaton_of("ANY(2, A a, B b, C c)").sets == ()
    assert moves("ANY(2, A a[])") == moves("SEQ(A{2} a[])")


def test_a_group_goes_on_or_begins_a_round() -> None:
    pattern = "SEQ((AND(A a, B? b))+ g[], C c)"
    assert moves(pattern) == [
        "start-(g.a>0", "0-)(g.a>0", "1-g.a>2", "2-)(g.a>0",
        "start-(g.b>1", "0-g.b>2", "0-)(g.b>1", "2-)(g.b>1",
        "0-c>3", "2-c>3",
    ]  # fmt: skip
    automaton = automaton_of(pattern)
    assert automaton.chain == (3, 3, -1)
    assert automaton.inner == {3: (0, 1)}
    assert automaton.states[0].bound == (YES, MAYBE, NO, YES)


def test_an_optional_group_has_no_rounds() -> None:
    assert moves("SEQ((SEQ(A a, B b))? g, C c)") == ["start-g.a>0", "0-g.b>1", "start-c>2", "1-c>2"]
    assert automaton_of("SEQ((SEQ(A a, B b))? g, C c)").chain == (-1, -1, -1)


def test_negated_variables_bind_nothing() -> None:
    pattern = "SEQ(A a, NEG B n, NEG C m, D? d)"
    assert moves(pattern) == ["start-a>0", "0-d>1"]
    assert sides(pattern) == [(1, {0}, {3}), (2, {0}, {3})]
    assert moves("APERIODIC(A a, B b, C n)") == moves("SEQ(A a, B b)")
    assert sides("APERIODIC(A a, B b, C n)") == [(2, {0}, {1})]
    assert sides("PERIODIC(A a, 1s, B n)") == [(1, {0}, set())]


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A a, B? b, NEG C n, A* k[])",
        "AND(A a, B+ b[], SEQ(A c, C d))",
        "OR(A a, SEQ(B b, AND(A c, C d)))",
        "ANY(2, A a, B b, C c, A d)",
        "SEQ(ANY(3, A x[]), (AND(A a, B? b))* g[], C c)",
        "APERIODIC(AND(A a, B b), A+ c[], C n)",
        "PERIODIC(AND(A a, B b), 1min, C n)",
    ],
)
def test_states_are_counted_before(pattern: str) -> None:
    query = fc.parse(f"PATTERN {pattern} WITHIN 1h", SCHEMA)
    assert count_states(query.pattern) == len(build_automaton(query.pattern).states)
