"""``fastcep.spark.write_matches`` writes the rows of one engine that gets each micro-batch in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.micro_batches import LETTERS, QUERIES, pieces, query, rows_in, rows_of_one_engine, run, stream, write

import fastcep as fc
import fastcep.spark

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("name", "slices", "types"), [("kleene", 3, "ABC"), ("trailing", 2, "ABC"), ("windowed", 1, "ABCD")]
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
