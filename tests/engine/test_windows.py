"""Explicit windows in a running engine: slices, batches, clocks, late and numbered events, lack of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import harness
from support.waiting import LIMIT_TEXT

import fastcep as fc
from fastcep._core.input.batch import Batch
from fastcep._core.matcher.matcher import Matcher
from fastcep.engine.constant_binding import ConstantBinder
from fastcep.errors import MemoryLimitError
from fastcep.events import EventBatch, StringTable
from fastcep.plan import make_plan

ATTRIBUTES = {"k": "int64", "v": "int64", "s": "string"}
SCHEMA = fc.Schema(dict.fromkeys("ABCD", ATTRIBUTES), type="type")
NUMBERED = fc.Schema(dict.fromkeys("ABCD", ATTRIBUTES), type="type", sequence="n")
LARGEST = 2**63 - 1
PAIR = "SEQ(A a, B b) WHERE a.k = b.k"
TRAILING = "SEQ(A a, NEG C n) WHERE n.k = a.k"
WINDOWS = [
    "EVERY 1000 EVENTS CLOSE AFTER 1500 EVENTS",
    "EVERY 5us CLOSE AFTER 7us",
    "OPEN ON C o WHERE o.v = 1 CLOSE AFTER 900ns",
    "OPEN ON C o WHERE o.v = 1 CLOSE ON D c WHERE c.k = o.k",
    "OPEN ON C o WHERE o.v = 1 CLOSE ON D c WHERE c.v < 20",
]


def parse(text: str, name: str = "q", schema: fc.Schema = SCHEMA) -> fc.Query:
    return fc.parse(f"PATTERN {text}", schema, name=name)


def stream(rows: int, seed: int = 1, start: int = 0, **columns: Any) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    return {
        "type": draw.choice(list("ABCD"), rows, p=[0.02, 0.02, 0.94, 0.02]),
        "k": draw.integers(0, 5, rows),
        "v": draw.integers(0, 60, rows),
        "s": draw.choice(["x", "y"], rows),
        "ts": start + np.arange(rows) * 7,
    } | columns


def batch(types: str | list[str], times: list[int], **columns: Any) -> dict[str, Any]:
    """Return a batch; attributes that are left out are 1 or null."""
    blank = {"k": [1] * len(types), "v": [1] * len(types), "s": pa.nulls(len(types), pa.string())}
    return {"type": list(types), "ts": times} | blank | columns


def part(data: dict[str, Any], first: int, last: int) -> dict[str, Any]:
    return {name: values[first:last] for name, values in data.items()}


def rows(found: fc.Matches, name: str = "q") -> list[dict[str, Any]]:
    table = found.query(name).to_arrow()
    return table.set_column(2, "detected_at", table["detected_at"].cast("int64")).to_pylist()


def run(texts: list[str], data: dict[str, Any], size: int, name: str = "q0") -> list[dict[str, Any]]:
    """Return the matches of the query of this name, in batches of one size and a flush."""
    engine = fc.Engine([parse(text, f"q{n}") for n, text in enumerate(texts)])
    found = []
    for at in range(0, len(data["ts"]), size):
        found += rows(engine.process(part(data, at, at + size)), name)
    return found + rows(engine.flush(), name)


@pytest.mark.sample(4)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("pattern", [PAIR, "SEQ(A a, NEG D n) WHERE n.k = a.k AND n.v = a.v"])
def test_slices_of_a_batch(pattern: str, window: str) -> None:
    """Several queries process a batch slice by slice; windows at the boundaries are as in one piece."""
    data = stream(70_001)
    text = f"{pattern} WINDOW {window}"
    alone = run([text], data, 70_001)
    assert alone
    assert run([text, "SEQ(D d, D e) WITHIN 10ns"], data, 70_001) == alone
    assert run(["SEQ(D d, D e) WITHIN 10ns", text], data, 9_000, "q1") == [row | {"query": "q1"} for row in alone]


@pytest.mark.parametrize("window", [
    f"EVERY {LARGEST} EVENTS CLOSE AFTER {LARGEST} EVENTS",
    f"EVERY 2 EVENTS CLOSE AFTER {LARGEST} EVENTS",
    f"EVERY {LARGEST}ns CLOSE AFTER {LARGEST}ns",
    f"OPEN ON A o CLOSE AFTER {LARGEST}ns",
    "EVERY 1ns CLOSE AFTER 1ns",
])  # fmt: skip
@pytest.mark.parametrize("pattern", ["SEQ(A a, B b)", "SEQ(A a, B b, NEG C n)", "SEQ(NEG C n, A a, B b)"])
def test_ends_of_the_range(pattern: str, window: str) -> None:
    low = -LARGEST - 1
    events = f"A@{low} B@{low} C@{low + 1} A@-3 B@-2 A@-1 B@0 A@1 B@1 C@{LARGEST - 1} A@{LARGEST} B@{LARGEST}"
    query = parse(f"{pattern} WINDOW {window}")
    for sizes in (None, [1], [5]):
        assert harness.matches(query, None, events, sizes) == harness.expected(query, None, events)


def test_many_events_after_a_late_begin() -> None:
    """The end of a window, counted from its start, does not overflow."""
    engine = fc.Engine(parse("SEQ(A a, B b) WITHIN 5ns", "old"))
    engine.process(stream(101))
    engine.add(parse(f"SEQ(A a, B b) WINDOW EVERY 2 EVENTS CLOSE AFTER {LARGEST} EVENTS"))
    found = rows(engine.process(batch(["C", "A", "C", "B"], [10_000] * 4)))
    assert [row["window_id"] for row in found] == [102]


def test_added_query_opens_at_the_stream_s_positions() -> None:
    engine = fc.Engine(parse("SEQ(A a, B b) WITHIN 5ns", "old"))
    engine.process(batch(["C"] * 4, [0] * 4))
    engine.add(parse("SEQ(A a, B b) WINDOW EVERY 3 EVENTS CLOSE AFTER 3 EVENTS"))
    found = rows(engine.process(batch("ABABAB", [1] * 6)))
    assert [(row["window_id"], row["a"], row["b"]) for row in found] == [(6, 6, 7)]


def test_replaced_and_removed_queries() -> None:
    text = f"{TRAILING} WINDOW EVERY 3 EVENTS CLOSE AFTER 100ns"
    events = batch("DAD", [0, 1, 2], k=[1] * 3)
    engine = fc.Engine([parse(text), parse(text, "r")])
    engine.process(events)
    assert [row["a"] for row in rows(engine.remove("r", complete=True), "r")] == [1]
    assert not engine.replace("q", parse(text), complete=False)
    assert not engine.flush()


def test_numbered_events_name_windows() -> None:
    """A window has the sequence number of its first event, with gaps, and whether rows are shared or not."""
    data = batch("CABDAB", [0, 1, 2, 3, 4, 5], k=[1] * 6, v=[1] * 6, n=[3, 10, 11, 40, 41, 77])
    for clause in ("", " SELECT first", " LIMIT 9 PER WINDOW"):
        window = f"SEQ(A a, B b) WHERE b.n > 0 WINDOW OPEN ON (C|D) o CLOSE AFTER 4ns{clause}".replace("b.n", "b.seq")
        engine = fc.Engine(parse(window, schema=NUMBERED))
        found = [(row["window_id"], row["a"], row["b"]) for row in rows(engine.process(data))]
        assert found == ([(3, 10, 11), (40, 41, 77)])


def test_late_events_and_windows() -> None:
    """Events out of order within the allowed lateness: as if in order, except for their numbers."""
    query = parse("SEQ(C a, NEG D n) WHERE n.k = a.k WINDOW OPEN ON D o CLOSE AFTER 40ns")
    data = stream(400, 5)
    order = np.argsort(data["ts"] + np.random.default_rng(2).integers(0, 30, 400), kind="stable")

    def timed(found: list[dict[str, Any]], data: dict[str, Any]) -> list[Any]:
        return sorted((row["detected_at"], data["ts"][row["window_id"]], data["ts"][row["a"]]) for row in found)

    engine = fc.Engine(query, allowed_lateness="40ns")
    found = []
    late = {name: values[order] for name, values in data.items()}
    for at in range(0, 400, 30):
        found += rows(engine.process(part(late, at, at + 30)))
    found += rows(engine.flush())
    inorder = fc.Engine(query)
    wanted = rows(inorder.process(data)) + rows(inorder.flush())
    assert wanted and timed(found, late) == timed(wanted, data)


@pytest.mark.parametrize("clauses", ["", " LIMIT 5 PER WINDOW"])
def test_the_clock_closes_windows(clauses: str) -> None:
    query = parse(f"{TRAILING} WINDOW OPEN ON D o CLOSE AFTER 10ns{clauses}")
    engine = fc.Engine(query)
    empty = engine.metrics()["memory_by_query"]["q"]
    assert not engine.process(batch(["D", "A", "D", "A"], [0, 1, 5, 6], k=[1, 1, 1, 2]))
    assert not engine.advance(10)
    found = rows(engine.advance(11))
    assert [(row["window_id"], row["a"], row["detected_at"]) for row in found] == [(0, 1, 10), (0, 3, 10)]
    assert engine.metrics()["live_partial_matches"] == engine.metrics()["waiting_matches"] == 1
    assert [row["detected_at"] for row in rows(engine.advance(100))] == [15]
    assert engine.metrics()["live_partial_matches"] == 0
    assert engine.metrics()["memory_by_query"]["q"] < empty + 5000


def test_a_broken_stream_decides_nothing_more() -> None:
    query = parse(f"{TRAILING} WINDOW OPEN ON D o CLOSE AFTER 10ns")
    for complete in (True, False):
        engine = fc.Engine(query)
        engine.process(batch(["D", "A", "A"], [0, 1, 5], k=[1, 1, 1]))
        assert len(engine.flush(complete=complete)) == (2 if complete else 0)
        assert engine.metrics()["live_partial_matches"] == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.usefixtures("kernels")
def test_generated_code(window: str) -> None:
    text = f"{PAIR} AND a.v < b.v + 9 WINDOW {window}"
    data = stream(6_000, 3)
    engine = fc.Engine(parse(text, "q0"))
    assert engine.compile(LIMIT_TEXT), engine.metrics()["kernels"]
    assert rows(engine.process(data), "q0") + rows(engine.flush(), "q0") == run([text], data, 6_000)


def test_texts_of_open_windows_stay() -> None:
    """Texts that a closing condition compares with are kept, however many other texts come and go."""
    text = "SEQ(A a, B b) WINDOW OPEN ON C o CLOSE ON D c WHERE c.s = o.s"
    engine = fc.Engine(parse(text))
    engine.process(batch(["C", "A"], [0, 0], s=["first", "x"]))
    for at in range(3):
        texts = [f"{at} {n}" for n in range(70_000)]
        engine.process(batch(["D"] * 70_000, [at + 1] * 70_000, s=texts))
    assert engine.metrics()["strings"] < 140_000
    last = batch(["B", "D", "B"], [9, 9, 9], s=["x", "first", "x"])
    assert [row["b"] for row in rows(engine.process(last))] == [210_002]


@pytest.mark.parametrize("text", [
    "SEQ(A a, B b) WINDOW OPEN ON C o WHERE o.v < 3 CLOSE ON D c WHERE c.k = o.k",
    "SEQ(A a, B b) WINDOW OPEN ON C o WHERE o.v < 3 CLOSE ON D c",
    "SEQ(A a, B b) WINDOW EVERY 50 EVENTS CLOSE AFTER 70 EVENTS SELECT last CONSUME consumed",
    "SEQ(A a, D d) WHERE a.k = d.k WITHIN 1us CONSUME consumed",
    "SEQ(A a, D d) WHERE a.k = d.k WITHIN UNBOUNDED CONSUME consumed",
    "SEQ(A a, D d) WHERE a.k = d.k WITHIN UNBOUNDED AFTER MATCH SKIP PAST LAST",
    "SEQ(A a, D d) WHERE a.k = d.k WITHIN UNBOUNDED STRATEGY skip_till_next",
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_memory_is_bounded(text: str) -> None:
    """Windows that have closed, and partial matches that have ended, leave nothing behind."""
    engine = fc.Engine(parse(text))
    held = []
    for at in range(24):
        data = stream(4_000, at, at * 4_000 * 7)
        data["type"] = np.where(np.arange(4_000) % 3 == 0, "A", np.where(data["type"] == "A", "D", data["type"]))
        engine.process(data)
        held.append(engine.metrics()["memory_by_query"]["q"])
    assert max(held[12:]) <= 1.5 * max(held[:12])
    assert max(held) < 10**6


@pytest.mark.thorough
@pytest.mark.parametrize("size", [7, 4_000])
@pytest.mark.parametrize(("clauses", "stays"), [
    ("", True), (" SELECT first", True), (" STRATEGY skip_till_next", False), (" LIMIT 1 PER WINDOW", False),
])  # fmt: skip
def test_a_window_that_nothing_closes(clauses: str, stays: bool, size: int) -> None:
    """Later windows close normally, and leave nothing behind; what remains belongs to the open window."""
    rounds = 3_000
    engine = fc.Engine(parse(f"{PAIR} WINDOW OPEN ON C o CLOSE ON D c WHERE c.k = o.k{clauses}"))
    n = np.arange(rounds)
    keys = np.stack([n, n, n, np.where(n == 1, -1, n - 1)], axis=1).ravel()
    data = batch("CABD" * rounds, list(range(4 * rounds)), k=keys)
    found, held = [], []
    for at in range(0, 4 * rounds, size):
        found += [(row["window_id"], row["a"], row["b"]) for row in rows(engine.process(part(data, at, at + size)))]
        engine.advance(min(at + size, 4 * rounds) - 1)
        held.append(engine.metrics()["memory_by_query"]["q"])
    open_in = [[one] if "LIMIT" in clauses else sorted({0, max(one - 1, 0), one}) for one in range(rounds)]
    assert found == [(4 * one, 4 * now + 1, 4 * now + 2) for now in range(rounds) for one in open_in[now]]
    assert engine.metrics()["open_windows"] == (0 if "LIMIT" in clauses else 2)
    assert stays or max(held) < 300_000


@pytest.mark.parametrize("clauses", ["STRATEGY skip_till_next", "CONSUME consumed"])
@pytest.mark.filterwarnings("ignore:.*UNBOUNDED")
def test_a_start_that_never_ends(clauses: str) -> None:
    """Later starts come and go, and it keeps its bindings, including elements of its Kleene variable."""
    rounds = 6_000
    engine = fc.Engine(parse(f"SEQ(A+ a[], B b) WITHIN UNBOUNDED PARTITION BY k {clauses}"))
    keys = [-1, -1, *np.repeat(np.arange(rounds), 3), -1]
    data = batch("AA" + "AAB" * rounds + "B", list(range(len(keys))), k=keys)
    found, held = [], []
    for at in range(0, len(keys), 500):
        found += [(row["a"], row["b"]) for row in rows(engine.process(part(data, at, at + 500)))]
        engine.advance(min(at + 500, len(keys)) - 1)
        held.append(engine.metrics()["memory_by_query"]["q"])
    wanted = []
    for first, last in [*((2 + 3 * n, 4 + 3 * n) for n in range(rounds)), (0, len(keys) - 1)]:
        bound = [[first, first + 1], [first + 1], *([[first]] if "CONSUME" in clauses else [])]
        wanted += [(elements, last) for elements in bound]
    assert sorted(found) == sorted(wanted)
    assert max(held) < 300_000


def test_a_limit_holds_after_a_want_of_memory() -> None:
    """Dropped partial matches do not let a window report more than its limit."""
    query = parse("SEQ(A a, B b) WINDOW OPEN ON C o CLOSE ON D c LIMIT 3 PER WINDOW")
    engine = fc.Engine(query, memory_limit=200_000)
    assert len(engine.process(batch(["C", "A", "A", "B"], [0] * 4))) == 2
    with pytest.raises(MemoryLimitError):
        engine.process(batch(["A"] * 12_000, [1] * 12_000))
    assert len(engine.process(batch(["A", "A", "B"], [2] * 3))) == 1


def test_negated_events_that_were_dropped() -> None:
    """A window whose negated events were dropped for lack of memory reports no match that they could kill."""
    query = parse("SEQ(NEG C n, A a, B b) WHERE n.k = a.k WINDOW OPEN ON D o CLOSE ON D c")
    engine = fc.Engine(query, memory_limit=200_000)
    engine.process(batch(["D", "C"], [0] * 2))
    with pytest.raises(MemoryLimitError):
        engine.process(batch(["A"] * 12_000, [1] * 12_000, k=[2] * 12_000))
    assert not engine.process(batch(["A", "B"], [2] * 2))
    assert len(engine.process(batch(["D", "A", "B"], [3] * 3))) == 1


def test_windows_that_open_after_a_want_of_memory() -> None:
    """Windows that open and close in the rest of the batch do so, though its events are not matched."""
    for closing in ("AFTER 1000ns", "AFTER 20000 EVENTS", "ON D c"):
        for clause in ("", " LIMIT 99 PER WINDOW"):
            engine = fc.Engine(parse(f"SEQ(A a, B b) WINDOW OPEN ON C o CLOSE {closing}{clause}"), memory_limit=200_000)
            types = ["C", *["A"] * 12_000, "D", "C", "A"]
            with pytest.raises(MemoryLimitError):
                engine.process(batch(types, [0, *[1] * 12_000, 900, 2000, 2000]))
            found = rows(engine.process(batch(["A", "B"], [2001] * 2)))
            assert {row["window_id"] for row in found} - {0} == {12_002}
            assert (0 in {row["window_id"] for row in found}) == ("EVENTS" in closing)


# ---------------------------------------------------------------- partial matches that time out


def matcher_with_time_outs(text: str) -> tuple[Matcher, StringTable]:
    """Return a matcher that reports which partial matches have timed out."""
    query = parse(text)
    strings = StringTable()
    link = ConstantBinder(strings)
    link.prepare(query)
    return Matcher(make_plan(query, timed_out=True), link), strings


def timed_out_rows(matcher: Matcher) -> list[tuple[int, list[int]]]:
    """Return times, and the events that are bound; every column must have as many entries."""
    values, lengths, timed = matcher.take_timed_out()
    found: list[tuple[int, list[int]]] = [(int(time), []) for time in timed[:, 1]]
    for column, counts in zip(values, lengths, strict=True):
        counts = np.ones(len(timed), np.int64) if counts is None else counts
        assert len(counts) == len(timed) and counts.sum() == len(column)
        pieces = np.split(column, np.cumsum(counts))[:-1]
        for (_, bound), events in zip(found, pieces, strict=True):
            bound += [int(event) for event in events if event >= 0]
    return found


def feed(matcher: Matcher, strings: StringTable, data: dict[str, Any], at: int) -> int:
    events = EventBatch.from_data(SCHEMA, pa.table(data), strings)
    return matcher.process(Batch(events, at), None)


@pytest.mark.parametrize("size", [1, 99])
def test_what_has_timed_out_is_told_before_all_is_skipped(size: int) -> None:
    matcher, strings = matcher_with_time_outs("SEQ(A a, B b, C c) WITHIN 3ns AFTER MATCH SKIP PAST LAST")
    found = []
    for at in range(0, 4, size):
        data = part(batch("AABC", [0, 10, 11, 12]), at, at + size)
        assert feed(matcher, strings, data, at) == len(data["ts"])
        found += timed_out_rows(matcher)
    assert matcher.finish(None) and found + timed_out_rows(matcher) == [(3, [0])]


@pytest.mark.sample(1)
@pytest.mark.parametrize("text", [
    "SEQ(A a, C+ c[], B b) WHERE a.k = c[i].k WITHIN 200ns",
    "SEQ(A a, C+ c[], B b) WHERE a.k = b.k WITHIN 30 EVENTS STRATEGY skip_till_next",
    "SEQ(C c, B+ b[], D d) WHERE c.k = d.k AND c.v = d.v WITHIN 900ns CONSUME consumed",
])  # fmt: skip
def test_what_times_out_when_memory_ends(text: str) -> None:
    """Wherever memory ends, the partial matches returned are true and complete, and the matcher continues."""
    data = stream(600, 4)
    data["type"] = np.where(np.arange(600) % 3, data["type"], "A")
    pieces = [(at, part(data, at, at + 50)) for at in range(0, 600, 50)]

    def run_with(limit: int | None) -> tuple[set[str], int, bool]:
        matcher, strings = matcher_with_time_outs(text)
        if limit is not None:
            matcher.set_limit(matcher.nbytes + limit)
        all_timed_out: list[Any] = []
        whole = True
        for at, piece in pieces:
            whole &= feed(matcher, strings, piece, at) == 50
            matcher.take_output()
            all_timed_out += timed_out_rows(matcher)
        most = matcher.nbytes
        whole &= matcher.finish(None)
        return {str(item) for item in all_timed_out + timed_out_rows(matcher)}, most, whole

    wanted, most, whole = run_with(None)
    assert wanted and whole
    for limit in np.geomspace(2_000, 2 * most, 12):
        found, _, whole = run_with(int(limit))
        assert found == wanted if whole else "consumed" in text or not found - wanted
