"""Cases worked by hand for the strategies, NEXT and CONSECUTIVE, which define the reference matcher (see `worked`)."""

from __future__ import annotations

from support.worked import found

from fastcep.events import Schema


def following(text: str, events: str) -> list[str]:
    """Return the matches of a pattern and its clauses under skip till next match."""
    return found(f"{text} STRATEGY skip_till_next", events)


# ------------------------------------------------------------------ skip_till_next


def test_a_run_goes_on_with_the_next_event_that_fits() -> None:
    assert following("SEQ(A a, B b) WITHIN 9ns", "A A B B") == ["a0 b2", "a1 b2"]
    assert following("SEQ(A a, B b) WHERE a.v < b.v WITHIN 9ns", "A(v=2) B(v=1) B(v=3) B(v=4)") == ["a0 b2"]
    assert following("SEQ(A a, B b) WITHIN 9ns PARTITION BY k", "A(k=1) B(k=2) B B(k=1) B(k=1)") == ["a0 b3"]


def test_a_run_must_take_an_event_that_conditions_on_later_events_will_reject() -> None:
    """The key of b is compared only with that of c, so that a has to go on with the first b."""
    text = "WHERE a.k = c.k AND b.k = c.k WITHIN 9ns"
    events = "A(k=1) B(k=2) B(k=1) C(k=1) C(k=2)"
    assert following(f"SEQ(A a, B b, C c) {text}", events) == []
    assert following(f"AND(A a, B b, C c) {text}", events) == []
    assert following("SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 9ns", events) == ["a0 b2 c3"]


def test_kleene_takes_all_it_can() -> None:
    assert following("SEQ(A a, B+ b[], C c) WITHIN 9ns", "A B B C C") == ["a0 b1,2 c3"]
    assert following("SEQ(A a, B* b[], C c) WITHIN 9ns", "A B B C C") == ["a0 b1,2 c3"]
    assert following("SEQ(A a, B{1,2} b[], C c) WITHIN 9ns", "A B B B C") == ["a0 b1,2 c4"]
    assert following("SEQ(A a, B{3,} b[], C c) WITHIN 9ns", "A B B C B C") == ["a0 b1,2,4 c5"]


def test_every_length_at_the_end_of_the_pattern() -> None:
    assert following("SEQ(A a, B+ b[]) WITHIN 9ns", "A B B") == ["a0 b1", "a0 b1,2"]
    assert following("SEQ(A a, B* b[]) WITHIN 9ns", "A B B") == ["a0 b[]", "a0 b1", "a0 b1,2"]


def test_take_and_proceed() -> None:
    # Event 1 grows the loop and is the next variable too.
    assert following("SEQ(A+ a[], A b) WITHIN 9ns", "A A A") == ["a0 b1", "a1 b2", "a0,1 b2"]


def test_an_optional_member_must_take_what_it_can() -> None:
    assert following("SEQ(A a, B? b, C c) WITHIN 9ns", "A B C") == ["a0 b1 c2"]
    assert following("SEQ(A a, B? b, (B|C) c) WITHIN 9ns", "A B C") == ["a0 b- c1", "a0 b1 c2"]
    # At the start each event that fits begins a run.
    assert following("SEQ(A? a, B b) WITHIN 9ns", "A B") == ["a- b1", "a0 b1"]


def test_a_copy_waits_outside_an_optional_group() -> None:
    text = "SEQ(A a, (SEQ(B b, C c))? g, D d) WITHIN 9ns"
    assert following(text, "A B D") == ["a0 g.b- g.c- d2"]
    assert following(text, "A B C D") == ["a0 g.b- g.c- d3", "a0 g.b1 g.c2 d3"]
    # Not if the event goes on without entering it as well.
    assert following("SEQ(A a, (SEQ(B b, C c))? g, B d) WITHIN 9ns", "A B B") == ["a0 g.b- g.c- d1"]
    # A further round is no entering.
    text = "SEQ(A a, (SEQ(B b, C c))* g[], D d) WITHIN 9ns"
    assert following(text, "A B C B D") == ["a0 g.b[] g.c[] d4"]


def test_or() -> None:
    assert following("SEQ(A a, OR(B b, C c)) WITHIN 9ns", "A B C") == ["a0 b1 c-"]
    assert following("OR(SEQ(A a, B b), SEQ(A c, C d)) WITHIN 9ns", "A C B") == ["a- b- c0 d1", "a0 b2 c- d-"]


def test_and_and_any() -> None:
    assert following("AND(A a, B b) WITHIN 9ns", "A B B A") == ["a0 b1", "a3 b1", "a3 b2"]
    assert following("ANY(2, A a, B b, C c) WITHIN 9ns", "A B C") == ["a0 b1 c-", "a- b1 c2"]
    assert following("ANY(2, A a, A b) WITHIN 9ns", "A A A") == ["a1 b0", "a2 b1"]
    assert following("ANY(2, A x[] DISTINCT k) WITHIN 9ns", "A(k=1) A(k=1) A(k=2)") == ["x0,2", "x1,2"]


