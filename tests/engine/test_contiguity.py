"""Contiguity of strategies, ``NEXT`` and ``CONSECUTIVE``: cases worked by hand, and the state that the engine keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import harness
from support.worked import show

import fastcep as fc
from fastcep.errors import MemoryLimitError
from fastcep.query import ast

# Z has no k, and the k of Y is no integer: neither is in a partition by k.
SCHEMA = fc.Schema(
    {name: {"k": "int64", "v": "int64", "s": "string", "f": "float64"} for name in "ABCX"}
    | {"Y": {"k": "string"}, "Z": {"v": "int64"}},
    time="ts",
    type="type",
    sources={"Y": {"k": "text"}},
)
STRICT = "STRATEGY strict_contiguity"
PARTITION = "PARTITION BY k STRATEGY partition_contiguity"


def parse(text: str) -> ast.Query:
    return fc.parse(f"PATTERN {text}", SCHEMA)


def check(text: str, events: str, *expected: str) -> None:
    """Return the engine's matches; they must not depend on batch boundaries."""
    query = parse(text)
    for sizes in (None, [1], [2, 3]):
        found = [show(query, bindings) for bindings in harness.matches(query, None, events, sizes)]
        assert found == list(expected), f"batches of {sizes}"
    assert swept(query, events) == list(expected), "swept after every event"


def swept(query: ast.Query, events: str) -> list[str]:
    """Return the engine's matches if dead state is removed after every event."""
    engine, found = fc.Engine(query), []
    for event in harness.stream(SCHEMA, events):
        found += harness.table_rows(query, harness.send(engine, SCHEMA, event).to_arrow())
        engine.advance(event.time)
    found += harness.table_rows(query, engine.flush().to_arrow())
    return [show(query, row[0]) for row in found]


# ---------------------------------------------------------------------- strict_contiguity


def test_strict_skips_nothing() -> None:
    check(f"SEQ(A a, B b) WITHIN 1h {STRICT}", "A B X A X B A A B", "a0 b1", "a7 b8")


@pytest.mark.parametrize("between", ["X", "Y", "Z", "C", "X(k=1)"])
def test_any_event_of_the_stream_breaks_strict_contiguity(between: str) -> None:
    check(f"SEQ(A a, B b) WITHIN 1h {STRICT}", f"C {between} A {between} B C")


def test_strict_with_a_kleene_variable() -> None:
    check(f"SEQ(A a, B+ b[], C c) WITHIN 1h {STRICT}", "A B B C A B X B C", "a0 b1,2 c3")


def test_strict_with_an_optional_variable() -> None:
    check(f"SEQ(A a, B? b, C c) WITHIN 1h {STRICT}", "A C A B C A B B C A X C", "a0 b- c1", "a2 b3 c4")


def test_strict_with_and_and_or() -> None:
    check(f"AND(A a, B b) WITHIN 1h {STRICT}", "A B A X B", "a0 b1", "a2 b1")
    check(
        f"SEQ(A a, OR(B b, SEQ(C c, B d)), C e) WITHIN 1h {STRICT}",
        "A B C A C B C A C X B C",
        "a0 b1 c- d- e2",
        "a3 b- c4 d5 e6",
    )


def test_strict_with_rounds_and_an_end_in_time() -> None:
    check(
        f"SEQ((SEQ(A a, B b))+ g[], NEG C n) WITHIN 3ns {STRICT}",
        "A@0 B@1 A@2 B@3 X@9 A@10 B@11 C@12 A@20 X@21 B@21",
        "g.a0 g.b1",
        "g.a0,2 g.b1,3",
        "g.a2 g.b3",
    )


def test_strict_matters_not_what_partition_the_event_between_is_of() -> None:
    text = f"SEQ(A a, B b) WITHIN 1h PARTITION BY k {STRICT}"
    check(text, "A(k=1) B(k=2) B(k=1)")
    check(text, "A(k=1) B(k=1) A(k=2) B(k=1)", "a0 b1")


# ------------------------------------------------------------------- partition_contiguity


def test_partitions_are_interleaved() -> None:
    check(
        f"SEQ(A a, B b) WITHIN 1h {PARTITION}",
        "A(k=1) A(k=2) B(k=2) B(k=1) A(k=1) A(k=2) B(k=1) A(k=1) B(k=2)",
        "a1 b2", "a0 b3", "a4 b6", "a5 b8",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("between", "is_between"),
    [("X(k=1)", True), ("C(k=1)", True), ("X(k=2)", False), ("X", False), ("Z(v=1)", False), ("Y(k='1')", False)],
)  # fmt: skip
def test_what_is_in_the_partition(between: str, is_between: bool) -> None:
    """Types that no variable names count; an event with a null, or without the attribute, is in no partition."""
    found = [] if is_between else ["a0 b2"]
    check(f"SEQ(A a, B b) WITHIN 1h {PARTITION}", f"A(k=1) {between} B(k=1)", *found)


