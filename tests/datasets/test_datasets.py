"""Shipped files, catalogue and generators."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

from fastcep import datasets
from fastcep.errors import ValidationError

LIMIT_SHA256 = "c54f9ea364343ee3b08c594eb83feb06f884c5ce2feb01e7ec84a4c9b8a62385"


def test_ds1_csv_is_the_stream_of_the_limit(tmp_path: Path) -> None:
    out = tmp_path / "ds1.csv"
    datasets.write_ds1_csv(out)
    assert hashlib.sha256(out.read_bytes()).hexdigest() == LIMIT_SHA256
    assert datasets.make("ds1", out) == out
    assert hashlib.sha256(out.read_bytes()).hexdigest() == LIMIT_SHA256


def test_ds1_draws_one_column_after_the_other() -> None:
    n, rng = 1001, np.random.default_rng(3)
    kind, key, value = rng.integers(0, 4, n), rng.integers(1, 11, n), rng.integers(1, 11, n)
    ts = np.cumsum(rng.integers(1, 20, n))
    expected = {"type": ["ABCD"[k] for k in kind], "ID": key.tolist(), "V": value.tolist(), "ts": ts.tolist()}
    assert datasets.ds1(n, 3).to_pydict() == expected


@pytest.mark.parametrize("c_values", [(2, 10), (2, 2), (12, 20)])
def test_ds1_draws_the_values_of_c_separately(c_values: tuple[int, int]) -> None:
    plain, table = datasets.ds1(40_000, 3), datasets.ds1(40_000, 3, c_values)
    is_c = pc.equal(table["type"], "C").to_numpy()
    assert table.drop_columns("V").equals(plain.drop_columns("V"))
    assert (table["V"].to_numpy() == plain["V"].to_numpy())[~is_c].all()
    low, high = c_values
    counts = np.bincount(table["V"].to_numpy()[is_c], minlength=high + 1)
    assert counts[:low].sum() == 0 and len(counts) == high + 1
    assert np.abs(counts[low:] * (high - low + 1) / is_c.sum() - 1).max() < 0.1
    assert not table.equals(datasets.ds1(40_000, 4, c_values))


def test_ds1_with_the_default_values_of_c_is_unchanged() -> None:
    assert datasets.ds1(1_000, 3, (1, 10)).equals(datasets.ds1(1_000, 3))


@pytest.mark.parametrize("chunk", [1, 7, 65_536, 100_000])
def test_batches_with_other_values_of_c_equal_the_table(chunk: int) -> None:
    n = 500 if chunk < 10 else 70_001
    batches = datasets.ds1_batches(n, 11, chunk, c_values=(2, 10))
    assert pa.Table.from_batches(batches).equals(datasets.ds1(n, 11, c_values=(2, 10)))


@pytest.mark.parametrize("wrong", [(10, 2), (2,), (1, 2, 3), (2.0, 10), (True, 10), "12", 2, (0, 1 << 70)])
def test_ds1_rejects_invalid_ranges(wrong: object) -> None:
    with pytest.raises(ValidationError, match=r"c_values=.*: expected two whole numbers"):
        datasets.ds1(10, c_values=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"c_values="):
        datasets.ds1_batches(10, c_values=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("chunk", [1, 7, 65_536, 100_000])
@pytest.mark.parametrize("name", ["ds1", "ds2"])
def test_batches_equal_the_table(name: str, chunk: int) -> None:
    n = 500 if chunk < 10 else 70_001
    table = getattr(datasets, name)(n, 11)
    batches = list(getattr(datasets, f"{name}_batches")(n, 11, chunk))
    assert pa.Table.from_batches(batches).equals(table)
    assert max(batch.num_rows for batch in batches) <= chunk


def test_ds2_distributions() -> None:
    table = datasets.ds2(200_000, 7)
    assert table.column_names == ["type", "ID", "x", "y", "v", "ts"]
    kinds = {kind: table.filter(pc.equal(table["type"], kind)) for kind in "ABCD"}
    for kind, part in kinds.items():
        assert abs(part.num_rows / 200_000 - 0.25) < 0.01
        for name in "xy":
            assert part[name].null_count == (part.num_rows if kind in "CD" else 0)
            if kind in "AB":
                values = part[name].to_numpy()
                assert values.min() > 0 and values.max() <= 4
                assert abs((values <= 2).mean() - 0.33) < 0.01
    assert kinds["A"]["v"].null_count == kinds["A"].num_rows
    for kind, shares in {"B": {2: 0.33, 5: 0.67}, "C": {3: 0.5, 5: 0.5}, "D": {5: 0.33, 2: 0.67}}.items():
        counts = {pair["values"]: pair["counts"] for pair in pc.value_counts(kinds[kind]["v"]).to_pylist()}
        assert counts.keys() == shares.keys()
        for value, share in shares.items():
            assert abs(counts[value] / kinds[kind].num_rows - share) < 0.01
    gaps = np.diff(table["ts"].to_numpy())
    assert gaps.min() >= 1 and abs(gaps.mean() - 10) < 0.1
    assert abs(np.corrcoef(kinds["A"]["x"].to_numpy(), kinds["A"]["y"].to_numpy())[0, 1]) < 0.02


@pytest.mark.parametrize("name", ["ds1", "ds2"])
def test_make_writes_csv_and_parquet(tmp_path: Path, name: str) -> None:
    table = getattr(datasets, name)(1000, 5)
    datasets.make(name, tmp_path / "s.parquet", events=1000, seed=5)
    assert pq.read_table(tmp_path / "s.parquet").equals(table)
    datasets.make(name, tmp_path / "s.csv", events=1000, seed=5, header=True)
    options = pv.ConvertOptions(column_types=table.schema, strings_can_be_null=True)
    assert pv.read_csv(tmp_path / "s.csv", convert_options=options).equals(table)


def test_bayarea() -> None:
    table = pq.read_table(datasets.path("bayarea_2014"))
    assert table.num_rows == 326_339
    start = table["start_date"].cast(pa.int64()).to_numpy()
    assert (np.diff(start) >= 0).all()
    assert pc.count_distinct(table["bike_id"]).as_py() == 687
    assert pc.count_distinct(table["start_terminal"]).as_py() == 70
    assert table.slice(0, 1).to_pylist()[0]["start_station"] == "San Francisco City Hall"
    assert sum(table[name].null_count for name in table.column_names) == 0


def test_google() -> None:
    table = pq.read_table(datasets.path("google_2011"))
    assert table.num_rows == 172_825
    time = table["time"].to_numpy()
    assert time[0] == 600_026_913 and time[-1] == 5_611_086_346 and (np.diff(time) >= 0).all()
    counts = {pair["values"]: pair["counts"] for pair in pc.value_counts(table["kind"]).to_pylist()}
    assert counts == {0: 57_152, 1: 57_012, 2: 4_338, 3: 581, 4: 43_237, 5: 10_505}
    assert table["machine"].null_count == 62_105


def test_catalogue_describes_what_ships() -> None:
    size = 0
    for entry in datasets.list_datasets():
        assert datasets.show(entry.name) is entry
        if entry.shipped:
            file = pq.ParquetFile(datasets.path(entry.name))
            assert file.schema_arrow.names == [name for name, _ in entry.columns]
            assert file.metadata.num_rows == entry.rows
            size += datasets.path(entry.name).stat().st_size
        else:
            assert getattr(datasets, entry.name)(1).column_names == [name for name, _ in entry.columns]
    assert size < 5_000_000
    credit = (datasets.path("bayarea_2014").parent / "CREDITS.md").read_text(encoding="utf-8")
    assert "CC0" in credit and "CC BY 4.0" in credit


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="did you mean 'bayarea_2014'"):
        datasets.show("bayarea")
    with pytest.raises(ValidationError, match="is generated"):
        datasets.path("ds1")
    with pytest.raises(ValidationError, match="ships with fastcep"):
        datasets.make("google_2011", tmp_path / "g.csv")
    with pytest.raises(ValidationError, match=r"ends in \.csv or \.parquet"):
        datasets.make("ds1", tmp_path / "ds1.txt")
    with pytest.raises(ValidationError, match="events=0: expected at least 1"):
        datasets.make("ds1", tmp_path / "ds1.csv", events=0)
    assert not list(tmp_path.iterdir())


def test_import_loads_no_pandas() -> None:
    code = "import sys, fastcep.datasets, fastcep.io; assert not {'pandas', 'numba', 'matplotlib'} & set(sys.modules)"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
