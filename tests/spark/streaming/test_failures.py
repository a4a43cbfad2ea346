"""Failures between the steps of a batch, other queries in a checkpoint, and refused arguments."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from support.micro_batches import (
    LETTERS,
    QUERIES,
    batches_of,
    canonical,
    pieces,
    query,
    rows_in,
    rows_of_one_engine,
    run,
    stream,
    write,
)

import fastcep as fc
import fastcep.spark
from fastcep.errors import ModelError, SchemaError, SnapshotError, ValidationError
from fastcep.spark.streaming.commit import Commits
from fastcep.spark.streaming.files import Files

pytestmark = pytest.mark.spark


@pytest.mark.thorough
def test_a_failure_at_each_step(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after the commit, between the files of the sink, before its folder gets its name, and in cleaning."""
    tables = pieces(4_000, 5, disorder=3_000)
    write(tmp_path / "in", tables)
    steps = [
        (Commits, "write", 2, False), (Commits, "write", 3, True), (Files, "copy", 4, True),
        (Files, "rename_folder", 1, False), (Commits, "clean", 1, True),
    ]  # fmt: skip
    for owner, name, nth, after in steps:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, _failing(getattr(owner, name), nth, after))
            with pytest.raises(StreamingQueryException, match="no power"):
                run(stream(spark, tmp_path / "in"), query("kleene"), tmp_path / "out", tmp_path / "state",
                    allowed_lateness="500us", slices=2)  # fmt: skip
    run(stream(spark, tmp_path / "in"), query("kleene"), tmp_path / "out", tmp_path / "state",
        allowed_lateness="500us", slices=2)  # fmt: skip
    assert rows_in(tmp_path / "out") == rows_of_one_engine(query("kleene"), tables, "500us", "ABC")


def _failing(function: Any, nth: int, after: bool) -> Any:
    """Return the function, whose nth call fails before or after it does its work."""
    calls = 0

    def failing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth and not after:
            raise OSError("no power")
        result = function(*arguments)
        if calls == nth:
            raise OSError("no power")
        return result

    return failing


@pytest.mark.thorough
def test_a_crash_between_the_logs_of_spark(spark: Any, tmp_path: Path) -> None:
    """The source has logged a file, but Spark has not logged its batch: the next batch has this file and another."""
    tables, state = pieces(4_000, 4, disorder=3_000), tmp_path / "state"
    for first, last in ((0, 3), (3, 5)):
        write(tmp_path / "in", tables[first:last], first=first)
        run(stream(spark, tmp_path / "in"), query("kleene"), tmp_path / "out", state,
            allowed_lateness="500us", slices=2)  # fmt: skip
        if not first:
            for path in (state / "spark" / "offsets", state / "spark" / "commits"):
                for name in ("2", ".2.crc"):
                    (path / name).unlink(missing_ok=True)
            shutil.rmtree(state / "batches" / "2")
            shutil.rmtree(tmp_path / "out" / "batch=2")
    batches = batches_of(state / "spark", tables)
    assert [len(batch) for batch in batches] == [1_000, 1_000, 2_000, 1]
    assert rows_in(tmp_path / "out") == rows_of_one_engine(query("kleene"), batches, "500us", "ABC")
    assert rows_in(tmp_path / "out") != rows_of_one_engine(query("kleene"), tables, "500us", "ABC")


def test_a_function_gets_the_same_rows_again(spark: Any, tmp_path: Path) -> None:
    tables, calls, fails = pieces(3_000, 3), [], True
    write(tmp_path / "in", tables)

    def sink(rows: Any, batch: int) -> None:
        calls.append((batch, canonical(rows.toArrow().to_pylist())))
        if fails and batch == 1:
            raise OSError("sink is down")

    arguments = stream(spark, tmp_path / "in"), query("trailing"), sink, tmp_path / "state"
    with pytest.raises(StreamingQueryException, match="sink is down"):
        run(*arguments, slices=2)
    fails = False
    run(*arguments, slices=2)
    numbers = [batch for batch, _ in calls]
    assert numbers.count(1) == 2 and calls[numbers.index(1)] == calls[numbers.index(1) + 1]
    rows = [row for _, found in dict(calls).items() for row in found]
    assert sorted(rows) == rows_of_one_engine(query("trailing"), tables, "0s")