def test_a_partition_by_two_attributes_of_other_dtypes() -> None:
    text = "SEQ(A a, B b) WITHIN 1h PARTITION BY s, f STRATEGY partition_contiguity"
    check(text, "A(s='x',f=0.0) X(s='y',f=0.0) X(s='x',f=nan) X(s='x',f=1.0) X(f=0.0) B(s='x',f=-0.0)", "a0 b5")
    check(text, "A(s='x',f=0.0) X(s='x',f=-0.0) B(s='x',f=0.0)")
    check(text, "A(s='x',f=nan) B(s='x',f=nan)")


def test_partition_contiguity_of_a_kleene_variable_and_a_union() -> None:
    check(
        f"SEQ((A|B) a, (B|C)+ b[]) WITHIN 1h {PARTITION}",
        "A(k=1) A(k=2) B(k=1) C(k=2) C(k=1) X(k=1) C(k=1)",
        "a0 b2", "a1 b3", "a2 b4", "a0 b2,4",
    )  # fmt: skip


# ---------------------------------------------------------------------------------- NEXT


def test_next_variable() -> None:
    check("SEQ(A a, NEXT B b, C c) WITHIN 1h", "A B X C A X B C", "a0 b1 c3", "a0 b1 c7")


def test_next_behind_an_optional_variable() -> None:
    """NEXT refers to the last event that is bound."""
    check("SEQ(A a, B? b, NEXT C c) WITHIN 1h", "A B C C A C", "a0 b1 c2", "a4 b- c5")


def test_next_before_an_optional_variable() -> None:
    text = "SEQ(A a, NEXT B? b, C c) WITHIN 1h"
    check(text, "A B C", "a0 b- c2", "a0 b1 c2")
    check(text, "A X B C", "a0 b- c3")


def test_next_without_anything_before_it_asks_for_nothing() -> None:
    check("SEQ(A? a, NEXT B b) WITHIN 1h", "X B A X B A B", "a- b1", "a- b4", "a- b6", "a5 b6")


def test_next_before_a_kleene_variable_is_about_its_first_element() -> None:
    check("SEQ(A a, NEXT B+ b[]) WITHIN 1h", "A B X B", "a0 b1", "a0 b1,3")


def test_next_before_a_group_is_about_its_first_round() -> None:
    check(
        "SEQ(A a, NEXT (SEQ(B b, C c))+ g[]) WITHIN 1h",
        "A B C X B C",
        "a0 g.b1 g.c2", "a0 g.b1 g.c5", "a0 g.b1,4 g.c2,5",
    )  # fmt: skip


def test_next_before_an_optional_group() -> None:
    check("SEQ(A a, NEXT (SEQ(B b, C c))* g[], X x) WITHIN 1h", "A X B C X", "a0 g.b[] g.c[] x1", "a0 g.b[] g.c[] x4")


def test_next_in_a_group_looks_at_its_own_round() -> None:
    check(
        "SEQ(C c, (SEQ(A a, NEXT B b))+ g[]) WITHIN 1h",
        "C A B A X B A B",
        "c0 g.a1 g.b2", "c0 g.a6 g.b7", "c0 g.a1,6 g.b2,7",
    )  # fmt: skip
    check(
        "SEQ(C c, (SEQ(A? a, NEXT B b))+ g[]) WITHIN 1h",
        "C A B X B",
        "c0 g.a- g.b2", "c0 g.a1 g.b2", "c0 g.a- g.b4", "c0 g.a-,- g.b2,4", "c0 g.a1,- g.b2,4",
    )  # fmt: skip


def test_next_in_a_part_of_and_is_about_that_part() -> None:
    check("AND(SEQ(A a, NEXT B b), C c) WITHIN 1h", "A C B A B", "a3 b4 c1")


def test_next_before_parts_of_other_operators() -> None:
    check("SEQ(A a, NEXT AND(B b, C c)) WITHIN 1h", "A C X B A X C B", "a0 b3 c1", "a0 b7 c1")
    check("SEQ(A a, NEXT OR(B b, C c)) WITHIN 1h", "A C X B A B", "a0 b- c1", "a4 b5 c-")
    check(
        "SEQ(A a, NEXT SEQ(B? b, C c), X x) WITHIN 1h",
        "A B X C X A C X",
        "a0 b1 c3 x4", "a0 b1 c3 x7", "a0 b1 c6 x7", "a5 b- c6 x7",
    )  # fmt: skip


