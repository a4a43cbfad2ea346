import decimal
from datetime import UTC, date, datetime

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.errors import DataError, SchemaError, ValidationError
from fastcep.events import EventBatch, Schema, StringTable

ONE = Schema({"A": {"x": "int64"}})


def read(schema, data, **options):
    return EventBatch.from_data(schema, data, StringTable(), **options)


def column(dtype, values):
    """Return values and nulls of an attribute column of this dtype."""
    batch = read(Schema({"A": {"x": dtype}}), {"ts": pa.array(range(len(values))), "x": values})
    return batch.columns[0], batch.nulls[0]


def times(values, **options):
    return read(Schema({"A": {}}, **options), {"ts": values}).time.tolist()


def address(array):
    return array.__array_interface__["data"][0]


# ---------------------------------------------------------------- inputs

TABLE = pa.table({"ts": [1, 2, 3], "x": [4, 5, 6]})


class OnlyArray:
    def __arrow_c_array__(self, requested_schema=None):
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


INPUTS = {
    "table": TABLE,
    "record batch": TABLE.to_batches()[0],
    "chunks": pa.concat_tables([TABLE[:1], TABLE[1:]]),
    "polars": pl.DataFrame({"ts": [1, 2, 3], "x": [4, 5, 6]}),
    "c array": OnlyArray(),
    "lists": {"ts": [1, 2, 3], "x": [4, 5, 6]},
    "numpy": {"ts": np.array([1, 2, 3]), "x": np.array([4, 0, 5, 0, 6])[::2]},
    "series": {"ts": pl.Series([1, 2, 3]), "x": TABLE["x"]},
    "small integers": {"ts": np.array([1, 2, 3], dtype=np.uint8), "x": np.array([4, 5, 6], dtype=np.int16)},
}


@pytest.mark.parametrize("data", INPUTS.values(), ids=INPUTS)
def test_inputs(data):
    batch = read(ONE, data)
    assert len(batch) == 3 and batch.time.tolist() == [1, 2, 3] and batch.columns[0].tolist() == [4, 5, 6]
    assert batch.time.dtype == batch.columns[0].dtype == np.int64 and batch.type.dtype == np.uint16
    assert batch.nulls == (None,) and batch.sequence is None and batch.type.tolist() == [0, 0, 0]
    assert all(array.flags.c_contiguous for array in (batch.time, batch.type, *batch.columns))


@pytest.mark.parametrize("data", [TABLE[:0], {"ts": [], "x": []}], ids=["table", "lists"])
def test_empty(data):
    batch = read(Schema({"A": {"x": "int64"}}, sequence="x"), data)
    assert len(batch) == 0 and batch.sequence.tolist() == [] and batch.first_disorder() is None


@pytest.mark.parametrize("data", [3, [1, 2], "x.csv", TABLE["x"]], ids=["int", "list", "str", "one column"])
def test_no_input(data):
    with pytest.raises(ValidationError, match="expected"):
        read(ONE, data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"ts": [1]}, "no column 'x' .for A.x.; there is 'ts'"),
        ({"TS": [1], "x": [1]}, "no column 'ts' .for time.; did you mean 'TS'"),
        ({"ts": [1], "x": [1, 2]}, "found 2 rows, expected 1"),
        ({"ts": [1, 2], "x": [1, "a"]}, "column 'x'"),
        ({"ts": [1], "x": [2**70]}, "column 'x'"),
        ({"ts": [1], "x": np.array([[1]])}, "column 'x'"),
        (pa.table([[1], [2], [3]], names=["ts", "x", "x"]), "2 columns are called 'x'"),
    ],
)
def test_wrong_shape(data, message):
    with pytest.raises(SchemaError, match=message):
        read(ONE, data)


def test_columns_by_number():
    schema = Schema({"A": {"x": "int64"}}, time=1, type=2, sources={"A": {"x": 0}}, header=False)
    batch = read(schema, pa.table([[7], [1], ["A"]], names=["f0", "f1", "f2"]))
    assert batch.time.tolist() == [1] and batch.columns[0].tolist() == [7]
    with pytest.raises(SchemaError, match="no column 2"):
        read(schema, pa.table([[7], [1]], names=["f0", "f1"]))


# ---------------------------------------------------------------- zero copy


@pytest.mark.parametrize("offset", [0, 3])
def test_views_of_arrow_buffers(offset):
    schema = Schema({"A": {"x": "int64", "y": "float64"}})
    ts = pa.array(range(10), pa.timestamp("ns"))
    table = pa.table({"ts": ts, "x": range(10), "y": np.arange(10.0)})[offset:]
    batch = read(schema, table)
    for values, name in ((batch.time, "ts"), (batch.columns[0], "x"), (batch.columns[1], "y")):
        assert address(values) == table[name].chunk(0).buffers()[1].address + 8 * offset
    assert address(read(ONE, {"ts": range(10), "x": (x := np.arange(10))}).columns[0]) == address(x)
    part = batch.slice(2, 5)
    assert part.schema is schema and len(part) == 3 and np.shares_memory(part.columns[1], batch.columns[1])
    assert part.columns[0].tolist() == [offset + 2, offset + 3, offset + 4]


