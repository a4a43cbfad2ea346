"""`Engine.restore` with other queries than those of the snapshot: a changed deployment."""

from __future__ import annotations

import random
from typing import Any

import pytest

import fastcep as fc

SCHEMA = fc.Schema({kind: {"k": "int64"} for kind in "ABC"}, type="type")


def query(name: str, text: str, window: str = "60ns") -> fc.Query:
    return fc.parse(f"PATTERN {text} WITHIN {window}", SCHEMA, name=name)


PAIRS = query("pairs", "SEQ(A a, B b)")
KEYED = query("keyed", "SEQ(B a, C b) WHERE [k]")
WAITING = query("waiting", "SEQ(A a, NEG B b)", "12ns")


def stream(seed: int, events: int = 80) -> list[tuple[str, int, int]]:
    draw = random.Random(seed)
    return [(draw.choice("ABC"), draw.randrange(3), 4 * n) for n in range(events)]


def sent(engine: fc.Engine, events: list[tuple[str, int, int]]) -> list[dict[str, Any]]:
    return [row for kind, k, ts in events for row in engine.send(kind, k=k, ts=ts).to_dicts()]


def of(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["query"] in names]


@pytest.mark.parametrize("options", [{}, {"store": "rows"}, {"allowed_lateness": "8ns"}, {"timed_out": True}])
@pytest.mark.parametrize("seed", range(3))
def test_the_state_of_equal_queries_is_kept(options: dict[str, Any], seed: int) -> None:
    events, cut = stream(seed), 30 + seed
    old, whole = (fc.Engine([PAIRS, KEYED, WAITING], **options) for _ in range(2))
    sent(old, events[:cut]), sent(whole, events[:cut])
    changed = query("keyed", "SEQ(B a, C b)")
    new = query("new", "SEQ(C a, A b)")
    engine = fc.Engine.restore(old.snapshot(), [new, WAITING, changed, PAIRS], on_change="replace")
    assert list(engine.process({"type": ["A"][:0], "k": [], "ts": []}).counts()) == ["new", "waiting", "keyed", "pairs"]
    found = sent(engine, events[cut:]) + engine.flush().to_dicts()
    expected = sent(whole, events[cut:]) + whole.flush().to_dicts()
    assert of(expected, "pairs") and of(expected, "waiting")
    for name in ("pairs", "waiting"):
        assert of(found, name) == of(expected, name)
    first = cut - 2 if "allowed_lateness" in options else cut  # new queries get the events that are held back
    fresh = fc.Engine([new, changed])
    begun = sent(fresh, events[first:]) + fresh.flush().to_dicts()
    for name in ("new", "keyed"):
        expected = [row | {"a": row["a"] + first, "b": row["b"] + first} for row in of(begun, name)]
        assert of(found, name) == expected and expected


@pytest.mark.parametrize("on_change", ["error", "replace"])
def test_another_order(on_change: str) -> None:
    events = stream(7)
    old, whole = fc.Engine([PAIRS, KEYED]), fc.Engine([KEYED, PAIRS])
    sent(old, events[:40]), sent(whole, events[:40])
    engine = fc.Engine.restore(old.snapshot(), [KEYED, PAIRS], on_change=on_change)
    assert sent(engine, events[40:]) == sent(whole, events[40:])
    assert list(engine.metrics()["queries"]) == ["keyed", "pairs"]
    again = fc.Engine.restore(engine.snapshot())
    assert list(again.metrics()["queries"]) == ["keyed", "pairs"]


def test_errors_name_the_change_and_the_remedy() -> None:
    data = fc.Engine([PAIRS, KEYED]).snapshot()
    for queries in ([PAIRS], [PAIRS, query("keyed", "SEQ(B a, C b)")], [PAIRS, KEYED, WAITING]):
        with pytest.raises(fc.SnapshotError, match=r"of other queries.*on_change='replace'"):
            fc.Engine.restore(data, queries)
    schema = fc.Schema({"A": {"k": "int64"}})
    with pytest.raises(fc.SnapshotError, match="another schema"):
        fc.Engine.restore(data, fc.parse("PATTERN SEQ(A a) WITHIN 1ns", schema, name="pairs"), on_change="replace")
    with pytest.raises(fc.ValidationError, match="found on_change='drop', expected 'error' or 'replace'"):
        fc.Engine.restore(data, [PAIRS], on_change="drop")
    with pytest.raises(fc.ValidationError, match="two queries are named 'pairs'"):
        fc.Engine.restore(data, [PAIRS, PAIRS], on_change="replace")


def test_all_queries_can_change() -> None:
    old = fc.Engine(PAIRS)
    old.send("A", ts=1, k=1)
    engine = fc.Engine.restore(old.snapshot(), [KEYED], on_change="replace")
    assert len(engine.send("B", ts=2, k=1)) == 0 and len(engine.send("C", ts=3, k=1)) == 1
    assert engine.metrics()["events"] == 3


def test_a_warning_for_a_new_query() -> None:
    data = fc.Engine(PAIRS).snapshot()
    unbounded = fc.parse("PATTERN SEQ(A a) WITHIN UNBOUNDED", SCHEMA, name="u")
    with pytest.warns(UserWarning, match="'u' is WITHIN UNBOUNDED"):
        fc.Engine.restore(data, [PAIRS, unbounded], on_change="replace")


def test_shedders() -> None:
    events = stream(3)
    old = fc.Engine([PAIRS, KEYED], latency_bound="1s", shedder="ri", clock="virtual")
    sent(old, events[:40])
    engine = fc.Engine.restore(old.snapshot(), [WAITING, PAIRS], on_change="replace", shedder="ri")
    sent(engine, events[40:])
    assert list(engine.metrics()["queries"]) == ["waiting", "pairs"]
