"""Operators in an engine beyond the matches themselves: when they are reported, in what order, and the state kept."""

from __future__ import annotations

from typing import Any

import pytest
from support import harness

import fastcep as fc

SCHEMA = fc.Schema({name: {"k": "int64", "s": "string"} for name in "ABCN"}, time="t", type="type", time_unit="ns")
BOUNDS = 2**63 - 1


def engine(*texts: str, **options: Any) -> fc.Engine:
    return fc.Engine([fc.parse(f"PATTERN {text}", SCHEMA, name=f"q{n}") for n, text in enumerate(texts)], **options)


def events(line: str) -> dict[str, list[Any]]:
    """Return the columns of ``A@3 B@5``; ``A:7@3`` has k = 7."""
    kinds, times, keys = [], [], []
    for word in line.split():
        kind, _, rest = word.partition("@")
        kind, _, key = kind.partition(":")
        kinds.append(kind)
        times.append(int(rest))
        keys.append(int(key) if key else 0)
    return {"type": kinds, "t": times, "k": keys, "s": [None] * len(kinds)}


def shown(found: fc.Matches) -> list[str]:
    """Return matches as ``query@time: bindings``."""
    lines = []
    for row in found.to_arrow().to_pylist():
        bound = {name: value for name, value in row.items() if name not in ("query", "window_id", "detected_at")}
        text = " ".join(f"{name}={value}" for name, value in bound.items() if value is not None)
        lines.append(f"{row['query']}@{row['detected_at'].value}: {text}")
    return lines


NOT_FOLLOWED = "SEQ(A a, NEG N n) WITHIN 5ns"


def test_a_trailing_negation_is_decided_when_time_has_passed() -> None:
    one = engine(NOT_FOLLOWED)
    assert shown(one.process(events("A@0 B@5"))) == [], "an event at 5 may still come"
    assert one.metrics()["waiting_matches"] == 1
    assert shown(one.process(events("B@6"))) == ["q0@5: a=0"]
    assert one.metrics()["waiting_matches"] == one.metrics()["live_partial_matches"] == 0


def test_advance_decides_without_an_event() -> None:
    one = engine(NOT_FOLLOWED)
    one.process(events("A@0 A@2"))
    assert shown(one.advance(5)) == []
    assert shown(one.advance(6)) == ["q0@5: a=0"]
    assert shown(one.advance(100)) == ["q0@7: a=1"]


def test_flush_decides_everything() -> None:
    one = engine(NOT_FOLLOWED, "PERIODIC(A p, 2ns, N m) WITHIN 5ns")
    one.process(events("A@0"))
    assert shown(one.flush()) == ["q1@2: p=0", "q1@4: p=0", "q0@5: a=0"]


def test_an_event_at_the_edge_of_the_window_counts() -> None:
    one = engine(NOT_FOLLOWED)
    assert shown(one.process(events("A@0 N@5 B@9"))) == []
    assert shown(one.process(events("A@10 N@16 B@20"))) == ["q0@15: a=3"]


def test_with_lateness_the_watermark_decides() -> None:
    one = engine(NOT_FOLLOWED, allowed_lateness="3ns")
    assert shown(one.process(events("A@0 B@8"))) == [], "the watermark is 5"
    assert shown(one.process(events("N@5 B@9"))) == [], "the watermark is 6, and N came in time"
    assert shown(one.process(events("A@10 B@18 B@19"))) == ["q0@15: a=4"], "without an event after 15 being taken"
    assert one.metrics()["held_events"] == 2


def test_poll_decides_by_the_largest_time() -> None:
    now = 0
    one = engine(NOT_FOLLOWED, allowed_lateness="100ns", idle_timeout="1s", clock=lambda: now)
    one.process(events("A@0 B@6"))
    now = 2 * 10**9
    assert shown(one.poll()) == ["q0@5: a=0"]


def test_decisions_stand_among_the_matches_of_other_queries_by_time() -> None:
    one = engine("SEQ(A a, NEG N n) WITHIN 5ns", "SEQ(B b) WITHIN 1ns", "PERIODIC(A p, 5ns, N m) WITHIN 10ns")
    found = one.process(events("A@0 B@4 B@5 B@5 B@6 B@20"))
    assert shown(found) == [
        "q1@4: b=1", "q1@5: b=2", "q1@5: b=3", "q0@5: a=0", "q2@5: p=0", "q1@6: b=4", "q2@10: p=0", "q1@20: b=5",
    ]  # fmt: skip


def test_decisions_at_one_time_come_in_birth_order() -> None:
    one = engine("SEQ(A a, B b, NEG N n) WITHIN 5ns")
    assert shown(one.process(events("A@0 A@0 B@1 B@2 C@9"))) == [
        "q0@5: a=0 b=2", "q0@5: a=1 b=2", "q0@5: a=0 b=3", "q0@5: a=1 b=3",
    ]  # fmt: skip


def test_ticks_at_the_end_of_time() -> None:
    one = engine("PERIODIC(A a, 4ns, N n) WITHIN 9ns")
    one.process(events(f"A@{BOUNDS - 5}"))
    assert [line.partition(":")[0] for line in shown(one.flush())] == [f"q0@{BOUNDS - 1}"]
    two = engine(NOT_FOLLOWED)
    two.process(events(f"A@{BOUNDS - 2}"))
    assert shown(two.flush()) == [f"q0@{BOUNDS}: a=0"], "the window ends with the times that there are"


