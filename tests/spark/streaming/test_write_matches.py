"""``fastcep.spark.write_matches`` writes the rows of one engine that gets each micro-batch in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.micro_batches import QUERIES, pieces, query, rows_in, rows_of_one_engine, run, stream, write

import fastcep as fc
import fastcep.spark
from fastcep.errors import ValidationError

pytestmark = pytest.mark.spark


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "slices", "types"),
    [
        ("kleene", 3, "ABC"),
        ("trailing", 2, "ABC"),
        ("windowed", 1, "ABCD"),
        ("silence", 3, "ABC"),
        ("longest", 2, "AB"),
    ],
)
def test_rows_of_one_engine(spark: Any, tmp_path: Path, name: str, slices: int, types: str) -> None:
    """With disorder and late events, in micro-batches that do not begin with a window."""
    tables = pieces(6_000, 4, disorder=3_000)
    write(tmp_path / "in", tables)
    run(
        stream(spark, tmp_path / "in"), query(name), tmp_path / "out", tmp_path / "state",
        allowed_lateness="500us", slices=slices,
    )  # fmt: skip
    expected = rows_of_one_engine(query(name), tables, "500us", types)
    kinds = [row.count("('kind', 'late')") for row in expected]
    assert 0 < sum(kinds) < len(kinds)
    assert rows_in(tmp_path / "out") == expected


@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "slices"), [("kleene", [2, 4, 3]), ("trailing", [3, 1, 4, 1])])
def test_slices_change_at_a_restart(spark: Any, tmp_path: Path, name: str, slices: list[int]) -> None:
    """Units are divided, and slices have several of them, also a single slice."""
    tables = pieces(6_000, len(slices), disorder=3_000)
    for number, count in enumerate(slices):
        last = number + 1 == len(slices)
        write(tmp_path / "in", tables[number : number + 1 + last], first=number)
        run(
            stream(spark, tmp_path / "in"), query(name), tmp_path / "out", tmp_path / "state",
            allowed_lateness="500us", slices=count,
        )  # fmt: skip
        progress = fastcep.spark.stream_progress(tmp_path / "state")
        assert progress is not None and progress.slices == count
    assert rows_in(tmp_path / "out") == rows_of_one_engine(query(name), tables, "500us", "ABC")


@pytest.mark.thorough
def test_the_state_of_quiet_groups_shrinks(spark: Any, tmp_path: Path) -> None:
    """The watermark reaches slices without events; ``slices`` is that of the checkpoint."""
    (events, _), end = pieces(4_000, 1), pieces(4, 1)[-1]
    types = {name: {} if name == "D" else {"ID": "int64", "V": "int64"} for name in "ABCD"}
    schema = fc.Schema(types, time="ts", type="type", time_unit="us", sequence="row")
    waiting = fc.parse(QUERIES["trailing"].replace("500us", "1h"), schema, name="trailing")
    sizes, rows = [], []
    for number, tables in enumerate([[events], [end]]):
        write(tmp_path / "in", tables, first=number)
        run(stream(spark, tmp_path / "in"), waiting, tmp_path / "out", tmp_path / "state", slices=[4, None][number])
        progress = fastcep.spark.stream_progress(tmp_path / "state")
        assert progress is not None and progress.slices == 4
        sizes.append((progress.state_bytes, progress.partial_matches))
        rows.append(progress.matches)
    assert sizes[0][0] > 20_000 and sizes[0][1] > 1_000
    assert sizes[1][0] < 4 * 1_500 and sizes[1][1] == 0
    assert rows[0] == 0 and rows[1] > 0
    assert len(list((tmp_path / "state" / "batches").iterdir())) == 2  # older folders are removed


@pytest.mark.thorough
def test_strings_nulls_and_time_outs_without_numbers(spark: Any, tmp_path: Path) -> None:
    """Events are numbered by batch; the values of RETURN show which ones a match has."""
    attributes = {"key": "string", "n": "int64", "t": "timestamp"}
    schema = fc.Schema(dict.fromkeys("AB", attributes), time="at", type="type", time_unit="ms", other_types="ignore")
    pair = fc.parse("PATTERN SEQ(A a, B b) WHERE [key] WITHIN 5ms STRATEGY skip_till_next RETURN a.n AS x, b.n AS y",
                    schema, name="pair")  # fmt: skip
    keys = ["é", None, "x", "", "é", "yy", "x" * 40]
    rows = [
        {"type": "AB"[n * n % 3 % 2], "key": keys[n * 5 % 7], "n": n, "at": n + 7 * (n % 3),
         "t": None if n % 5 == 0 else 10**15 + n} for n in range(300)
    ] + [{"type": "Z", "key": None, "n": -1, "at": 10**6, "t": 0}]
    types = pa.schema([("type", pa.string()), ("key", pa.string()), ("n", pa.int64()), ("at", pa.int64()),
                       ("t", pa.timestamp("us", "UTC"))])  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=types)
    tables = [table.slice(0, 100), table.slice(100, 90), table.slice(190, 110), table.slice(300)]
    write(tmp_path / "in", tables)
    run(
        stream(spark, tmp_path / "in"), pair, tmp_path / "out", tmp_path / "state",
        timed_out=True, slices=4, order_by="n", allowed_lateness="2ms", attributes=True,
    )  # fmt: skip
    kinds: dict[str, list[Any]] = {"match": [], "late": [], "timed_out": []}
    files = (tmp_path / "out").glob("batch=*/*.parquet")
    for row in (row for file in files for row in pq.ParquetFile(file).read().to_pylist()):
        kinds[row["kind"]].append(
            _late(row["late"]) if row["kind"] == "late" else
            (row["x"], row["y"], row["a.key"], _seconds(row["a.t"])) if row["kind"] == "match" else
            (row["timed_out_at"].timestamp(), row["bound"], row["waits_for"])
        )  # fmt: skip
    engine = fc.Engine(fc.with_attributes(pair), allowed_lateness="2ms", timed_out=True)
    expected: dict[str, list[Any]] = {"match": [], "late": [], "timed_out": []}
    for part in tables:
        matches = engine.process(part.sort_by([("at", "ascending"), ("n", "ascending")])).to_arrow()
        expected["match"] += ((row["x"], row["y"], row["a.key"], _seconds(row["a.t"])) for row in matches.to_pylist())
        expected["late"] += map(_late, engine.late().to_pylist())
        expected["timed_out"] += (
            (row["timed_out_at"].timestamp(), row["bound"], row["waits_for"]) for row in engine.timed_out().to_pylist()
        )
    for kind, found in kinds.items():
        assert len(found) > 5, kind
        assert sorted(map(repr, found)) == sorted(map(repr, expected[kind])), kind


@pytest.mark.thorough
def test_numbers_that_do_not_ascend_with_time(spark: Any, tmp_path: Path) -> None:
    """As those made of the partition and the offset of Kafka: unique, and of any order between partitions."""
    tables = []
    for table in pieces(3_000, 3, disorder=2_000):
        numbers = (table["ID"].to_numpy() % 3 << 48) + table["row"].to_numpy()
        tables.append(table.set_column(table.column_names.index("row"), "row", pa.array(numbers)))
    write(tmp_path / "in", tables)
    run(stream(spark, tmp_path / "in"), query("kleene"), tmp_path / "out", tmp_path / "state", slices=2,
        allowed_lateness="500us")  # fmt: skip
    expected = rows_of_one_engine(query("kleene"), tables, "500us", "ABC")
    assert len(expected) > 20 and rows_in(tmp_path / "out") == expected


def test_overload(spark: Any, tmp_path: Path) -> None:
    """The engine of each slice sheds, also after a restart; the progress says what was dropped."""
    tables = pieces(60_000, 3)
    options: dict[str, Any] = {"latency_bound": "500ns", "shedder": "rs"}
    found, dropped = [], []
    for number in range(2):
        write(tmp_path / "in", tables[number : number + 1], first=number)
        run(stream(spark, tmp_path / "in"), query("kleene"), tmp_path / "out", tmp_path / "state", slices=2, **options)
        progress = fastcep.spark.stream_progress(tmp_path / "state")
        assert progress is not None and progress.latency is not None and progress.latency > 0
        assert progress.estimated_recall is not None and 0 <= progress.estimated_recall < 1
        found.append(progress.matches)
        dropped.append(progress.dropped_events + progress.dropped_partial_matches)
    assert 0 < dropped[0] < dropped[1]
    run(stream(spark, tmp_path / "in"), query("kleene"), tmp_path / "all", tmp_path / "other", slices=2)
    whole, rows = rows_in(tmp_path / "all"), rows_in(tmp_path / "out")
    assert sum(found) == len(rows) < len(whole) and set(rows) < set(whole)
    progress = fastcep.spark.stream_progress(tmp_path / "other")
    assert progress is not None and (progress.dropped_events, progress.latency) == (0, None)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("cache", "reads"), [(True, 1), (False, 2)])
def test_a_query_that_runs_until_it_is_stopped(spark: Any, tmp_path: Path, cache: bool, reads: int) -> None:
    """With a name and an interval, and files that come while it runs; a micro-batch in a cache is read once."""
    tables = pieces(2_000, 3, disorder=2_000)
    write(tmp_path / "in", tables[:1])
    rows = spark.sparkContext.accumulator(0)

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows.add(batch.num_rows)
            yield batch

    def start(state: str) -> Any:
        events = stream(spark, tmp_path / "in")
        return fastcep.spark.write_matches(
            events.mapInArrow(counted, events.schema), query("kleene"), tmp_path / "out", tmp_path / state,
            allowed_lateness="500us", slices=2, query_name="orders", trigger={"processingTime": "100 milliseconds"},
            cache_batches=cache,
        )  # fmt: skip

    running = start("state")
    try:
        assert running.name == "orders"
        for number, table in enumerate(tables[1:], 1):
            running.processAllAvailable()
            write(tmp_path / "in", [table], first=number)
        running.processAllAvailable()
    finally:
        running.stop()
    assert rows_in(tmp_path / "out") == rows_of_one_engine(query("kleene"), tables, "500us", "ABC")
    assert rows.value == reads * sum(table.num_rows for table in tables)


def test_two_queries_of_one_name(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", pieces(200, 1))
    options: dict[str, Any] = {"query_name": "one name", "trigger": {"processingTime": "1 hour"}, "slices": 1}
    events = stream(spark, tmp_path / "in")
    running = fastcep.spark.write_matches(events, query("kleene"), tmp_path / "out", tmp_path / "state", **options)
    try:
        with pytest.raises(ValidationError, match=r"query_name='one name': another streaming query .* has this name"):
            fastcep.spark.write_matches(events, query("kleene"), tmp_path / "out2", tmp_path / "state2", **options)
    finally:
        running.stop()


def _late(event: dict[str, Any]) -> list[Any]:
    """Return the values of a late event, without its number."""
    return [round(event["at"].timestamp() * 1_000), event["type"], event["key"], event["n"], _seconds(event["t"])]


def _seconds(time: Any) -> float | None:
    return None if time is None else time.timestamp()
