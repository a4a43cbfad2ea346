"""Under ``PARTITION BY`` each partition is a separate stream: policies act inside it.

Property tests compare the engine with the reference matcher; here are cases written by hand, and the memory they need.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support import harness
from support.timed_out import assert_timed_out
from support.worked import SCHEMA, show

import fastcep as fc
from fastcep.errors import ValidationError
from fastcep.plan import make_plan
from fastcep.plan.plan import KeyPlan
from fastcep.plan.slicing import slicing_of

AB = "PATTERN SEQ(A a, B b)"
SKIP = "AFTER MATCH SKIP PAST LAST"
LIMITED = "WINDOW EVERY 9 EVENTS CLOSE AFTER 9 EVENTS PARTITION BY k LIMIT 1 PER WINDOW"


def check(text: str, events: str, *expected: str, schema: fc.Schema = SCHEMA) -> None:
    """Check the matches, also against the reference, for any batch boundaries and any value of ``index``."""
    query = fc.parse(text, schema)
    for sizes in (None, [1], [2, 3]):
        assert [show(query, one) for one in harness.matches(query, None, events, sizes)] == list(expected)
    for index in ("key", "off"):
        found = fc.Engine(query, index=index)
        batches = harness.batches(schema, harness.stream(schema, events), [3])
        tables = [found.process(data).to_arrow() for data in batches]
        rows = harness.table_rows(query, pa.concat_tables([*tables, found.flush().to_arrow()]))
        assert [show(query, row[0]) for row in rows] == list(expected), index
    harness.assert_in_time(query, harness.stream(schema, events), [2])


def test_one_partition_does_not_silence_another() -> None:
    events = "A(k=1) A(k=2) B(k=1) B(k=2) B(k=1)"
    check(f"{AB} WITHIN 9ns PARTITION BY k {SKIP}", events, "a0 b2", "a1 b3")
    check(f"{AB} WHERE [k] WITHIN 9ns {SKIP}", events, "a0 b2")
    check(f"{AB} {LIMITED}", events, "a0 b2", "a1 b3")


def test_several_attributes() -> None:
    events = "A(k=1,s='x') A(k=1,s='y') B(k=1,s='x') B(k=1,s='y')"
    check(f"{AB} WITHIN 9ns PARTITION BY k, s {SKIP}", events, "a0 b2", "a1 b3")
    check(f"{AB} WITHIN 9ns PARTITION BY k {SKIP}", events, "a0 b2")
    check(f"{AB} {LIMITED.replace('BY k', 'BY s, k')}", events, "a0 b2", "a1 b3")


def test_more_words_in_a_key_than_the_partition_has() -> None:
    events = "A(k=1,v=1) A(k=1,v=2) A(k=2,v=1) B(k=1,v=1) B(k=1,v=2) B(k=2,v=1)"
    check(f"{AB} WHERE a.v = b.v WITHIN 9ns PARTITION BY k {SKIP}", events, "a0 b3", "a2 b5")
    check(f"{AB} WITHIN 9ns PARTITION BY k STRATEGY partition_contiguity {SKIP}", events, "a1 b3", "a2 b5")


@pytest.mark.parametrize(
    ("name", "one", "other"), [("s", "'x'", "''"), ("f", "0.0", "1.5"), ("b", "true", "false"), ("k", "-1", "0")]
)
def test_keys_of_every_type(name: str, one: str, other: str) -> None:
    events = " ".join(f"{kind}({name}={value})" for kind in "AB" for value in (one, other)) + " A B"
    for clauses in (f"WITHIN 9ns PARTITION BY {name} {SKIP}", LIMITED.replace("BY k", f"BY {name}")):
        check(f"{AB} {clauses}", events, "a0 b2", "a1 b3")


def test_zeros_are_equal_and_what_is_no_number_is_in_no_partition() -> None:
    events = "A(f=0.0) A(f=nan) A(f=-0.0) B(f=-0.0) B(f=nan) B(f=0.0)"
    check(f"{AB} WITHIN 9ns PARTITION BY f {SKIP}", events, "a0 b3")
    check(f"{AB} {LIMITED.replace('BY k', 'BY f')}", events, "a0 b3")


def test_a_match_of_one_event() -> None:
    events = "A(k=1) A(k=2) A(k=1) B(k=2)"
    check(f"PATTERN OR(A x, SEQ(A a, B b)) WITHIN 9ns PARTITION BY k {SKIP}", events,
          "x0 a- b-", "x1 a- b-", "x2 a- b-")  # fmt: skip
    check(f"PATTERN OR(A x, SEQ(A a, B b)) {LIMITED}", events, "x0 a- b-", "x1 a- b-")


def test_matches_that_wait_for_the_end_of_their_window() -> None:
    check(f"PATTERN SEQ(A a, NEG C n) {LIMITED}", "A(k=1) A(k=1) A(k=2) A(k=3) C(k=3)", "a0", "a2")
    check(f"PATTERN SEQ(A a, B? b, NEG C n) {LIMITED}", "A(k=1) B(k=1) A(k=2)", "a0 b-", "a2 b-")
    two = LIMITED.replace("LIMIT 1", "LIMIT 2")  # the variable of the ANY that binds the event makes no second match
    check(f"PATTERN SEQ(OR(ANY(1, A a, A b), A c), NEG C n) {two}", "A(k=1)", "a0 b- c-", "a- b- c0")


def test_each_window_counts_for_itself() -> None:
    text = f"{AB} WINDOW EVERY 2 EVENTS CLOSE AFTER 6 EVENTS PARTITION BY k LIMIT 1 PER WINDOW"
    query = fc.parse(text, SCHEMA)
    events = harness.stream(SCHEMA, "A(k=1) A(k=2) A(k=1) B(k=1) B(k=1) B(k=2) A(k=2) B(k=2) B(k=1)")
    harness.assert_same(query, events, harness.rows(query, None, events), "two partitions")


def test_what_times_out() -> None:
    query = fc.parse(f"{AB} WINDOW EVERY 9 EVENTS CLOSE AFTER 5ns PARTITION BY k LIMIT 1 PER WINDOW", SCHEMA)
    assert_timed_out(query, harness.stream(SCHEMA, "A(k=1)@0 A(k=2)@0 B(k=1)@1 A(k=1)@2"), [1])
    query = fc.parse(f"PATTERN SEQ(A a, B b, C c) WITHIN 5ns PARTITION BY k {SKIP}", SCHEMA)
    events = "A(k=1)@0 A(k=2)@0 B(k=1)@1 B(k=2)@1 C(k=1)@2 A(k=1)@3 C(k=2)@9 A(k=2)@9"
    assert_timed_out(query, harness.stream(SCHEMA, events), [8])


# ------------------------------------------------------------------------ many keys

TYPES = {name: {"id": "int64", "card": "string", "region": "string"} for name in "ABC"}
CARDS = fc.Schema(TYPES, time="ts", type="type", time_unit="ns", sequence="n")
WINDOW = "WINDOW OPEN ON C w CLOSE AFTER 9us"
CLAUSES = {
    "skip": f"WITHIN 9us PARTITION BY card {SKIP}",
    "two": f"WITHIN 20us PARTITION BY region, card {SKIP}",
    "more words": f"WHERE a.id = b.id WITHIN 9us PARTITION BY card {SKIP}",
    "limit": f"{WINDOW} PARTITION BY card LIMIT 2 PER WINDOW",
    "both": f"{WINDOW} PARTITION BY card, region LIMIT 2 PER WINDOW {SKIP}",
}


def cards(n: int) -> pa.Table:
    """Return events of 12 cards in two regions, some without a region."""
    random = np.random.default_rng(3)
    return pa.table(
        {
            "type": random.choice(["A", "B", "A", "B", "A", "B", "C"], n),
            "ts": np.cumsum(random.integers(0, 200, n)),
            "n": np.arange(n),
            "id": random.integers(0, 3, n),
            "card": random.integers(0, 12, n).astype(str),
            "region": random.choice(["north", "south", None], n),
        }
    )


def query(text: str) -> Any:
    return fc.parse(text, CARDS, name="q")


def rows(tables: list[pa.Table]) -> list[dict[str, Any]]:
    return list(pa.concat_tables(tables).to_pylist())


def found(data: pa.Table, text: str, size: int = 300, **options: Any) -> list[dict[str, Any]]:
    """Return every match, in batches."""
    engine = fc.Engine(query(text), **options)
    tables = [engine.process(data.slice(first, size)).to_arrow() for first in range(0, len(data), size)]
    return rows([*tables, engine.flush().to_arrow()])


def by_events(matches: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((match["window_id"] or 0, *(match[name] for name in "abc" if name in match)) for match in matches)


def partitions(data: pa.Table, names: list[str]) -> list[pa.Table]:
    """Return the events of each partition, with those that open windows."""
    keys = {tuple(row.values()) for row in data.select(names).to_pylist()}
    parts = []
    for key in sorted(key for key in keys if None not in key):
        pairs = zip(names, key, strict=True)
        own = np.all([data[name].to_numpy(zero_copy_only=False) == value for name, value in pairs], axis=0)
        parts.append(data.filter(pa.array(own | (data["type"].to_numpy(zero_copy_only=False) == "C"))))
    return parts


@pytest.mark.parametrize("name", CLAUSES)
def test_each_partition_is_a_stream(name: str) -> None:
    """The matches are those of each partition's events alone, without ``PARTITION BY``."""
    data, text = cards(3000), f"{AB} {CLAUSES[name]}"
    names = list(query(text).partition)
    alone = text.replace(f" PARTITION BY {', '.join(names)}", "")
    parts = [match for part in partitions(data, names) for match in found(part, alone)]
    whole = found(data, text)
    assert len(whole) > 100
    assert by_events(whole) == by_events(parts)


