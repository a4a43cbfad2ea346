"""``fastcep.spark.detect`` finds the matches of a single engine, in its order, on real Spark."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import functions as F
from support.detection import assert_detects, one_engine, with_rows

import fastcep as fc
import fastcep.spark
from fastcep import datasets

pytestmark = pytest.mark.spark

V = {"ID": "int64", "V": "int64"}
DS1 = fc.Schema(dict.fromkeys("ABCD", V), time="ts", type="type", time_unit="us")
NUMBERED = fc.Schema(dict.fromkeys("ABCD", V), time="ts", type="type", time_unit="us", sequence="row")
SAME = "a.ID = b.ID AND a.ID = c.ID"
QUERIES = {
    "Q1": f"PATTERN SEQ(A a, B b, C c) WHERE {SAME} AND a.V + b.V = c.V WITHIN 1ms",
    "QS": f"PATTERN SEQ(A a, B b, C c) WHERE {SAME} AND a.V = 10 AND b.V = 10 AND c.V = 10 WITHIN 5ms",
    "QK": "PATTERN SEQ(A a, B+ k[], C c) WHERE a.ID = k[i].ID AND a.ID = c.ID AND k[i].V = a.V WITHIN 1ms",
    "trailing": "PATTERN SEQ(A a, B b, NEG C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V = b.V WITHIN 500us",
    "leading": "PATTERN SEQ(NEG C c, A a, B b) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V = b.V WITHIN 500us",
    "count": "PATTERN SEQ(A a, B b) WHERE a.V = b.V AND a.ID = b.ID WITHIN 40 EVENTS",
    "strict": "PATTERN SEQ(A a, B b, C c) WHERE [ID] WITHIN 5ms STRATEGY strict_contiguity",
    "close": "PATTERN SEQ(A a, NEXT B b, C c) WHERE a.ID = c.ID WITHIN 300us",
    "next": "PATTERN SEQ(A a, B b, C c) WHERE [ID] WITHIN 1ms STRATEGY skip_till_next",
    "first": "PATTERN SEQ(A a, B b) WHERE [ID] WITHIN 1ms SELECT first",
    "slide": "PATTERN SEQ(A a, B b) WHERE a.ID = b.ID AND a.V = b.V "
    "WINDOW EVERY 150 EVENTS CLOSE AFTER 1ms SELECT last CONSUME consumed LIMIT 3 PER WINDOW",
    "opened": "PATTERN SEQ(B a, C b) WHERE a.ID = b.ID WINDOW OPEN ON A o WHERE o.V = 1 CLOSE AFTER 70 EVENTS",
    "periodic": "PATTERN PERIODIC(A a, 250us, C c) WHERE a.ID = c.ID AND a.V = 10 WITHIN 2ms",
}
BOTH = ["Q1", "QS", "QK", "trailing", "leading", "next", "first"]


@pytest.fixture(scope="module")
def ds1() -> pa.Table:
    return with_rows(datasets.ds1(events=60_000, seed=7))


@pytest.fixture(scope="module")
def frame(spark: Any, ds1: pa.Table) -> Any:
    return spark.createDataFrame(ds1).repartition(3, "V").cache()  # not in order


@pytest.mark.parametrize(
    ("name", "slices"),
    [
        pytest.param(name, slices, marks=() if (name, slices) == ("Q1", 4) else pytest.mark.thorough)
        for name in ("Q1", "QS", "QK") for slices in (1, 4, 32)
    ],
)  # fmt: skip
def test_limit_queries(frame: Any, ds1: pa.Table, name: str, slices: int) -> None:
    query = fc.parse(QUERIES[name], DS1, name=name)
    expected = one_engine(query, ds1)
    assert len(expected) > 30
    assert_detects(frame, query, expected, order_by="row", slices=slices)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [name for name in QUERIES if name not in ("Q1", "QS", "QK")])
def test_by_time(frame: Any, ds1: pa.Table, name: str) -> None:
    query = fc.parse(QUERIES[name], DS1, name=name)
    expected = one_engine(query, ds1)
    assert len(expected) > 10
    assert_detects(frame, query, expected, order_by="row", slicing="time", slices=9)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", BOTH)
def test_by_key(frame: Any, ds1: pa.Table, name: str) -> None:
    """Some of the ten keys share a group, and keys with more events than a slice should have are cut by time."""
    query = fc.parse(QUERIES[name], NUMBERED, name=name)
    expected = one_engine(query, ds1)
    assert_detects(frame, query, expected, slicing="key", slices=16)


@pytest.mark.thorough
def test_numbers_are_given_before_events_go_to_their_keys(frame: Any, ds1: pa.Table) -> None:
    query = fc.parse(QUERIES["Q1"] + " RETURN a.seq, c.seq - a.seq AS between", DS1)
    assert_detects(frame, query, one_engine(query, ds1), order_by=["row"], slicing="key", slices=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Q1", "QS", "QK"])
def test_a_million_events(spark: Any, name: str) -> None:
    table = with_rows(datasets.ds1(events=1_000_000, seed=7))
    query = fc.parse(QUERIES[name], DS1, name=name)
    frame = spark.createDataFrame(table)
    expected = one_engine(query, table)
    for slices in (1, 4, 32):
        assert_detects(frame, query, expected, order_by="row", slices=slices)


# -------------------------------------------------------------------- real data

TRIPS = fc.Schema(
    {"BikeTrip": {"bike": "int64", "start": "int64", "end": "int64"}}, time="start_date",
    sources={"BikeTrip": {"bike": "bike_id", "start": "start_terminal", "end": "end_terminal"}},
)  # fmt: skip
HOT_PATHS = (
    "PATTERN SEQ(BikeTrip{2,} a[], BikeTrip b) "
    "WHERE a[i+1].bike = a[i].bike AND a[i+1].start = a[i].end AND a[last].bike = b.bike WITHIN 1h"
)


@pytest.mark.sample("time")
@pytest.mark.parametrize("slicing", ["key", "time"])
def test_hot_paths(spark: Any, tmp_path: Path, slicing: str) -> None:
    """A year of trips in a Parquet file, with minutes as timestamps and many ties."""
    table = with_rows(pq.read_table(datasets.path("bayarea_2014")))
    path = tmp_path / "trips.parquet"
    at = table.column_names.index("start_date")
    us = table["start_date"].cast(pa.timestamp("us", "UTC"))
    pq.write_table(table.set_column(at, "start_date", us), path)
    query = fc.parse(HOT_PATHS, TRIPS, name="hot_paths")
    expected = one_engine(query, table)
    assert len(expected) == 18_638
    assert_detects(spark.read.parquet(str(path)), query, expected, order_by="row", slicing=slicing, slices=6)


@pytest.mark.thorough
@pytest.mark.parametrize(("steps", "matches"), [(3, 578), (5, 21)])
def test_google_prefixes(spark: Any, steps: int, matches: int) -> None:
    table = with_rows(pq.read_table(datasets.path("google_2011")))
    schema = fc.parse_file(Path(__file__).parents[2] / "examples" / "papers" / "cluster.cep").schema
    names = ["Su a", "Sc b", "Ev c", "Sc d", "Ev e"][:steps]
    where = ["[job, task]", "b.machine = c.machine", "b.machine != d.machine", "d.machine = e.machine"][: steps - 1]
    query = fc.parse(f"PATTERN SEQ({', '.join(names)}) WHERE {' AND '.join(where)} WITHIN 1h", schema, name="prefix")
    expected = one_engine(query, table)
    assert len(expected) == matches
    assert_detects(spark.createDataFrame(table), query, expected, order_by="row", slices=4)


# --------------------------------------------------------------------- columns

WHEN = fc.Schema({"A": {"x": "int64"}}, time="at")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kind", "zone"),
    [
        ("timestamp", None),
        ("timestamp_ntz", None),
        ("timestamp_ntz", "America/New_York"),
        ("date", None),
        ("int", None),
    ],
)
def test_times(spark: Any, tmp_path: Path, kind: str, zone: str | None) -> None:
    """Times of all types equal those of the engine, in any session time zone, across daylight saving changes."""
    days = [datetime(2024, 3, 9, 12) + timedelta(minutes=40 * n) for n in range(90)]
    times: Any = pa.array(days, pa.timestamp("us"))
    schema = fc.Schema({"A": {"x": "int64"}}, time="at", time_zone=zone, time_unit="s")
    if kind == "timestamp":
        times = times.cast(pa.timestamp("us", "UTC"))
    elif kind == "date":
        times = pa.array([date(2024, 3, 1) + timedelta(days=n) for n in range(90)])
    elif kind == "int":
        times = pa.array(range(0, 90 * 40, 40), pa.int32())
    table = with_rows(pa.table({"at": times, "x": pa.array(range(90))}))
    query = fc.parse("PATTERN SEQ(A a, A b) WHERE b.x = a.x + 1 WITHIN 3d", schema)
    pq.write_table(table, tmp_path / "events.parquet")
    frame = spark.read.parquet(str(tmp_path / "events.parquet"))
    assert frame.schema["at"].dataType.simpleString() == kind
    assert_detects(frame, query, one_engine(query, table), order_by="row", slices=3)


@pytest.mark.thorough
def test_columns_of_all_kinds(spark: Any) -> None:
    """Nulls, -0.0 beside 0.0, strings, other types, codes, and a name that needs quotes."""
    count = 3_000
    table = pa.table({
        "at": pa.array(range(count), pa.int64()), "kind": pa.array([n * 7 % 4 for n in range(count)], pa.int16()),
        "a key": pa.array([(0.0, -0.0, 1.5, None)[n % 4] for n in range(count)], pa.float64()),
        "te`xt": pa.array([None if n % 11 == 0 else f"ü{n % 5}" for n in range(count)]),
        "yes": pa.array([n % 3 == 0 for n in range(count)]), "row": pa.array(range(count), pa.int64()),
    })  # fmt: skip
    own = {"k": "float64", "t": "string", "y": "bool"}
    names = {"k": "a key", "t": "te`xt", "y": "yes"}
    for sequence, slicing in ((None, "time"), ("row", "key")):
        schema = fc.Schema(
            {"A": own, "B": own}, time="at", type="kind", codes={"A": 0, "B": 3}, other_types="ignore",
            sources={"A": names, "B": names}, sequence=sequence,
        )  # fmt: skip
        text = "PATTERN SEQ(A a, B b) WHERE a.k = b.k AND a.t = b.t AND a.y != b.y WITHIN 50ns RETURN a.t, b.k, a.y"
        query = fc.parse(text, schema)
        expected = one_engine(query, table)
        assert len(expected) > 100
        order = None if sequence else "row"
        assert_detects(spark.createDataFrame(table), query, expected, order_by=order, slicing=slicing, slices=5)


@pytest.mark.thorough
def test_many_types(spark: Any) -> None:
    """Many event type codes, some of them undeclared."""
    table = pa.table({"at": pa.array(range(2_000), pa.int64()), "kind": pa.array([n * 37 % 97 for n in range(2_000)])})
    codes = {f"T{number}": number * 2 for number in range(40)}
    schema = fc.Schema({name: {} for name in codes}, time="at", type="kind", codes=codes, other_types="ignore")
    query = fc.parse("PATTERN SEQ(T39 a, T0 b) WITHIN 200ns", schema)
    expected = one_engine(query, table)
    assert len(expected) > 30
    assert_detects(spark.createDataFrame(table), query, expected, slices=3)


@pytest.mark.thorough
def test_settings_of_sql(spark: Any) -> None:
    """Reserved words, backslashes, and two columns that Spark does not distinguish."""
    texts = ["it's \\ü"[n % 2 :] for n in range(300)]
    table = pa.table({"at": range(300), "x": [n % 7 for n in range(300)], "t": texts})
    schema = fc.Schema({"A": {"x": "int64", "t": "string"}}, time="at")
    query = fc.parse("PATTERN SEQ(A a, A b) WHERE a.x = b.x AND a.t = 'it''s \\ü' WITHIN 50ns", schema)
    expected = one_engine(query, table)
    assert len(expected) > 100
    frame = spark.createDataFrame(table).cache()
    settings = ("spark.sql.ansi.enforceReservedKeywords", "spark.sql.parser.escapedStringLiterals")
    try:
        for setting in settings:
            spark.conf.set(setting, "true")
        for slicing in ("key", "time"):
            assert_detects(frame, query, expected, slices=4, slicing=slicing)
    finally:
        for setting in settings:
            spark.conf.unset(setting)
    twice = frame.withColumns({"X ": F.col("x")}).toDF("at", "x", "t", "X")
    with pytest.raises(fc.SchemaError, match="found columns 'x' and 'X', which Spark does not distinguish"):
        fastcep.spark.detect(twice, query)


@pytest.mark.thorough
def test_ties_are_broken_by_what_is_read(spark: Any) -> None:
    """Without order_by, the query's columns order events of the same time, however the DataFrame is stored."""
    table = pa.table({"at": [n // 6 for n in range(600)], "x": [n * 31 % 60 for n in range(600)]})
    query = fc.parse("PATTERN SEQ(A a, A b) WHERE b.x = a.x + 1 WITHIN 3ns", WHEN)
    expected = one_engine(query, table.sort_by([("at", "ascending"), ("x", "ascending")]))
    for parts in (1, 5):
        assert_detects(spark.createDataFrame(table).repartition(parts, "x"), query, expected, slices=4)


@pytest.mark.thorough
def test_no_events(spark: Any) -> None:
    table = pa.table({"at": pa.array([], pa.int64()), "x": pa.array([], pa.int64())})
    for text in ("PATTERN SEQ(A a, A b) WITHIN 3ns", "PATTERN SEQ(A a, A+ b[]) WHERE [x] WITHIN UNBOUNDED"):
        query = fc.parse(text, WHEN)
        assert_detects(spark.createDataFrame(table), query, one_engine(query, table))


def test_attributes_and_functions(spark: Any) -> None:
    """Attributes of all matched events; user functions are sent with their code."""

    @fc.function("int64(int64)", replace=True)
    def doubled(x: int) -> int:
        return 2 * x

    try:
        table = with_rows(pa.table({"at": list(range(100)), "x": [n % 10 for n in range(100)]}))
        query = fc.parse("PATTERN SEQ(A a, A+ b[]) WHERE b[i].x = doubled(a.x) WITHIN 12ns", WHEN)
        expected = one_engine(query, table, attributes=True)
        assert_detects(spark.createDataFrame(table), query, expected, order_by="row", slices=3, attributes=True)
    finally:
        doubled.unregister()


@pytest.mark.thorough
def test_times_are_rounded_down(spark: Any) -> None:
    """Times that RETURN adds have microseconds; `nanoseconds` keeps all digits."""
    table = with_rows(pa.table({"at": [700 * n - 5_100 for n in range(40)], "x": [n % 3 for n in range(40)]}))
    text = "PATTERN SEQ(A a, A+ b[]) WHERE [x] WITHIN 5us RETURN a.time, b[].time, nanoseconds(a.time) AS exact"
    query = fc.parse(text, WHEN)
    expected = one_engine(query, table)
    assert len(expected) > 30
    assert_detects(spark.createDataFrame(table), query, expected, order_by="row", slices=3)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.int64()], ids=str)
def test_timestamp_attributes(spark: Any, kind: Any) -> None:
    """They are nanoseconds in keys and conditions, whatever the DataFrame has."""
    booked = pa.array([None if n % 11 == 0 else 3_600_000_000 * (n % 7) - 1 for n in range(200)], pa.int64())
    count = pa.array([3_600_000 * (n % 7) + n % 2 for n in range(200)], pa.int64())
    table = with_rows(pa.table({"at": range(200), "booked": booked.cast(kind), "n": count}))
    schema = fc.Schema(
        {"A": {"booked": "timestamp", "n": "int64"}}, time="at", time_unit="us", time_zone="America/New_York"
    )
    for text in (
        "a.booked = b.booked AND hour(b.booked) != 3 WITHIN 20us",
        "nanoseconds(a.booked) + 1000 = b.n * 1000000 WITHIN 20us",
        "b.booked - a.booked > 2h AND b.booked < TIMESTAMP '1970-01-01 09:00' WITHIN 5us",
    ):
        query = fc.parse(f"PATTERN SEQ(A a, A b) WHERE {text} RETURN a.booked, b.booked - a.booked AS d", schema)
        expected = one_engine(query, table)
        assert len(expected) > 30 or "nanoseconds" in text
        frame = spark.createDataFrame(table)
        for slicing in ("key", "time") if text.startswith("a.booked = b") else ("time",):
            assert_detects(frame, query, expected, order_by="row", slices=3, slicing=slicing)


CLOSED = (
    "PATTERN SEQ(A a, B b) WHERE a.V = b.V "
    "WINDOW OPEN ON A o WHERE o.V = 1 CLOSE ON C c WHERE c.ID = o.ID AND c.V < 3"
)


def test_windows_that_events_close(frame: Any, ds1: pa.Table) -> None:
    query = fc.parse(CLOSED + " SELECT last CONSUME consumed", DS1, name="closed")
    expected = one_engine(query, ds1)
    assert len(expected) > 30
    assert_detects(frame, query, expected, order_by="row", slices=5, longest_window="60ms")
    matches = fastcep.spark.detect(frame, query, order_by="row", slices=5, longest_window="1ms")
    with pytest.raises(SparkRuntimeException, match="is not closed within longest_window='1ms'; increase it") as raised:
        matches.count()
    assert "Traceback" not in str(raised.value)
    with pytest.raises(fc.ValidationError, match=r"has no windows that open and close on events .* omit it"):
        fastcep.spark.detect(frame, fc.parse(QUERIES["Q1"], DS1), longest_window="1ms")


# -------------------------------------------------------------------- refusals


def few(spark: Any, **columns: Any) -> Any:
    return spark.createDataFrame(pa.table({"at": [1, 2, 3], "x": [1, 2, 3], **columns}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SEQ(A a, A b) WITHIN UNBOUNDED", "no attribute is equal.*WITHIN UNBOUNDED lets a match begin at any"),
        ("SEQ(A a, A b) WITHIN 5ns CONSUME consumed", "CONSUME consumed removes events.*run it in one engine"),
        ("SEQ(A a, A b) WHERE [x] WITHIN 5ns AFTER MATCH SKIP PAST LAST", "AFTER MATCH SKIP PAST LAST drops"),
        ("SEQ(A a, A b) WINDOW OPEN ON A o CLOSE ON A c", "CLOSE ON an event lets a window begin at any earlier time"),
    ],
)
def test_what_cannot_be_cut_is_refused_by_name(spark: Any, text: str, message: str) -> None:
    with pytest.raises(fc.ValidationError, match=f"query 'query' cannot be cut: .*{message}"):
        fastcep.spark.detect(few(spark), fc.parse(f"PATTERN {text}", WHEN))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slicing": "keys"}, "slicing='keys': expected 'auto', 'key' or 'time'"),
        ({"slices": 0}, "slices=0: expected a whole number from 1 to 1024, or None"),
        ({"order_by": "X"}, "order_by='X': there is no column 'X'; did you mean 'x'"),
        ({"slicing": "key"}, "cannot be cut by key: no attribute is equal"),
        ({"latency_bound": "1ms"}, "latency_bound=…: detect does not support this engine option"),
    ],
)
def test_wrong_options(spark: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        fastcep.spark.detect(few(spark), fc.parse("PATTERN SEQ(A a, A b) WITHIN 5ns", WHEN), **options)


@pytest.mark.thorough
def test_wrong_columns(spark: Any) -> None:
    query = fc.parse("PATTERN SEQ(A a, A b) WITHIN 5ns", WHEN)
    typed = fc.parse("PATTERN SEQ(A a) WITHIN 5ns", fc.Schema({"A": {"x": "int64"}}, time="at", type="kind"))
    numbered = fc.parse("PATTERN SEQ(A a) WITHIN 5ns", fc.Schema({"A": {}}, time="at", sequence="n"))
    cases: list[tuple[type[Exception], str, fc.Query, dict[str, Any]]] = [
        (fc.SchemaError, "DataFrame, column 'x': found string, expected int64", query, {"x": ["a", "b", "c"]}),
        (fc.SchemaError, "DataFrame, column 'at': found string as time|found string, expected integers in ns", query,
         {"at": ["1", "2", "3"]}),
        (fc.DataError, "column 'at': found null in 1 of 3 rows, expected a time", query, {"at": [1, None, 3]}),
        (fc.DataError, "column 'kind': found undeclared event types in 2 of 3 rows", typed, {"kind": ["A", "B", "C"]}),
        (fc.DataError, "column 'kind': found null in 1 of 3 rows, expected an event type", typed,
         {"kind": ["A", None, "A"]}),
        (fc.DataError, "column 'n': found null in 2 of 3 rows, expected a sequence number", numbered,
         {"n": [4, None, None]}),
    ]  # fmt: skip
    for kind, message, expected, columns in cases:
        frame = few(spark, **columns)
        short = message.replace(" of 3 rows", "( of 3)? rows?")
        with pytest.raises(kind, match=message):
            fastcep.spark.survey(frame, expected)
        with pytest.raises(SparkRuntimeException if kind is fc.DataError else kind, match=short) as raised:
            fastcep.spark.detect(frame, expected).where("a >= 0").count()
        assert "Traceback" not in str(raised.value)
    late = fc.parse("PATTERN SEQ(A a) WITHIN 5ns", fc.Schema({"A": {"x": "int64"}}, time="at", time_unit="d"))
    with pytest.raises(fc.DataError, match="check the time unit"):
        fastcep.spark.survey(few(spark, at=[1, 2, 2**40]), late)
    with pytest.raises(fc.ValidationError, match="expected a Spark DataFrame"):
        fastcep.spark.detect(pa.table({"at": [1]}), query)
    with pytest.raises(fc.ValidationError, match="order_by='m': column 'm' is map<string,bigint>, which has no order"):
        fastcep.spark.detect(few(spark).withColumn("m", F.create_map(F.lit("a"), F.col("x"))), query, order_by="m")
    taken = fc.parse("PATTERN SEQ(A match_order) WITHIN 5ns", WHEN)
    with pytest.raises(fc.ValidationError, match="has a column 'match_order'"):
        fastcep.spark.detect(few(spark), taken)
    with pytest.raises(fc.ValidationError, match="orders events of the same time; omit order_by"):
        fastcep.spark.detect(few(spark, n=[1, 2, 3]), numbered, order_by="x")


def test_explain(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = fastcep.spark.explain(frame, fc.parse(QUERIES["Q1"], DS1), order_by="row", slices=4)
    assert "slices      by ID; by time, with 1ms before each" in text
    assert "60,000 events in 4 slices, by time: this reads 0.5% again; a cut by ID would have to number" in text
    text = fastcep.spark.explain(frame, fc.parse(QUERIES["Q1"], NUMBERED), slices=16)
    assert "hint        set spark.sql.execution.arrow.maxBytesPerBatch=2147483647b: Spark then passes events" in text
    assert "by time: this reads 2.5% again; a cut by ID would have to count all events first" in text
    monkeypatch.setattr("fastcep.spark.session.UNCHECKED_BATCHES", ("spark.sql.session.timeZone", "America/New_York"))
    text = fastcep.spark.explain(frame, fc.parse(QUERIES["Q1"].replace("1ms", "9ms"), NUMBERED), slices=16)
    assert "slices, by ID: a cut by time would read 22% again\noverlap     9ms before each time slice" in text
    assert "keys        128 groups, " in text
    assert text.endswith("numbers     from the sequence column")
