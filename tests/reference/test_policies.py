"""Cases worked by hand for windows, selection, consumption, AFTER MATCH, LIMIT and time-outs (see `worked`)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support import harness
from support.worked import SCHEMA, VALUES, found, found_at, show

from fastcep.events import Schema
from fastcep.query import parse
from reference import matcher as naive

NUMBERED = Schema({"A": VALUES, "B": VALUES, "C": VALUES, "D": {"k": "int64"}}, time="ts", type="type", sequence="n")
AB = "SEQ(A a, B b)"

# ------------------------------------------------------- selection and consumption

TABLE: Sequence[tuple[str, str, str, list[str]]] = [
    ("first", "consumed", "A1 A2 B3 B4", ["a1 b3", "a2 b4"]),
    ("first", "consumed", "A1 B3 B4", ["a1 b3"]),
    ("first", "consumed", "A2 B3 B4", ["a2 b3"]),
    ("first", "zero", "A1 A2 B3 B4", ["a1 b3", "a1 b4"]),
    ("last", "zero", "A1 A2 B3 B4", ["a2 b3", "a2 b4"]),
    ("last", "consumed", "A1 A2 B3 B4", ["a2 b3"]),
    ("each", "zero", "A1 A2 B3 B4", ["a1 b3", "a2 b3", "a1 b4", "a2 b4"]),
    ("cumulative", "zero", "A1 A2 B3 B4", ["a1,2 b3", "a1,2 b4"]),
    # Not in the table: by the same rules.
    ("each", "consumed", "A1 A2 B3 B4", ["a1 b3", "a2 b3"]),
    ("cumulative", "consumed", "A1 A2 B3 B4", ["a1,2 b3"]),
]


@pytest.mark.parametrize(("select", "consume", "stream", "expected"), TABLE)
def test_the_worked_table(select: str, consume: str, stream: str, expected: list[str]) -> None:
    """Check a window with the events A1 A2 B3 B4, and with one of them dropped."""
    policies = f"SELECT {select} CONSUME {consume}"
    assert found(f"{AB} WITHIN UNBOUNDED {policies}", stream, NUMBERED) == expected
    opener = stream[1]
    explicit = found(f"{AB} WINDOW EVERY 9 EVENTS CLOSE AFTER 9 EVENTS {policies}", stream, NUMBERED)
    assert explicit == [f"w{opener} {one}" for one in expected]


@pytest.mark.parametrize("consume", ["zero", "consumed"])
def test_last_supersedes_in_the_same_state_only(consume: str) -> None:
    text = f"SEQ(A a, B b, C c) WITHIN 9ns SELECT last CONSUME {consume}"
    assert found(text, "A1 B2 A3 C4", NUMBERED) == ["a1 b2 c4"]


def test_last_takes_the_longer_of_two_that_begin_alike() -> None:
    text = "SEQ(A a, B+ b[], C c) WITHIN 9ns SELECT"
    assert found(f"{text} last", "A B B C") == ["a0 b1,2 c3"]
    assert found(f"{text} first", "A B B C") == ["a0 b1,2 c3"]  # 0 1 2 3 is before 0 1 3
    assert found("SEQ(A+ a[], B b) WITHIN 9ns SELECT last", "A A B") == ["a0,1 b2"]


def test_first_goes_by_all_events_in_order() -> None:
    assert found("AND(A a, B b, C c) WITHIN 9ns SELECT first", "B A A C") == ["a1 b0 c3"]


def test_ties_go_by_birth_order() -> None:
    text = "SEQ(OR(A a, A b), C c) WITHIN 9ns SELECT"
    assert found(f"{text} first", "A C") == found(f"{text} last", "A C") == ["a0 b- c1"]


def test_selection_is_for_each_detecting_event() -> None:
    assert found("OR(SEQ(A a, B b), C c) WITHIN 9ns SELECT first", "A A B C") == ["a0 b2 c-", "a- b- c3"]


def test_cumulative_of_kleene_groups_and_what_is_not_bound() -> None:
    assert found("SEQ(A a, B+ b[]) WITHIN 9ns SELECT cumulative", "A A B B") == ["a0,1 b2", "a0,1 b2,3"]
    assert found("OR(A a, B b) WITHIN 9ns SELECT cumulative", "A") == ["a0 b[]"]
    text = "SEQ((SEQ(A a, B? b))+ g[]) WITHIN 9ns SELECT cumulative"
    assert found(text, "A A") == ["g.a0 g.b[]", "g.a0,1 g.b[]"]


def test_consumed_events_are_no_negated_events() -> None:
    text = "OR(SEQ(A a, NEG C n, B b), SEQ(C c, D d)) WITHIN 9ns"
    assert found(text, "A C D B") == ["a- b- c1 d2"]
    assert found(f"{text} CONSUME consumed", "A C D B") == ["a- b- c1 d2", "a0 b3 c- d-"]
    # The negation is judged when its right neighbour is bound: then the C was still there.
    text = "OR(SEQ(A a, NEG C n, B b, A e), SEQ(C c, D d)) WITHIN 9ns CONSUME consumed"
    assert found(text, "A C B D A") == ["a- b- e- c1 d3"]


def test_each_reports_all_that_end_in_an_event_before_they_are_consumed() -> None:
    assert found("SEQ(A a, B+ b[]) WITHIN 9ns CONSUME consumed", "A B B") == ["a0 b1"]
    assert found("SEQ(A a, B+ b[], C c) WITHIN 9ns CONSUME consumed", "A B B C C") == [
        "a0 b1 c3", "a0 b2 c3", "a0 b1,2 c3",
    ]  # fmt: skip


def test_consumption_under_skip_till_next() -> None:
    # Both partial matches have bound B2; matches that were not reported do not exist for B3.
    text = f"{AB} WITHIN 9ns STRATEGY {{}} SELECT first CONSUME consumed"
    assert found(text.format("skip_till_next"), "A A B B") == ["a0 b2"]
    assert found(text.format("skip_till_any"), "A A B B") == ["a0 b2", "a1 b3"]


# --------------------------------------------------------------------- AFTER MATCH


def test_skip_to_next() -> None:
    skip = "WITHIN 9ns AFTER MATCH SKIP TO NEXT"
    assert found(f"{AB} {skip}", "A A B B") == ["a0 b2", "a1 b2"]
    assert found(f"SEQ(A a, B+ b[]) {skip}", "A B B") == ["a0 b1"]
    # Of those that start alike and end in one event, the first in birth order.
    assert found(f"SEQ(A a, B b, C c) {skip}", "A B B C") == ["a0 b1 c3"]


def test_skip_past_last() -> None:
    skip = "WITHIN 9ns AFTER MATCH SKIP PAST LAST"
    assert found(f"{AB} {skip}", "A A B B A B") == ["a0 b2", "a4 b5"]
    assert found(f"SEQ(A a, B? b, C c) {skip}", "A A B C") == ["a0 b- c3"]
    # The earliest start is served first, though it is born later.
    assert found("OR(SEQ(A a, A b, B c), SEQ(A d, B e)) WITHIN 9ns", "A A B") == [
        "a0 b1 c2 d- e-", "a- b- c- d0 e2", "a- b- c- d1 e2",
    ]  # fmt: skip
    assert found(f"OR(SEQ(A d, B e), SEQ(A a, D b, B c)) {skip}", "A D A B") == ["d0 e3 a- b- c-"]
    assert found(f"OR(SEQ(A d, A x, B e), SEQ(C a, D b, B c)) {skip}", "C D A A B") == ["d- x- e- a0 b1 c4"]


def test_no_skip() -> None:
    assert found(f"{AB} WITHIN 9ns AFTER MATCH NO SKIP", "A A B B") == ["a0 b2", "a1 b2", "a0 b3", "a1 b3"]


@pytest.mark.parametrize("strategy", ["skip_till_any", "skip_till_next"])
def test_skip_when_a_pattern_times_out(strategy: str) -> None:
    """A partial match that times out is no match, so it skips nothing."""
    clauses = f"WITHIN 3ns STRATEGY {strategy} AFTER MATCH SKIP PAST LAST"
    assert found(f"{AB} {clauses}", "A@0 A@2 B@4 B@5") == ["a1 b2"]
    assert found(f"SEQ(A a, B b, C c) {clauses}", "A@0 B@1 A@2 B@3 B@4 C@5") == ["a2 b3 c5"]


def test_skip_after_selection() -> None:
    assert found(f"{AB} WITHIN 9ns SELECT last AFTER MATCH SKIP PAST LAST", "A A B B A B") == ["a1 b2", "a4 b5"]
    # Only what starts with the first event of the complex event is dropped.
    assert found(f"{AB} WITHIN 9ns SELECT cumulative AFTER MATCH SKIP TO NEXT", "A A B B") == ["a0,1 b2", "a1 b3"]


# ------------------------------------------------------------------------- windows


def test_an_event_opens_a_window_that_time_closes() -> None:
    text = f"{AB} WINDOW OPEN ON A o CLOSE AFTER 2ns"
    assert found(text, "A@0 B@2 B@3") == ["w0 a0 b1"]  # up to the end, inclusive
    assert found(text, "B@0 A@0 B@0 A@9") == ["w1 a1 b2"]  # the opening event is in it
    text = f"{AB} WINDOW OPEN ON A o WHERE o.v = 1 CLOSE AFTER 9ns"
    assert found(text, "A A(v=1) B A(v=2)") == ["w1 a1 b2"]  # unknown does not open


def test_the_same_match_in_two_windows() -> None:
    assert found(f"{AB} WINDOW OPEN ON A o CLOSE AFTER 9ns", "A A B") == ["w0 a0 b2", "w0 a1 b2", "w1 a1 b2"]


def test_the_window_id_is_a_sequence_number() -> None:
    assert found(f"{AB} WINDOW OPEN ON A o CLOSE AFTER 9ns", "A7 B9", NUMBERED) == ["w7 a7 b9"]


def test_windows_by_count() -> None:
    assert found(f"{AB} WINDOW EVERY 2 EVENTS CLOSE AFTER 2 EVENTS", "A B A B") == ["w0 a0 b1", "w2 a2 b3"]
    assert found(f"{AB} WINDOW EVERY 3 EVENTS CLOSE AFTER 4 EVENTS", "A C C B B") == ["w0 a0 b3"]
    assert found(f"{AB} WINDOW EVERY 1 EVENTS CLOSE AFTER 2 EVENTS", "A A B") == ["w1 a1 b2"]
    assert found(f"{AB} WINDOW OPEN ON A o CLOSE AFTER 2 EVENTS", "A C B") == []


def test_windows_by_time() -> None:
    text = f"{AB} WINDOW EVERY 5ns CLOSE AFTER 4ns"
    # Opened by the first event of each slide; none opens in an empty one.
    assert found(text, "A@1 B@4 A@4 B@6 A@20 B@24") == ["w0 a0 b1", "w4 a4 b5"]
    assert found(text, "A@-1 B@0 A@0 B@4") == ["w0 a0 b1", "w1 a2 b3"]
    assert found(text, "A@4 A@4 B@8 B@9") == ["w0 a0 b2", "w0 a1 b2"]


def test_a_window_that_an_event_closes() -> None:
    clause = "WINDOW OPEN ON A o CLOSE ON C c WHERE c.k = o.k"
    stream = "A(k=1) A(k=2) C(k=2) B C(k=1) B"
    assert found(f"{AB} {clause}", stream) == ["w0 a0 b3", "w0 a1 b3"]
    # The closing event is in it.
    assert found(f"SEQ(A a, C x) {clause}", stream) == [
        "w0 a0 x2", "w0 a1 x2", "w1 a1 x2", "w0 a0 x4", "w0 a1 x4",
    ]  # fmt: skip


def test_an_event_does_not_close_its_own_window() -> None:
    text = "SEQ(A a, A b) WINDOW OPEN ON A o CLOSE ON (A|B) c"
    assert found(text, "A A A") == ["w0 a0 b1", "w1 a1 b2"]


def test_a_window_without_its_closing_event_stays_open() -> None:
    assert found(f"{AB} WINDOW OPEN ON A o CLOSE ON C c", "A@0 B@999") == ["w0 a0 b1"]


def test_windows_do_not_mind_partitions() -> None:
    text = f"{AB} WINDOW OPEN ON A o CLOSE AFTER 9ns PARTITION BY k"
    assert found(text, "A(k=1) A(k=2) B(k=2)") == ["w0 a1 b2", "w1 a1 b2"]


def test_leading_negation_counts_from_the_opening_event() -> None:
    text = "SEQ(NEG C n, A a, B b) WINDOW OPEN ON (C|D) o CLOSE AFTER 9ns"
    assert found(text.replace("(C|D)", "D"), "C D A B") == ["w1 a2 b3"]
    assert found(text, "D C A B") == []
    assert found(text, "C A B") == []
    # Judged as soon as its right neighbour is bound and what its conditions mention.
    text = "SEQ(NEG C n, A a, B b) WHERE n.v = b.v WINDOW OPEN ON D o CLOSE AFTER 9ns STRATEGY skip_till_next"
    assert found(text, "D C(v=1) A B(v=1) B") == ["w0 a2 b4"]


def test_trailing_negation_counts_to_the_end() -> None:
    text = "SEQ(A a, NEG C n) WINDOW OPEN ON A o CLOSE AFTER 5ns"
    assert found_at(text, "A@0 B@2") == ["w0 a0 @@5"]
    assert found_at(text, "A@0 C@5") == []
    assert found_at(text, "A@0 C@6") == ["w0 a0 @@5"]


@pytest.mark.parametrize("closing", ["AFTER 3 EVENTS", "ON D c"])
def test_a_window_that_ends_with_an_event_decides_with_it(closing: str) -> None:
    query = parse(f"PATTERN SEQ(A a, NEG C n) WINDOW OPEN ON A o CLOSE {closing}", SCHEMA)
    (match,) = naive.find_matches(query, harness.stream(SCHEMA, "A@0 B@1 D@3 B@4"))
    assert (match.detected_at, match.last, match.deferred, match.window_id) == (3, 2, False, 0)
    text = f"SEQ(A a, NEG C n) WINDOW OPEN ON A o CLOSE {closing}"
    assert found_at(text, "A@0 C@1 D@3") == []
    assert found_at(text, "A@0 B@1") == ["w0 a0 @@1"]  # ends with the stream


def test_limit() -> None:
    text = f"{AB} WINDOW OPEN ON A o CLOSE AFTER 9ns"
    assert found(f"{text} LIMIT 1 PER WINDOW", "A A B B") == ["w0 a0 b2", "w1 a1 b2"]
    assert found(f"{text} LIMIT 3 PER WINDOW", "A A B B") == [
        "w0 a0 b2", "w0 a1 b2", "w1 a1 b2", "w0 a0 b3", "w1 a1 b3",
    ]  # fmt: skip
    assert found(f"{text} SELECT last LIMIT 1 PER WINDOW", "A A B") == ["w0 a1 b2", "w1 a1 b2"]
    text = "SEQ(A a, NEG C n) WINDOW EVERY 9 EVENTS CLOSE AFTER 5ns LIMIT 1 PER WINDOW"
    assert found_at(text, "A@0 A@1") == ["w0 a0 @@5"]


def test_policies_are_for_each_window() -> None:
    text = f"{AB} WINDOW OPEN ON A o CLOSE AFTER 9ns"
    assert found(f"{text} SELECT first CONSUME consumed", "A A B B") == ["w0 a0 b2", "w1 a1 b2", "w0 a1 b3"]
    assert found(f"{text} AFTER MATCH SKIP PAST LAST", "A A B B") == ["w0 a0 b2", "w1 a1 b2"]


def test_policies_are_for_each_partition() -> None:
    skip = f"{AB} WITHIN 9ns PARTITION BY k AFTER MATCH SKIP PAST LAST"
    assert found(skip, "A(k=1) A(k=2) B(k=1) B(k=2) B(k=1)") == ["a0 b2", "a1 b3"]
    assert found(skip, "A(k=1) A B(k=1) B") == ["a0 b2"]  # a null is in no partition
    assert found(skip.replace("BY k", "BY k, s"), "A(k=1,s='x') A(k=1,s='y') B(k=1,s='x') B(k=1,s='y')") == [
        "a0 b2", "a1 b3",
    ]  # fmt: skip
    same = skip.replace("WITHIN 9ns PARTITION BY k", "WHERE [k] WITHIN 9ns")
    assert found(same, "A(k=1) A(k=2) B(k=1) B(k=2)") == ["a0 b2"]  # a condition makes no partitions
    text = "WINDOW EVERY 9 EVENTS CLOSE AFTER 9 EVENTS PARTITION BY k LIMIT 1 PER WINDOW"
    assert found(f"{AB} {text}", "A(k=1) B(k=1) A(k=2) B(k=1) B(k=2)") == ["w0 a0 b1", "w0 a2 b4"]
    assert found(f"SEQ(A a, NEG C n) {text}", "A(k=1) A(k=1) A(k=2) A(k=3) C(k=3)") == ["w0 a0", "w0 a2"]


# ----------------------------------------------------------------------- timed out


def late(text: str, events: str) -> list[str]:
    """Return the partial matches that time out: bindings, time, and variables they wait for."""
    query = parse(f"PATTERN {text}", SCHEMA)
    return [
        f"{show(query, one.bindings)} @{one.timed_out_at} {one.bound} for {','.join(one.waits_for)}"
        for one in naive.timed_out(query, harness.stream(SCHEMA, events))
    ]


def test_what_times_out() -> None:
    text, events = "SEQ(A a, B b, C c) WITHIN 5ns", "A@0 B@1 D@9"
    assert late(text, events) == ["a0 b- c- @5 1 for b", "a0 b1 c- @5 2 for c"]
    assert late(f"{text} STRATEGY skip_till_next", events) == ["a0 b1 c- @5 2 for c"]
    assert late(f"{text} STRATEGY strict_contiguity", events) == ["a0 b1 c- @5 2 for c"]
    assert late(f"{text} STRATEGY strict_contiguity", "A@0 B@1 D@2 D@9") == []  # nothing could come any more
    assert late("SEQ(A a, NEXT B b) WITHIN 5ns", "A@0 D@2 D@9") == []


def test_a_match_does_not_time_out() -> None:
    assert late("SEQ(A a, B+ b[]) WITHIN 5ns", "A@0 B@1 D@9") == ["a0 b[] @5 1 for b"]
    assert late("SEQ(A a, B? b, C? c) WITHIN 5ns", "A@0 D@9") == []


def test_when_it_times_out() -> None:
    assert late(f"{AB} WITHIN 2 EVENTS", "A@0 D@4 D@6 A@9") == ["a0 b- @6 1 for b", "a3 b- @9 1 for b"]
    opened = f"{AB} WINDOW OPEN ON A o"
    assert late(f"{opened} CLOSE AFTER 9ns", "A@0 D@4") == ["a0 b- @9 1 for b"]
    assert late(f"{opened} CLOSE AFTER 2 EVENTS", "A@0 D@4 D@6") == ["a0 b- @4 1 for b"]
    assert late(f"{opened} CLOSE ON C c", "A@0 C@4 D@6") == ["a0 b- @4 1 for b"]


def test_what_is_dropped_does_not_time_out() -> None:
    text = "SEQ(A a, B b, C c) WITHIN 5ns"
    assert late(f"{text} CONSUME consumed", "A@0 B@1 C@2") == []
    assert late(f"{text} AFTER MATCH SKIP TO NEXT", "A@0 A@0 B@1 C@2") == []
    assert late(f"{AB} WINDOW OPEN ON A o CLOSE AFTER 5ns LIMIT 1 PER WINDOW", "A@0 A@0 B@1") == []
    text = f"{AB} WINDOW EVERY 9 EVENTS CLOSE AFTER 5ns PARTITION BY k LIMIT 1 PER WINDOW"
    assert late(text, "A(k=1)@0 A(k=2)@0 B(k=1)@1 A(k=1)@2") == ["a1 b- @5 1 for b"]


def test_what_it_waits_for() -> None:
    assert late("SEQ(A a, B? b, OR(C c, D d)) WITHIN 5ns", "A@0") == ["a0 b- c- d- @5 1 for b,c,d"]
