"""A task of a slice, without Spark: repeated attempts, live and restored engines, and its files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.micro_batches import LETTERS, pieces, query

import fastcep as fc
from fastcep.query.plain_schema import plain_query
from fastcep.spark.functions import ship_functions
from fastcep.spark.streaming import slice_engine, slice_task
from fastcep.spark.streaming.assignment import Unit, assign_units
from fastcep.spark.streaming.checks import engine_options, first_engine
from fastcep.spark.streaming.files import Files
from fastcep.spark.streaming.output import output_of
from fastcep.spark.streaming.slice_engine import StreamPlan, event_schema
from fastcep.spark.streaming.slice_task import NO_UNIT, REPORT, UNIT, SliceTask

pytestmark = pytest.mark.spark


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give each task the next number, as Spark does; return the numbers."""
    numbers: list[int] = []

    def get() -> Any:
        numbers.append(len(numbers))
        return SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: numbers[-1])

    monkeypatch.setattr(slice_task, "TaskContext", SimpleNamespace(get=get))
    monkeypatch.setattr(slice_engine, "_kept", {})
    return numbers


def plan_of(folder: Path, run: str = "run", **options: Any) -> StreamPlan:
    import pickle

    kleene = query("kleene")
    plain = plain_query(kleene)
    options = engine_options(options, kleene, plain, "500us", False)
    output = output_of(first_engine(plain, options), LETTERS, kleene, timed_out=False)
    return StreamPlan(
        plain, event_schema(LETTERS), pickle.dumps(options), ship_functions(kleene), output, str(folder), run
    )


def task_of(plan: StreamPlan, batch: int, table: pa.Table, units: Sequence[Unit]) -> dict[str, Any]:
    """Run the task of the only slice; return its report."""
    watermark = max(table["ts"].to_pylist()) * 1_000 - 500_000
    columns = {
        "time": pa.array([time * 1_000 for time in table["ts"].to_pylist()], pa.int64()),
        "type": pa.array(["ABCD".index(kind) for kind in table["type"].to_pylist()], pa.int32()),
        "number": table["row"].combine_chunks(), "c0": table["ID"].combine_chunks(), "c1": table["V"].combine_chunks(),
        UNIT: pa.array([0] * len(table), pa.int32()),
    }  # fmt: skip
    mark = {name: [NO_UNIT if name == UNIT else None] for name in columns}
    events = pa.record_batch(columns)
    task = SliceTask(SimpleNamespace(value=plan), batch, watermark, (tuple(units),))
    (report,) = task([pa.RecordBatch.from_pydict(mark, schema=events.schema), events.slice(0, 500), events.slice(500)])
    found: dict[str, Any] = json.loads(report[REPORT][0].as_py())
    return found


def rows_of(folder: Path, report: dict[str, Any]) -> list[Any]:
    if report["output"] is None:
        return []
    found: list[Any] = pq.ParquetFile(folder / report["output"]["file"]).read().to_pylist()
    assert len(found) == report["output"]["rows"]
    return found


def unit_of(report: dict[str, Any]) -> list[Unit]:
    return [Unit(tuple(unit["groups"]), unit["state"]) for unit in report["units"]]


def test_attempts_do_not_touch_each_other(tmp_path: Path, attempts: list[int]) -> None:
    """Two attempts of each batch; the next batch continues after either of them, by a live or a restored engine."""
    tables, plan = pieces(4_000, 4, disorder=3_000), plan_of(tmp_path)
    units = list(assign_units((), 1)[0])
    for batch, table in enumerate(tables):
        reports = [task_of(plan, batch, table, units) for _ in range(3)]
        rows = [rows_of(tmp_path, report) for report in reports]
        assert rows[0] == rows[1] == rows[2]
        names = {report["units"][0]["state"] for report in reports}
        assert len(names) == 3
        states = {(tmp_path / name).read_bytes() for name in names}
        assert len({len(state) for state in states}) == 1
        kept = list(slice_engine._kept)
        assert kept == [(str(tmp_path), reports[2]["units"][0]["state"])]  # one live engine
        units = unit_of(reports[[2, 0, 1, 0, 2][batch]])
    assert len(attempts) == 15