def test_next_in_a_partition() -> None:
    events = "A(k=1) A(k=2) B(k=1) X(k=2) Z B(k=2) A(k=2) Z B(k=2)"
    check("SEQ(A a, NEXT B b) WITHIN 1h PARTITION BY k", events, "a0 b2", "a6 b8")
    check("SEQ(A a, NEXT B b) WHERE [k] WITHIN 1h", events)


def test_next_with_a_union_and_a_type_that_stands_twice() -> None:
    check("SEQ((A|B) a, NEXT (A|C) b) WITHIN 1h", "B A A B C", "a0 b1", "a1 b2", "a3 b4")


def test_next_under_strict_contiguity_and_partitions() -> None:
    """In a part of AND it is stricter than the strategy."""
    check(
        f"AND(SEQ(A a, NEXT B b), C c) WITHIN 1h PARTITION BY k {STRICT}",
        "A(k=1) C(k=1) B(k=1) A(k=2) B(k=2) C(k=2) A(k=1) X(k=2) B(k=1) C(k=1)",
        "a3 b4 c5",
    )


# --------------------------------------------------------------------------- CONSECUTIVE


def test_consecutive_elements() -> None:
    """An event that the loop cannot take does not end the match; the loop can be left later."""
    check("SEQ(A a, B+ b[] CONSECUTIVE) WITHIN 1h", "A X B B X B", "a0 b2", "a0 b3", "a0 b2,3", "a0 b5")
    check("SEQ(B{2,3} b[] CONSECUTIVE, C c) WITHIN 1h", "B B X B B C", "b0,1 c5", "b3,4 c5")


def test_consecutive_with_next_before_it() -> None:
    check("SEQ(A a, NEXT B+ b[] CONSECUTIVE, C c) WITHIN 1h", "A B B X B C", "a0 b1 c5", "a0 b1,2 c5")


def test_consecutive_elements_in_a_part_of_and() -> None:
    check("AND(B+ b[] CONSECUTIVE, C c) WITHIN 1h", "B C B B", "b0 c1", "b2 c1", "b3 c1", "b2,3 c1")


def test_consecutive_rounds() -> None:
    """No event lies between two rounds; inside a round there may be some."""
    check(
        "SEQ((SEQ(A a, B b))+ g[] CONSECUTIVE) WITHIN 1h",
        "A X B A B X A B",
        "g.a0 g.b2",
        "g.a0 g.b4", "g.a3 g.b4", "g.a0,3 g.b2,4",
        "g.a0 g.b7", "g.a3 g.b7", "g.a0,3 g.b2,7", "g.a6 g.b7",
    )  # fmt: skip


def test_consecutive_rounds_with_an_optional_end() -> None:
    check(
        "SEQ((SEQ(A a, B? b))+ g[] CONSECUTIVE) WITHIN 1h",
        "A A B X A",
        "g.a0 g.b-",
        "g.a1 g.b-", "g.a0,1 g.b-,-",
        "g.a0 g.b2", "g.a1 g.b2", "g.a0,1 g.b-,2",
        "g.a4 g.b-",
    )  # fmt: skip


def test_consecutive_elements_in_a_partition() -> None:
    check(
        "SEQ(A+ a[] CONSECUTIVE) WHERE a[i].v < a[i+1].v WITHIN 1h PARTITION BY k",
        "A(k=1,v=1) A(k=2,v=1) A(k=1,v=2) X(k=2) A(k=2,v=2) A(k=1,v=2)",
        "a0", "a1", "a2", "a0,2", "a4", "a5",
    )  # fmt: skip


# ------------------------------------------------------------------------ what is kept


def stream(count: int, kinds: str, keys: int, *, start: int = 0) -> dict[str, Any]:
    draw = np.random.default_rng(start)
    return {
        "type": draw.choice(list(kinds), count),
        "ts": np.arange(start, start + count),
        "k": draw.integers(0, keys, count) if keys else np.arange(start, start + count),
        "v": np.zeros(count, np.int64),
    }


PLAIN = fc.Schema({name: {"k": "int64", "v": "int64"} for name in "ABX"}, time="ts", type="type", time_unit="ns")


def plain(text: str, **options: Any) -> fc.Engine:
    return fc.Engine(fc.parse(f"PATTERN {text}", PLAIN), **options)


