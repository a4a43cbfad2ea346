"""Every column type that libraries produce, in every role, on every input path: correct values or a remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from support.doc_tables import arrow_types
from support.doc_tables.arrow_types import KINDS, ROLES, Kind
from support.harness import without_times

import fastcep as fc
from fastcep.errors import DataError, SchemaError, ValidationError
from fastcep.evaluation.stream import Stream
from fastcep.events.batch import as_table
from fastcep.io import open_source

STREAMS = {
    "time": "STREAM TIME 'v' UNIT s TYPE 'kind'",
    "type": "STREAM TIME 'at' UNIT s TYPE 'v'",
    "code": "STREAM TIME 'at' UNIT s TYPE 'v'",
    "sequence": "STREAM TIME 'at' UNIT s TYPE 'kind' SEQUENCE 'v'",
}
NAMES = "ABC"
TIMES = ("time", "timestamp")


@cache
def document(role: str, options: str = "") -> Any:
    """Return queries whose matches hold the column ``v``: one for each event type."""
    codes = {name: f" = {code}" if role == "code" else "" for code, name in enumerate(NAMES, 1)}
    attributes = f"v {role}" if role in arrow_types.ATTRIBUTES else "at int64"
    return fc.parse_document("\n".join([
        STREAMS.get(role, "STREAM TIME 'at' UNIT s TYPE 'kind'") + options,
        *(f"EVENT {name}{codes[name]} ({attributes})" for name in NAMES),
        *(f"QUERY q{name} PATTERN SEQ({name} x) WITHIN 1s" for name in (NAMES if role in ("type", "code") else "A")),
    ]))  # fmt: skip


class Run:
    """An engine, and the values of the column in its matches."""

    #: Engines that have not yet processed any event, for reuse.
    _unused: ClassVar[dict[Any, fc.Engine]] = {}

    def __init__(self, role: str, *, use_fast_path: bool = True, clauses: str = "", **options: Any) -> None:
        self.role = role
        self.document = document(role, clauses)
        self._key = (role, use_fast_path, clauses, *options.items())
        self.engine = self._unused.pop(self._key, None) or fc.Engine(self.document.queries, attributes=True, **options)
        if not use_fast_path:
            self.engine._loop.is_direct = False
        self._rows: list[tuple[Any, Any]] = []

    def process(self, *batches: Any) -> list[Any]:
        """Return the values of the batches, in the order of the events."""
        for batch in batches:
            try:
                self._add(self.engine.process(batch))
            except (SchemaError, DataError):
                if not self.engine.metrics()["events"]:
                    self._unused[self._key] = self.engine
                raise
        self._add(self.engine.flush())
        return [value for _, value in sorted(self._rows, key=lambda row: row[0])]

    def _add(self, matches: fc.Matches) -> None:
        for query in self.document.queries:
            name = query.name[1:]
            table = matches.query(query.name).to_arrow()
            for row in pa.table({column: without_times(table[column]) for column in table.column_names}).to_pylist():
                key = "x.v" if self.role in arrow_types.ATTRIBUTES else "x.time" if self.role == "time" else "x"
                self._rows.append((row["x"], name if self.role in ("type", "code") else row[key]))


def in_chunks(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(row, 1) for row in range(len(table))])


def padded(table: pa.Table) -> pa.Table:
    """Return the rows as slices of longer arrays."""
    if all(column.num_chunks == 1 for column in table.columns):
        batch = table.to_batches()[0]
        try:
            doubled = pa.concat_batches([batch, batch])
        except pa.ArrowException:  # Arrow cannot concatenate every type
            return table
        return pa.Table.from_batches([doubled.slice(len(table))])
    return table


def reversed_rows(table: pa.Table) -> Iterator[pa.Table]:
    return (table.slice(row, 1) for row in reversed(range(len(table))))


def as_given(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    return Run(role).process(kind.frame(rows))


def fast_path(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    table = as_table(kind.frame(rows), "table").combine_chunks()
    return Run(role).process(*table.slice(0, 1).to_batches(), table.slice(1))


def slow_path(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    table = as_table(kind.frame(rows), "table")
    return Run(role, use_fast_path=False).process(table.slice(0, 1), table.slice(1))


def mapping(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    table = as_table(kind.frame(rows), "table")
    needed = ["at", "v"] if role in ("type", "code") else ["kind", "at", "v"]
    return Run(role).process({name: table[name] for name in needed})


def chunks(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    return Run(role).process(in_chunks(as_table(kind.frame(rows), "table")))


def offset(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    return Run(role).process(padded(as_table(kind.frame(rows), "table")))


def after_empty_batches(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    table = as_table(kind.frame(rows), "table")
    return Run(role).process(table.slice(0, 0), pa.Table.from_batches([], table.schema), table)


def out_of_order(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    table = as_table(kind.frame(rows), "table")
    values = Run(role, allowed_lateness="100d").process(*reversed_rows(table))
    return values if role == "sequence" else values[::-1]  # events are numbered as they arrive


def one_type_ignored(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    table = as_table(kind.frame(rows), "table")
    clauses = " OTHER TYPES IGNORE"
    if role in ("type", "code"):
        return Run(role, clauses=clauses).process(table)
    with_other_event = pa.concat_tables([table.slice(0, 1), table])
    kinds = pa.array(["X", *["A"] * rows])
    return Run(role, clauses=clauses).process(with_other_event.set_column(0, "kind", kinds))


def source(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    run = Run(role)
    with open_source(kind.frame(rows), run.document.schema, chunk_rows=2) as opened:
        return run.process(*opened)


def source_of_chunks(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    run = Run(role)
    with open_source(in_chunks(as_table(kind.frame(rows), "table")), run.document.schema, chunk_rows=2) as opened:
        return run.process(*opened)


def sorted_source(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    run = Run(role)
    with open_source(as_table(kind.frame(rows), "table"), run.document.schema, sort=True) as opened:
        return run.process(*opened)


def with_bad_rows(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    run = Run(role)
    with open_source(kind.frame(rows), run.document.schema, bad_rows=folder / "bad.jsonl") as opened:
        values = run.process(*opened)
    if opened.bad_rows:
        bad = json.loads((folder / "bad.jsonl").read_text(encoding="utf-8").splitlines()[0])
        raise DataError(f"column {bad['column']!r}: found {bad['found']}, expected {bad['expected']}; see the file")
    return values


def parquet(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    try:
        pq.write_table(as_table(kind.frame(rows), "table"), folder / "e.parquet", row_group_size=2)
    except (pa.ArrowException, TypeError):  # Parquet does not have every type
        return source(role, kind, rows, folder)
    run = Run(role)
    with open_source(folder / "e.parquet", run.document.schema) as opened:
        return run.process(*opened)


def arrow_file(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    table = as_table(kind.frame(rows), "table")
    run = Run(role)
    with pa.ipc.new_file(str(folder / "e.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    with open_source(folder / "e.arrow", run.document.schema) as opened:
        return run.process(*opened)


def evaluated(role: str, kind: Kind, rows: int, folder: Path) -> list[Any]:
    run = Run(role)
    return run.process(*Stream.of(kind.frame(rows), run.document.schema).blocks())


PATHS: list[Callable[[str, Kind, int, Path], list[Any]]] = [
    as_given, fast_path, slow_path, mapping, chunks, offset, after_empty_batches, out_of_order, one_type_ignored,
    source, source_of_chunks, sorted_source, with_bad_rows, parquet, arrow_file, evaluated,
]  # fmt: skip
FROM_SOURCES = (source, source_of_chunks, sorted_source, with_bad_rows, parquet, arrow_file)  # these parse times
READABLE = [kind for kind in KINDS if kind.readable]


#: Every type on every path; `make test` takes each type on one path, the paths in turn.
COMBINATIONS = [
    pytest.param(
        kind, path, id=f"{kind}-{path.__name__}",
        marks=() if number % len(PATHS) == place else pytest.mark.thorough,
    )
    for number, kind in enumerate(READABLE)
    for place, path in enumerate(PATHS)
]  # fmt: skip


@pytest.mark.sample(64)
@pytest.mark.parametrize(("kind", "path"), COMBINATIONS)
def test_values_or_a_remedy(kind: Kind, path: Callable[..., list[Any]], tmp_path: Path) -> None:
    for role in ROLES:
        expected = kind.expected(role)
        if expected:
            with_null = role in arrow_types.ATTRIBUTES
            values = path(role, kind, 3 + with_null, tmp_path)
            assert values == expected + [None] * with_null, role
            assert list(map(type, values)) == list(map(type, expected + [None] * with_null)), role
        elif role in TIMES and kind.expected("string") and kind.family != "null" and path in FROM_SOURCES:
            with pytest.raises(DataError, match="expected an ISO 8601 time"):
                path(role, kind, 3, tmp_path)
        elif expected == [] and path is one_type_ignored:
            assert path(role, kind, 3, tmp_path) == []
        else:
            refused(role, kind, path, tmp_path)


def refused(role: str, kind: Kind, path: Callable[..., list[Any]], folder: Path) -> None:
    with pytest.raises((SchemaError, DataError)) as caught:
        path(role, kind, 3, folder)
    message = str(caught.value)
    assert re.search(r"column 'v': found .+, expected .+; \w+", message, re.S), message
    assert isinstance(caught.value, DataError) == (kind.family == "null" or kind.expected(role) == []), message
    for cast in () if path in FROM_SOURCES else re.findall(r"column\.cast\(pa\.\w+\(\)\)", message):
        column = as_table(kind.frame(3), "table")["v"]
        assert isinstance(eval(cast, {"pa": pa, "column": column.slice(0, 0)}), pa.ChunkedArray)


@pytest.mark.parametrize("path", [as_given, source, sorted_source])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.readable], ids=str)
def test_no_type_of_arrow(kind: Kind, path: Callable[..., list[Any]], tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"cannot be read as an Arrow table \(.+\); expected .* cast the others"):
        path("int64", kind, 3, tmp_path)


def test_the_page_has_the_table() -> None:
    page = arrow_types.PAGE.read_text(encoding="utf-8")
    assert arrow_types.page() == page, "run python -m support.doc_tables.arrow_types"


# ------------------------------------------------------------------------------------------------- single values


def values(dtype: str, array: Any) -> list[Any]:
    run = Run(dtype)
    return run.process({"kind": ["A"] * len(array), "at": list(range(len(array))), "v": array})


@pytest.mark.parametrize(
    ("dtype", "array", "found"),
    [
        ("int64", pa.array([2**63], pa.uint64()), "9223372036854775808, expected at most 9223372036854775807"),
        ("int64", pa.array([Decimal("1.5")]), "1.5, expected a whole number that fits int64"),
        ("int64", pa.array([Decimal(2**63)]), f"{2**63}, expected a whole number that fits int64"),
        ("int64", pa.array([Decimal("0.5")], pa.decimal32(3, 1)), "0.5, expected a whole number that fits int64"),
        ("int64", pa.array([Decimal(10**60)], pa.decimal256(70, 0)), f"{10**60}, expected a whole number"),
    ],
)
def test_values_that_do_not_fit(dtype: str, array: Any, found: str) -> None:
    with pytest.raises(DataError, match=f"batch, row 0, column 'v': found {re.escape(found)}.*; declare float64"):
        values(dtype, array)


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.decimal128(20, 0), pa.decimal256(40, 2)])
def test_float64_takes_the_nearest_value(kind: Any) -> None:
    numbers = [2**53, 2**53 + 1, 2**53 + 3, 2**62 + 1]
    assert values("float64", pa.array(numbers, pa.int64()).cast(kind)) == [float(number) for number in numbers]
    assert values("int64", pa.array(numbers, pa.int64()).cast(kind)) == numbers


def test_int64_keeps_its_smallest_and_largest_values() -> None:
    ends = [-(2**63), 2**63 - 1]
    assert values("int64", pa.array(ends)) == ends
    assert values("int64", pa.array([Decimal(end) for end in ends])) == ends
    with pytest.raises(DataError, match=r"row 1, .*found 0\.5"):  # the smallest int64 in row 0 is valid
        values("int64", pa.array([Decimal(ends[0]), Decimal("0.5")], pa.decimal128(38, 1)))


def test_dictionaries_of_chunks_that_outgrow_their_indices() -> None:
    texts = [f"{part}{number}" for part in "xy" for number in range(100)]
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), pa.array(texts[start : start + 100]))
        for start in (0, 100)
    ]
    assert values("string", pa.chunked_array(chunks)) == texts
    run = Run("string")
    table = pa.table({"kind": ["A"] * 200, "at": range(200), "v": pa.chunked_array(chunks)})
    with open_source(table, run.document.schema) as opened:
        assert run.process(*opened) == texts


def test_chunks_of_which_one_has_nulls_in_its_dictionary() -> None:
    plain = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", "b"]))
    with_null_entry = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["b", None]))
    assert values("string", pa.chunked_array([plain, with_null_entry])) == ["a", "b", "b", None]


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["x", "y", "z"]), pl.String], ids=str)
def test_late_events_of_polars(dtype: Any) -> None:
    run = Run("string", allowed_lateness="0s")
    frame = pl.DataFrame({"kind": ["A"] * 3, "at": [5, 1, 6], "v": pl.Series(["x", "y", "z"], dtype=dtype)})
    assert run.process(frame) == ["x", "z"]
    assert run.engine.late()["v"].to_pylist() == ["y"]


def test_evaluation_of_polars() -> None:
    frame = pl.DataFrame({
        "kind": pl.Series(["A", "B", "X"] * 200, dtype=pl.Categorical), "at": range(600),
        "v": pl.Series(["x", "x", "x", "x", "y", "y"] * 100, dtype=pl.Categorical),
    })  # fmt: skip
    text = """STREAM TIME 'at' UNIT s TYPE 'kind' OTHER TYPES IGNORE
        EVENT A (v string)
        EVENT B (v string)
        QUERY q PATTERN SEQ(A a, B b) WHERE a.v = b.v WITHIN 10s"""
    query = fc.parse_document(text).queries[0]
    stream = Stream.of(frame, query.schema)
    assert len(stream) == 400 and len(stream.halves(query.schema)[1]) == 200
    engine = fc.Engine(query)
    counts = [engine.process(block).counts()["q"] for block in stream.blocks()]
    assert sum(counts) == fc.Engine(query).process(frame).counts()["q"] > 0
