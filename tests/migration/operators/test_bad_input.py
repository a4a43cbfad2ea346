"""Errors of the operators: wrong options, rows, messages and bases."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastcep as fc
from fastcep.migration.operators import WindowAggregate, WindowJoin
from fastcep.migration.operators.aggregate_assembly import start_aggregate
from fastcep.migration.operators.join_assembly import start_join
from fastcep.migration.operators.wire import StatesOfTable, pack_base, unpack_base
from fastcep.migration.transfer.kinds import cut

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
STARTS = {"aggregate": start_aggregate, "join": start_join}
ROWS = pa.table({"t": [1, 5, 5], "k": ["a", "b", "b"], "v": [3, None, 4]}, schema=SCHEMA)
Operator = WindowAggregate | WindowJoin


def aggregate(**options: Any) -> WindowAggregate:
    defaults: dict[str, Any] = {"time": "t", "keys": ["k"], "window": "10ns", "aggregates": {"sum": ("sum", "v")}}
    return WindowAggregate(options.pop("schema", SCHEMA), **(defaults | options))


def join(**options: Any) -> WindowJoin:
    defaults: dict[str, Any] = {"left": SCHEMA, "right": SCHEMA, "on": ["k"], "window": "10ns", "time": "t"}
    return WindowJoin(**(defaults | options))


def filled(kind: str) -> Operator:
    if kind == "aggregate":
        tested = aggregate()
        tested.process(ROWS)
        return tested
    other = join()
    other.process(ROWS, "left")
    other.process(ROWS, "right")
    return other


KINDS = pytest.mark.parametrize("kind", ["aggregate", "join"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": [("t", "int64")]}, "schema: list; expected a pyarrow.Schema"),
        ({"schema": pa.schema([*SCHEMA, *SCHEMA])}, "schema: a column occurs twice"),
        ({"time": "at"}, r"schema has no column 'at'; its columns are 't', 'k', 'v'"),
        ({"time": "k"}, "time column 'k' has type string; expected a timestamp or int64"),
        ({"keys": "k"}, "keys='k': expected a list of names"),
        (
            {"schema": SCHEMA.set(1, pa.field("k", pa.float64()))},
            "key 'k' has type double; use integers, texts or times",
        ),
        ({"schema": SCHEMA.set(1, pa.field("k", pa.list_(pa.int8())))}, "column 'k' has type list.*; expected numbers"),
        (
            {"schema": SCHEMA.set(2, pa.field("v", pa.string()))},
            "column 'v' has type string; expected integers or floats",
        ),
        ({"window": "0s"}, "window='0s': expected more than 0"),
        ({"window": "soon"}, "window='soon': 'soon' is no duration"),
        ({"window": "1500us", "time_unit": "ms"}, "window='1500us': expected a whole number of ms, the unit of times"),
        ({"window": "260y"}, "window='260y': unknown unit"),
        ({"slide": "11ns"}, "slide='11ns': expected at most the window, and at least a 10,000th of it"),
        ({"window": "1s", "slide": "1us"}, "slide='1us': expected at most the window"),
        ({"time_unit": "min"}, "time_unit='min': expected s, ms, us or ns"),
        ({"aggregates": {}}, "aggregates={}: expected a mapping"),
        ({"aggregates": ["count"]}, r"aggregates=\['count'\]: expected a mapping"),
        ({"aggregates": {"n": "sum"}}, "aggregates: 'n' is 'sum'; expected \"count\", or a pair"),
        ({"aggregates": {"n": ("median", "v")}}, "aggregates: 'n' is .*; expected"),
        ({"aggregates": {"n": ("sum", None)}}, "aggregates: 'n' is .*; expected"),
        ({"aggregates": {"n": ("sum", "w")}}, "schema has no column 'w'"),
        ({"aggregates": {"k": "count"}}, "the output has two columns 'k'; rename one"),
        ({"max_states": 0}, "max_states=0: expected a whole number, at least 1"),
        ({"memory_limit": "much"}, "'much' is no size"),
    ],
)
def test_wrong_aggregates(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        aggregate(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": []}, r"on=\[\]: expected at least one key column"),
        ({"on": "k"}, "on='k': expected a list of names, or a mapping of names"),
        ({"on": {"k": "w"}}, "right: schema has no column 'w'"),
        ({"on": {"k": "v"}}, "on: 'k' has type string on the left, 'v' has type int64 on the right; cast one"),
        (
            {"right": SCHEMA.set(0, pa.field("t", pa.timestamp("ms")))},
            "is in ns on the left, in ms on the right; cast",
        ),
        ({"left": SCHEMA.append(pa.field("w", pa.map_(pa.int8(), pa.int8())))}, "left: column 'w' has type map"),
        ({"window": "0s"}, "window='0s': expected more than 0"),
    ],
)
def test_wrong_joins(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        join(**options)
    with pytest.raises(fc.ValidationError, match="side='middle': expected 'left' or 'right'"):
        join().process(ROWS, "middle")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (ROWS.to_pylist(), fc.ValidationError, "rows: list; expected a pyarrow Table or RecordBatch"),
        (ROWS.drop_columns("k"), fc.SchemaError, "rows have no column 'k'; expected one of type string"),
        (ROWS.append_column("k", ROWS["k"]), fc.SchemaError, "rows have 2 columns 'k'"),
        (ROWS.set_column(2, "v", ROWS["k"]), fc.SchemaError, "column 'v' has type string; expected int64; cast the"),
        (ROWS.set_column(1, "k", pa.array(["a", None, "b"])), fc.DataError, "row 1, column 'k': found null"),
        (ROWS.set_column(0, "t", pa.array([1, 5, None])), fc.DataError, "row 2, column 't': found null"),
        (ROWS.set_column(0, "t", pa.array([1, 5, 2**62])), fc.DataError, "row 2, column 't': .* is out of range"),
        (ROWS.set_column(0, "t", pa.array([-(2**63), 5, 6])), fc.DataError, "row 0, column 't': .* is out of range"),
        (
            ROWS.set_column(0, "t", pa.array([6, 5, 7])), fc.OrderError,
            r"row 1 has time 5, earlier than 6 before \(ns\); sort the rows by time",
        ),
        (ROWS.set_column(0, "t", pa.array([4, 5, 7])), fc.OrderError, "row 0 has time 4, earlier than 5 before"),
    ],
)  # fmt: skip
@KINDS
def test_wrong_rows(kind: str, rows: Any, error: type[Exception], message: str) -> None:
    tested = filled(kind)
    before = tested.metrics()
    with pytest.raises(error, match=message):
        tested.process(rows) if isinstance(tested, WindowAggregate) else tested.process(rows, "left")
    assert tested.metrics() == before


@KINDS
def test_cut_gives_the_partial_states(kind: str) -> None:
    tested = filled(kind)
    states, own = cut(tested), tested.partial_states()
    assert (states.kind, states.position, states.base()) == (kind, tested.position, own.base())
    assert states.states.utility.tolist() == own.states.utility.tolist()


@KINDS
def test_wrong_numbers(kind: str) -> None:
    states = filled(kind).partial_states()
    for numbers, message in (
        ([len(states.states)], "numbers: expected 0 to"), ([-1], "numbers: expected 0 to"),
        ([0, 0], "a state occurs twice"), ([[0]], "expected numbers of states in one dimension"),
        ([0.5], "expected numbers of states"),
    ):  # fmt: skip
        with pytest.raises(fc.ValidationError, match=message):
            states.encode(numbers)  # type: ignore[arg-type]


def changed(states: StatesOfTable, name: str, values: list[Any]) -> bytes:
    """Return a message of all states with another column."""
    rows = pa.RecordBatch.from_arrays(
        [pa.array(range(len(states.rows))), *states.rows.columns], names=["number", *states.rows.schema.names]
    )
    column = pa.array(values, rows.schema.field(name).type)
    return bytes(rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column).serialize())


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("number", [0, 2], "a state outside of the numbers 0 to 1"),
        ("number", [-1, 0], "a state outside of the numbers 0 to 1"),
        ("number", [1, 1], "a state arrived twice"),
        ("number", [0, None], "a state has no number"),
        ("k0", ["a", None], "an extent has no k0"),
        ("start", [0, None], "an extent has no start"),
        ("start", [0, 10], "an extent belongs to a window that is not open"),
        ("rows", [0, 1], "a number of rows that is not from 1 to 3"),
        ("rows", [4, 1], "a number of rows that is not from 1 to 3"),
    ],
)
def test_wrong_extents(name: str, values: list[Any], message: str) -> None:
    states = filled("aggregate").partial_states()
    assembly = start_aggregate(states.base(), {})
    with pytest.raises(fc.SnapshotError, match=f"{message}; cut the state again on the old host"):
        assembly.add(changed(states, name, values))
    assembly.add(states.encode(np.arange(2)))
    assert assembly.build().metrics()["states"] == 2, "the assembly has not changed"


def test_extents_that_do_not_fit_together() -> None:
    states = filled("aggregate").partial_states()
    assembly = start_aggregate(states.base(), {})
    assembly.add(changed(states, "k0", ["a", "a"]))
    with pytest.raises(fc.SnapshotError, match="two extents have the same key and window"):
        assembly.build()


ROW = {"t": 5, "k": "a", "v": 1}


@pytest.mark.parametrize(
    ("left", "message"),
    [
        ([], "a state is not one row of one side"),
        (None, "a state is not one row of one side"),
        ([ROW, ROW], "a state is not one row of one side"),
        ([None], "a row of the left side has no 't'"),
        ([ROW | {"k": None}], "a row of the left side has no 'k'"),
        ([ROW | {"t": 6}], "a row of the left side is later than the last one"),
        ([ROW | {"t": -6}], "a row of the left side is too old to have partners"),
    ],
)
def test_wrong_stored_rows(left: Any, message: str) -> None:
    states = filled("join").partial_states()
    rows = [row["left"] for row in states.rows.to_pylist()]
    assembly = start_join(states.base(), {})
    with pytest.raises(fc.SnapshotError, match=f"{message}; cut the state again on the old host"):
        assembly.add(changed(states, "left", [left, *rows[1:]]))
    assembly.add(changed(states, "left", [[ROW], *rows[1:]]))
    assembly = start_join(states.base(), {})
    assembly.add(changed(states, "left", [rows[1], rows[0], *rows[2:]]))
    with pytest.raises(fc.SnapshotError, match="the rows of the left side are out of order"):
        assembly.build()


@KINDS
def test_a_state_that_arrives_again(kind: str) -> None:
    states = filled(kind).partial_states()
    assembly = STARTS[kind](states.base(), {})
    message = states.encode(np.array([1]))
    assert assembly.add(memoryview(message)).tolist() == [1]
    with pytest.raises(fc.SnapshotError, match="a state arrived twice"):
        assembly.add(message)


@KINDS
@given(st.data())
def test_damaged_messages(kind: str, data: st.DataObject) -> None:
    states = filled(kind).partial_states()
    parts = {"base": states.base(), "message": states.encode(np.arange(len(states.states)))}
    name = data.draw(st.sampled_from(sorted(parts)))
    damaged = bytearray(parts[name])
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=3)):
        damaged[place] ^= data.draw(st.integers(1, 255))
    parts[name] = bytes(damaged[: data.draw(st.integers(0, len(damaged)) | st.just(len(damaged)))])
    try:
        assembly = STARTS[kind](parts["base"], {})
        assembly.add(parts["message"])
        assembly.build()
    except fc.SnapshotError as error:
        assert "cut the state again on the old host" in str(error)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("aggregate", {"kind": "join"}, "kind: found 'join'"),
        ("aggregate", {"version": 2}, "version: found 2"),
        ("aggregate", {"window": -1}, "window: found -1"),
        ("aggregate", {"keys": ["w"]}, "does not describe an aggregate .*no column 'w'"),
        ("aggregate", {"states": 5}, "one number of extents for each open window"),
        ("aggregate", {"open": [[0, 1], [0, 1]]}, "one number of extents for each open window"),
        ("aggregate", {"open": [[5, 2]]}, "extents of a window that is not open"),
        ("aggregate", {"last": None}, "extents of a window that is not open"),
        ("aggregate", {"last": 10}, "extents of a window that is not open"),
        ("join", {"kind": "aggregate"}, "kind: found 'aggregate'"),
        ("join", {"on": [["k", "w"]]}, "does not describe a join .*no column 'w'"),
        ("join", {"sides": {}}, "sides.left: found nothing"),
        ("join", {"time_unit": "h"}, "does not describe a join .*time_unit='h'"),
    ],
)
def test_wrong_bases(kind: str, change: dict[str, Any], message: str) -> None:
    states = filled(kind).partial_states()
    schema, document = unpack_base(states.base(), lambda value, name: None)
    STARTS[kind](pack_base(schema, document), {})
    with pytest.raises(fc.SnapshotError, match=message):
        STARTS[kind](pack_base(schema, json.loads(json.dumps(document)) | change), {})


@KINDS
def test_other_bases_and_options(kind: str) -> None:
    base = filled(kind).partial_states().base()
    for wrong in (b"", b"x" * 100, pa.schema([]).serialize().to_pybytes()):
        with pytest.raises(fc.SnapshotError, match="the base is not that of an operator of this kind"):
            STARTS[kind](wrong, {})
    with pytest.raises(fc.SnapshotError, match=r"is not that of an operator|does not describe"):
        STARTS[kind](pack_base(pa.schema([("x", pa.int64())]), unpack_base(base, lambda *_: None)[1]), {})
    with pytest.raises(fc.ValidationError, match="options: found 'window'; expected only max_states"):
        STARTS[kind](base, {"window": "1s"})
    with pytest.raises(fc.ValidationError, match="max_states=0"):
        STARTS[kind](base, {"max_states": 0})
