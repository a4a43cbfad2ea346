"""Functions of strings in an engine: calls per distinct string, memory, codes that are freed, threads, snapshots."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from reference.user_functions import own_registry
from support import harness, letters

import fastcep as fc

SCHEMA = fc.Schema({"A": {"s": "string", "v": "int64"}, "B": {"s": "string", "v": "int64"}}, time="ts", type="type")


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    with own_registry():
        yield


def stream(words: list[str | None]) -> dict[str, list[object]]:
    n = len(words)
    return {"type": ["A", "B"] * (n // 2), "s": list(words), "v": [1] * n, "ts": list(range(n))}


def pairs(engine: fc.Engine, words: list[str | None]) -> list[tuple[int, int]]:
    return [(row["a"], row["b"]) for row in engine.process(stream(words)).to_arrow().to_pylist()]


@pytest.mark.parametrize("jit", ["0", "1"])
def test_a_function_is_called_once_per_string(monkeypatch: pytest.MonkeyPatch, jit: str) -> None:
    monkeypatch.setenv("FASTCEP_JIT", jit)
    calls: list[str] = []

    @fc.function("string(string)")
    def marked(text: str) -> str | None:
        calls.append(text)
        return None if text == "none" else text + "!"

    query = "PATTERN SEQ(A a, B b) WHERE marked(a.s) = upper(lower(marked(b.s))) WITHIN 1ns"
    engine = fc.Engine(fc.parse(query, SCHEMA))
    words = ["X", "X", "none", "X", "X", "x", None, "X"] * 100
    assert len(pairs(engine, words)) == 200
    assert sorted(calls) == ["X", "X", "none", "x"]  # once for each of the two operations, on the strings it gets


def test_functions_of_several_values_remember_their_results() -> None:
    calls: list[tuple[str, int, float, bool]] = []

    @fc.function("bool(string, int64, float64, bool)")
    def mixed(text: str, number: int, real: float, flag: bool) -> bool:
        assert type(real) is float and type(flag) is bool
        calls.append((text, number, real, flag))
        return len(text) == number

    engine = fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WHERE mixed(a.s, b.v, a.v, a.v = 1) WITHIN 1ns", SCHEMA))
    assert len(pairs(engine, ["q", "x", "long", "x"] * 50)) == 50
    assert sorted(calls) == [("long", 1, 1.0, True), ("q", 1, 1.0, True)]


def test_nested_calls_may_depend_on_more_values_than_one_call_takes() -> None:
    @fc.function("bool(string, string, string, string, string)")
    def same(one: str, two: str, three: str, four: str, five: str) -> bool:
        return one == two == three == four == five

    schema = fc.Schema({"A": {"s": "string", "first": "int64", "count": "int64"}}, time="ts")
    parts = ", ".join(f"substr({x}.s, {x}.first, {x}.count)" for x in "abcd")
    query = f"PATTERN SEQ(A a, A b, A c, A d) WHERE same({parts}, lower(a.s)) WITHIN 1h"
    events = {"s": ["b", "abc", "bc", "aab"], "first": [1, 2, 1, 3], "count": [1] * 4, "ts": [0, 1, 2, 3]}
    assert len(fc.Engine(fc.parse(query, schema)).process(events)) == 1
    assert len(fc.Engine(fc.parse(query, schema)).process(events | {"first": [1, 2, 1, 1]})) == 0


@pytest.mark.parametrize("jit", ["0", "1"])
@pytest.mark.parametrize("condition", ["odd(a.s) = 1", "pair(a.s, b.s) = 1"])
def test_an_exception_gives_null_and_is_counted(monkeypatch: pytest.MonkeyPatch, jit: str, condition: str) -> None:
    monkeypatch.setenv("FASTCEP_JIT", jit)

    @fc.function("int64(string)")
    def odd(text: str) -> int:
        return int(text)

    @fc.function("int64(string, string)")
    def pair(one: str, other: str) -> object:
        return int(one) if one != "3" else "a result of the wrong type"

    engine = fc.Engine(fc.parse(f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 1ns", SCHEMA))
    assert pairs(engine, ["1", "x", "?", "x", "3", "x"]) == [(0, 1)]
    assert engine.metrics()["function_errors"] == (1 if "odd" in condition else 2)


def test_an_unregistered_function_is_named_by_the_engine() -> None:
    @fc.function("bool(string)")
    def gone(text: str) -> bool:
        return True

    query = fc.parse("PATTERN SEQ(A a) WHERE gone(a.s) WITHIN 1ns", SCHEMA)
    gone.unregister()
    with pytest.raises(fc.ValidationError, match="query 'query': function 'gone' is not registered"):
        fc.Engine(query)


def test_a_query_keeps_the_function_it_started_with() -> None:
    @fc.function("bool(string)")
    def chosen(text: str) -> bool:
        return text == "x"

    query = fc.parse("PATTERN SEQ(A a) WHERE chosen(a.s) WITHIN 1ns", SCHEMA)
    engine = fc.Engine(query)

    def other(text: str) -> bool:
        return text == "y"

    fc.function("bool(string)", name="chosen", replace=True)(other)
    engine.add(fc.parse("QUERY later PATTERN SEQ(A a) WHERE chosen(a.s) WITHIN 1ns", SCHEMA))
    found = engine.process(stream(["x", "", "y", "", "y", ""])).to_arrow()
    assert found["query"].to_pylist() == ["query", "later", "later"]


@pytest.mark.thorough
def test_codes_that_are_freed_forget_their_results() -> None:
    query = "PATTERN SEQ(A a, B b) WHERE lower(a.s) = b.s AND a.s LIKE '%7' WITHIN 2ns RETURN a.s"
    engine = letters.engine(query, SCHEMA)
    n, held = 40_000, []
    for number in range(8):
        names = [f"{'N' if k % 2 == 0 else 'n'}{number}-{k // 2 + 3 * number}" for k in range(n)]
        times = [number * n + k for k in range(n)]
        found = engine.process({"type": ["A", "B"] * (n // 2), "s": names, "v": [0] * n, "ts": times})
        assert found.to_arrow()["a.s"].to_pylist() == [name for name in names[::2] if name.endswith("7")]
        held.append(engine.metrics()["strings"])
    assert max(held) < 1 << 18  # of 640,000


def test_results_count_as_memory() -> None:
    plain, derived = (
        fc.Engine(fc.parse(f"PATTERN SEQ(A a) WHERE {condition} WITHIN 1ns", SCHEMA))
        for condition in ("a.v = 0", "length(a.s) = 0 AND a.s < 'a'")
    )
    words = [f"word {number}" for number in range(10_000)]
    for engine in (plain, derived):
        engine.process(stream(list(words)))
    assert derived.metrics()["memory_bytes"] - plain.metrics()["memory_bytes"] > 10_000 * 16


def test_threads_look_up_the_same_results() -> None:
    seen: set[int] = set()

    @fc.function("string(string)")
    def seen_by(text: str) -> str:
        seen.add(threading.get_ident())
        return text[::-1]

    text = "PATTERN SEQ(A a, B b) WHERE seen_by(a.s) = b.s AND a.s <= seen_by(b.s) WITHIN 30ns PARTITION BY v"
    words: list[str | None] = [f"{number % 97}" for number in range(2_000)]
    one, two = (fc.Engine(fc.parse(text, SCHEMA), threads=threads) for threads in (1, 2))
    found = pairs(one, words)
    assert found and found == pairs(two, words)


def test_a_snapshot_keeps_derived_strings() -> None:
    query = fc.parse(
        "PATTERN SEQ(A a, A+ c[], B b) WHERE upper(a.s) = b.s AND c[i].s LIKE lower(a.s) WITHIN 1h "
        "RETURN upper(a.s) AS u",
        SCHEMA,
    )
    engine = fc.Engine(query)
    data = {"type": ["A", "A", "B", "B"], "s": ["x", "x", "Y", "X"], "v": [0] * 4, "ts": [0, 1, 2, 3]}
    first = {name: values[:2] for name, values in data.items()}
    engine.process(first)
    again = fc.Engine.restore(engine.snapshot(), [query])
    again.process({"type": ["A"], "s": ["other"], "v": [0], "ts": [2]})
    found = again.process({name: values[2:] for name, values in data.items()}).to_arrow().to_pylist()
    assert [(row["a"], row["c"], row["b"], row["u"]) for row in found] == [(0, [1], 4, "X")]


def test_explain_shows_the_calls() -> None:
    conditions = "a.s LIKE 'x%' AND lower(a.s) = upper(b.s) AND a.s < b.s"
    text = fc.Engine(fc.parse(f"PATTERN SEQ(A a, B b) WHERE {conditions} WITHIN 1h", SCHEMA)).explain()
    for part in ("a.s LIKE 'x%'", "lower(a.s)", "upper(b.s)", "a.s < b.s"):
        assert part in text


def test_the_builder_has_every_form() -> None:
    from fastcep.query import functions as f

    a, b = SCHEMA.A("a"), SCHEMA.B("b")
    conditions = [
        (a.s.is_null(), "a.s IS NULL"),
        (a.s.like("x%"), "a.s LIKE 'x%'"),
        (f.like(a.s, "x!%", "!"), "a.s LIKE 'x!%' ESCAPE '!'"),
        (f.coalesce(a.v, b.v, 1) > 1, "coalesce(a.v, b.v, 1) > 1"),
        (f.case((a.v > 1, "x"), otherwise=b.s) == "y", "CASE WHEN a.v > 1 THEN 'x' ELSE b.s END = 'y'"),
        (f.lower(a.s) == f.upper(b.s), "lower(a.s) = upper(b.s)"),
        (f.substr(a.s, 2) == f.substr(b.s, 1, 3), "substr(a.s, 2) = substr(b.s, 1, 3)"),
        (f.length(a.s) > 2, "length(a.s) > 2"),
        (f.starts_with(a.s, b.s), "starts_with(a.s, b.s)"),
        (f.ends_with(a.s, "x"), "ends_with(a.s, 'x')"),
        (f.contains(a.s, "x"), "contains(a.s, 'x')"),
        (a.s < b.s, "a.s < b.s"),
    ]
    for condition, text in conditions:
        query = fc.seq(a, b).where(condition).within("1h").build()
        assert f"WHERE {text}\n" in fc.to_text(query)
        assert fc.parse(fc.to_text(query), SCHEMA) == query
    with pytest.raises(fc.ValidationError, match="case needs pairs"):
        f.case(a.v > 1)


def test_a_choice_may_have_many_values() -> None:
    branches = " ".join(f"WHEN a.v = {number} THEN {number % 7}" for number in range(200))
    for choice in (f"CASE {branches} END", f"CASE a.v {branches.replace('a.v = ', '')} ELSE -1 END"):
        engine = fc.Engine(fc.parse(f"PATTERN SEQ(A a) WITHIN 1h RETURN {choice} AS x", SCHEMA))
        found = engine.process({"type": ["A"] * 5, "s": ["x"] * 5, "v": [0, 13, 199, 200, None], "ts": [0, 1, 2, 3, 4]})
        assert found.to_arrow()["x"].to_pylist() == [0, 6, 3, *([None, None] if "ELSE" not in choice else [-1, -1])]
    values = ", ".join(f"CASE WHEN a.v > {number} THEN {number} END" for number in range(99, 0, -1))
    engine = fc.Engine(fc.parse(f"PATTERN SEQ(A a) WITHIN 1h RETURN coalesce({values}, -1) AS x", SCHEMA))
    found = engine.process({"type": ["A"] * 4, "s": ["x"] * 4, "v": [5, 100, 0, None], "ts": [0, 1, 2, 3]})
    assert found.to_arrow()["x"].to_pylist() == [4, 99, -1, -1]


def test_null_is_not_absent() -> None:
    query = "PATTERN SEQ(A a, B? b) WHERE b.v IS NULL WITHIN 1ns"
    assert harness.matches(query, SCHEMA, "A(v=1) B(v=2)") == [{"a": 0, "b": None}]
