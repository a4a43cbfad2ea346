"""Tasks that read Parquet files in order find what one engine finds, and what Spark finds with a shuffle."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from pyspark.sql import functions as F
from support.detection import assert_detects, one_engine, reads_files, with_rows
from support.harness import without_times

import fastcep as fc
import fastcep.spark
from fastcep import datasets
from fastcep.plan import make_plan
from fastcep.plan.slicing import Context, slicing_of
from fastcep.query.plain_schema import columns_read
from fastcep.spark.files.cutter import cut_by_time, cut_files, packed
from fastcep.spark.files.job import _columns, file_detection
from fastcep.spark.files.row_groups import OrderedFiles, RowGroup, files_of
from fastcep.spark.files.task import sorted_batches
from fastcep.spark.query_group import group_of
from fastcep.spark.slice_task import ORDER

V = {"ID": "int64", "V": "int64"}
TYPES = dict.fromkeys("ABC", V)
PLAIN = fc.Schema(TYPES, time="ts", type="type", time_unit="us")
NUMBERED = fc.Schema(TYPES, time="ts", type="type", time_unit="us", sequence="row")
KINDS = {"type": "string", "ID": "bigint", "V": "bigint", "ts": "bigint", "row": "bigint"}
PATTERNS = [
    "SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 4us", "SEQ(A a, B+ b[], C c) WHERE [ID] AND a.V < c.V WITHIN 5us",
    "SEQ(A a, NEG B n, C c) WHERE a.ID = n.ID WITHIN 6us", "SEQ(A a, B b, NEG C c) WITHIN 3us",
    "SEQ(A a, B b) WHERE a.V = b.V WITHIN 5 EVENTS", "SEQ(A a, NEXT B b, C c) WITHIN 9us",
    "SEQ(A a, B b) WITHIN 4us SELECT first", "SEQ(A a, B b) WINDOW OPEN ON A o WHERE o.V = 1 CLOSE AFTER 5us",
    "SEQ(A a, B+ b[] UNTIL C c) WHERE a.ID = b[i].ID WITHIN 5us",
    "SEQ(A a, B+ b[]) WITHIN 5us STRATEGY skip_till_next SELECT longest",
    "SEQ(A a, NEG B n FOR 2us) WHERE a.ID = n.ID WITHIN 4us", "SEQ(A a, NEG B n FOR 2us, C c) WITHIN 6us",
]  # fmt: skip


@st.composite
def stored_streams(draw: st.DrawFn) -> tuple[pa.Table, list[int], int]:
    """Return events in order of time, the row numbers at which files begin, and the rows of a row group."""
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 1, 2, 7]), min_size=1, max_size=40))
    count = len(gaps)
    small = st.lists(st.integers(1, 3), min_size=count, max_size=count)
    kinds = draw(st.lists(st.sampled_from("ABC"), min_size=count, max_size=count))
    table = pa.table({
        "type": kinds, "ID": pa.array(draw(small)), "V": pa.array(draw(small)),
        "ts": pa.array(np.cumsum(gaps) - 9), "row": pa.array(range(count)),
    })  # fmt: skip
    return table, sorted(draw(st.sets(st.integers(1, count), max_size=4))), draw(st.integers(1, 9))


def stored_names(swapped: bool, columns: list[str]) -> dict[str, str]:
    """Return the names of columns in the files, which may be those of each other."""
    return {name: {"ID": "V", "V": "ID"}.get(name, name) if swapped else name for name in columns}


@given(
    stored_streams(), st.sampled_from(PATTERNS), st.integers(1, 6), st.booleans(), st.booleans(),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_drawn_files(
    stream: tuple[pa.Table, list[int], int], pattern: str, slice_count: int, numbered: bool, swapped: bool, random: Any
) -> None:
    """Events of the same time in several row groups and files; rows of a row group in any order; renamed columns."""
    table, begins, rows = stream
    query = fc.parse(f"PATTERN {pattern} RETURN a.time AS at, a.V AS v", NUMBERED if numbered else PLAIN)
    order_by = None if numbered else "row"
    context = slicing_of(make_plan(query)).time
    assert isinstance(context, Context)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        paths = []
        for begin, end in zip([0, *begins], [*begins, len(table)], strict=True):
            order = [n for low in range(begin, end, rows) for n in mixed(range(low, min(low + rows, end)), random)]
            paths.append(f"{folder}/{random.randrange(10**9)}-{begin}")
            renamed = table.rename_columns(stored_names(swapped, table.column_names))
            pq.write_table(renamed.take(pa.array(order, pa.int64())), paths[-1], row_group_size=rows)
        columns = _columns(group_of([query]), order_by)
        assert columns is not None
        stored = stored_names(swapped, columns)
        files = files_of(sorted(paths), KINDS, query.schema, list(stored.values()))
        assert files is not None
        files = replace(files, stored=stored)
        slices = cut_files(files, slice_count, 1, context, most_reread=99)
        assert slices is not None
        event(f"slices: {len(slices)}")
        task = file_detection(group_of([query]), order_by, files, {}, exact=True)
        rows_of_slices = packed(slices).take(mixed(range(len(slices)), random)).to_batches()
        found = pa.Table.from_batches(task(rows_of_slices), task.detection.schema)
    expected = one_engine(query, table)
    found = found.sort_by(ORDER)
    for name in expected.column_names:
        assert found[name].to_pylist() == without_times(expected[name]).to_pylist(), name


@given(
    stored_streams(), st.sampled_from(PATTERNS), st.integers(1, 6), st.integers(0, 3), st.booleans(),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_drawn_files_in_any_order(
    stream: tuple[pa.Table, list[int], int], pattern: str, slice_count: int, least: int, swapped: bool, random: Any
) -> None:
    """Row groups that overlap, a filter, and renamed columns."""
    table, begins, rows = stream
    query = fc.parse(f"PATTERN {pattern} RETURN a.time AS at, a.V AS v", NUMBERED)
    context = slicing_of(make_plan(query)).time
    assert isinstance(context, Context)
    assume(not context.events)
    names = stored_names(swapped, table.column_names)
    condition = pc.field(names["ID"]) >= least if least else None
    nearly = sorted(range(len(table)), key=lambda number: number + random.randrange(9))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        paths = []
        for begin, end in zip([0, *begins], [*begins, len(table)], strict=True):
            paths.append(f"{folder}/{begin}")
            renamed = table.rename_columns(names)
            pq.write_table(renamed.take(pa.array(nearly[begin:end], pa.int64())), paths[-1], row_group_size=rows)
        columns = _columns(group_of([query]), None)
        assert columns is not None
        read = list({*(names[name] for name in columns), *([] if condition is None else [names["ID"]])})
        files = files_of(paths, KINDS, NUMBERED, read, any_order=True, condition=condition)
        events = table if condition is None else table.filter(pc.field("ID") >= least)
        if files is None:
            assert not len(events)
            return
        files = replace(files, stored=names)
        slices = cut_by_time(files, slice_count, 1, context, most_reread=99)
        assert slices is not None
        event(f"slices: {len(slices)}, in order: {files.in_order}")
        task = file_detection(group_of([query]), None, files, {}, exact=True)
        rows_of_slices = packed(slices).take(mixed(range(len(slices)), random)).to_batches()
        found = pa.Table.from_batches(task(rows_of_slices), task.detection.schema)
    expected, found = one_engine(query, events), found.sort_by(ORDER)
    for name in expected.column_names:
        assert found[name].to_pylist() == without_times(expected[name]).to_pylist(), name


def mixed(numbers: range, random: Any) -> list[int]:
    return random.sample(numbers, len(numbers))


@pytest.mark.parametrize(("times", "expected"), [([1, 2, 5, 7], True), ([1, 5, 5, 7], True), ([1, 6, 5, 7], False)])
def test_row_groups_that_overlap_are_not_in_order(tmp_path: Path, times: list[int], expected: bool) -> None:
    table = pa.table({"type": ["A"] * 4, "ID": [1] * 4, "V": [1] * 4, "ts": times, "row": range(4)})
    pq.write_table(table, tmp_path / "f", row_group_size=2)
    assert (files_of([str(tmp_path / "f")], KINDS, NUMBERED, list(KINDS)) is not None) == expected


def test_a_row_group_that_ends_after_the_next_ones() -> None:
    times = [[0, 100, 35], [10, 20], [30, 40], [150]]
    groups = [RowGroup("f", number, len(each), min(each), max(each)) for number, each in enumerate(times)]
    tables = [pa.table({"t": each}) for each in times]
    found = sorted_batches(groups, tables, lambda table: table["t"].to_numpy(), lambda table: table.sort_by("t"))
    assert pa.concat_tables(found)["t"].to_pylist() == [0, 10, 20, 30, 35, 40, 100, 150]


def test_little_is_read_twice() -> None:
    groups = tuple(RowGroup("f", number, 100, 10 * number, 10 * number + 9) for number in range(8))
    files = OrderedFiles(groups, 1)
    assert cut_files(files, 4, 1, Context(21)) is None
    slices = cut_files(files, 2, 1, Context(11))
    assert slices is not None
    assert [[group.number for group in piece.groups] for piece in slices] == [[0, 1, 2, 3], [2, 3, 4, 5, 6, 7]]
    assert (slices[1].bounds.start, slices[1].bounds.position, slices[1].begin) == (40, 200, 29)
    by_count = cut_files(files, 2, 1, Context(events=150))
    assert by_count is not None
    assert [[group.number for group in piece.groups] for piece in by_count] == [[0, 1, 2, 3], [2, 3, 4, 5, 6, 7]]
    assert cut_files(files, 2, 3, Context(1)) is None


def test_row_groups_that_reach_into_later_slices() -> None:
    lasts = [900, 19, 29, 39, 649, 59, 69, 79, 89, 99]
    groups = tuple(RowGroup("f", number, 100, 10 * number, last) for number, last in enumerate(lasts))
    slices = cut_by_time(OrderedFiles(groups, 1), 5, 1, Context(5), most_reread=9)
    assert slices is not None
    assert len(slices) == 5
    for piece in slices:
        begin, end = -1 if piece.begin is None else piece.begin, 999 if piece.end is None else piece.end
        assert piece.groups == tuple(group for group in groups if group.last >= begin and group.first < end)


def test_slices_begin_where_a_time_begins() -> None:
    """Events of one time can be in any order in two row groups, so the positions of slices would not be known."""
    times = [(0, 9), (10, 20), (20, 29), (30, 39)]
    groups = tuple(RowGroup("f", number, 100, *each) for number, each in enumerate(times))
    slices = cut_files(OrderedFiles(groups, 1), 2, 1, Context(0), most_reread=9)
    assert slices is not None
    assert [piece.bounds.position for piece in slices] == [0, 100]
    assert slices[1].bounds.start == 10


def test_columns_that_the_query_does_not_read_are_not_read() -> None:
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.V = b.V WITHIN 4us", NUMBERED)
    assert _columns(group_of([query]), None) == ["ts", "type", "row", "V"]
    assert columns_read(query) == {1}


# ------------------------------------------------------------------------ Spark


@pytest.fixture(scope="module")
def ds1() -> pa.Table:
    return with_rows(datasets.ds1(events=60_000, seed=5))


@pytest.fixture(scope="module")
def folder(ds1: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with files whose names are not in order, one of them empty, and a blank in a name."""
    folder = tmp_path_factory.mktemp("ds1 files")
    for number, low in enumerate(range(0, 60_000, 15_000)):
        pq.write_table(ds1.slice(low, 15_000), folder / f"{'dcba'[number]} {low}.parquet", row_group_size=2_000)
    pq.write_table(ds1.slice(0, 0), folder / "none.parquet")
    return folder


