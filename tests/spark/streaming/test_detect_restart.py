"""Restarts of ``detect`` on a streaming DataFrame with another query, other options, or another number of slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from support.micro_batches import (
    LETTERS,
    QUERIES,
    canonical,
    collected,
    finish,
    in_milliseconds,
    pieces,
    rows_of_one_engine,
    slow_query,
    stream,
    write,
)

import fastcep as fc
import fastcep.spark

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.usefixtures("rocksdb")]
CHANGED = fc.parse(QUERIES["kleene"].replace("500us", "501ms"), LETTERS, name="kleene")


def refusal(frame: Any, folder: Path) -> str:
    """Run a streaming DataFrame that is refused; return the first line of the error, without Spark's plan."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder))
    with pytest.raises(StreamingQueryException) as raised:
        finish(writer.trigger(availableNow=True).start)
    assert "Traceback" not in str(raised.value)
    return str(raised.value).splitlines()[0]


def test_another_query(spark: Any, tmp_path: Path) -> None:
    """It is refused, or replaces the other one in all slices: those without new events keep no part of its state.

    So the third run, with the same query, may be without ``on_change``.
    """
    tables = in_milliseconds(pieces(3_000, 3))
    write(tmp_path / "in", tables[:1])
    frame = stream(spark, tmp_path / "in")
    rows = collected(fastcep.spark.detect(frame, slow_query("kleene"), slices=2), tmp_path / "state")
    few = [tables[1].filter(pa.array([fc.key_group(key) < 32 for key in tables[1]["ID"].to_pylist()])), *tables[2:]]
    write(tmp_path / "in", few[:1], first=1)
    assert (
        "the checkpoint is of another query: found 'WITHIN 501ms', expected 'WITHIN 500ms'; pass on_change='replace' "
        "to start the query without state, or use a new checkpoint" in
        refusal(fastcep.spark.detect(frame, CHANGED, slices=2), tmp_path / "state")
    )  # fmt: skip
    rows += collected(fastcep.spark.detect(frame, CHANGED, slices=2, on_change="replace"), tmp_path / "state")
    write(tmp_path / "in", few[1:], first=2)
    rows += collected(fastcep.spark.detect(frame, CHANGED, slices=2), tmp_path / "state")
    expected = rows_of_one_engine(slow_query("kleene"), tables[:1], "0s") + rows_of_one_engine(CHANGED, few, "0s")
    assert canonical(rows) == sorted(expected) and len(expected) > 20
    other = {name: {"ID": "int64", "V": "float64"} for name in "ABCD"}
    schema = fc.Schema(other, time="ts", type="type", sequence="row", time_unit="us")
    floats = fc.parse(QUERIES["kleene"].replace("500us", "501ms"), schema, name="kleene")
    write(tmp_path / "in", [later(tables[-1], 5)], first=5)
    replaced = fastcep.spark.detect(frame, floats, slices=2, on_change="replace")
    assert "another schema" in refusal(replaced, tmp_path / "state")


def test_other_options(spark: Any, tmp_path: Path) -> None:
    """Those that snapshots include are refused by name, and leave the checkpoint as it is; others are used."""
    tables, kleene = in_milliseconds(pieces(2_000, 2, disorder=3_000)), slow_query("kleene")
    options: dict[str, Any] = {"allowed_lateness": "500ms", "slices": 2, "store": "rows"}
    write(tmp_path / "in", tables[:1])
    frame = stream(spark, tmp_path / "in")
    rows = collected(fastcep.spark.detect(frame, kleene, **options), tmp_path / "state")
    write(tmp_path / "in", tables[1:], first=1)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"allowed_lateness": "5ms"}, "allowed_lateness='500ms', found '5ms'"),
        ({"timed_out": True}, "timed_out=False, found True"),
        ({"latency_bound": "1ms"}, "latency_bound=the default, found '1ms'"),
        ({"store": "factorised"}, "store='rows', found 'factorised'"),
    ]
    for changed, message in refused:
        matches = fastcep.spark.detect(frame, kleene, **options | changed)
        assert f"the checkpoint is of a query with {message}; use the same option" in refusal(
            matches, tmp_path / "state"
        )
    matches = fastcep.spark.detect(frame, kleene, **options, attributes=True)
    assert "another query: found 'RETURN a.time, " in refusal(matches, tmp_path / "state")
    rows += collected(fastcep.spark.detect(frame, kleene, **options, memory_limit="1GB"), tmp_path / "state")
    assert canonical(rows) == rows_of_one_engine(kleene, tables, "500ms", "ABC")


@pytest.mark.parametrize("more", [2, 5])
def test_another_number_of_slices(spark: Any, tmp_path: Path, more: int) -> None:
    """Otherwise an engine would get keys whose earlier events another one has seen, and matches would be missing.

    All slices compare the number, so none keeps state of the refused run: also one that is new and alone has events.
    """
    tables, kleene = in_milliseconds(pieces(2_000, 2)), slow_query("kleene")
    write(tmp_path / "in", tables[:1])
    frame = stream(spark, tmp_path / "in")
    rows = collected(fastcep.spark.detect(frame, kleene, slices=3), tmp_path / "state")
    last = tables[1].filter(pa.array([fc.key_group(key) >= 52 for key in tables[1]["ID"].to_pylist()]))
    assert {fc.key_group(key) * 5 // 64 for key in last["ID"].to_pylist()} == {4}
    write(tmp_path / "in", [last], first=1)
    refused = refusal(fastcep.spark.detect(frame, kleene, slices=more), tmp_path / "state")
    assert f"the checkpoint has 3 slices, found slices={more}; pass slices=3" in refused
    write(tmp_path / "in", tables[2:], first=2)
    rows += collected(fastcep.spark.detect(frame, kleene, slices=3), tmp_path / "state")
    assert canonical(rows) == rows_of_one_engine(kleene, [tables[0], last, *tables[2:]], "0s")


def later(table: pa.Table, seconds: int) -> pa.Table:
    """Return the events some seconds later, with other numbers."""
    for name, step in (("ts", seconds * 10**6), ("row", 1)):
        table = table.set_column(
            table.column_names.index(name), name, pa.array([value + step for value in table[name].to_pylist()])
        )
    return table