@pytest.mark.thorough
@pytest.mark.parametrize("store", ["auto", "rows", "factorised"])
def test_partition_beside_other_equalities(store: str) -> None:
    """No store ignores the partition where ``WHERE`` has keys of its own."""
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.id = b.id AND b.id = c.id WITHIN 9us"
    data = cards(9000)
    apart = [data.filter(pc.equal(data["region"], region)) for region in ("north", "south")]
    expected = by_events([match for part in apart for match in found(part, text)])
    assert by_events(found(data, f"{text} PARTITION BY region", 5000, store=store)) == expected
    assert 2 * len(expected) < len(found(data, text))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CLAUSES)
def test_threads(name: str) -> None:
    data, text = cards(3000), f"{AB} {CLAUSES[name]}"
    assert found(data, text, threads=3) == found(data, text)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CLAUSES)
def test_state_that_moves(name: str) -> None:
    """Stored and restored, and divided by key groups and joined, in the middle of windows."""
    data, text = cards(3000), f"{AB} {CLAUSES[name]}"
    engine, tables = fc.Engine(query(text)), []
    for number, first in enumerate(range(0, len(data), 100)):
        tables.append(engine.process(data.slice(first, 100)).to_arrow())
        if number % 2:
            engine.merge(engine.extract(range(10, 40)))
        else:
            engine = fc.Engine.restore(engine.snapshot(), threads=1 + number % 3)
    assert rows([*tables, engine.flush().to_arrow()]) == found(data, text)