def test_another_query_in_a_checkpoint(spark: Any, tmp_path: Path) -> None:
    tables = pieces(2_000, 2)
    write(tmp_path / "in", tables[:1])
    arguments = {"sink": tmp_path / "out", "checkpoint": tmp_path / "state", "slices": 2}
    run(stream(spark, tmp_path / "in"), query("kleene"), **arguments)
    changed = fc.parse(QUERIES["kleene"].replace("500us", "501us"), LETTERS, name="kleene")
    with pytest.raises(ValidationError, match=r"another query: found '.*501us.*', expected '.*500us.*on_change"):
        run(stream(spark, tmp_path / "in"), changed, **arguments)
    with pytest.raises(ValidationError, match=r"with allowed_lateness='0ns', found '1ms'; use the same option"):
        run(stream(spark, tmp_path / "in"), query("kleene"), **arguments, allowed_lateness="1ms")
    with pytest.raises(ValidationError, match=r"with latency_bound=the default, found '1ms'; use the same option"):
        run(stream(spark, tmp_path / "in"), query("kleene"), **arguments, latency_bound="1ms", shedder="rs")
    for text, where, what in (
        ("k[i].V = a.V", "k[i].V = 3", "uses other types, or other conditions"), ("[ID]", "[V]", "has another key"),
        ("B+ k[], C c", "B+ k[], D d", "uses other types"),
    ):  # fmt: skip
        text = QUERIES["kleene"].replace(text, where).replace(" RETURN c.V AS last_v", "")
        sends = fc.parse(text, LETTERS, name="kleene")
        with pytest.raises(ValidationError, match=rf"is of a query that {what}.*use a new checkpoint"):
            run(stream(spark, tmp_path / "in"), sends, **arguments, on_change="replace")
    run(stream(spark, tmp_path / "in"), changed, **arguments, on_change="replace")  # without new events
    with pytest.raises(ValidationError, match=r"another query: found '.*501us"):
        run(stream(spark, tmp_path / "in"), changed, **arguments)
    write(tmp_path / "in", tables[1:], first=1)
    run(stream(spark, tmp_path / "in"), changed, **arguments, on_change="replace")
    rows = rows_of_one_engine(query("kleene"), tables[:1], "0s") + rows_of_one_engine(changed, tables[1:], "0s")
    assert rows_in(tmp_path / "out") == sorted(rows)
    other = fc.Schema({name: {"ID": "int64", "V": "float64"} for name in "ABC"}, time="ts", type="type", sequence="row",
                      time_unit="us", other_types="ignore")  # fmt: skip
    with pytest.raises(ValidationError, match="is of a query that uses other types"):
        run(stream(spark, tmp_path / "in"), query("kleene", other), **arguments, on_change="replace")


def test_another_shedder_in_a_checkpoint(spark: Any, tmp_path: Path) -> None:
    """Its state is that of the shedder and the model; an object is used by each engine on its own."""
    write(tmp_path / "in", pieces(2_000, 2)[:1])
    arguments = {"sink": tmp_path / "out", "checkpoint": tmp_path / "state", "slices": 2, "latency_bound": "1s"}
    for shedder in (fc.shedding.Auto(seed=3), fc.shedding.Auto(seed=3)):
        run(stream(spark, tmp_path / "in"), query("kleene"), **arguments, shedder=shedder)
    history = pieces(2_000, 1)[0].sort_by("row")
    model = fc.fit(query("kleene"), history, validate=False, cost_table="paper", slices=2)
    for other in ({}, {"shedder": "rs"}, {"shedder": fc.shedding.Auto(seed=4)}, {"shedder": "auto", "model": model}):
        with pytest.raises(ValidationError, match=r"with shedder=.*use the same option, or a new checkpoint"):
            run(stream(spark, tmp_path / "in"), query("kleene"), **arguments, **other)


def test_the_checkpoint_of_spark_is_gone(spark: Any, tmp_path: Path) -> None:
    """Spark would begin again, and the rows of its first batches would be taken for those that are written."""
    tables = pieces(2_000, 2)
    write(tmp_path / "in", tables[:2])
    run(stream(spark, tmp_path / "in"), query("kleene"), tmp_path / "out", tmp_path / "state", slices=2)
    shutil.rmtree(tmp_path / "state" / "spark")
    write(tmp_path / "in", tables[2:], first=2)
    with pytest.raises(SnapshotError, match=r"batch 1 is committed, but Spark's own checkpoint .* does not have it"):
        run(stream(spark, tmp_path / "in"), query("kleene"), tmp_path / "out", tmp_path / "state", slices=2)


