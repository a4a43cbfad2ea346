"""Column types of the supported libraries, and the values that each role of a column reads from them.

``PYTHONPATH=.:tests python -m support.doc_tables.arrow_types`` writes the table of them into docs/input.md.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from support.pages import with_table

PAGE = Path(__file__).resolve().parents[3] / "docs/input.md"
START, END = "<!-- types: made by tests/support/doc_tables/arrow_types.py -->\n", "<!-- end of types -->\n"

ATTRIBUTES = ("int64", "float64", "bool", "string", "timestamp")
ROLES = (*ATTRIBUTES, "time", "type", "code", "sequence")
SECOND, DAY = 10**9, 86_400 * 10**9
CONNECTION = duckdb.connect(config={"threads": 1})

#: Values that the roles read from the first three values of a family; the fourth is null.
FAMILIES: dict[str, dict[str, list[Any]]] = {
    "text": {"string": ["A", "B", "C"], "type": ["A", "B", "C"]},
    "whole": {
        "int64": [1, 2, 3], "float64": [1.0, 2.0, 3.0], "code": ["A", "B", "C"], "sequence": [1, 2, 3],
        "time": [SECOND, 2 * SECOND, 3 * SECOND], "timestamp": [SECOND, 2 * SECOND, 3 * SECOND],
    },
    "real": {"float64": [1.5, 2.5, 3.5]},
    "bool": {"bool": [False, True, True]},
    "moment": {"time": [SECOND, 2 * SECOND, 3 * SECOND], "timestamp": [SECOND, 2 * SECOND, 3 * SECOND]},
    "day": {"time": [DAY, 2 * DAY, 3 * DAY], "timestamp": [DAY, 2 * DAY, 3 * DAY]},
    "json": {"string": ["1", "2", "3"], "type": []},  # texts, but no names of event types
    "uuid": {"string": [str(uuid.UUID(int=k)) for k in (1, 2, 3)], "type": []},
    "null": {dtype: [None, None, None] for dtype in ATTRIBUTES},
    "none": {},
}  # fmt: skip
MOMENTS = [dt.datetime(1970, 1, 1, 0, 0, second) for second in (1, 2, 3)]
DAYS = [dt.date(1970, 1, day) for day in (2, 3, 4)]
TIMES = [dt.time(second=second) for second in (1, 2, 3)]
SPANS = [dt.timedelta(seconds=second) for second in (1, 2, 3)]
TEXTS = ["A", "B", "C"]


@dataclass(frozen=True)
class Kind:
    """A column type.

    Attributes
    ----------
    library, name
        Library and name of the type.
    family
        A key of `FAMILIES`.
    frame
        Makes a table of the library with the columns ``kind``, ``at`` and ``v``, which has the type, of 3 or 4 rows.
    readable
        True if Arrow has the type at all.
    """

    library: str
    name: str
    family: str
    frame: Callable[[int], Any]
    readable: bool = True

    def __str__(self) -> str:
        return f"{self.library} {self.name}"

    def expected(self, role: str) -> list[Any] | None:
        """Return the values that the role reads, without the null; None if it rejects the type."""
        return FAMILIES[self.family].get(role)


def arrow(name: str, family: str, values: Any) -> Kind:
    """Make a type of pyarrow, from an array of four values, or from the type and three values."""

    def frame(rows: int) -> pa.Table:
        array = values() if callable(values) else pa.array([*values[1], None], values[0])
        return pa.table({"kind": ["A"] * rows, "at": list(range(1, rows + 1)), "v": array.slice(0, rows)})

    return Kind("pyarrow", name, family, frame)


def polars(dtype: Any, family: str, values: Sequence[Any], readable: bool = True) -> Kind:
    def frame(rows: int) -> pl.DataFrame:
        column = pl.Series("v", [*values, None][:rows], dtype)
        return pl.DataFrame([pl.Series("kind", ["A"] * rows), pl.Series("at", range(1, rows + 1)), column])

    return Kind("polars", str(dtype), family, frame, readable)


def pandas(name: str, family: str, values: Sequence[Any], dtype: Any = None, readable: bool = True) -> Kind:
    def frame(rows: int) -> pd.DataFrame:
        column = pd.Series([*values, None][:rows], dtype=dtype or name)
        return pd.DataFrame({"kind": ["A"] * rows, "at": range(1, rows + 1), "v": column})

    return Kind("pandas", name, family, frame, readable)


def duck(name: str, family: str, values: Sequence[str]) -> Kind:
    def frame(rows: int) -> Any:
        listed = ", ".join(f"({at}, CAST({value} AS {name}))" for at, value in enumerate([*values, "NULL"][:rows], 1))
        made = f"(VALUES {listed}) AS made(n, v)"
        return CONNECTION.sql(f"SELECT 'A' AS kind, CAST(n AS BIGINT) AS \"at\", v FROM {made}")

    return Kind("DuckDB", name.partition("(")[0] if name.startswith(("ENUM", "STRUCT", "UNION")) else name, family,
                frame)  # fmt: skip


def encoded(index: Any, entries: pa.Array) -> Callable[[], pa.Array]:
    return lambda: pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], index), entries)


def runs(values: pa.Array) -> Callable[[], pa.Array]:
    return lambda: pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), values)


def extended(kind: Any, storage: pa.Array) -> Callable[[], pa.Array]:
    return lambda: pa.ExtensionArray.from_storage(kind, storage)


def union(dense: bool) -> Callable[[], pa.Array]:
    tags, values = pa.array([0, 0, 0, 0], pa.int8()), pa.array([1, 2, 3, None])
    if dense:
        return lambda: pa.UnionArray.from_dense(tags, pa.array([0, 1, 2, 3], pa.int32()), [values])
    return lambda: pa.UnionArray.from_sparse(tags, [values])


def period() -> pa.Array:
    return pa.array(pd.period_range("1970-01-02", periods=4, freq="D"))


NUMBERS = [1, 2, 3]
WHOLE = [*NUMBERS, None]
UUIDS = [uuid.UUID(int=k) for k in NUMBERS]
BYTES = [b"A", b"B", b"C"]
DECIMALS = [Decimal(k) for k in NUMBERS]

KINDS = [
    # ------------------------------------------------------------------------------------------------- pyarrow
    *(arrow(str(kind), "text", (kind, TEXTS)) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *(
        arrow(f"dictionary of {entries.type}, {index} indices", "text", encoded(index, entries))
        for entries in (pa.array(TEXTS), pa.array(TEXTS, pa.large_string()), pa.array(TEXTS, pa.string_view()))
        for index in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64())
    ),
    arrow("dictionary of string with a null entry", "text", encoded(pa.int8(), pa.array([*TEXTS, None]))),
    arrow("dictionary of int64", "whole", encoded(pa.int32(), pa.array(NUMBERS))),
    arrow("dictionary of uint8", "whole", encoded(pa.uint64(), pa.array(NUMBERS, pa.uint8()))),
    arrow("dictionary of double", "real", encoded(pa.int8(), pa.array([1.5, 2.5, 3.5]))),
    arrow("dictionary of bool", "bool", encoded(pa.int8(), pa.array([False, True, True]))),
    arrow("dictionary of decimal128", "whole", encoded(pa.int8(), pa.array(DECIMALS, pa.decimal128(9, 2)))),
    arrow("dictionary of timestamp[us]", "moment", encoded(pa.int8(), pa.array(MOMENTS))),
    arrow("dictionary of date32", "day", encoded(pa.int8(), pa.array(DAYS))),
    arrow("dictionary of binary", "none", encoded(pa.int8(), pa.array(BYTES))),
    arrow("dictionary of binary_view", "none", encoded(pa.int8(), pa.array(BYTES, pa.binary_view()))),
    arrow("run_end_encoded of string", "text", runs(pa.array([*TEXTS, None]))),
    arrow("run_end_encoded of string_view", "text", runs(pa.array([*TEXTS, None], pa.string_view()))),
    arrow("run_end_encoded of a dictionary", "text", runs(pa.array([*TEXTS, None]).dictionary_encode())),
    arrow("run_end_encoded of int32", "whole", runs(pa.array(WHOLE, pa.int32()))),
    arrow("run_end_encoded of double", "real", runs(pa.array([1.5, 2.5, 3.5, None]))),
    arrow("run_end_encoded of bool", "bool", runs(pa.array([False, True, True, None]))),
    arrow("run_end_encoded of timestamp", "moment", runs(pa.array([*MOMENTS, None]))),
    arrow("run_end_encoded of list", "none", runs(pa.array([[1], [2], [3], None]))),
    *(
        arrow(str(kind), "whole", (kind, NUMBERS))
        for kind in (
            pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
            pa.decimal32(5, 1), pa.decimal64(9, 2), pa.decimal128(20, 0), pa.decimal256(60, 3),
        )
    ),
    *(arrow(str(kind), "real", (kind, [1.5, 2.5, 3.5])) for kind in (pa.float16(), pa.float32(), pa.float64())),
    arrow("bool", "bool", (pa.bool_(), [False, True, True])),
    *(
        arrow(str(kind), "moment", (kind, [dt.datetime(1970, 1, 1, hour, 0, k) for k in NUMBERS]))
        for hour, kind in (
            (0, pa.timestamp("s")), (0, pa.timestamp("ms")), (0, pa.timestamp("us")), (0, pa.timestamp("ns")),
            (0, pa.timestamp("us", "UTC")), (0, pa.timestamp("s", "Europe/Berlin")), (0, pa.timestamp("ns", "+05:30")),
        )
    ),
    arrow("date32[day]", "day", (pa.date32(), DAYS)),
    arrow("date64[ms]", "day", (pa.date64(), DAYS)),
    arrow("null", "null", lambda: pa.nulls(4)),
    arrow("extension arrow.json", "text", extended(pa.json_(), pa.array([*TEXTS, None]))),
    arrow("extension arrow.bool8", "bool", extended(pa.bool8(), pa.array([0, 1, 1, None], pa.int8()))),
    arrow("extension arrow.uuid", "none", (pa.uuid(), [k.bytes for k in UUIDS])),
    arrow("extension arrow.opaque", "none", extended(pa.opaque(pa.int64(), "hours", "x"), pa.array(WHOLE))),
    arrow("extension arrow.fixed_shape_tensor", "none",
          lambda: pa.nulls(4, pa.fixed_shape_tensor(pa.int8(), [1]))),
    arrow("extension pandas.period", "none", period),
    *(
        arrow(str(kind), "none", (kind, values))
        for kind, values in (
            (pa.binary(), BYTES), (pa.large_binary(), BYTES), (pa.binary_view(), BYTES), (pa.binary(1), BYTES),
            (pa.time32("s"), TIMES), (pa.time32("ms"), TIMES), (pa.time64("us"), TIMES), (pa.time64("ns"), TIMES),
            (pa.duration("s"), SPANS), (pa.duration("ns"), SPANS),
            (pa.month_day_nano_interval(), [(0, 0, k) for k in NUMBERS]),
            (pa.list_(pa.int64()), [[1], [2], [3]]), (pa.large_list(pa.int64()), [[1], [2], [3]]),
            (pa.list_(pa.int64(), 1), [[1], [2], [3]]), (pa.struct({"x": pa.int64()}), [{"x": k} for k in NUMBERS]),
            (pa.map_(pa.string(), pa.int64()), [[("x", k)] for k in NUMBERS]),
        )
    ),
    arrow("list_view", "none", (pa.list_view(pa.int64()), [[1], [2], [3]])),
    arrow("sparse_union", "none", union(dense=False)),
    arrow("dense_union", "none", union(dense=True)),
    # -------------------------------------------------------------------------------------------------- polars
    *(
        polars(dtype, "text", TEXTS)
        for dtype in (pl.String, pl.Categorical, pl.Enum(["unused", *TEXTS]))
    ),
    *(
        polars(dtype, "whole", NUMBERS)
        for dtype in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
    ),
    polars(pl.Decimal(20, 2), "whole", DECIMALS),
    polars(pl.Float16, "real", [1.5, 2.5, 3.5]),
    polars(pl.Float32, "real", [1.5, 2.5, 3.5]),
    polars(pl.Float64, "real", [1.5, 2.5, 3.5]),
    polars(pl.Boolean, "bool", [False, True, True]),
    *(
        polars(dtype, "moment", MOMENTS)
        for dtype in (pl.Datetime("ms"), pl.Datetime("us"), pl.Datetime("ns"), pl.Datetime("us", "Europe/Berlin"))
    ),
    polars(pl.Date, "day", DAYS),
    polars(pl.Null, "null", [None] * 3),
    polars(pl.Time, "none", TIMES),
    polars(pl.Duration("us"), "none", SPANS),
    polars(pl.Binary, "none", BYTES),
    polars(pl.List(pl.Int64), "none", [[1], [2], [3]]),
    polars(pl.Array(pl.Int64, 1), "none", [[1], [2], [3]]),
    polars(pl.Struct({"x": pl.Int64}), "none", [{"x": k} for k in NUMBERS]),
    polars(pl.Object, "none", [object(), object(), object()]),
    polars(pl.Int128, "none", NUMBERS, readable=False),
    polars(pl.UInt128, "none", NUMBERS, readable=False),
    # -------------------------------------------------------------------------------------------------- pandas
    *(pandas(dtype, "text", TEXTS) for dtype in ("str", "string", "string[pyarrow]", "category")),
    pandas("object of str", "text", TEXTS, object),
    *(
        pandas(dtype, "whole", NUMBERS)
        for dtype in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    ),
    pandas("object of int", "whole", NUMBERS, object),
    pandas("object of Decimal", "whole", DECIMALS, object),
    pandas("category of int", "whole", NUMBERS, pd.CategoricalDtype([3, 2, 1])),
    *(pandas(dtype, "real", [1.5, 2.5, 3.5]) for dtype in ("float32", "float64", "Float32", "Float64")),
    pandas("boolean", "bool", [False, True, True]),
    pandas("object of bool", "bool", [False, True, True], object),
    *(pandas(f"datetime64[{unit}]", "moment", MOMENTS) for unit in ("s", "ms", "us", "ns")),
    pandas("datetime64[us, Europe/Berlin]", "moment", [moment.replace(tzinfo=dt.UTC) for moment in MOMENTS]),
    pandas("object of date", "day", DAYS, object),
    pandas("timedelta64[us]", "none", SPANS),
    pandas("period[D]", "none", [pd.Period(day, "D") for day in DAYS]),
    pandas("interval", "none", list(pd.interval_range(0, 3)), pd.IntervalDtype("int64", "right")),
    pandas("object of bytes", "none", BYTES, object),
    pandas("object of UUID", "none", UUIDS, object),
    pandas("object of list", "none", [[1], [2], [3]], object),
    pandas("object of dict", "none", [{"x": k} for k in NUMBERS], object),
    pandas("object of several kinds", "none", [1, "A", 2.5], object, readable=False),
    pandas("object of int beyond 64 bits", "none", [2**70, 2, 3], object, readable=False),
    pandas("complex128", "none", [1j, 2j, 3j], np.complex128, readable=False),
    pandas("Sparse[float64]", "none", [1.0, 2.0, 3.0], readable=False),
    # -------------------------------------------------------------------------------------------------- DuckDB
    duck("VARCHAR", "text", ["'A'", "'B'", "'C'"]),
    duck("ENUM('A', 'B', 'C')", "text", ["'A'", "'B'", "'C'"]),
    duck("JSON", "json", ["'1'", "'2'", "'3'"]),
    duck("UUID", "uuid", [f"'{value}'" for value in UUIDS]),
    *(
        duck(name, "whole", ["1", "2", "3"])
        for name in (
            "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
            "UHUGEINT", "DECIMAL(4, 1)", "DECIMAL(9, 2)", "DECIMAL(18, 3)", "DECIMAL(38, 10)",
        )
    ),
    *(duck(name, "real", ["1.5", "2.5", "3.5"]) for name in ("FLOAT", "DOUBLE")),
    duck("BOOLEAN", "bool", ["false", "true", "true"]),
    *(
        duck(name, "moment", [f"'1970-01-01 00:00:0{k}'" for k in NUMBERS])
        for name in ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS")
    ),
    duck("TIMESTAMPTZ", "moment", [f"'1970-01-01 00:00:0{k}+00'" for k in NUMBERS]),
    duck("DATE", "day", [f"'{day}'" for day in DAYS]),
    duck("TIME", "none", [f"'{time}'" for time in TIMES]),
    duck("TIMETZ", "none", [f"'{time}+00'" for time in TIMES]),
    duck("INTERVAL", "none", ["'1 day'", "'2 days'", "'3 days'"]),
    duck("BLOB", "none", ["'A'", "'B'", "'C'"]),
    duck("BIT", "none", ["'1'", "'10'", "'11'"]),
    duck("BIGNUM", "none", ["1", "2", "3"]),
    duck("INTEGER[]", "none", ["[1]", "[2]", "[3]"]),
    duck("INTEGER[1]", "none", ["[1]", "[2]", "[3]"]),
    duck("STRUCT(x INTEGER)", "none", ["{'x': 1}", "{'x': 2}", "{'x': 3}"]),
    duck("MAP(VARCHAR, INTEGER)", "none", ["MAP {'x': 1}", "MAP {'x': 2}", "MAP {'x': 3}"]),
    duck("UNION(x INTEGER)", "none", ["1", "2", "3"]),
]  # fmt: skip


def markdown() -> str:
    """Return the table: the values that each role reads from the types of each library."""
    heads = [*(f"`{role}`" for role in ATTRIBUTES), "time", "type names", "type codes", "sequence"]
    lines = ["| types | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    groups: dict[tuple[str, tuple[bool, ...]], list[str]] = {}
    for kind in KINDS:
        answers = tuple(kind.expected(role) is not None for role in ROLES)
        groups.setdefault((kind.library, answers), []).append(f"`{kind.name}`")
    for (library, answers), names in groups.items():
        cells = ["accepted" if answer else "refused" for answer in answers]
        lines.append(f"| {library}: {', '.join(names)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with the current table."""
    return with_table(PAGE, START, markdown(), END)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