@pytest.mark.parametrize("name", CLAUSES)
def test_slices(name: str) -> None:
    """The queries are keyed; they cannot be divided by time, and events that open windows have any key."""
    plan = make_plan(query(f"{AB} {CLAUSES[name]}"))
    slicing = slicing_of(plan)
    assert isinstance(plan.key, KeyPlan)
    if "WINDOW" in CLAUSES[name]:
        assert slicing.key == "WINDOW is opened by events of all keys"
    else:
        assert isinstance(slicing.key, KeyPlan)
        reason = "AFTER MATCH SKIP PAST LAST drops partial matches that overlap matches of any earlier time"
        assert slicing.time == reason


def test_a_condition_makes_no_partitions() -> None:
    with pytest.raises(ValidationError, match="AFTER MATCH SKIP PAST LAST drops the partial matches of all keys"):
        fc.Engine(query(f"{AB} WHERE [card] WITHIN 9us {SKIP}"), threads=2)


# -------------------------------------------------------------------------- memory


def test_what_partitions_have_reported_goes_with_the_window() -> None:
    """Cards that never come again, whose texts are freed too, leave nothing behind."""
    engine = fc.Engine(query(f"{AB} WINDOW OPEN ON C w CLOSE AFTER 9us PARTITION BY card LIMIT 1 PER WINDOW"))
    bytes_, strings = [], []
    for turn in range(30):
        names = [str(turn * 3000 + number) for number in range(3000)]
        kinds = ["C", *["A"] * 3000, *["B"] * 3000]
        data = {"type": kinds, "ts": [turn * 10_000] * 6001, "n": range(turn * 6001, turn * 6001 + 6001),
                "id": [0] * 6001, "card": ["", *names, *names], "region": ["north"] * 6001}  # fmt: skip
        assert len(engine.process(pa.table(data))) == 3000
        bytes_.append(engine.metrics()["memory_by_query"]["q"])
        strings.append(engine.metrics()["strings"])
    assert max(bytes_[15:]) <= max(bytes_[:15])
    assert max(strings) < 75_000  # of 90,000


@pytest.mark.thorough
def test_texts_of_partitions_that_have_reported_are_kept() -> None:
    """If its code were reused, another text would be suppressed by the matches of the first one."""
    engine = fc.Engine(query(f"{AB} WINDOW OPEN ON C w CLOSE AFTER 9s PARTITION BY card LIMIT 1 PER WINDOW"))
    n = 0

    def take(kinds: str, card: str) -> int:
        nonlocal n
        n += len(kinds)
        data = {"type": list(kinds), "ts": [n] * len(kinds), "n": range(n - len(kinds), n),
                "id": [0] * len(kinds), "card": [card] * len(kinds), "region": [""] * len(kinds)}  # fmt: skip
        return len(engine.process(pa.table(data)))

    take("C", "")
    for card in range(9000):
        assert take("AB", str(card)) == 1
    assert [take("AB", str(card)) for card in range(0, 9000, 100)] == [0] * 90


def test_what_was_reported_outlives_a_want_of_memory() -> None:
    """Partial matches are dropped, but no partition reports more than its limit."""
    engine = fc.Engine(query(f"{AB} WINDOW OPEN ON C w CLOSE AFTER 9s PARTITION BY card LIMIT 1 PER WINDOW"))
    empty = {"id": [0] * 3, "region": [""] * 3}
    data = pa.table({"type": ["C", "A", "B"], "ts": [1, 1, 1], "n": [0, 1, 2], "card": ["x"] * 3, **empty})
    assert len(engine.process(data)) == 1
    for query_ in engine._stream.queries:
        query_.matcher.drop()
    again = pa.table({"type": ["A", "A", "B"], "ts": [2, 2, 2], "n": [3, 4, 5], "card": ["x"] * 3, **empty})
    assert len(engine.process(again)) == 0