@pytest.mark.thorough
def test_a_driver_that_was_killed_in_its_first_batch(spark: Any, tmp_path: Path) -> None:
    """Spark does not start beside the unfinished file of its first batch."""
    tables = pieces(2_000, 2)
    write(tmp_path / "in", tables)
    arguments = query("kleene"), tmp_path / "out", tmp_path / "state"
    run(stream(spark, tmp_path / "in"), *arguments, slices=2)
    for folder in [*(tmp_path / "out").glob("batch=*"), tmp_path / "state" / "batches", tmp_path / "state" / "spark"]:
        shutil.rmtree(folder)
    (tmp_path / "state" / "spark" / "offsets").mkdir(parents=True)
    (tmp_path / "state" / "spark" / "offsets" / ".0.tmp").write_text("v1")
    run(stream(spark, tmp_path / "in"), *arguments, slices=2)
    assert rows_in(tmp_path / "out") == rows_of_one_engine(query("kleene"), tables, "0s", "ABC")


def test_an_error_of_an_engine(spark: Any, tmp_path: Path) -> None:
    """Two events with one time and number: the message comes once, without a traceback of a worker."""
    (table, _) = pieces(200, 1)
    again = table.filter(pc.equal(table["type"], "A")).slice(0, 1)
    write(tmp_path / "in", [pa.concat_tables([table, again])])
    with pytest.raises(StreamingQueryException, match="for the second time; give each event its own number") as caught:
        run(stream(spark, tmp_path / "in"), query("kleene"), tmp_path / "out", tmp_path / "state", slices=2)
    assert "Job aborted" not in str(caught.value) and "PythonException" not in str(caught.value)


def test_other_folders(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", pieces(200, 1))
    frame = stream(spark, tmp_path / "in")
    run(frame, query("kleene"), tmp_path / "out", tmp_path / "state", slices=1)
    with pytest.raises(ValidationError, match="has the rows of another streaming query"):
        run(frame, query("kleene"), tmp_path / "out", tmp_path / "state2", slices=1)
    with pytest.raises(ValidationError, match=r"sink='.*in' has other files, such as 'part-0000.parquet'"):
        run(frame, query("kleene"), tmp_path / "in", tmp_path / "state3", slices=1)
    with pytest.raises(ValidationError, match=r"checkpoint='.*in' has other files"):
        run(frame, query("kleene"), tmp_path / "out2", tmp_path / "in", slices=1)
    (tmp_path / "out" / "_fastcep.json").write_text("{")
    with pytest.raises(SnapshotError, match=r"_fastcep.json: is not the record of a sink .*restore the folder"):
        run(frame, query("kleene"), tmp_path / "out", tmp_path / "state", slices=1)
    latest = max((tmp_path / "state" / "batches").iterdir(), key=lambda folder: int(folder.name))
    (latest / "commit.json").write_text("{}")
    with pytest.raises(SnapshotError, match="is not the record of a batch"):
        fastcep.spark.stream_progress(tmp_path / "state")
    assert fastcep.spark.stream_progress(tmp_path / "none") is None


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("CAST(NULL AS BIGINT) AS ts", r"column 'ts': found null in 201 of 201 rows, expected a time"),
        ("CAST(NULL AS STRING) AS type", r"column 'type': found null in 201 of 201 rows, expected an event type"),
        ("'Z' AS type", r"column 'type': found undeclared event types in 201 of 201 rows"),
        ("CAST(NULL AS BIGINT) AS row", r"column 'row': found null in 201 of 201 rows, expected a sequence number"),
        ("9223372036854775807L AS ts", r"column 'ts': found times from 9223372036854775807 to"),
    ],
)
def test_invalid_events(spark: Any, tmp_path: Path, column: str, message: str) -> None:
    write(tmp_path / "in", pieces(200, 1)[:1] + pieces(200, 1)[1:])
    names = [name for name in ("ts", "type", "row", "ID", "V") if not column.endswith(f" {name}")]
    frame = stream(spark, tmp_path / "in").selectExpr(*names, column)
    message = message.replace("201 of 201", "200 of 200")
    with pytest.raises(StreamingQueryException, match=message):
        run(frame, query("kleene"), tmp_path / "out", tmp_path / "state", slices=1)


