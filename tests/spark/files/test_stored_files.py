"""Parquet files as other programs write them, and settings of Spark: tasks find what one engine finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.detection import assert_detects, one_engine, reads_files, with_rows
from support.files import found_in_files

import fastcep as fc
import fastcep.spark
from fastcep.spark.files.parquet import OpenFiles, opened
from fastcep.spark.files.row_groups import files_of
from fastcep.spark.files.task import FileDetection

TYPES = {kind: {"V": "int64", "s": "string", "on": "timestamp"} for kind in "AB"}
SCHEMA = fc.Schema(TYPES, time="ts", type="type", time_unit="us", sequence="row")
KINDS = {"type": "string", "V": "bigint", "s": "string", "ts": "bigint", "on": "timestamp", "row": "bigint"}
QUERY = fc.parse(
    "PATTERN SEQ(A a, B b) WHERE a.V = b.V AND a.s != b.s AND a.on < b.on WITHIN 9us RETURN a.s, b.on AS d", SCHEMA
)


def events(count: int = 600) -> pa.Table:
    random = np.random.default_rng(3)
    return with_rows(pa.table({
        "type": random.choice(["A", "B"], count), "V": random.integers(0, 3, count),
        "s": random.choice(["x", "yy", "ä"], count), "ts": np.arange(count) // 2 * 2,
        "on": pa.array(random.integers(0, 99, count) * 1_000, pa.timestamp("us", "UTC")),
    }))  # fmt: skip


def stored(folder: Path, tables: list[pa.Table], **options: Any) -> str:
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=20, **options)
    return str(folder)


def cast(table: pa.Table, name: str, kind: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))


def stored_differently(folder: Path) -> str:
    """Write `events` as strings, dictionaries, columns without nulls, and times of different units."""
    table = events()
    text = cast(cast(table.slice(100, 100), "s", pa.large_string()), "type", pa.large_string())
    encoded = cast(table.slice(200, 100), "s", pa.dictionary(pa.int8(), pa.string()))
    wide = cast(table.slice(300, 100), "type", pa.dictionary(pa.int8(), pa.large_string()))
    coarse = cast(cast(table.slice(400, 100), "on", pa.timestamp("ms", "UTC")), "s", pa.string())
    required = table.slice(500, 100)
    required = required.cast(pa.schema([field.with_nullable(False) for field in required.schema]))
    rest = pa.concat_tables([table.slice(low, 1) for low in range(100, 600, 100)])  # its row group overlaps with all
    others = (each.slice(1) for each in (text, encoded, wide, coarse, required))
    return stored(folder, [table.slice(0, 100), *others, rest])


def test_tasks_convert_columns(tmp_path: Path) -> None:
    paths = [str(path) for path in Path(stored_differently(tmp_path)).iterdir()]
    found, expected = found_in_files(paths, KINDS, [QUERY], 2), one_engine(QUERY, events())
    assert len(expected) > 100
    for name in ("a", "b", "a.s"):
        assert found[name].to_pylist() == expected[name].to_pylist(), name


@pytest.mark.spark
def test_files_that_store_columns_differently(spark: Any, tmp_path: Path) -> None:
    """Row groups of several files wait together, and a filter reads columns of several types."""
    table, frame = events(), spark.read.parquet(stored_differently(tmp_path))
    assert reads_files(fastcep.spark.detect(frame, QUERY, slices=2))
    assert_detects(frame, QUERY, one_engine(QUERY, table), slices=2)
    kept = frame.where("s >= 'yy' AND on < TIMESTAMP '1970-01-01 00:00:00.050Z'")
    condition = (pc.field("s") >= "yy") & (pc.field("on") < pa.scalar(50_000, pa.timestamp("us", "UTC")))
    assert reads_files(fastcep.spark.detect(kept, QUERY, slices=2))
    assert_detects(kept, QUERY, one_engine(QUERY, table.filter(condition)), slices=2)


@pytest.mark.spark
@pytest.mark.thorough
def test_times_of_different_units(spark: Any, tmp_path: Path) -> None:
    table = cast(events(), "ts", pa.timestamp("us", "UTC"))
    times = pa.array(np.arange(600) // 2 * 2_000, pa.timestamp("us", "UTC"))
    table = table.set_column(3, "ts", times)
    path = stored(tmp_path, [cast(table.slice(0, 300), "ts", pa.timestamp("ms", "UTC")), table.slice(300)])
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.V = b.V AND a.s != b.s WITHIN 9ms RETURN b.time AS at", SCHEMA)
    frame = spark.read.parquet(path)
    assert reads_files(fastcep.spark.detect(frame, query, slices=2))
    assert_detects(frame, query, one_engine(query, table), slices=2)


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("sequence", [None, "row"])
def test_ignored_types(spark: Any, tmp_path: Path, sequence: str | None) -> None:
    """Events of undeclared types do not count for WITHIN n EVENTS, so their positions are not those of rows."""
    table = events()
    kinds = pc.if_else(pc.less(pc.bit_wise_and(table["row"], 7), 5), "other", table["type"])
    table = table.set_column(0, "type", kinds)
    path = stored(tmp_path, [table])
    schema = fc.Schema(TYPES, time="ts", type="type", time_unit="us", sequence=sequence, other_types="ignore")
    frame, order = spark.read.parquet(path), {} if sequence else {"order_by": "row"}
    for window, in_files in (("12 EVENTS", False), ("20us", sequence is not None)):
        query = fc.parse(f"PATTERN SEQ(A a, B b) WHERE a.V = b.V WITHIN {window}", schema)
        expected = one_engine(query, table)
        assert len(expected) > 100
        assert reads_files(fastcep.spark.detect(frame, query, slices=5, **order)) == in_files
        assert_detects(frame, query, expected, slices=5, **order)


@pytest.mark.spark
@pytest.mark.thorough
def test_a_null_type_is_an_error_where_undeclared_types_are_ignored(spark: Any, tmp_path: Path) -> None:
    schema = fc.Schema(TYPES, time="ts", type="type", time_unit="us", sequence="row", other_types="ignore")
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.V = b.V WITHIN 9us", schema)
    kinds = pa.array(["A", None, "C"] * 200)
    frame = spark.read.parquet(stored(tmp_path, [events().set_column(0, "type", kinds)]))
    with pytest.raises(Exception, match="column 'type': found null"):
        fastcep.spark.detect(frame, query, slices=2).count()


@pytest.mark.spark
@pytest.mark.thorough
def test_codes_of_types(spark: Any, tmp_path: Path) -> None:
    """Numbers of types, some of them undeclared."""
    table = events()
    codes = pc.if_else(pc.equal(table["type"], "A"), 7, pc.add(pc.bit_wise_and(table["row"], 1), 8)).cast(pa.int32())
    table = table.set_column(0, "type", codes)
    frame = spark.read.parquet(stored(tmp_path, [table]))
    schema = fc.Schema(TYPES, time="ts", type="type", time_unit="us", sequence="row", codes={"A": 7, "B": 8},
                       other_types="ignore")  # fmt: skip
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.V = b.V WITHIN 9us", schema)
    assert reads_files(fastcep.spark.detect(frame, query, slices=2))
    assert_detects(frame, query, one_engine(query, table), slices=2)


@pytest.mark.spark
@pytest.mark.thorough
def test_files_that_only_spark_reads(spark: Any, tmp_path: Path) -> None:
    """Names in other letters, columns that a file does not have, and times of 96 bits: Arrow would raise an error."""
    table = events()
    upper = table.slice(300).rename_columns(["TYPE", "v", "S", "Ts", "ON", "ROW"])
    late = table.slice(300)
    for number, (second, options) in enumerate([
        (upper, {}), (late.drop_columns(["s"]), {}), (late, {"use_deprecated_int96_timestamps": True}),
        (late.append_column("S", late["s"]), {}),
    ]):  # fmt: skip
        folder = tmp_path / str(number)
        folder.mkdir()
        pq.write_table(table.slice(0, 300), folder / "0.parquet", row_group_size=20)
        pq.write_table(second, folder / "1.parquet", row_group_size=20, **options)
        frame = spark.read.schema(spark.read.parquet(str(folder / "0.parquet")).schema).parquet(str(folder))
        for one in (frame, frame.where("s >= 'x' AND on IS NOT NULL"), frame.where("S >= 'x'")):
            assert not reads_files(fastcep.spark.detect(one, QUERY, slices=2)), number
    folder = tmp_path / "0"
    frame = spark.read.schema(spark.read.parquet(str(folder / "0.parquet")).schema).parquet(str(folder))
    assert_detects(frame.where("s >= 'x'"), QUERY, one_engine(QUERY, table), slices=2)


@pytest.mark.spark
@pytest.mark.thorough
def test_hidden_files(spark: Any, tmp_path: Path) -> None:
    """Spark lists ``_metadata``, but reads no rows from it; copies begin with a dot."""
    table = events()
    collected: list[Any] = []
    path = stored(tmp_path, [table.slice(0, 300), table.slice(300)], metadata_collector=collected)
    pq.write_table(table.slice(300), tmp_path / "_metadata", row_group_size=20)
    pq.write_table(table.slice(300), tmp_path / ".1.parquet", row_group_size=20)
    frame = spark.read.parquet(path)
    assert reads_files(fastcep.spark.detect(frame, QUERY, slices=2))
    assert_detects(frame, QUERY, one_engine(QUERY, table), slices=2)


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("option", "value"),
    [("spark.sql.files.ignoreCorruptFiles", "true"), ("spark.sql.files.ignoreMissingFiles", "true"),
     ("spark.sql.parquet.fieldId.read.enabled", "true"), ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),
     ("ignoreCorruptFiles", "true"), ("IgnoreMissingFiles", "true"), ("datetimeRebaseMode", "legacy")],
)  # fmt: skip
def test_settings_with_which_spark_reads_other_rows(spark: Any, tmp_path: Path, option: str, value: str) -> None:
    path = stored(tmp_path, [events()])
    assert reads_files(fastcep.spark.detect(spark.read.parquet(path), QUERY, slices=2))
    if not option.startswith("spark."):
        assert not reads_files(fastcep.spark.detect(spark.read.option(option, value).parquet(path), QUERY, slices=2))
        return
    before = spark.conf.get(option)
    spark.conf.set(option, value)
    try:
        assert not reads_files(fastcep.spark.detect(spark.read.parquet(path), QUERY, slices=2))
    finally:
        spark.conf.set(option, before)


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("metadata", "in_files"),
    [({"org.apache.spark.version": "4.1.0"}, True), ({"org.apache.spark.version": "2.4.8"}, False),
     ({"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}, False)],
)  # fmt: skip
def test_the_julian_calendar(spark: Any, tmp_path: Path, metadata: dict[str, str], in_files: bool) -> None:
    """Spark 2 wrote old timestamps in another calendar, and with other offsets of zones before 1900."""
    table = events()
    old = pc.add(table["on"].cast(pa.int64()), -3_800_000_000_000_000).cast(pa.timestamp("us", "UTC"))
    table = table.set_column(4, "on", old)
    table = table.replace_schema_metadata({**metadata, "org.apache.spark.timeZone": "America/New_York"})
    frame = spark.read.parquet(stored(tmp_path, [table]))
    assert reads_files(fastcep.spark.detect(frame, QUERY, slices=2)) == in_files
    read = frame.toArrow().sort_by("row")
    assert (read["on"].cast(pa.int64()) == table["on"].cast(pa.int64())) == in_files
    assert_detects(frame, QUERY, one_engine(QUERY, read), slices=2)
    without = fc.parse("PATTERN SEQ(A a, B b) WHERE a.V = b.V WITHIN 9us", SCHEMA)
    assert reads_files(fastcep.spark.detect(frame, without, slices=2))


def test_few_files_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that alternates between files does not open one for each row group."""
    calls: list[str] = []

    def counted(path: str, encoded: Any) -> Any:
        calls.append(path)
        return opened(path, encoded)

    monkeypatch.setattr("fastcep.spark.files.parquet.opened", counted)
    stored(tmp_path, [events(20)] * 20)
    paths = [str(tmp_path / f"{number}.parquet") for number in range(20)]
    footer = opened(paths[0])[1]
    files = OpenFiles([])
    for path in [*paths[:16], *paths[:16], *paths, paths[19], paths[4]]:
        assert files.get(path, footer).metadata.num_rows == 20
        assert len(files._files) <= 16
    assert calls == paths
    files.get(paths[3], footer)
    assert calls == [*paths, paths[3]]
    for number in (6, 0, 1, 6):  # the first one was opened longest ago, but used again
        files.get(paths[number], footer)
    assert calls == [*paths, paths[3], paths[0], paths[1]]
    files.close()
    assert not files._files