def test_views_outlive_the_data():
    batch = read(ONE, pa.table({"ts": list(range(10_000)), "x": list(range(10_000))}))
    assert batch.columns[0].sum() == sum(range(10_000))


# ---------------------------------------------------------------- attributes


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("int64", pa.array([1, 2], pa.int8()), [1, 2]),
        ("int64", pa.array([1, 2**32 - 1], pa.uint32()), [1, 2**32 - 1]),
        ("int64", pa.array([2**63 - 1], pa.uint64()), [2**63 - 1]),
        ("int64", pa.array([5, 6, 5]).dictionary_encode(), [5, 6, 5]),
        ("float64", pa.array([0.5], pa.float32()), [0.5]),
        ("float64", pa.array([0.5], pa.float16()), [0.5]),
        ("float64", pa.array([3], pa.int32()), [3.0]),
        ("bool", pa.array([True, False] * 5)[1:], [0, 1, 0, 1, 0, 1, 0, 1, 0]),
        ("bool", np.array([True, False]), [1, 0]),
    ],
)
def test_widening(dtype, values, expected):
    result, nulls = column(dtype, values)
    assert result.tolist() == expected and nulls is None
    assert result.dtype == (np.float64 if dtype == "float64" else np.int64)


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)), st.integers(0, 9), st.sampled_from(["int64", "int32"]))
def test_nulls_are_zero_whatever_the_offset(values, offset, kind):
    result, nulls = column("int64", pa.array([9] * offset + values, pa.type_for_alias(kind))[offset:])
    assert result.tolist() == [value or 0 for value in values]
    assert (nulls is None and None not in values) or nulls.tolist() == [value is None for value in values]


def test_garbage_under_nulls():
    bitmap = pa.py_buffer(b"\x05")
    garbage = pa.Array.from_buffers(pa.float64(), 3, [bitmap, pa.py_buffer(np.array([1.0, np.nan, np.nan]))])
    values, nulls = column("float64", garbage)
    assert nulls.tolist() == [0, 1, 0] and values[1] == 0 and np.isnan(values[2])  # a NaN is not a null
    for dtype in ("int64", "float64", "bool", "string"):
        values, nulls = column(dtype, [None, None])
        assert values.tolist() == [0, 0] and nulls.tolist() == [1, 1]
    values, nulls = column("bool", [True, None])
    assert values.tolist() == [1, 0] and nulls.tolist() == [0, 1]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary("int8", "string")])
def test_strings(kind):
    strings = StringTable()
    data = pa.table({"ts": [1, 2, 3], "x": pa.array(["b", None, "a"]).cast(kind)})
    batch = EventBatch.from_data(Schema({"A": {"x": "string"}}), pa.concat_tables([data, data]), strings)
    assert strings.decode(batch.columns[0], batch.nulls[0]).to_pylist() == ["b", None, "a"] * 2


@pytest.mark.parametrize(
    ("dtype", "values", "found"),
    [
        ("int64", [1.0], "double"),
        ("int64", ["1"], "string"),
        ("int64", [True], "bool"),
        ("int64", [datetime(2020, 1, 1)], "timestamp"),
        ("float64", ["1"], "string"),
        ("float64", [b"1"], "binary"),
        ("bool", [decimal.Decimal(1)], "decimal"),
        ("bool", [1], "int64"),
        ("string", [1], "int64"),
        ("string", [b"a"], "binary"),
    ],
)
def test_wrong_type(dtype, values, found):
    with pytest.raises(SchemaError, match=f"column 'x': found {found}.*, expected {dtype}; .*cast"):
        column(dtype, values)


def test_uint64_beyond_int64():
    with pytest.raises(DataError, match=r"trips\.csv, row 12, column 'x': found 9223372036854775808"):
        read(ONE, {"ts": [1, 2, 3], "x": np.array([1, 2, 2**63], np.uint64)}, origin="trips.csv", first_row=10)


# ---------------------------------------------------------------- time and sequence


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        ([1, 2], {"time_unit": "us"}, [1000, 2000]),
        ([-1], {"time_unit": "d"}, [-86400 * 10**9]),
        (pa.array([5], pa.timestamp("ms")), {}, [5_000_000]),
        (pa.array([5], pa.timestamp("ms")), {"time_unit": "d"}, [5_000_000]),
        (pa.array([5], pa.timestamp("s", "Asia/Tokyo")), {"time_zone": "America/New_York"}, [5 * 10**9]),
        (pa.array([5], pa.timestamp("s")), {"time_zone": "America/New_York"}, [18005 * 10**9]),
        (np.array(["1970-01-02"], "datetime64[s]"), {}, [86400 * 10**9]),
        ([datetime(1970, 1, 1, 1, tzinfo=UTC)], {}, [3600 * 10**9]),
        ([date(1970, 1, 2)], {}, [86400 * 10**9]),
    ],
)
def test_times(values, options, expected):
    assert times(values, **options) == expected


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([1, None], {}, "row 1, column 'ts': found null"),
        ([0, 2**62], {"time_unit": "us"}, "row 1, .*fits int64"),
        ([0, -(2**62)], {"time_unit": "us"}, "row 1, .*fits int64"),
        (pa.array([0, 2**62], pa.timestamp("s")), {}, "row 1, .*fits int64"),
        (np.array([0, 2**63], np.uint64), {}, "row 1"),
    ],
)
def test_wrong_times(values, options, message):
    with pytest.raises(DataError, match=message):
        times(values, **options)