D = {"ID": "int64", "V": "int64"}
FOUR = fc.Schema(dict.fromkeys("ABCD", D), time="ts", type="type", time_unit="us")
FOUR_NUMBERED = fc.Schema(dict.fromkeys("ABCD", D), time="ts", type="type", time_unit="us", sequence="row")


@pytest.mark.sample("positions")
@pytest.mark.spark
@pytest.mark.parametrize("schema", [FOUR, FOUR_NUMBERED], ids=["positions", "numbers"])
def test_both_ways(spark: Any, ds1: pa.Table, folder: Path, schema: fc.Schema) -> None:
    query = fc.parse("PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V WITHIN 1ms RETURN a.V", schema)
    expected = one_engine(query, ds1)
    assert len(expected) > 500
    frame = spark.read.parquet(str(folder))
    order = {} if schema is FOUR_NUMBERED else {"order_by": "row"}
    for source, in_files in ((frame, True), (frame.select("ts", "row", "V", "ID", "type"), True),
                             (frame.where("row >= 0"), schema is FOUR_NUMBERED),
                             (frame.where("row + 0 >= 0"), False), (frame.withColumn("V", F.col("V") + 0), False),
                             (frame.select("ts", "row", F.col("ID").alias("V"), F.col("V").alias("ID"), "type"), True),
                             (frame.union(frame.limit(0)), False)):  # fmt: skip
        assert reads_files(fastcep.spark.detect(source, query, slices=6, **order)) == in_files
    assert_detects(frame, query, expected, slices=6, **order)
    assert_detects(frame.where("row >= 0"), query, expected, slices=6, **order)
    assert_detects(frame.where("row + 0 >= 0"), query, expected, slices=6, **order)
    assert not reads_files(fastcep.spark.detect(frame, query, slicing="key", **order))
    text = fastcep.spark.explain(frame, query, slices=6, **order)
    assert "60,000 events in 6 slices: tasks read the 32 row groups, which are in order" in text


