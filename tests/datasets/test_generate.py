"""All generated streams: reproducible, ordered, equal in batches; and rejected options."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fastcep import datasets
from fastcep.errors import ValidationError

SHA256 = {
    "bike_chains": "f8b640a632f0d36d6b9e1acc5de3bc350b0096110b4b38e0260d7e316b8526f5",
    "market": "b4fcb53b715de68cdb6b41c6f635f2f74b02a0fc12c068bc715344e99ae7ba35",
    "soccer": "8212c65a07d8626b0c53d67feef6e809a3db2617c5fb2d8d717ace957ae0492d",
    "task_lives": "d2864579a7956e61ad1d3e2fe2772ebec87a3d00f1779bc7be242ed014828276",
    "traffic": "84ecc811b2268cc37442c71bb6058fdf784ca5cdafea168817f772f48f516903",
}
NAMES = tuple(SHA256)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bytes_everywhere(tmp_path: Path, name: str) -> None:
    out = datasets.make(name, tmp_path / "s.csv", events=5_000, seed=3)
    assert hashlib.sha256(out.read_bytes()).hexdigest() == SHA256[name]


@pytest.mark.sample(5)
@pytest.mark.parametrize("chunk", [1, 7, 1_000, 4_096])
@pytest.mark.parametrize("name", NAMES)
def test_batches_equal_the_table_and_begin_a_longer_one(name: str, chunk: int) -> None:
    n = 100 if chunk < 10 else 9_001
    table = getattr(datasets, name)(n, 11)
    batches = list(getattr(datasets, f"{name}_batches")(n, 11, chunk))
    assert pa.Table.from_batches(batches).equals(table)
    assert [batch.num_rows for batch in batches[:-1]] == [chunk] * (len(batches) - 1)
    assert getattr(datasets, name)(n + 1_000, 11).slice(0, n).equals(table)


@pytest.mark.parametrize(
    ("name", "column", "smallest_gap"),
    [
        ("bike_chains", "start_date", 0),
        ("market", "ts", 1),
        ("soccer", "ts", 1),
        ("task_lives", "time", 0),
        ("traffic", "ts", 0),
    ],
)
def test_times(name: str, column: str, smallest_gap: int) -> None:
    """Times start at 0 or later, and ascend in steps of at least `smallest_gap`."""
    times = getattr(datasets, name)(20_000, 2)[column].cast(pa.int64()).to_numpy()
    assert times[0] >= 0 and np.diff(times).min() >= smallest_gap


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bike_chains", {"events": 0}, "events=0: expected at least 1"),
        ("bike_chains", {"bikes": 0}, "bikes=0: expected at least 1"),
        ("bike_chains", {"compress": 0}, "compress=0: expected at least 1"),
        ("bike_chains", {"bikes": 2_000_000}, "bikes=2000000: expected at most 1,000,000"),
        ("task_lives", {"low": 1.5}, "low=1.5: expected a share from 0 to 1"),
        ("task_lives", {"failing": 0.3}, "failing=0.3: expected a probability from 0 to 0.2"),
        ("task_lives", {"rate": 0.0}, "rate=0.0: expected a positive number"),
        ("task_lives", {"rate": float("inf")}, "rate=inf: expected a positive number"),
        ("market", {"events": 0}, "events=0: expected at least 1"),
        ("market", {"leaders": 0}, "leaders=0: expected at least 1"),
        ("market", {"symbols": 5}, "symbols=5, lag=2: expected more symbols than leaders=5"),
        ("market", {"lag": -1}, "lag=-1"),
        ("market", {"influence": 1.5}, "influence=1.5: expected a share from 0 to 1"),
        ("soccer", {"passing": -0.1}, "passing=-0.1: expected a share from 0 to 1"),
        ("soccer", {"reach": 0.0}, "reach=0.0: expected a positive number of metres"),
        ("traffic", {"rate": 0.0}, "rate=0.0: expected a positive number"),
        ("traffic", {"fastest": 50.0}, "fastest=50.0: expected at least speed=60.0"),
        ("traffic", {"fast": float("nan")}, "fast=nan: expected a share from 0 to 1"),
    ],
)
def test_refusals(name: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        getattr(datasets, name)(**{"events": 10, **options})