@pytest.mark.parametrize("values", [[1.5], ["2020-01-01"], [True]], ids=["float", "string", "bool"])
def test_no_times(values):
    with pytest.raises(SchemaError, match=r"column 'ts': found .*, expected integers in us or timestamps"):
        times(values, time_unit="us")


def test_sequence_and_disorder():
    schema = Schema({"A": {}}, sequence="n")

    def disorder(ts, n):
        return read(schema, {"ts": ts, "n": n}).first_disorder()

    assert read(schema, {"ts": [1, 1], "n": [3, 7]}).sequence.tolist() == [3, 7]
    assert disorder([1, 1, 2], [3, 7, 8]) is None
    assert disorder([1, 3, 2, 1], [3, 7, 8, 9]) == 2
    assert disorder([1, 2, 3], [3, 7, 7]) == 2
    with pytest.raises(DataError, match="row 1, column 'n': found null"):
        disorder([1, 2], [1, None])
    with pytest.raises(SchemaError, match="column 'n': found double"):
        disorder([1, 2], [1.0, 2.0])
    assert read(ONE, {"ts": [2, 2, 1], "x": [0, 0, 0]}).first_disorder() == 2


# ---------------------------------------------------------------- types

TWO = {"A": {"x": "int64"}, "B": {"y": "int64"}}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary("int8", "string")])
def test_types_by_name(kind):
    kinds = pa.array(["B", "A", "B"]).cast(kind)
    batch = read(Schema(TWO, type="type"), {"ts": [1, 2, 3], "type": kinds, "x": [None, 1, None], "y": [1, None, 2]})
    assert batch.type.tolist() == [1, 0, 1]
    assert batch.columns[0].tolist() == [0, 1, 0] and batch.nulls[0].tolist() == [1, 0, 1]


@pytest.mark.parametrize("codes", [{"A": 7, "B": 5}, {"A": -(2**63), "B": 2**63 - 1}, {"A": 2**63 - 1, "B": 2**63 - 2}])
def test_types_by_code(codes):
    def types(other_types, *values):
        schema = Schema(TWO, type="type", codes=codes, other_types=other_types)
        n = len(values)
        return read(schema, {"ts": range(n), "type": values, "x": [0] * n, "y": [0] * n}).type.tolist()

    assert types("error", codes["B"], codes["A"]) == [1, 0]
    assert types("ignore", codes["B"], 6, 0, codes["A"]) == [1, 0]
    assert types("ignore", 6) == []
    with pytest.raises(DataError, match="row 1, column 'type': found undeclared event type 6"):
        types("error", codes["B"], 6)


def test_undeclared_types():
    data = {"ts": [1, None, 3, 4], "type": ["A", "b", "B", "A"], "x": [1, 2, 3, None], "y": [0, 2**60, 5, 0]}
    with pytest.raises(
        DataError, match=r"batch, row 1, column 'type': found undeclared event type 'b'.*did you mean 'B'"
    ):
        read(Schema(TWO, type="type"), data)
    lenient = Schema(TWO, type="type", other_types="ignore")
    batch = read(lenient, data)  # the null time of the ignored row is no error
    assert batch.time.tolist() == [1, 3, 4] and batch.type.tolist() == [0, 1, 0]
    assert batch.columns[0].tolist() == [1, 3, 0] and batch.nulls[0].tolist() == [0, 0, 1]
    with pytest.raises(DataError, match="row 12, column 'ts'"):  # row numbers count ignored rows too
        read(lenient, {**data, "ts": [1, 2, None, 4]}, first_row=10)


def test_null_and_wrong_types():
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["A", None]))
    for kinds in (["A", None], dictionary):
        with pytest.raises(DataError, match="row 1, column 'type': found null"):
            read(
                Schema({"A": {}}, type="type", other_types="ignore"),
                {"ts": [1, 2], "type": kinds},
            )
    with pytest.raises(SchemaError, match="codes="):
        read(Schema(TWO, type="type"), {"ts": [1], "type": [1], "x": [1], "y": [1]})
    with pytest.raises(SchemaError, match="integer codes"):
        read(Schema(TWO, type="type", codes={"A": 0, "B": 1}), {"ts": [1], "type": ["A"], "x": [1], "y": [1]})