def test_late_events_take_their_place() -> None:
    for text in (f"SEQ(A a, B b) WITHIN 1h {STRICT}", "SEQ(A a, NEXT B b) WITHIN 1h PARTITION BY k"):
        engine = plain(text, allowed_lateness="5ns")
        events = {"type": list("ABXBAB"), "ts": [0, 9, 5, 13, 12, 2], "k": [1] * 6, "v": [0] * 6}
        found = [engine.process({name: [values[n]] for name, values in events.items()}) for n in range(6)]
        found.append(engine.flush())
        pairs = [(row["a"], row["b"]) for part in found for row in part.to_arrow().to_pylist()]
        assert pairs == [(4, 3)], "B@2 is late, X@5 comes before B@9, A@12 before B@13"


def test_rows_that_an_event_has_cut_off_are_not_visited() -> None:
    engine = plain(f"SEQ(A a, B b) WITHIN 1h {STRICT}")
    engine.process({"type": ["A"] * 1000 + ["B"], "ts": range(1001), "k": [1] * 1001, "v": [1] * 1001})
    assert engine.metrics()["rows_visited"] == engine.metrics()["matches"] == 1


@pytest.mark.parametrize("kinds", ["ABX", "X"])
def test_partitions_are_forgotten_with_the_window(kinds: str) -> None:
    """New keys forever: the window bounds the state, and nothing is left when it has passed."""
    engine = plain(f"SEQ(A a, B b) WITHIN 1us {PARTITION}")
    for number in range(40):
        engine.process(stream(5_000, kinds, 0, start=number * 5_000))
        assert engine.metrics()["memory_bytes"] < 2**21, "200,000 keys would take 16 MiB"
    engine.advance(10**9)
    metrics = engine.metrics()
    assert metrics["keys"] == metrics["live_partial_matches"] == 0


def test_partitions_count_against_the_memory_limit() -> None:
    """The matches until then are right, and the engine continues."""
    text = f"SEQ(A a, B b) WITHIN 1ms {PARTITION}"
    whole, engine = plain(text), plain(text, memory_limit="300kB")
    errors, found, truth = 0, [], []
    for number in range(4):
        data = stream(5_000, "ABXXXXXX", [50, 0, 0, 50][number], start=number * 5_000)
        truth.append(whole.process(data).to_arrow())
        try:
            found.append(engine.process(data).to_arrow())
        except MemoryLimitError as error:
            errors += 1
            assert error.matches is not None
            found.append(error.matches.to_arrow())
        assert engine.metrics()["memory_bytes"] <= 300_000
    assert errors > 0
    for few, every in zip(found, truth, strict=True):
        assert set(map(str, few.to_pylist())) <= set(map(str, every.to_pylist()))
    engine.advance(10**9)
    assert engine.metrics()["keys"] == 0


@pytest.mark.parametrize(
    "text",
    [
        f"SEQ(A a, B b) WITHIN UNBOUNDED {STRICT}",
        f"SEQ(A a, A+ b[], X x, B c) WITHIN UNBOUNDED {PARTITION}",
        "SEQ(A a, NEXT X x, NEXT B b) WITHIN UNBOUNDED PARTITION BY k",
    ],
)
@pytest.mark.filterwarnings("ignore:.*UNBOUNDED")
def test_what_contiguity_has_cut_off_is_forgotten(text: str) -> None:
    """Also without a window."""
    engine = plain(text)
    for number in range(40):
        engine.process(stream(5_000, "AAX", 20, start=number * 5_000))
        assert engine.metrics()["memory_bytes"] < 2**21
    engine.advance(10**9)
    assert engine.metrics()["live_partial_matches"] < 100


def test_text_keys_of_partitions_stay_apart_when_texts_are_forgotten() -> None:
    schema = fc.Schema({name: {"k": "string"} for name in "ABX"}, time="ts", type="type", time_unit="ns")
    engine = fc.Engine(fc.parse(f"PATTERN SEQ(A a, B b) WITHIN 1ms {PARTITION}", schema))
    engine.process({"type": ["A", "A", "X"], "ts": [0, 1, 2], "k": ["one", "two", "two"]})
    for number in range(30):
        names = [f"text {number} {n}" for n in range(3_000)]
        engine.process({"type": ["X"] * 3_000, "ts": [3 + number] * 3_000, "k": names})
    found = engine.process({"type": ["B", "B"], "ts": [50, 50], "k": ["one", "two"]}).to_arrow()
    assert [(row["a"], row["b"]) for row in found.to_pylist()] == [(0, 90_003)]