def test_workers_without_an_interpreter(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", pieces(200, 1))
    frame = stream(spark, tmp_path / "in")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python-that-is-missing")
    monkeypatch.setattr("fastcep.spark.columns.set_interpreter", lambda session: None)  # as on a cluster
    with pytest.raises(StreamingQueryException, match=r"cannot run 'python-that-is-missing' for .* set PYSPARK_PYTHON"):
        run(frame, query("kleene"), tmp_path / "out", tmp_path / "state", slices=1)


def test_refused_arguments(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", pieces(200, 1))
    frame = stream(spark, tmp_path / "in")
    bounded = spark.read.parquet(str(tmp_path / "in"))
    cross = fc.parse("PATTERN SEQ(A a, B b) WHERE a.V = 1 WITHIN 1ms", LETTERS)
    forever = fc.parse(
        "PATTERN SEQ(A a, B+ b[]) WHERE [ID] WITHIN UNBOUNDED STRATEGY skip_till_next SELECT longest", LETTERS
    )
    kind = fc.parse("PATTERN SEQ(A kind, B b) WHERE [ID] WITHIN 1ms", LETTERS)
    kleene = query("kleene")
    for arguments, options, message in [
        ((bounded, kleene), {}, "found a bounded DataFrame, expected a streaming one"),
        (([1], kleene), {}, "found list, expected a streaming DataFrame"),
        ((frame, [kleene, cross]), {}, "found 2 queries, expected one"),
        ((frame, query("windowed")), {}, "WINDOW is opened by events of all keys; pass slices=1"),
        ((frame, forever), {}, "SELECT longest under WITHIN UNBOUNDED reports .* pass slices=1"),
        ((frame, cross), {}, r"cannot be cut by key: .*WHERE \[attribute\], or pass slices=1"),
        ((frame, kind), {}, "has a column 'kind', a name reserved"),
        ((frame, kleene), {"slices": 65}, "slices=65: expected a whole number from 1 to 64"),
        ((frame, kleene), {"slices": True}, "slices=True: expected a whole number"),
        ((frame, kleene), {"threads": 2}, "threads=…: a streaming query does not support this option"),
        ((frame, kleene), {"on_change": "drop"}, "found on_change='drop', expected 'error' or 'replace'"),
        ((frame, kleene), {"memory_limit": "much"}, "memory_limit"),
        ((frame, kleene), {"allowed_lateness": "soon"}, "soon"),
        ((frame, kleene), {"order_by": "V"}, "omit order_by"),
        ((frame, kleene), {"trigger": {"processingTime": "soon"}}, "trigger={'processingTime': 'soon'}: expected"),
        ((frame, kleene), {"trigger": {"continuous": "1 second"}}, "trigger={'continuous': '1 second'}: expected"),
        ((frame, kleene), {"trigger": "1 second"}, "trigger='1 second': expected"),
        ((frame, kleene), {"trigger": {}}, "trigger={}: expected {'processingTime': '1 second'}"),
        ((frame, kleene), {"query_name": 3}, "query_name=3: expected a name or None"),
    ]:
        with pytest.raises(ValidationError, match=message):
            fastcep.spark.write_matches(*arguments, tmp_path / "out", tmp_path / "state", **({"slices": 2} | options))
    for folder, message in [("", "checkpoint='': expected the path"), ("ftp://x/y", "that pyarrow can open")]:
        with pytest.raises(ValidationError, match=message):
            fastcep.spark.write_matches(frame, kleene, tmp_path / "out", folder)
    with pytest.raises(ValidationError, match="sink=3: expected the path or URI"):
        fastcep.spark.write_matches(frame, kleene, 3, tmp_path / "state")  # type: ignore[arg-type]
    model = fc.fit(query("trailing"), pieces(2_000, 1)[0].sort_by("row"), validate=False, cost_table="paper", slices=2)
    options = {"latency_bound": "1ms", "slices": 2, "cost_table": "paper"}
    with pytest.raises(ModelError, match=r"has a model for|is for query|is not for query"):
        fastcep.spark.write_matches(
            frame, kleene, tmp_path / "out", tmp_path / "state", shedder="hybrid", model=model, **options
        )
    with pytest.raises(ValidationError, match="holds a model, which a streaming query cannot use"):
        fastcep.spark.write_matches(
            frame, query("trailing"), tmp_path / "out", tmp_path / "state", shedder=fc.shedding.Hybrid(model), **options
        )
    (tmp_path / "file").write_text("")
    with pytest.raises(ValidationError, match=r"cannot use checkpoint=.*pass folders that can be written"):
        fastcep.spark.write_matches(frame, kleene, tmp_path / "file" / "out", tmp_path / "state9", slices=1)
    with pytest.raises(SchemaError, match="'ID'"):
        fastcep.spark.write_matches(frame.drop("ID"), kleene, tmp_path / "out", tmp_path / "state")
