"""Several queries in one engine: added, replaced and removed while it runs; shared filters, separate errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.user_functions import own_registry, sample

import fastcep as fc
from fastcep.engine import query_set as several
from fastcep.engine.results.returns import Returns

ATTRIBUTES = {"k": "int64", "v": "int64", "s": "string"}
SCHEMA = fc.Schema(dict.fromkeys("ABC", ATTRIBUTES), type="type")
NUMBERED = fc.Schema(dict.fromkeys("ABC", ATTRIBUTES), type="type", sequence="n")
PAIR = "PATTERN SEQ(A a, B b) WHERE a.k = b.k AND a.v > 1 WITHIN 50ns"
#: One filter of each kind: shared, with built-in attributes, texts, nulls, unions, lists, negation.
TEXTS = [
    PAIR,
    "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND a.v > 1 AND c.v > 1 WITHIN 40ns",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].v > 2 AND a.k = c.k WITHIN 12ns RETURN a.s AS s, SUM(b[].v) AS n",
    "PATTERN SEQ(A a, NEG B n, C c) WHERE n.v > 1 AND n.s = a.s WITHIN 30ns",
    "PATTERN SEQ((A|B) a, (A|B|C) c) WHERE a.s = 'x' AND c.type = 'B' AND a.seq % 2 = 0 AND c.time > 5 WITHIN 9ns",
    "PATTERN SEQ(A+ a[], B b) WHERE a[i].v <= a[i+1].v AND a[i].s != 'y' AND b.v * b.v < 9 WITHIN 8 EVENTS",
    "PATTERN SEQ(A a, B b, NEG C n) WHERE n.k = a.k AND a.v > 1 WITHIN 20ns RETURN b.s AS s, a.time AS t",
    "PATTERN PERIODIC(A a, 7ns, C c) WHERE a.v > 1 AND a.s = 'x' WITHIN 30ns",
    "PATTERN SEQ(A a, A b) WHERE a.v > 1 AND b.v > 1 AND a.v + a.k = b.v + b.k WITHIN 25ns",
]


def query(number: int, name: str | None = None, schema: fc.Schema = SCHEMA) -> fc.Query:
    return fc.parse(TEXTS[number], schema, name=name or f"q{number}")


def stream(rows: int, seed: int = 1, start: int = 0) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    return {
        "type": draw.choice(list("ABC"), rows),
        "k": draw.integers(0, 4, rows),
        "v": draw.choice([None, 0, 1, 2, 3, 4], rows),
        "s": draw.choice([None, "x", "y"], rows),
        "ts": start + np.arange(rows) * 2,
    }


def part(data: dict[str, Any], first: int, last: int) -> dict[str, Any]:
    return {name: values[first:last] for name, values in data.items()}


def rows(found: fc.Matches, name: str) -> list[dict[str, Any]]:
    table = found.query(name).to_arrow()
    return table.set_column(2, "detected_at", table["detected_at"].cast("int64")).to_pylist()


def moved(found: Sequence[dict[str, Any]], by: int) -> list[dict[str, Any]]:
    """Return the matches of an engine that started later: its events have smaller numbers."""

    def number(value: Any) -> Any:
        return None if value is None else [each + by for each in value] if isinstance(value, list) else value + by

    kept = ("query", "window_id", "detected_at", "s", "n", "t")
    return [{key: value if key in kept else number(value) for key, value in row.items()} for row in found]


def names(engine: fc.Engine) -> list[str]:
    return list(engine.metrics()["queries"])


# ------------------------------------------------------------------- shared filters


@pytest.mark.sample(1)
@pytest.mark.parametrize(("size", "events"), [(1, 60), (7, 300), (600, 600)])
def test_each_query_finds_what_it_finds_alone(size: int, events: int) -> None:
    data = stream(events)
    together = fc.Engine([query(number) for number in range(len(TEXTS))])
    alone = [fc.Engine(query(number)) for number in range(len(TEXTS))]
    found = 0
    for first in range(0, events, size):
        batch = part(data, first, first + size)
        matches = together.process(batch)
        for number, engine in enumerate(alone):
            assert rows(matches, f"q{number}") == rows(engine.process(batch), f"q{number}"), TEXTS[number]
        found += len(matches)
    rest = together.flush()
    for number, engine in enumerate(alone):
        assert rows(rest, f"q{number}") == rows(engine.flush(), f"q{number}")
    metrics = together.metrics()
    assert found > events and (events < 600 or all(metrics["matches_by_query"].values()))
    for number, engine in enumerate(alone):
        own, other = metrics["queries"][f"q{number}"], engine.metrics()["queries"][f"q{number}"]
        assert own == other


def test_slices_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    data = stream(700)
    queries = [query(number) for number in range(len(TEXTS))]
    whole = fc.Engine(queries).process(data)
    monkeypatch.setattr(several, "_SLICE", 100)
    sliced = fc.Engine(queries).process(data)
    for number in range(len(TEXTS)):
        assert rows(whole, f"q{number}") == rows(sliced, f"q{number}")


def test_filters_are_shared_and_freed() -> None:
    engine = fc.Engine([query(0), query(1), query(8)])
    filters = engine._stream.queries._filters
    assert len(filters) == 3, "a.v > 1 of all three, once more in q8; all of B; c.v > 1"
    engine.process(stream(100))
    engine.remove("q1")
    assert len(filters) == 2, "what q0 and q8 have"
    engine.remove("q8")
    assert len(filters) == 0 and filters.nbytes == 0, "one alone has its own"
    engine.add(query(1))
    assert len(filters) == 3


def test_errors_of_a_function_are_counted_for_the_query_that_calls_it() -> None:
    data = stream(200)
    with own_registry():
        sample()
        texts = {
            "bad": "PATTERN SEQ(A a, B b) WHERE ratio(1, a.v) > 0 AND b.v > 1 WITHIN 20ns",
            "same": "PATTERN SEQ(A a, C b) WHERE ratio(1, a.v) > 0 AND b.v > 1 WITHIN 20ns",
            "good": "PATTERN SEQ(A a, B b) WHERE a.v > 0 AND b.v > 1 WITHIN 20ns",
        }
        queries = [fc.parse(text, SCHEMA, name=name) for name, text in texts.items()]
        engine = fc.Engine(queries)
        found = engine.process(data)
        metrics = engine.metrics()
        zeros = sum(kind == "A" and value == 0 for kind, value in zip(data["type"], data["v"], strict=True))
        errors = {name: of["function_errors"] for name, of in metrics["queries"].items()}
        assert errors == {"bad": zeros, "same": zeros, "good": 0} and zeros > 2
        assert metrics["function_errors"] == 2 * zeros
        assert moved(rows(found, "bad"), 0) == [row | {"query": "bad"} for row in rows(found, "good")]
        engine.remove("good")
        engine.remove("same")
        engine.process(stream(200, start=1000))
        assert engine.metrics()["queries"]["bad"]["function_errors"] == 2 * zeros, "also without shared filters"


# ---------------------------------------------------------------- while it runs


@settings(deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "replace", "remove", "go"]), st.integers(0, 8), st.integers(0, 30)),
        min_size=3,
        max_size=8,
    ),
    late=st.booleans(),
)
def test_queries_that_come_and_go(steps: list[tuple[str, int, int]], late: bool) -> None:
    """Every query finds the matches of a separate engine that starts when the query is added."""
    count = 20 + sum(count for _, _, count in steps)
    data = stream(count) | {"n": np.arange(count)}
    lateness = "10ns" if late else None  # then a new query sees held events, a separate engine does not

    def alone(which: int, name: str) -> fc.Engine:
        return fc.Engine(query(which, name, NUMBERED), allowed_lateness=lateness)

    engine, own = alone(0, "first"), {"first": alone(0, "first")}
    at = 0

    def check(matches: fc.Matches, others: dict[str, fc.Matches]) -> None:
        assert list(matches.counts()) == list(own) == names(engine)
        for name, found in others.items():
            assert rows(matches, name) == rows(found, name), name

    for number, (step, which, count) in enumerate([("go", 0, 20), *steps]):
        name = f"n{number}"
        chosen = sorted(own)[which % len(own)] if own else None
        if step == "add" and not late:
            engine.add(query(which, name, NUMBERED))
            own[name] = alone(which, name)
        elif step == "replace" and chosen is not None and not late:
            assert len(engine.replace(chosen, query(which, name, NUMBERED))) == 0
            own = {(name if key == chosen else key): kept for key, kept in own.items()}
            own[name] = alone(which, name)
        elif step == "remove" and chosen is not None:
            assert len(engine.remove(chosen)) == 0
            del own[chosen]
        batch = part(data, at, at + count)
        check(engine.process(batch), {key: one.process(batch) for key, one in own.items()})
        at += count
    check(engine.flush(), {key: one.flush() for key, one in own.items()})


def test_held_events_are_seen_by_who_is_there_when_they_are_released() -> None:
    engine = fc.Engine(query(0, "old"), allowed_lateness="10ns")
    engine.process({"type": ["A", "A"], "k": [1, 1], "v": [2, 2], "s": [None, None], "ts": [0, 15]})
    assert engine.metrics()["held_events"] == 1
    engine.add(query(0, "new"))
    engine.remove("old")
    engine.send("B", k=1, ts=16)
    found = engine.flush()
    assert rows(found, "new") == [{"query": "new", "window_id": None, "detected_at": 16, "a": 1, "b": 2}]
    assert engine.metrics()["queries"]["new"]["since"] == 1


def test_matches_that_wait_go_with_their_query_or_are_decided() -> None:
    waiting = "PATTERN SEQ(A a, NEG B n) WHERE n.k = a.k WITHIN 1us"
    for complete, wanted in ((False, 0), (True, 2)):
        engine = fc.Engine([fc.parse(waiting, SCHEMA, name="w"), query(0)])
        data = {"type": list("AAB"), "k": [1, 2, 3], "v": [2, 2, 2], "s": [None] * 3, "ts": [0, 1, 2]}
        assert engine.process(data).counts() == {"w": 0, "q0": 0}
        assert engine.metrics()["waiting_matches"] == 2
        left = engine.replace("w", query(1, "x"), complete=complete)
        assert left.counts() == {"w": wanted}
        assert engine.metrics()["waiting_matches"] == 0 and names(engine) == ["x", "q0"]
        assert engine.flush().counts() == {"x": 0, "q0": 0}


def test_the_ring_keeps_what_is_read_from_then_on() -> None:
    engine = fc.Engine(query(0))
    queries = engine._stream.queries
    batches = [part(stream(300), first, first + 50) for first in range(0, 300, 50)]
    engine.process(batches[0])
    assert queries.ring is None
    engine.add(fc.parse(PAIR + " RETURN b.s AS s", SCHEMA, name="texts"))
    assert queries.ring is not None and queries.ring.columns == {SCHEMA.column_of("A", "s")}
    engine.process(batches[1])
    engine.add(query(2))
    assert len(queries.ring.columns) == 2
    later = fc.Engine(query(2))
    found = [(engine.process(batch), later.process(batch)) for batch in batches[2:4]]
    for matches, alone in found:
        assert rows(matches, "q2") == moved(rows(alone, "q2"), 100)
        assert [row["s"] for row in rows(matches, "texts")] == [
            stream(300)["s"][row["b"]] for row in rows(matches, "texts")
        ]
    assert any(len(alone) for _, alone in found)
    engine.remove("q2")
    assert queries.ring.columns == {SCHEMA.column_of("A", "s")}
    engine.remove("texts")
    assert queries.ring is None


def test_strings_that_only_a_removed_query_names_are_forgotten() -> None:
    engine = fc.Engine(query(0))
    for number in range(50):
        text = f"PATTERN SEQ(A a, B b) WHERE a.s = 'only {number}' WITHIN 1s"
        engine.add(fc.parse(text, SCHEMA, name="texts"))
        found = engine.process({
            "type": ["A", "B"], "k": [0, 0], "v": [0, 0], "s": [f"only {number}", "else"],
            "ts": [10 * number, 10 * number + 1],
        })  # fmt: skip
        assert found.counts()["texts"] == 1
        engine.remove("texts")
        engine._stream.unused.limit = 0
        engine.process(part(stream(1), 0, 0))
    assert engine.metrics()["strings"] <= 1


def test_without_queries_the_stream_goes_on() -> None:
    engine = fc.Engine(query(0))
    data = stream(100)
    engine.process(part(data, 0, 10))
    engine.remove("q0")
    nothing = engine.process(part(data, 10, 40))
    assert len(nothing) == 0 and nothing.counts() == {} and engine.explain() == ""
    assert nothing.to_arrow().column_names == ["query", "window_id", "detected_at"]
    metrics = engine.metrics()
    assert metrics["events"] == 40 and metrics["matches"] == metrics["keys"] == 0
    assert engine.compile("0s")
    with pytest.raises(fc.DataError, match="before"):
        engine.process(part(data, 0, 1))
    engine.add(query(0))
    alone = fc.Engine(query(0))
    assert rows(engine.process(part(data, 40, 100)), "q0") == moved(rows(alone.process(part(data, 40, 100)), "q0"), 40)
    assert engine.metrics()["queries"]["q0"]["since"] == 40


def test_a_query_keeps_its_function_until_it_is_replaced() -> None:
    with own_registry():
        text = "PATTERN SEQ(A a) WHERE above(a.v) WITHIN 1s"
        fc.function("bool(int64)", name="above")(lambda v: v > 1)
        engine = fc.Engine([fc.parse(text, SCHEMA, name="one"), fc.parse(text, SCHEMA, name="two")])
        fc.function("bool(int64)", name="above", replace=True)(lambda v: v > 3)
        engine.replace("two", fc.parse(text, SCHEMA, name="two"))
        data = {"type": ["A"] * 6, "k": [0] * 6, "v": range(6), "s": [None] * 6, "ts": range(6)}
        assert engine.process(data).counts() == {"one": 4, "two": 2}


def test_weights_and_attributes() -> None:
    heavy = fc.parse(PAIR, SCHEMA, name="heavy")
    engine = fc.Engine([query(0)], attributes=True)
    object.__setattr__(heavy, "weight", 2.5)
    engine.add(heavy)
    found = engine.process(stream(50))
    assert found.query("heavy").to_arrow().column_names[3:] == [
        "a", "b", "a.time", "a.k", "a.v", "a.s", "b.time", "b.k", "b.v", "b.s"
    ]  # fmt: skip
    assert {name: of["weight"] for name, of in engine.metrics()["queries"].items()} == {"q0": 1.0, "heavy": 2.5}


# -------------------------------------------------------------------- refusals


def test_refusals_change_nothing() -> None:
    engine = fc.Engine([query(0), query(1)])
    engine.process(stream(30))
    before = engine.metrics()
    with pytest.raises(fc.ValidationError, match="no query named 'q00' in the engine; did you mean 'q0'"):
        engine.remove("q00")
    with pytest.raises(fc.ValidationError, match="no query named 'zzz' in the engine; there is 'q0', 'q1'"):
        engine.replace("zzz", query(2))
    with pytest.raises(fc.ValidationError, match="two queries are named 'q1'"):
        engine.add(query(1))
    with pytest.raises(fc.ValidationError, match="two queries are named 'q1'"):
        engine.replace("q0", query(1))
    with pytest.raises(fc.ValidationError, match="found str, expected a query"):
        engine.add("PATTERN SEQ(A a) WITHIN 1s")  # type: ignore[arg-type]
    with own_registry():
        fc.function("bool(int64)", name="gone")(lambda v: v > 1)
        lost = fc.parse("PATTERN SEQ(A a) WHERE gone(a.v) WITHIN 1s", SCHEMA, name="lost")
    with pytest.raises(fc.ValidationError, match=r"query 'lost'.*gone"):
        engine.replace("q0", lost)
    after = engine.metrics()
    assert {key: of for key, of in after.items() if key != "strings"} == {
        key: of for key, of in before.items() if key != "strings"
    }
    engine.flush()
    with pytest.raises(fc.ValidationError, match="ended by flush"):
        engine.add(query(2))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (fc.Schema(dict.fromkeys("AB", ATTRIBUTES), type="type"), "it has no type 'C'"),
        (fc.Schema(dict.fromkeys("ABCD", ATTRIBUTES), type="type"), "it has a type 'D'"),
        (fc.Schema(dict.fromkeys("CAB", ATTRIBUTES), type="type"), "its types come in the order C, A, B"),
        (fc.Schema({name: ATTRIBUTES | {"v": "float64"} for name in "ABC"}, type="type"),
         "A.v is float64, expected int64"),
        (fc.Schema({name: {"v": "int64", "k": "int64"} for name in "ABC"}, type="type"),
         "A.s is not there, expected string"),
        (fc.Schema({name: {"v": "int64", "k": "int64", "s": "string"} for name in "ABC"}, type="type"),
         "the attributes of A come in the order v, k, s"),
        (fc.Schema(dict.fromkeys("ABC", ATTRIBUTES), type="type", time_unit="ms"),
         "time_unit is 'ms', expected 'ns'"),
        (fc.Schema(dict.fromkeys("ABC", ATTRIBUTES), type="kind"), "type is 'kind', expected 'type'"),
        (fc.Schema(dict.fromkeys("ABC", ATTRIBUTES), type="type", sources={"A": {"v": "w"}}), "sources is"),
    ],
)  # fmt: skip
def test_another_schema(schema: fc.Schema, message: str) -> None:
    engine = fc.Engine(query(0))
    with pytest.raises(fc.ValidationError, match="another schema than 'q0': ") as caught:
        engine.add(fc.parse("PATTERN SEQ(A x, B y) WHERE x.v = y.k WITHIN 1s", schema, name="other"))
    assert message in str(caught.value)


def test_while_another_thread_matches() -> None:
    n = 6_000
    slow = fc.parse("PATTERN SEQ(A a, B b) WHERE a.v * b.v < 0 WITHIN 1s", SCHEMA, name="slow")
    engine = fc.Engine(slow)
    data = {"type": ["A"] * n + ["B"] * n, "k": [0] * 2 * n, "v": [1] * 2 * n, "s": [None] * 2 * n, "ts": range(2 * n)}
    refused = 0
    thread = threading.Thread(target=engine.process, args=(data,))
    thread.start()
    while thread.is_alive():
        try:
            engine.add(query(0, f"n{refused}"))
            break
        except fc.ValidationError as error:
            assert "busy in another thread" in str(error)
            refused += 1
    thread.join()
    assert engine.metrics()["events"] == 2 * n
    assert names(engine)[0] == "slow"


def test_unbounded_warns() -> None:
    engine = fc.Engine(query(0))
    with pytest.warns(UserWarning, match="'forever' is WITHIN UNBOUNDED") as caught:
        engine.add(fc.parse("PATTERN SEQ(A a, B b) WITHIN UNBOUNDED", SCHEMA, name="forever"))
    assert caught[0].filename == __file__


# ---------------------------------------------------------------- each for itself


def test_memory_is_each_query_s_own_and_freed_with_it() -> None:
    large = fc.parse("PATTERN SEQ(A a, B b, C c) WITHIN 1h", SCHEMA, name="large")
    engine = fc.Engine([query(0), large], memory_limit="1MiB")
    alone = fc.Engine(query(0))
    errors = 0
    for number in range(6):
        batch = stream(400, seed=number, start=1000 * number)
        expected = rows(alone.process(batch), "q0")
        try:
            found = engine.process(batch)
        except fc.MemoryLimitError as error:
            errors += 1
            assert [item.query for item in error.over] == ["large"]
            found = error.matches
        assert rows(found, "q0") == expected
        assert engine.metrics()["memory_bytes"] <= 2**20
    assert errors
    before = engine.metrics()["memory_bytes"]
    held = engine.metrics()["memory_by_query"]["large"]
    engine.remove("large")
    assert engine.metrics()["memory_bytes"] <= before - held
    with pytest.raises(fc.ValidationError, match=r"memory_limit='1MiB' is too small"):
        for number in range(100):
            engine.add(query(0, f"more{number}"))
    assert engine.process(stream(10, start=6000)).counts().keys() == set(names(engine))


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let RETURN of the query ``bad`` fail, in a way that no query or data does."""
    columns = Returns.columns

    def fail(self: Returns, bindings: Any) -> dict[str, Any]:
        if self.query.name == "bad" and bindings.n:
            raise ArithmeticError("what nobody expected")
        return columns(self, bindings)

    monkeypatch.setattr(Returns, "columns", fail)
    yield


def test_a_query_that_fails_is_named_and_costs_the_others_nothing(broken: None) -> None:
    bad = fc.parse(PAIR + " RETURN a.v AS v", SCHEMA, name="bad")
    engine, alone = fc.Engine([query(0), bad, query(2)]), fc.Engine([query(0), query(2)])
    batch = stream(100)
    expected = alone.process(batch)
    with pytest.raises(fc.QueryError, match="'bad': ArithmeticError: what nobody expected") as caught:
        engine.process(batch)
    assert set(caught.value.failed) == {"bad"} and isinstance(caught.value.__cause__, ArithmeticError)
    for name in ("q0", "q2"):
        assert rows(caught.value.matches, name) == rows(expected, name) != []
    assert caught.value.matches.counts()["bad"] == 0
    engine.remove("bad")
    batch = stream(100, seed=2, start=300)
    found, expected = engine.process(batch), alone.process(batch)
    for name in ("q0", "q2"):
        assert rows(found, name) == rows(expected, name)
