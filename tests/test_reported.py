"""Errors that users of other engines reported, as cases that the engine and the reference matcher get right.

A result is written as in `worked`, with the event at whose arrival it is reported: ``a0 b1 by 1``, or ``a0 by end`` if
only the end of the stream produces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from reference import matcher as naive
from support import harness
from support.worked import SCHEMA, show

from fastcep.query import parse

Report = Callable[[str, str], list[str]]


def by_engine(text: str, line: str) -> list[str]:
    """Return the results of the engine; events are sent one by one."""
    query = parse(f"PATTERN {text}", SCHEMA)
    engine = harness.make_engine(query)

    def steps() -> Iterator[tuple[harness.Row, str]]:
        for event in harness.stream(SCHEMA, line):
            for row in harness.table_rows(query, harness.send(engine, SCHEMA, event).to_arrow()):
                yield row, str(event.seq)
        for row in harness.table_rows(query, engine.flush().to_arrow()):
            yield row, "end"

    return [f"{show(query, bindings)} by {when}" for (bindings, _, _), when in steps()]


def by_reference(text: str, line: str) -> list[str]:
    """Return the results that must be reported."""
    query = parse(f"PATTERN {text}", SCHEMA)
    events = harness.stream(SCHEMA, line)

    def when(match: naive.Match) -> str:
        return next((str(event.seq) for event in events if harness.is_decided(match, event)), "end")

    return [f"{show(query, match.bindings)} by {when(match)}" for match in naive.find_matches(query, events)]


@pytest.fixture(params=[by_engine, by_reference], ids=["engine", "reference"])
def reported(request: pytest.FixtureRequest) -> Report:
    report: Report = request.param
    return report


def test_a_result_does_not_wait_for_older_partial_matches(reported: Report) -> None:
    """A match was held back until every partial match that started before it had ended."""
    text = "SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 1000ns"
    assert reported(text, "A(k=1)@0 B(k=1)@1 A(k=2)@2 B(k=2)@3 C(k=2)@4 A@5 C(k=1)@6") == [
        "a2 b3 c4 by 4", "a0 b1 c6 by 6",
    ]  # fmt: skip


def test_a_greedy_loop_does_not_hold_its_first_results_back(reported: Report) -> None:
    """With a loop at the end, results came only when the loop could not continue."""
    assert reported("SEQ(A a, B+ b[]) WITHIN 1000ns", "A B B") == ["a0 b1 by 1", "a0 b2 by 2", "a0 b1,2 by 2"]


def test_optional_steps_without_events_give_one_match(reported: Report) -> None:
    """Each optional step without events doubled the matches, as if it could be left out in two ways."""
    text = "SEQ(A a, B? b, B? c, B? d, B? e, C f) WITHIN 9ns"
    assert reported(text, "A C") == ["a0 b- c- d- e- f1 by 1"]


def test_optional_steps_give_each_way_to_take_them_once(reported: Report) -> None:
    """One B for four optional steps: left out or in one of the four; not 2^4 results."""
    text = "SEQ(A a, B? b, B? c, B? d, B? e, C f) WITHIN 9ns"
    found = reported(text, "A B C")
    assert found == [
        "a0 b- c- d- e- f2 by 2", "a0 b1 c- d- e- f2 by 2", "a0 b- c1 d- e- f2 by 2", "a0 b- c- d1 e- f2 by 2",
        "a0 b- c- d- e1 f2 by 2",
    ]  # fmt: skip


def test_an_optional_group_that_is_not_there_gives_one_match(reported: Report) -> None:
    """An unfinished optional part is the same as none."""
    assert reported("SEQ(A a, (SEQ(B b, D d))? g, C c) WITHIN 9ns", "A B C") == ["a0 g.b- g.d- c2 by 2"]


def test_two_loops_over_one_type(reported: Report) -> None:
    """The first loop consumed the events of the second, or results came twice."""
    assert reported("SEQ(A+ a[], A+ b[]) WITHIN 9ns", "A A A") == [
        "a0 b1 by 1", "a0 b2 by 2", "a1 b2 by 2", "a0,1 b2 by 2", "a0 b1,2 by 2",
    ]  # fmt: skip


def test_two_loops_over_one_type_with_conditions(reported: Report) -> None:
    """Falling, then rising: the conditions alone decide where one loop ends and the next starts."""
    text = "SEQ(A{2,} a[], A{2,} b[]) WHERE a[i+1].v < a[i].v AND b[i+1].v > b[i].v WITHIN 9ns"
    assert reported(text, "A(v=3) A(v=1) A(v=2) A(v=4)") == ["a0,1 b2,3 by 3"]


def test_a_negation_beside_a_loop_at_the_top(reported: Report) -> None:
    """The negation was checked for the first element only, or not at all."""
    text = "SEQ(A+ a[], NEG C n, B b) WITHIN 9ns"
    assert reported(text, "A C B") == []
    assert reported(text, "A A C A B") == ["a3 b4 by 4", "a0,3 b4 by 4", "a1,3 b4 by 4", "a0,1,3 b4 by 4"]


def test_a_negation_before_and_behind_a_loop(reported: Report) -> None:
    """A C between elements of b does not kill the match."""
    text = "SEQ(A a, NEG C n, B+ b[], NEG C m, D d) WITHIN 9ns"
    assert reported(text, "A B C B D") == ["a0 b1,3 d4 by 4"]
    assert reported(text, "A B B C D") == []


def test_a_trailing_negation_when_a_later_event_comes(reported: Report) -> None:
    """Any event after the deciding time produces the result, whatever its type and partition."""
    text = "SEQ(A a, NEG B n) WITHIN 5ns PARTITION BY k"
    assert reported(text, "A(k=1)@0 A(k=2)@1 B(k=2)@4 D@6") == ["a0 by 3"]


def test_a_trailing_negation_waits_for_the_last_event_that_could_kill(reported: Report) -> None:
    """An event at the deciding time still counts, so nothing is reported at that time yet."""
    text = "SEQ(A a, NEG B n) WITHIN 5ns"
    assert reported(text, "A@0 D@5 D@5 D@6") == ["a0 by 3"]
    assert reported(text, "A@0 D@5 B@5 D@6") == []


def test_a_trailing_negation_when_no_further_event_comes(reported: Report) -> None:
    """The result was lost at the end of the stream."""
    assert reported("SEQ(A a, B b, NEG C n) WITHIN 5ns", "A@0 B@2") == ["a0 b1 by end"]


def test_a_trailing_negation_when_only_time_goes_on() -> None:
    """On a quiet stream the clock decides, not the next event."""
    query = parse("PATTERN SEQ(A a, NEG B n) WITHIN 5ns", SCHEMA)
    engine = harness.make_engine(query)
    assert len(harness.send(engine, SCHEMA, harness.stream(SCHEMA, "A@0")[0])) == 0
    assert len(engine.advance(5)) == 0
    assert harness.table_rows(query, engine.advance(6).to_arrow()) == [({"a": 0}, {}, 5)]
    assert len(engine.flush()) == 0


def test_within_holds_when_the_next_event_never_comes(reported: Report) -> None:
    """The window was checked between neighbours, or only when a further event of the pattern came."""
    text = "SEQ(A a, B b, C c) WITHIN 5ns"
    assert reported(text, "A@0 B@1 C@6") == []
    assert reported(text, "A@0 B@4 C@8 D@100") == []
    assert reported("SEQ(A? a, B? b) WITHIN 5ns", "A@0 D@50 B@51") == ["a0 b- by 0", "a- b2 by 2"]


def test_a_partial_match_whose_next_event_never_comes_is_dropped() -> None:
    """State grew with the stream although nothing could come of it."""
    query = parse("PATTERN SEQ(A a, B b, NEG C n) WITHIN 5ns", SCHEMA)
    engine = harness.make_engine(query)
    for event in harness.stream(SCHEMA, "A@0 A@1 A@2 D@100"):
        harness.send(engine, SCHEMA, event)
    assert engine.metrics()["live_partial_matches"] == 0