@pytest.mark.thorough
@pytest.mark.spark
def test_files_that_are_not_in_order(spark: Any, ds1: pa.Table, tmp_path: Path) -> None:
    """Overlapping row groups, nulls, types that Arrow and Spark read differently, and files without statistics."""
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] AND a.V = 1 AND b.V = 2 WITHIN 1ms", FOUR_NUMBERED)
    ignored = fc.Schema(TYPES, time="ts", type="type", time_unit="us", other_types="ignore")
    small = ds1.slice(0, 5_000)
    mixed_rows = small.take(np.random.default_rng(1).permutation(5_000))
    nearly = small.take(np.argsort(np.arange(5_000) + np.random.default_rng(2).integers(0, 300, 5_000)))
    late = small.set_column(3, "ts", pa.array([None, *small["ts"].to_pylist()[1:]], pa.int64()))
    cases: list[tuple[pa.Table, dict[str, Any], fc.Schema, bool]] = [
        (small, {}, FOUR_NUMBERED, True), (mixed_rows, {}, FOUR_NUMBERED, False), (nearly, {}, FOUR_NUMBERED, True),
        (nearly, {}, FOUR, False), (late, {}, FOUR_NUMBERED, False),
        (small, {"write_statistics": False}, FOUR_NUMBERED, False), (small, {}, ignored, False),
        (small.set_column(3, "ts", small["ts"].cast(pa.timestamp("us", "UTC"))), {}, FOUR_NUMBERED, True),
        (small.set_column(3, "ts", small["ts"].cast(pa.timestamp("us"))), {}, FOUR_NUMBERED, False),
        (small.set_column(2, "V", small["V"].cast(pa.decimal128(19, 0))), {}, FOUR_NUMBERED, False),
    ]  # fmt: skip
    for number, (table, options, schema, in_files) in enumerate(cases):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table, path, row_group_size=500, **options)
        again = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] AND a.V = 1 AND b.V = 2 WITHIN 1ms", schema)
        matches = fastcep.spark.detect(spark.read.parquet(str(path)), again, slices=2)
        assert reads_files(matches) == in_files, number
    expected = one_engine(query, small)
    for number in (1, 2, 7):
        assert_detects(spark.read.parquet(str(tmp_path / f"{number}.parquet")), query, expected, slices=2)
    with pytest.raises(Exception, match="column 'ts': found null in 1 row, "):
        fastcep.spark.detect(spark.read.parquet(str(tmp_path / "4.parquet")), query).count()