def test_nulls_come_first_among_events_of_the_same_time() -> None:
    """As in Spark's order."""
    nothing: Any = None
    task = FileDetection(nothing, {"ts": "ts", "V": "V"}, {}, "ts", 1_000, [("V", None)], True)
    table = pa.table({"ts": [1, 1, 0, 1], "V": [2, None, 5, 1]})
    assert task._sorted(table)["V"].to_pylist() == [5, None, 1, 2]


def test_a_large_row_group_is_divided(tmp_path: Path) -> None:
    """The engine has room for the events of a batch, not for those of a row group."""
    count = 100_000
    table = with_rows(pa.table({"type": ["A", "B"] * (count // 2), "ts": range(count)}))
    pq.write_table(table, tmp_path / "f.parquet")
    schema = fc.Schema({"A": {}, "B": {}}, time="ts", type="type", time_unit="us", sequence="row")
    query = fc.parse("PATTERN SEQ(A a, B b) WITHIN 39us", schema)
    found = found_in_files([str(tmp_path / "f.parquet")], KINDS, [query], 1, memory_limit="2MB")
    assert len(found) == 20 * count // 2 - 190


def test_a_file_that_has_changed(tmp_path: Path) -> None:
    """A file with the same number of rows and row groups, and the same times."""
    path, columns = str(tmp_path / "0.parquet"), ["ts", "type", "row", "V"]
    stored(tmp_path, [events()])
    files = files_of([path], KINDS, SCHEMA, columns)
    assert files is not None
    stored(tmp_path, [events().sort_by([("ts", "ascending"), ("V", "ascending")])])
    with pytest.raises(fc.DataError, match=r"0\.parquet: the file has changed since detect was called; call"):
        OpenFiles([]).get(path, files.groups[0].footer)


@pytest.mark.parametrize(
    ("columns", "in_files"),
    [({}, True), ({"V": "v"}, False), ({"ts": "TS"}, False), ({"on": "V2"}, False), ({"s": "S"}, False)],
)
def test_names_in_other_letters(tmp_path: Path, columns: dict[str, str], in_files: bool) -> None:
    table = events()
    other = table.rename_columns([columns.get(name, name) for name in table.column_names])
    stored(tmp_path, [table.slice(0, 300), other.slice(300)])
    paths = [str(tmp_path / "0.parquet"), str(tmp_path / "1.parquet")]
    for condition in (None, pc.field("s") > "x", pc.field("V") > 1):
        files = files_of(paths, KINDS, SCHEMA, list(KINDS), any_order=True, condition=condition)
        assert (files is not None) == in_files
    twice = table.append_column("v", table["V"])
    assert files_of([stored(tmp_path, [twice]) + "/0.parquet"], KINDS, SCHEMA, list(KINDS)) is None


@pytest.mark.parametrize(
    ("metadata", "rebased", "in_files"),
    [({}, False, True), ({}, True, False), ({"org.apache.spark.version": "4.1.0"}, True, True),
     ({"org.apache.spark.version": "2.4.8"}, False, False),
     ({"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}, False, False)],
)  # fmt: skip
def test_calendars_of_files(tmp_path: Path, metadata: dict[str, str], rebased: bool, in_files: bool) -> None:
    path = stored(tmp_path, [events().replace_schema_metadata(metadata)]) + "/0.parquet"
    assert (files_of([path], KINDS, SCHEMA, list(KINDS), rebased=rebased) is not None) == in_files
    assert files_of([path], KINDS, SCHEMA, ["ts", "type", "row", "V"], rebased=rebased) is not None
