"""The fast path of batches and single events, and unusual input on the slow path."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.fast_and_slow import SAME, counters, engine, rows

import fastcep as fc
from fastcep.engine.stream import Stream

SCHEMA = fc.Schema(
    {"A": {"k": "int64", "f": "float64", "s": "string", "b": "bool"}, "B": {"k": "int64"}}, type="type", time_unit="us"
)
PAIR = "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 1ms"
EVENT = {"ts": 5, "k": 1, "f": 0.5, "s": "x", "b": True}


# ----------------------------------------------------------------- which way it goes


def pair(**options: Any) -> fc.Engine:
    return fc.Engine(fc.parse(PAIR, SCHEMA), **options)


def columns(**changed: Any) -> dict[str, Any]:
    data = {
        "type": pa.array(["A", "B", "A"]),
        "ts": np.array([1, 2, 3]),
        "k": np.array([1, 1, 2]),
        "f": np.array([0.5, 1.5, float("nan")]),
        "s": pa.array(["x", None, "y"]),
        "b": pa.array([True, False, None]),
    }
    return {**data, **changed}


SHORT = {
    "a dict": columns(),
    "texts in a list": columns(type=["A", "B", "A"]),
    "texts of NumPy": columns(type=np.array(["A", "B", "A"])),
    "chunked columns of one chunk": columns(k=pa.chunked_array([[1, 1, 2]])),
    "a record batch": pa.record_batch({name: pa.array(values) for name, values in columns().items()}),
    "a table": pa.table({name: pa.array(values) for name, values in columns().items()}),
    "small numbers": columns(k=pa.array([1, 1, 2], pa.int8()), f=pa.array([0, 1, 2], pa.float32())),
    "large texts": columns(type=pa.array(["A", "B", "A"], pa.large_string())),
    "timestamps": columns(ts=pa.array([1, 2, 3], pa.timestamp("us", "UTC"))),
    "dictionaries": columns(
        type=pa.array(["A", "B", "A"]).dictionary_encode(), s=pa.array(["x", "y", "x"]).dictionary_encode()
    ),
}


@pytest.mark.parametrize("name", SHORT)
def test_what_is_usual_takes_the_fast_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pair()
    monkeypatch.setattr(Stream, "process", None)  # the slow path starts here
    found = engine.process(SHORT[name]).to_arrow()
    assert found.select(["a", "b"]).to_pylist() == [{"a": 0, "b": 1}]
    assert engine.metrics()["events"] == 3


def sent(engine: fc.Engine, type: str = "A", **values: Any) -> fc.Matches:
    return engine.send(type, **{"ts": 5, **values})


@pytest.mark.parametrize(
    "values", [{}, EVENT, {"k": None, "s": "new"}, {"f": 3}, {"f": np.float64(2), "k": np.int64(1)}, {"b": False}]
)
def test_a_plain_event_takes_the_fast_path(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pair()
    monkeypatch.setattr(fc.Engine, "process", None)
    assert len(sent(engine, **values)) == 0
    assert len(engine.send("B", time=6, k=values.get("k"))) == (values.get("k") is not None)
    assert engine.metrics()["events"] == 2


def test_calls_that_find_nothing_give_one_object() -> None:
    engine = pair()
    data = columns(ts=np.array([1, 2, 2]), k=np.array([4, 5, 6]))
    assert engine.send("A", ts=0, k=1) is engine.send("A", ts=1, k=1) is engine.process(data)


#: Events that are rejected, or whose values the slow path converts.
UNUSUAL: list[dict[str, Any]] = [
    {"k": 1.5}, {"k": True}, {"k": "1"}, {"k": 2**63}, {"k": np.int64(7)}, {"k": np.int32(7)},
    {"f": np.int64(2**53 + 1)}, {"k": [1]}, {"f": "x"}, {"f": True},
    {"f": 2**64}, {"f": 2**80}, {"s": 1}, {"s": b"x"}, {"s": "\ud800"}, {"s": np.str_("x")}, {"b": 1}, {"b": "x"},
    {"b": np.True_}, {"ts": None}, {"ts": 1.0}, {"ts": True}, {"ts": 2**62}, {"ts": -(2**62)}, {"ts": 2**70},
    {"ts": -1}, {"ts": datetime(1970, 1, 1, 1, tzinfo=UTC)}, {"time": 6}, {"other": 1}, {"seq": 1}, {"type": "C"},
    {"type": 1}, {"type": None}, {"type": "B", "k": 1, "f": 1.0},
]  # fmt: skip


@pytest.mark.parametrize("values", UNUSUAL)
def test_an_unusual_event_behaves_as_on_the_slow_path(values: dict[str, Any]) -> None:
    def outcome(fast: bool) -> Any:
        live = engine(fc.parse(PAIR, SCHEMA), fast=fast)
        live.send("A", ts=0, k=7)
        try:
            found: Any = rows(sent(live, **values))
        except Exception as error:
            found = type(error), str(error)
        live.send("B", ts=10**10, k=1)
        return found, counters(live.metrics(), SAME)

    assert outcome(True) == outcome(False)


#: Changes to a batch that send it to the slow path, mostly to be rejected.
CHANGED: list[dict[str, Any]] = [
    {"type": ["A", "C", "A"]}, {"type": ["A", None, "A"]}, {"type": [1, 2, 3]}, {"type": np.array([["A"]] * 3)},
    {"type": pa.array(["A", "B", None])}, {"type": pa.array(["A", "C", "A"]).dictionary_encode()},
    {"type": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["A", None]))},
    {"ts": np.array([1, 3, 2])}, {"ts": np.array([-1, 3, 4])}, {"ts": np.array([1, 2])},
    {"ts": np.array([1.0, 2.0, 3.0])}, {"ts": pa.array([1, None, 2])}, {"ts": np.array([1, 2, 2**62])},
    {"ts": np.array([-(2**62), 2, 3])}, {"ts": pa.array([1, 2, 3], pa.timestamp("us"))},
    {"ts": pa.array([1, 2, 3], pa.date64())}, {"ts": pa.array([1, 2, 3], pa.uint64())},
    {"k": np.array([1.0, 2.0, 3.0])}, {"k": np.arange(6)[::2]}, {"k": np.arange(3).astype(">i8")},
    {"k": [1, None, 2]}, {"k": np.array([[1], [2], [3]])}, {"k": pa.array(["a", "b", "c"])},
    {"k": pa.chunked_array([[1], [2, 3]])}, {"k": 5}, {"k": pa.nulls(3)}, {"k": pa.array([1, None, 3])},
    {"f": np.array([1, 2, 3])}, {"f": pa.array([1, None, 2], pa.int16())}, {"f": pa.array([True, False, True])},
    {"f": pa.array([1, 2, 2**63], pa.uint64())}, {"s": pa.array([1, 2, 3])}, {"s": np.array(["x", "y", "z"])},
    {"s": pa.array(["x", None, "z"]).dictionary_encode()}, {"s": pa.array(["x", "y", "z"], pa.string_view())},
    {"s": pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["x", None]))},
    {"b": np.array([True, False, True])}, {"b": pa.array([1, 0, 1])}, {"more": np.array([1, 2, 3])},
    {"more": np.array([1])}, {1: np.array([1, 2, 3])},
]  # fmt: skip


@pytest.mark.sample(14)
@pytest.mark.parametrize("changed", CHANGED)
def test_an_unusual_batch_behaves_as_on_the_slow_path(changed: dict[Any, Any]) -> None:
    def outcome(fast: bool, data: Any) -> Any:
        live = engine(fc.parse(PAIR + " RETURN a.f AS af, a.s AS text, a.b AS ab, b.k AS bk", SCHEMA), fast=fast)
        live.process(columns())
        live.send("A", ts=3, k=1)
        try:
            found: Any = rows(live.process({name: values for name, values in data.items() if values is not None}))
        except Exception as error:
            found = type(error), str(error)
        live.send("B", ts=10**10, k=1)
        return found, counters(live.metrics(), SAME)

    data = {**columns(ts=np.array([3, 4, 5])), **changed}
    assert outcome(True, data) == outcome(False, data)
    for missing in ("k", "type", "ts"):
        assert outcome(True, {**data, missing: None}) == outcome(False, {**data, missing: None})


def test_columns_of_one_name_and_column_numbers() -> None:
    twice = pa.record_batch([pa.array([1])] * 6 + [pa.array(["A"])], ["ts", "k", "k", "f", "s", "b", "type"])
    with pytest.raises(fc.SchemaError, match="2 columns are called 'k'"):
        pair().process(twice)
    schema = fc.Schema({"A": {"k": "int64"}}, time=1, sources={"A": {"k": 0}}, header=False)
    live = fc.Engine(fc.parse("PATTERN SEQ(A a, A b) WHERE a.k = b.k WITHIN 9ns", schema))
    assert len(live.process(pa.record_batch([pa.array([1, 1]), pa.array([1, 2])], ["x", "y"]))) == 1
    assert len(live.send("A", time=3, k=1)) == 2


def test_schemas_may_change_from_batch_to_batch() -> None:
    live, slow = pair(), engine(fc.parse(PAIR, SCHEMA), fast=False)
    for at in range(40):
        data = columns(ts=np.array([at, at, at]))
        if at % 3 == 0:
            data["k"] = pa.array(data["k"], pa.int32())
        names = sorted(data, key=lambda name: hash((name, at // 4)))
        given = {name: data[name] for name in names}
        batch: Any = pa.record_batch({name: pa.array(values) for name, values in given.items()}) if at % 2 else given
        assert rows(live.process(batch)) == rows(slow.process(batch))


def test_bounds_of_time() -> None:
    schema = fc.Schema({"A": {}}, time_unit="us")
    most = (2**63 - 1) // 1000
    for times in ([-most, most], [-most - 1, 0], [0, most + 1]):
        results = []
        for fast in (True, False):
            live = engine(fc.parse("PATTERN SEQ(A a) WITHIN 1ns", schema), fast=fast)
            try:
                live.process({"ts": np.array(times)})
            except fc.DataError as error:
                results.append(str(error))
            else:
                results.append(str(live.metrics()["watermark"]))
        assert results[0] == results[1]


def test_texts_that_nothing_holds_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastcep.engine.strings._STRINGS", 100)
    query = fc.parse("PATTERN SEQ(A a, A b) WHERE a.s = b.s WITHIN 5us", SCHEMA)
    live = fc.Engine(query)
    for at in range(1000):
        found = live.send("A", ts=at, s=f"text {at // 2}")
        assert len(found) == at % 2
        assert live.metrics()["strings"] <= 220
    for at in range(1000, 1100):
        live.process(columns(type=["A"] * 3, ts=np.array([at] * 3), s=pa.array([f"{at}", f"{at} b", f"{at} c"])))
        assert live.metrics()["strings"] <= 220


@pytest.mark.parametrize(
    "options", [{"memory_limit": "64MiB"}, {"timed_out": True}, {"allowed_lateness": "3us"}], ids=str
)
def test_options_that_need_the_slow_path(options: dict[str, Any]) -> None:
    live = pair(**options)
    assert live._loop.process(columns(), live._stream) is None
    found = [*rows(live.process(columns())), *rows(sent(live, "B", k=2)), *rows(live.flush())]
    assert sum(len(part) for _, part in found) == 2


def test_engines_that_gave_groups_away_take_the_slow_path_until_all_are_back() -> None:
    live, data = pair(), columns(ts=np.array([9, 9, 9]))
    part = live.extract(range(32))
    assert live._loop.process(data, live._stream) is None
    live.merge(part)
    assert live._loop.process(data, live._stream) is not None
    assert len(live.process(data)) == 1 + 2, "and the match found above, which nobody has yet"
    restored = fc.Engine.restore(live.snapshot())
    assert restored._loop.process(data, restored._stream) is not None
    live.flush()
    assert live._loop.process(data, live._stream) is None


def test_queries_that_come_and_go() -> None:
    live, slow = (engine([fc.parse(PAIR, SCHEMA, name="one")], fast=fast) for fast in (True, False))
    results = []
    for side in (live, slow):
        found = [rows(side.process(columns()))]
        side.add(fc.parse(PAIR + " RETURN a.s AS s", SCHEMA, name="two"))
        if side is slow:
            side._loop.is_direct = False
        found += [rows(sent(side, "A", k=3, s="x")), rows(sent(side, "B", k=3)), rows(sent(side, "B", ts=6, k=2))]
        side.remove("one")
        if side is slow:
            side._loop.is_direct = False
        found += [rows(sent(side, "A", ts=7, k=3, s="z")), rows(sent(side, "B", ts=8, k=3))]
        side.remove("two")
        found += [rows(sent(side, "B", ts=9, k=3))]
        results.append((found, counters(side.metrics(), SAME)))
    assert results[0] == results[1]


def test_matches_outlive_the_engine_and_what_comes_later() -> None:
    live = pair()
    live.send("A", ts=1, k=1)
    found = [live.send("B", ts=2 + at, k=1) for at in range(50)]
    del live
    assert [matches.to_arrow()["b"].to_pylist() for matches in found] == [[1 + at] for at in range(50)]
    assert [len(matches) for matches in found] == [1] * 50
    assert found[0].to_arrow() == found[0].to_arrow()


def test_a_call_inside_a_call_is_refused() -> None:
    live = pair()
    with live._stream.exclusive(), pytest.raises(fc.ValidationError, match="one thread at a time"):
        live.process(columns())
    with live._stream.exclusive(), pytest.raises(fc.ValidationError, match="one thread at a time"):
        live.send("A", ts=1, k=1)
    assert len(live.process(columns())) == 1


def test_signature_of_send() -> None:
    assert str(inspect.signature(fc.Engine.send)) == "(self, type, /, **values)"
    assert str(inspect.signature(pair().send)) == "(type, /, **values)"
    assert (fc.Engine.send.__doc__ or "").startswith("Process one event and return")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'type'"):
        pair().send(ts=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes 2 positional arguments"):
        pair().send("A", 1, ts=1)  # type: ignore[call-arg]
    bound, values = pair().send, {"ts": 1, "k": 1}
    assert len(bound("A", ts=1, k=1)) == 0
    assert len(bound("B", **values)) == 1


class Watched(fc.Engine):
    """A subclass of the engine by a user."""

    sent = 0

    def send(self, type: str, /, **values: Any) -> fc.Matches:
        self.sent += 1
        return super().send(type, **values)


def test_a_subclass_may_have_its_own_send() -> None:
    live = Watched(fc.parse(PAIR, SCHEMA))
    assert len(live.send("A", ts=1, k=1)) + len(live.send("B", ts=1, k=1)) == 1
    assert live.sent == 2
