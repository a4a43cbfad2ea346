"""Sorting an input, in memory and through temporary files."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import CITIBIKE, SHARED
from typer.testing import CliRunner

from fastcep import Engine, datasets, parse
from fastcep.cli import app
from fastcep.errors import DataError
from fastcep.events import Schema
from fastcep.io import open_source
from fastcep.io.read import sorting

SCHEMA = Schema({kind: {"ID": "int64", "V": "int64"} for kind in "ABCD"}, type="type", time="ts", time_unit="us")


def shuffled(rows: int, seed: int = 3) -> pa.Table:
    table = datasets.ds1(rows)
    return table.take(pa.array(np.random.default_rng(seed).permutation(rows)))


@given(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from("AZ"), st.text("xyé", max_size=3)), min_size=1, max_size=60),
    st.integers(1, 7),
    st.sampled_from([0, 200, 10**9]),
)
def test_sorted_as_python_sorts(rows: list[tuple[int, str, str]], chunk: int, limit: int) -> None:
    """The sort is stable, with or without temporary files; events of ignored types are left out."""
    schema = Schema({"A": {"n": "int64", "s": "string"}}, type="kind", time="ts", other_types="ignore")
    table = pa.table(
        {
            "kind": [kind for _, kind, _ in rows],
            "ts": [time for time, _, _ in rows],
            "n": list(range(len(rows))),
            "s": pa.array([text for _, _, text in rows]).dictionary_encode(),
        }
    )
    patch = pytest.MonkeyPatch()
    patch.setattr(sorting, "SORT_BYTES", limit)
    patch.setattr(sorting, "RUN_ROWS", 3)
    with patch.context(), open_source(table, schema, chunk_rows=chunk, sort=True) as source:
        result = [row for batch in source for row in batch.to_pylist()]
    patch.undo()
    expected = sorted((time, n) for n, (time, kind, _) in enumerate(rows) if kind == "A")
    assert [(row["ts"], row["n"]) for row in result] == expected
    assert [row["s"] for row in result] == [rows[n][2] for _, n in expected]


def test_several_files_through_temporary_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = shuffled(200_000)
    pq.write_table(table.slice(0, 90_000), tmp_path / "a.parquet")
    pv.write_csv(table.slice(90_000, 60_000), tmp_path / "b.csv")
    pv.write_csv(table.slice(150_000), tmp_path / "c.csv")
    monkeypatch.setattr(sorting, "SORT_BYTES", 1 << 20)
    folders: list[str] = []
    make = tempfile.TemporaryDirectory

    def recorded(**options: str) -> tempfile.TemporaryDirectory[str]:
        folder = make(**options, dir=tmp_path)
        folders.append(folder.name)
        return folder

    monkeypatch.setattr(tempfile, "TemporaryDirectory", recorded)
    with open_source([tmp_path / name for name in ("a.parquet", "b.csv", "c.csv")], SCHEMA, sort=True) as source:
        first = next(source)
        assert first.num_rows == 65_536
        assert len(list(Path(folders[0]).iterdir())) > 2
        result = pa.Table.from_batches([first, *source])
    assert result.cast(datasets.ds1(1).schema).equals(datasets.ds1(200_000))
    assert not Path(folders[0]).exists()


@pytest.mark.thorough
def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(shuffled(500_000), tmp_path / "e.parquet", row_group_size=20_000)
    size = shuffled(500_000).nbytes
    monkeypatch.setattr(sorting, "SORT_BYTES", 1 << 20)
    monkeypatch.setattr(sorting, "RUN_ROWS", 500)
    peak, before = 0, pa.total_allocated_bytes()
    with open_source(tmp_path / "e.parquet", SCHEMA, sort=True, chunk_rows=10_000) as source:
        for batch in source:
            peak = max(peak, pa.total_allocated_bytes() - before)
            del batch
    assert source.rows_read == 500_000
    assert peak < size / 2


def test_order_by_sequence_number() -> None:
    schema = Schema({"T": {"k": "int64"}}, time="ts", sequence="n")
    table = pa.table({"ts": [2, 1, 1, 2], "n": [7, 5, 3, 6], "k": [0, 1, 2, 3]})
    with open_source(table, schema, sort=True) as source:
        assert [row["k"] for batch in source for row in batch.to_pylist()] == [2, 1, 3, 0]


def test_files_that_disagree(tmp_path: Path) -> None:
    schema = Schema({"T": {"k": "float64"}})
    pq.write_table(pa.table({"ts": [1], "k": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"ts": [1], "k": [1.5]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match="column 'k' is double in one file and int64 in another"):
        list(open_source(tmp_path, schema, sort=True))


QUERIES = """STREAM TIME 'ts' UNIT us TYPE 'type'
EVENT A (ID int64, V int64)
EVENT B (ID int64, V int64)
EVENT C (ID int64, V int64)
EVENT D (ID int64, V int64)
QUERY q PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms
"""


def test_files_with_columns_in_another_order(tmp_path: Path) -> None:
    """Columns are found by name, or by number whatever their names, and are never confused."""
    (tmp_path / "1.csv").write_text("ts,ID,V,type\n3,1,10,A\n")
    (tmp_path / "2.csv").write_text("V,type,extra,ts,ID\n20,B,0,1,2\n")
    with open_source(tmp_path, SCHEMA, sort=True) as source:
        rows = [row for batch in source for row in batch.to_pylist()]
    assert rows == [{"ts": 1, "ID": 2, "V": 20, "type": "B"}, {"ts": 3, "ID": 1, "V": 10, "type": "A"}]
    (tmp_path / "2.csv").write_text("t,i,v\n1,2,20\n")
    numbers = Schema({"T": {"i": "int64", "v": "int64"}}, time=0, sources={"T": {"i": 1, "v": 2}})
    with open_source(tmp_path, numbers, sort=True) as source:
        assert [list(row.values()) for batch in source for row in batch.to_pylist()] == [[1, 2, 20], [3, 1, 10]]
    both = Schema({"T": {"i": "int64"}}, time=0, sources={"T": {"i": "v"}})
    (tmp_path / "1.csv").write_text("t,v,i\n3,1,10\n")
    with (
        pytest.raises(DataError, match="all columns by name, or all by number"),
        open_source(tmp_path, both, sort=True) as source,
    ):
        list(source)


def test_columns_named_like_the_sort_keys(tmp_path: Path) -> None:
    """Columns of the user may have any name, and another order in each file."""
    schema = Schema({"A": {"place": "int64", "sequence": "int64"}}, type="kind", time="time")
    for name, columns in (("a", ["time", "place", "kind", "sequence"]), ("b", ["sequence", "kind", "time", "place"])):
        first = 10 * (name == "a")
        data = {"time": [first + 2, first], "place": [1, 2], "kind": ["A", "A"], "sequence": [first, 3]}
        pq.write_table(pa.table({column: data[column] for column in columns}), tmp_path / f"{name}.parquet")
    with open_source(tmp_path, schema, sort=True) as source:
        rows = [row for batch in source for row in batch.to_pylist()]
    assert [(row["time"], row["place"], row["sequence"]) for row in rows] == [
        (0, 2, 3), (2, 1, 0), (10, 2, 3), (12, 1, 10),
    ]  # fmt: skip


def test_the_command(tmp_path: Path) -> None:
    table = shuffled(5_000)
    (tmp_path / "q.cep").write_text(QUERIES)
    pv.write_csv(table, tmp_path / "e.csv")
    text = (tmp_path / "e.csv").read_text().replace("\n", "\nA,1,1,\n", 3)
    (tmp_path / "e.csv").write_text(text)
    command = ["run", str(tmp_path / "q.cep"), "--input", str(tmp_path / "e.csv"), "--json", "--sort"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert "e.csv, line 2, row 0, column " in result.stderr
    result = CliRunner().invoke(app, [*command, "--bad-rows", str(tmp_path / "bad.jsonl")])
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    query = parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms", SCHEMA)
    assert summary["matches"] == len(Engine(query).process(datasets.ds1(5_000)))
    assert (summary["events"], summary["bad_rows"]) == (5_000, 3)


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "citibike").is_dir(), reason="needs the Citi Bike files of FASTCEP_SHARED")
def test_citibike_months_grouped_by_station() -> None:
    query = parse(
        "PATTERN SEQ(Trip a, Trip b) WHERE a.bike = b.bike AND a.end = b.start WITHIN 1h", CITIBIKE, name="linked"
    )
    months = [SHARED / f"citibike/JC-{month}-citibike-tripdata.csv.gz" for month in ("201803", "201802", "201801")]
    engine = Engine(query)
    with open_source(months, CITIBIKE, sort=True) as source:
        matches = sum(len(engine.process(batch)) for batch in source)
    assert source.rows_read == 12_677 + 15_104 + 17_109
    assert matches > 0