def test_negation_is_judged_at_its_right_neighbour() -> None:
    assert following("SEQ(A a, NEG C n, B b) WITHIN 9ns", "A C B A B") == ["a3 b4"]
    text = "SEQ(A a, NEG C n, B b) WHERE n.v = b.v WITHIN 9ns"
    assert following(text, "A C(v=1) B(v=1) B(v=2)") == ["a0 b3"]
    text = "SEQ(A a, NEG C n, B b, D d) WHERE n.k = d.k WITHIN 9ns"  # not judged before d is bound
    assert following(text, "A C(k=1) B D(k=1) D(k=2)") == ["a0 b2 d4"]


def test_leading_negation_looks_back_from_the_last_event() -> None:
    # So it is judged where the match ends: the first B cannot advance the run, the second can.
    assert following("SEQ(NEG C n, A a, B b) WITHIN 5ns", "C@0 A@3 B@5 B@6") == ["a1 b3"]


def test_trailing_negation() -> None:
    assert following("SEQ(A a, B b, NEG C n) WITHIN 5ns", "A@0 B@1 B@2 D@9") == ["a0 b1"]
    assert following("SEQ(A a, B b, NEG C n) WITHIN 5ns", "A@0 B@1 B@2 C@3") == []
    # What is complete waits for the window's end, also if it goes on meanwhile.
    assert following("SEQ(A a, NEG C n, B? b) WITHIN 5ns", "A@0 B@2") == ["a0 b1", "a0 b-"]


def test_conditions_on_elements_are_judged_at_each_take() -> None:
    text = "SEQ(A a, B+ b[], C c) WHERE b[i+1].v > b[i].v WITHIN 9ns"
    assert following(text, "A B(v=1) B(v=0) B(v=2) C") == ["a0 b1,3 c4"]
    text = "SEQ(A a, B+ b[], C c) WHERE b[first].v = 2 WITHIN 9ns"
    assert following(text, "A B(v=1) B(v=2) B(v=1) C") == ["a0 b2,3 c4"]
    assert following(text.replace("first", "1"), "A B(v=1) B(v=1) B(v=2) B C") == ["a0 b1,3,4 c5"]


def test_conditions_on_the_whole_are_judged_when_it_closes() -> None:
    # By a later variable,
    text = "SEQ(A a, B+ b[], C c) WHERE COUNT(b[]) = 2 WITHIN 9ns"
    assert following(text, "A B C B C") == ["a0 b1,3 c4"]
    text = "SEQ(A a, B+ b[], C c) WHERE b[last].v = 2 WITHIN 9ns"
    assert following(text, "A B(v=2) B(v=1) C B(v=2) C") == ["a0 b1,2,4 c5"]
    # by the upper bound,
    text = "SEQ(A a, B{1,2} b[], C c) WHERE SUM(b[].v) = 3 WITHIN 9ns"
    assert following(text, "A B(v=1) B(v=1) B(v=2) C") == ["a0 b1,3 c4"]
    # or where the match ends: a length for which it does not hold is withheld, and the run goes on.
    assert following("SEQ(A a, B+ b[]) WHERE COUNT(b[]) = 2 WITHIN 9ns", "A B B B") == ["a0 b1,2"]
    assert following("SEQ(A a, B{1,2} b[]) WHERE SUM(b[].v) = 3 WITHIN 9ns", "A B(v=1) B(v=1) B(v=2)") == ["a0 b1,3"]


def test_conditions_on_the_whole_of_a_group_are_judged_when_that_closes() -> None:
    # In the second round g.a cannot grow any more when its A comes, but the group is closed by the B only: so the run
    # of the first A takes the second, and is stuck.
    text = "SEQ((SEQ(A a, B b)){1,2} g[], C c) WHERE SUM(g[].a.v) = 3 WITHIN 9ns"
    assert following(text, "A(v=1) B A(v=1) B A(v=2) B C") == ["g.a2,4 g.b3,5 c6"]
    assert following(text, "A(v=1) B A(v=2) B C") == ["g.a0,2 g.b1,3 c4"]
    text = "SEQ((SEQ(A a, B b))+ g[], C c) WHERE g[i+1].a.v > g[i].a.v WITHIN 9ns"
    assert following(text, "A(v=1) B A(v=0) A(v=2) B C")[-1] == "g.a0,3 g.b1,4 c5"


def test_a_run_ends_with_its_window() -> None:
    assert following("SEQ(A a, B b) WITHIN 2ns", "A@0 B@3") == []
    assert following("SEQ(A a, B b) WITHIN 2 EVENTS", "A A B") == ["a1 b2"]


# ---------------------------------------------------------------------- contiguity


def strict(text: str, events: str) -> list[str]:
    return found(f"{text} STRATEGY strict_contiguity", events)