def test_live_engines_of_another_run_are_not_used(tmp_path: Path, attempts: list[int]) -> None:
    """A new run may have another model or memory limit."""
    first, second, *_ = pieces(2_000, 2)
    units = unit_of(task_of(plan_of(tmp_path), 0, first, assign_units((), 1)[0]))
    ((live, *_),) = slice_engine._kept.values()
    again = plan_of(tmp_path, "again", memory_limit="64MiB")
    task_of(again, 1, second, units)
    ((kept, *_),) = slice_engine._kept.values()
    assert kept is not live and kept._engine.metrics()["memory_limit"] == 64 << 20
    assert live._engine.metrics()["memory_limit"] is None
    assert attempts == [0, 1]


def test_live_engines_that_no_task_will_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker keeps those of the last two batches, and those of another stream until it has been idle."""
    now, plans = [1_000.0], [plan_of(tmp_path / name) for name in ("one", "two")]
    monkeypatch.setattr(slice_engine, "monotonic", lambda: now[0])
    monkeypatch.setattr(slice_engine, "_kept", {})

    def keep(plan: StreamPlan, group: int, batch: int) -> None:
        engine = slice_engine.SliceEngine(plan, Unit((group,)), plan.new_engine())
        engine.state(f"batches/{batch}/state-{group}")
        slice_engine.keep(plan, engine, batch)

    for batch, group in ((0, 0), (0, 1), (1, 0), (2, 0)):
        keep(plans[0], group, batch)
    keep(plans[1], 0, 0)
    assert [name for _, name in slice_engine._kept] == ["batches/2/state-0", "batches/0/state-0"]
    now[0] += 601
    keep(plans[1], 1, 0)
    assert [name for _, name in slice_engine._kept] == ["batches/0/state-0", "batches/0/state-1"]


def test_a_unit_is_divided(tmp_path: Path, attempts: list[int]) -> None:
    """The parts of a unit find what the unit would have found."""
    first, second, *_ = pieces(2_000, 2)
    plan = plan_of(tmp_path)
    whole = unit_of(task_of(plan, 0, first, assign_units((), 1)[0]))
    expected = rows_of(tmp_path, task_of(plan, 1, second, whole))
    parts = [unit for units in assign_units(whole, 3) for unit in units]
    assert all(unit.is_part for unit in parts)
    found: list[Any] = []
    for unit in parts:
        groups = set(unit.groups)
        own = second.filter(pa.array([fc.key_group(key) in groups for key in second["ID"].to_pylist()]))
        end = second.slice(len(second) - 1)  # its time is the watermark of all
        if not own.num_rows or own["row"][-1] != end["row"][0]:
            own = pa.concat_tables([own, end.set_column(end.column_names.index("type"), "type", pa.array(["D"]))])
        found += rows_of(tmp_path, task_of(plan, 1, own, [unit]))
    key = [row["a"] for row in expected]
    assert sorted(map(repr, found)) == sorted(map(repr, expected)) and len(key) > 10
    assert len(attempts) == 5


@pytest.mark.parametrize("shedder", ["rs", "auto", "hybrid"])
def test_each_engine_has_its_shedder(tmp_path: Path, attempts: list[int], shedder: str) -> None:
    """A restored engine, and one of a part, shed with the model of the options; the query has the user's columns."""
    tables = pieces(3_000, 3)
    model = fc.fit(query("kleene"), tables[0].sort_by("row"), validate=False, cost_table="paper", slices=2)
    options = {"latency_bound": "1ns", "clock": "virtual", "cost_table": "paper", "shedder": shedder}
    options |= {"model": model} if shedder == "hybrid" else {}
    plan = plan_of(tmp_path, **options)
    units = unit_of(task_of(plan, 0, tables[0], assign_units((), 1)[0]))
    slice_engine._kept.clear()
    units = unit_of(task_of(plan, 1, tables[1], units))
    ((kept, *_),) = slice_engine._kept.values()
    control = kept._engine.metrics()["shedding"]
    assert control["shedder"] == shedder and control["processing_latency"] is not None
    (part, *_) = (unit for units_of_slice in assign_units(units, 2) for unit in units_of_slice)
    task_of(plan, 2, tables[2], [part])
    assert len(attempts) == 3


def test_files(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    assert files.names("none") == [] and not files.exists("a/b")
    files.write("a/b", b"one")
    files.write("a/b", b"two")
    assert files.read("a/b") == b"two" and files.names("a") == ["b"]  # no temporary files
    files.copy("a/b", files, "c/d")
    files.rename_folder("c", "e")
    assert files.names() == ["a", "e"] and files.read("e/d") == b"two"
    files.remove_folder("a")
    files.remove_folder("a")
    assert files.names() == ["e"] and files.uri("e") == f"file://{tmp_path}/e"
    with pytest.raises(FileNotFoundError):
        files.read("a/b")
