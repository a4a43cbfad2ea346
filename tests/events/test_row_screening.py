"""Screening a batch: an engine rejects each row with a fault, and accepts the batch without these rows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep import Engine, parse
from fastcep.errors import DataError, SchemaError
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.events.row_screening import Order, screen

ROW = st.tuples(
    st.sampled_from(["A", "A", "B", "C", None]),
    st.sampled_from([0, 1, 2, 3, 10**16, -(10**16), None]),
    st.sampled_from([1, 2, 3, 2**63 - 1, 2**63, None]),
    st.sampled_from([Decimal("1.00"), Decimal("2.50"), Decimal(10**20), None]),
    st.integers(0, 5) | st.none(),
)


def schema(**options: Any) -> Schema:
    attributes = {"u": "int64", "d": "int64", "s": "string"}
    return Schema({"A": attributes, "B": attributes}, type="kind", time="ts", time_unit="ms", **options)


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    kinds = [pa.string(), pa.int64(), pa.uint64(), pa.decimal128(25, 2), pa.int64()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.table([*arrays, arrays[0]], ["kind", "ts", "u", "d", "n", "s"])


def accepts(engine: Engine, data: pa.Table) -> bool:
    try:
        engine.process(data)
    except DataError:
        return False
    return True


@given(st.lists(ROW, max_size=15), st.sampled_from(["error", "ignore"]), st.booleans(), st.integers(0, 5))
def test_faults_are_exactly_the_rows_that_an_engine_rejects(
    rows: list[tuple[Any, ...]], other: str, numbered: bool, cut: int
) -> None:
    events = schema(other_types=other, sequence="n" if numbered else None)
    engine = Engine(parse("PATTERN SEQ(A a, B b) WITHIN 1s", events))
    order = Order()
    data = table(rows)
    faults = screen(events, data.slice(0, cut), "t", 0, order) + screen(events, data.slice(cut), "t", cut, order)
    bad = [fault.row for fault in faults]
    assert bad == sorted(set(bad))
    for row in range(len(rows)):
        assert accepts(engine, data.slice(row, 1)) == (row not in bad), row
    engine = Engine(parse("PATTERN SEQ(A a, B b) WITHIN 1s", events))
    assert accepts(engine, data.filter(pa.array([row not in bad for row in range(len(rows))], pa.bool_())))


@given(st.lists(ROW, max_size=15))
def test_the_first_fault_of_a_column_is_the_error(rows: list[tuple[Any, ...]]) -> None:
    data = table(rows)
    faults = screen(schema(), data, "t", 7)
    try:
        EventBatch.from_data(schema(), data, StringTable(), "t", 7)
    except DataError as error:
        assert str(error) in [str(fault.error("t")) for fault in faults] or any(
            str(error).startswith(f"t, row {fault.row}, ") for fault in faults
        )
    else:
        assert faults == []


def test_fault_of_a_whole_column_is_an_error() -> None:
    with pytest.raises(SchemaError, match="no column 'u'"):
        screen(schema(), table([]).drop_columns(["u"]))
    with pytest.raises(SchemaError, match="found string, expected int64"):
        screen(schema(), {"kind": ["A"], "ts": [1], "u": ["x"], "d": [1], "s": ["x"]})