@pytest.mark.spark
def test_filters_of_types_and_times(spark: Any, ds1: pa.Table, folder: Path) -> None:
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] WITHIN 100us", FOUR_NUMBERED)
    frame = spark.read.parquet(str(folder)).where("type > 'A' OR ID IN (1, 2)").where("ts BETWEEN 100000 AND 400000")
    text = fastcep.spark.explain(frame, query, slices=3)
    assert "32,000 rows in 3 slices: tasks read the 17 row groups, which are in order, 12.5% of the rows twice" in text
    is_event = ((pc.field("type") > "A") | pc.field("ID").isin([1, 2])) & (pc.field("ts") >= 100_000)
    expected = one_engine(query, ds1.filter(is_event & (pc.field("ts") <= 400_000)))
    assert len(expected) > 100
    assert_detects(frame, query, expected, slices=3)


@pytest.mark.thorough
@pytest.mark.spark
def test_timestamp_attributes(spark: Any, tmp_path: Path) -> None:
    """Tasks read integers, and timestamps with a zone; those without one are of the schema's zone."""
    booked = pa.array([None if n % 11 == 0 else 3_600_000_000 * (n % 7) - 1 for n in range(400)], pa.int64())
    table = with_rows(pa.table({"at": range(400), "booked": booked}))
    text = "PATTERN SEQ(A a, A b) WHERE a.booked = b.booked AND hour(b.booked) != 3 WITHIN 20us RETURN a.booked, b.time"
    for sequence in (None, "row"):
        schema = fc.Schema({"A": {"booked": "timestamp"}}, time="at", time_unit="us", sequence=sequence,
                           time_zone="America/New_York")  # fmt: skip
        query = fc.parse(text, schema)
        for number, (kind, in_files) in enumerate(
            [(pa.int64(), True), (pa.timestamp("us", "UTC"), True), (pa.timestamp("ms", "UTC"), True),
             (pa.timestamp("us"), False)]
        ):  # fmt: skip
            stored = table.set_column(1, "booked", booked.cast(pa.timestamp("us", "UTC")).cast(kind, safe=False))
            path = str(tmp_path / f"{sequence}{number}.parquet")
            pq.write_table(stored, path, row_group_size=50)
            frame, order = spark.read.parquet(path), {} if sequence else {"order_by": "row"}
            assert reads_files(fastcep.spark.detect(frame, query, slices=3, **order)) == in_files, kind
            expected = one_engine(query, stored)
            assert len(expected) > 200
            assert_detects(frame, query, expected, slices=3, **order)


@pytest.mark.thorough
@pytest.mark.spark
def test_earlier_events(spark: Any, ds1: pa.Table, folder: Path) -> None:
    """`prev` reads an event of any earlier time: files are not cut by time, but sent by the key of PARTITION BY."""
    text = "PATTERN SEQ(A a, B b) WHERE [ID] AND a.V = b.V AND prev(a.V) < a.V WITHIN 1ms"
    frame = spark.read.parquet(str(folder))
    for schema, order in ((FOUR_NUMBERED, {}), (FOUR, {"order_by": "row"})):
        query = fc.parse(f"{text} PARTITION BY ID RETURN prev(a.V) AS before", schema)
        expected = one_engine(query, ds1)
        assert len(expected) > 100
        assert not reads_files(fastcep.spark.detect(frame, query, slices=4, **order))
        assert_detects(frame, query, expected, slices=4, **order)
        with pytest.raises(fc.ValidationError, match=r"prev\(a.V\) reads an event that may lie any time before"):
            fastcep.spark.detect(frame, fc.parse(text, schema), **order)