def test_ticks_end_with_the_closing_event() -> None:
    one = engine("PERIODIC(A a, 2ns, N n) WHERE n.k = a.k WITHIN 9ns")
    assert shown(one.process(events("A:1@0 N:2@1 N:1@4 B@20"))) == ["q0@2: a=0"]
    assert one.metrics()["live_partial_matches"] == 0


def test_events_of_negated_variables_go_with_the_oldest_first_event() -> None:
    one = engine("SEQ(A a, NEG N n, B b) WHERE n.k = a.k WITHIN 100ns")
    one.process(events("N@0 N@1"))
    assert one.metrics()["negated_events"] == 0, "no first event is waiting"
    for start in range(0, 2_000_000, 1_000):
        one.process(events(f"A@{start + 10} N@{start + 20} N@{start + 30} B@{start + 40}"))
    assert one.metrics()["negated_events"] < 100_000
    one.advance(3_000_000)
    assert one.metrics()["negated_events"] == one.metrics()["keys"] == 0


def test_a_leading_negation_keeps_its_events_for_the_window() -> None:
    one = engine("SEQ(NEG N n, A a) WITHIN 5ns")
    assert shown(one.process(events("N@0 A@5"))) == []
    assert one.metrics()["negated_events"] == 1
    assert shown(one.process(events("A@6"))) == ["q0@6: a=2"]
    one.advance(7)
    assert one.metrics()["negated_events"] == 0


@pytest.mark.parametrize(("last", "matches"), [("other", 1), ("first", 0)])
def test_texts_that_only_a_waiting_match_holds_are_kept(last: str, matches: int) -> None:
    one = engine("SEQ(A a, NEG N n) WHERE n.s = a.s WITHIN 1000000ns")
    n = 20_000
    for number in range(8):
        kinds = ["A"] + ["B"] * n if number == 0 else ["C"] + ["B"] * n
        times = [number * (n + 1) + row for row in range(n + 1)]
        texts = ["first" if number == 0 else "other", *(f"{number} {row}" for row in range(n))]
        one.process({"type": kinds, "t": times, "k": [1] * (n + 1), "s": texts})
    assert one.metrics()["strings"] < 7 * n, "texts were forgotten meanwhile"
    one.process({"type": ["N"], "t": [8 * (n + 1)], "k": [1], "s": [last]})
    assert len(one.flush()) == matches


def test_the_same_set_of_events_is_found_once() -> None:
    one = engine("ANY(3, A x, A y, A z) WITHIN 100ns")
    assert len(one.process(events("A@0 A@1 A@2 A@3"))) == 4
    assert shown(engine("ANY(2, A x, A y) WHERE x.k < y.k WITHIN 9ns").process(events("A:2@0 A:1@1"))) == [
        "q0@1: x=1 y=0"
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SEQ(A a, (SEQ(A b))+ g[]) WHERE a.k = COUNT(g[]) WITHIN 9ns", "A:1@0 A@1 A@2"),
        (
            "SEQ(OR((SEQ(A a, NEG N n, B b))+ g[], C c), A d) WHERE g[i].n.k = g[last].b.k WITHIN 9ns",
            "C@0 N@1 A@2 B@3 A@4",
        ),
        (
            "SEQ((SEQ(A a, C c))+ g[], (SEQ(B b, NEG N n, A e))+ h[]) WHERE h[i].n.k = g[i-1].a.k WITHIN 9ns",
            "A:1@0 C@1 A@2 C@3 B@4 N:2@5 A@6",
        ),
        (
            "SEQ(B+ b[], (SEQ(A a, NEG N n, C c))+ g[]) WHERE g[i].n.k = b[i-1].k WITHIN 9ns",
            "B:1@0 B:2@1 A@2 N:3@3 C@4 A@5 N:1@6 C@7 A@8 N:2@9 C@9",
        ),
        (
            "SEQ(A a, (OR(SEQ(B b, NEG N n, C c), C d))+ g[], B? e) WHERE g[i].n.k = e.k WITHIN 9ns",
            "A@0 N@1 C@2 B:1@3 N@4 C@5 B@6",
        ),
        ("PERIODIC(ANY(1, A a, A b), 2ns, A n) WHERE n.k = b.k WITHIN 5ns", "A@0 A:1@0"),
        ("AND((ANY(1, A a, B b))+ g[], C c) WHERE SUM(g[].a.k) = 1 WITHIN 9ns", "B@0 C@1 A:1@2 A:2@3"),
    ],
)
def test_found_by_the_properties(text: str, line: str) -> None:
    query = fc.parse(f"PATTERN {text}", SCHEMA, name="q0")
    columns = events(line)
    stream = [
        harness.Event(kind, time, seq, {"k": key, "s": None})
        for seq, (kind, time, key) in enumerate(zip(columns["type"], columns["t"], columns["k"], strict=True))
    ]
    harness.assert_same(query, stream, harness.rows(query, None, stream), text)