def test_strict_contiguity() -> None:
    assert strict("SEQ(A a, B b) WITHIN 9ns", "A C B A B") == ["a3 b4"]
    assert strict("SEQ(A a, B+ b[], C c) WITHIN 9ns", "A B B C") == ["a0 b1,2 c3"]
    assert strict("SEQ(A+ a[], A b) WITHIN 9ns", "A A A") == ["a0 b1", "a1 b2", "a0,1 b2"]
    assert strict("AND(A a, B b) WITHIN 9ns", "A B A") == ["a0 b1", "a2 b1"]
    assert strict("SEQ(A a, B b) WITHIN 9ns PARTITION BY k", "A(k=1) C(k=2) B(k=1)") == []


def test_partition_contiguity() -> None:
    text = "SEQ(A a, B b) WITHIN 9ns PARTITION BY k STRATEGY partition_contiguity"
    assert found(text, "A(k=1) B(k=2) B(k=1) B(k=1)") == ["a0 b2"]
    assert found(text, "A(k=1) D(k=1) B(k=1)") == []
    assert found(text, "A(k=1) D B(k=1)") == ["a0 b2"]  # a null is in no partition
    schema = Schema({"A": {"k": "int64"}, "B": {"k": "int64"}, "C": {"v": "int64"}}, time="ts", type="type")
    assert found(text, "A(k=1) C(v=1) B(k=1)", schema) == ["a0 b2"]  # nor is a type without the key


def test_consumed_events_still_lie_between() -> None:
    assert found(
        "OR(C c, SEQ(A a, B b)) WITHIN 9ns STRATEGY strict_contiguity CONSUME consumed", "A C B A B"
    ) == ["c1 a- b-", "c- a3 b4"]  # fmt: skip


def test_next() -> None:
    assert found("SEQ(A a, NEXT B b) WITHIN 9ns", "A C B A B") == ["a3 b4"]
    assert found("SEQ(A a, NEXT B b, C c) WITHIN 9ns", "A B D C") == ["a0 b1 c3"]
    assert found("SEQ(A a, NEXT B b) WITHIN 9ns PARTITION BY k", "A(k=1) B(k=2) B(k=1)") == ["a0 b2"]


def test_next_is_about_the_last_event_bound_before() -> None:
    assert found("SEQ(A a, B? b, NEXT C c) WITHIN 9ns", "A B C") == ["a0 b1 c2"]
    assert found("SEQ(A a, B? b, NEXT C c) WITHIN 9ns", "A C") == ["a0 b- c1"]
    assert found("SEQ(A? a, NEXT B b) WITHIN 9ns", "A C B") == ["a- b2"]  # no effect if none is bound


def test_next_is_about_the_first_event_of_its_member() -> None:
    assert found("SEQ(A a, NEXT B+ b[]) WITHIN 9ns", "A B C B") == ["a0 b1", "a0 b1,3"]
    assert found("SEQ(A a, NEXT AND(B b, C c)) WITHIN 9ns", "A C D B") == ["a0 b3 c1"]
    assert found("SEQ(A a, NEXT AND(B b, C c)) WITHIN 9ns", "A D C B") == []
    text = "SEQ(A a, NEXT (SEQ(B b, C c))* g[]) WITHIN 9ns"
    assert found(text, "A B D C") == ["a0 g.b[] g.c[]", "a0 g.b1 g.c3"]
    assert found(text, "A D B C") == ["a0 g.b[] g.c[]"]


def test_next_in_a_group_is_about_its_round() -> None:
    text = "SEQ((SEQ(A a, NEXT B b))+ g[]) WITHIN 9ns"
    assert found(text, "A B D A B") == ["g.a0 g.b1", "g.a3 g.b4", "g.a0,3 g.b1,4"]


def test_next_in_an_and_is_about_its_seq() -> None:
    assert found("AND(SEQ(A a, NEXT B b), C c) WITHIN 9ns", "A C B") == []
    assert found("AND(SEQ(A a, NEXT B b), C c) WITHIN 9ns", "C D A B") == ["a2 b3 c0"]


def test_consecutive() -> None:
    text = "SEQ(A a, B+ b[] CONSECUTIVE, C c) WITHIN 9ns"
    assert found(text, "A B C B C") == ["a0 b1 c2", "a0 b1 c4", "a0 b3 c4"]
    assert following(text, "A B D B C") == ["a0 b1 c4"]  # the loop can only be left
    assert following(f"{text} PARTITION BY k", "A(k=1) B(k=1) B(k=2) B(k=1) C(k=1)") == ["a0 b1,3 c4"]


def test_consecutive_rounds() -> None:
    text = "SEQ((SEQ(A a, B b))+ g[] CONSECUTIVE) WITHIN 9ns"
    assert found(text, "A C B A B") == ["g.a0 g.b2", "g.a0 g.b4", "g.a3 g.b4", "g.a0,3 g.b2,4"]
    assert found(text, "A B C A B") == ["g.a0 g.b1", "g.a0 g.b4", "g.a3 g.b4"]
