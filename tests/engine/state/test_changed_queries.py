"""`Engine.restore` with other queries than those of the snapshot: a changed deployment."""

from __future__ import annotations

import random
from typing import Any

import pytest
from reference.user_functions import own_registry

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


@pytest.mark.sample(4)
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
    for on_change in ("error", "replace"):
        other = fc.parse("PATTERN SEQ(A a) WITHIN 1ns", schema, name="pairs")
        with pytest.raises(fc.SnapshotError, match="another schema") as raised:
            fc.Engine.restore(data, other, on_change=on_change)
        assert "on_change" not in str(raised.value)
    with pytest.raises(fc.ValidationError, match="found on_change='drop', expected 'error' or 'replace'"):
        fc.Engine.restore(data, [PAIRS], on_change="drop")
    with pytest.raises(fc.SnapshotError, match="two queries are named 'pairs'"):
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


def test_the_error_of_merge_does_not_name_an_option_of_restore() -> None:
    part = fc.Engine(KEYED).extract(range(32))
    other = fc.Engine(query("keyed", "SEQ(B a, C b) WHERE [k]", "9ns"))
    other.extract(range(32))
    with pytest.raises(fc.SnapshotError, match="of other queries") as raised:
        other.merge(part)
    assert "on_change" not in str(raised.value)


CALLING = "SEQ(A a, B b) WHERE {name}(a.k) > 0"


def calls(name: str) -> fc.Query:
    return query("calls", CALLING.format(name=name))


def test_a_function_of_another_signature_changes_the_query() -> None:
    with own_registry():
        fc.function("float64(int64)", name="changing")(lambda k: k * 1.0)
        old = fc.Engine([calls("changing"), PAIRS])
        old.send("A", ts=1, k=1)
        data = old.snapshot()
        assert len(fc.Engine.restore(data, [PAIRS, calls("changing")]).send("B", ts=2, k=1)) == 2
        fc.function("int64(int64)", name="changing", replace=True)(lambda k: k)
        changed = r"function 'changing' is int64\(int64\), and was float64\(int64\) in the engine of the snapshot"
        for queries in (None, [calls("changing"), PAIRS]):
            with pytest.raises(fc.SnapshotError, match=f"{changed}.*on_change='replace'"):
                fc.Engine.restore(data, queries)
        engine = fc.Engine.restore(data, [calls("changing"), PAIRS], on_change="replace")
        assert engine.send("B", ts=2, k=1).counts() == {"calls": 0, "pairs": 1}
        engine.send("A", ts=3, k=1)
        assert engine.send("B", ts=4, k=1).counts() == {"calls": 1, "pairs": 2}
        assert len(fc.Engine.restore(engine.snapshot()).send("B", ts=5, k=1)) == 3  # the new signature is stored


@pytest.mark.thorough
def test_a_function_of_another_signature_in_a_join() -> None:
    text = "SEQ(A a, B b) WHERE joining(a.k) + b.k = 5"
    with own_registry():
        fc.function("float64(int64)", name="joining")(lambda k: k * 1.0)
        data = fc.Engine([query("joins", text), PAIRS]).snapshot()
        fc.function("int64(int64)", name="joining", replace=True)(lambda k: k)
        with pytest.raises(fc.SnapshotError, match=r"'joining' is int64.*and a query joins by it; register it"):
            fc.Engine.restore(data, [query("joins", text), PAIRS], on_change="replace")


def test_a_function_with_other_code_keeps_the_state() -> None:
    with own_registry():
        fc.function("int64(int64)", name="coded")(lambda k: k)
        old = fc.Engine(calls("coded"))
        old.send("A", ts=1, k=1)
        data = old.snapshot()
        fc.function("int64(int64)", name="coded", replace=True)(lambda k: -k)
        engine = fc.Engine.restore(data, calls("coded"), on_change="replace")
        assert len(engine.send("B", ts=2, k=1)) == 1


def test_functions_of_dropped_queries_must_be_registered() -> None:
    with own_registry():
        fc.function("int64(int64)", name="dropped")(lambda k: k)
        data = fc.Engine([calls("dropped"), PAIRS]).snapshot()
        fc.functions()["dropped"].unregister()
        with pytest.raises(fc.SnapshotError, match="dropped"):
            fc.Engine.restore(data, [PAIRS], on_change="replace")


def test_another_weight_is_another_query() -> None:
    old = fc.Engine(PAIRS)
    old.send("A", ts=1, k=1)
    heavy = fc.parse("PATTERN SEQ(A a, B b) WITHIN 60ns WEIGHT 2", SCHEMA, name="pairs")
    engine = fc.Engine.restore(old.snapshot(), heavy, on_change="replace")
    assert len(engine.send("B", ts=2, k=1)) == 0


def test_a_shedder_with_models() -> None:
    kinds, keys, times = zip(*stream(5, 2_000), strict=True)
    history = {"type": list(kinds), "k": list(keys), "ts": list(times)}
    changed = query("keyed", "SEQ(B a, C b) WHERE [k]", "30ns")
    models = {one: fc.fit(one, history) for one in (PAIRS, KEYED, changed)}
    old_models = [models[PAIRS], models[KEYED]]
    options: dict[str, Any] = {"latency_bound": "1s", "clock": "virtual", "shedder": "hybrid"}
    old = fc.Engine([PAIRS, KEYED], **options, model=old_models)
    old.send("A", ts=1, k=1), old.send("B", ts=2, k=1)
    data = old.snapshot()
    for given in (old_models, [models[PAIRS], models[changed]], [*models.values()]):
        with pytest.raises(fc.ValidationError, match=r"queries 'keyed' are new or changed.*set_shedder\(None\), "):
            fc.Engine.restore(data, [PAIRS, changed], shedder="hybrid", model=given, on_change="replace")
    with pytest.raises(fc.ValidationError, match="queries 'waiting' are new or changed"):
        fc.Engine.restore(data, [PAIRS, KEYED, WAITING], shedder="hybrid", model=old_models, on_change="replace")
    engine = fc.Engine.restore(data, [PAIRS], shedder="hybrid", model=old_models, on_change="replace")
    assert list(engine.metrics()["queries"]) == ["pairs"]
    engine = fc.Engine.restore(data, shedder="hybrid", model=old_models)
    engine.set_shedder(None)
    engine.replace("keyed", changed)
    engine.set_shedder("hybrid", model=[models[PAIRS], models[changed]])
    assert engine.send("B", ts=3, k=1).counts() == {"pairs": 1, "keyed": 0}
    assert engine.send("C", ts=4, k=1).counts() == {"pairs": 0, "keyed": 1}
    assert engine.metrics()["shedding"]["shedder"] == "hybrid"
