"""Writing matches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from fastcep.errors import ValidationError
from fastcep.io import write_matches

MATCHES = pa.table(
    {
        "query": ["q1", "q, 2", None],
        "a": pa.array([1, 2, None]),
        "b": pa.array([[1, 2], [], None], pa.list_(pa.int64())),
        "c": pa.array([["x"], ["y", None], ["z"]], pa.list_(pa.string())),
    }
)


def test_parquet_and_arrow_keep_the_table(tmp_path: Path) -> None:
    write_matches(MATCHES, tmp_path / "m.parquet")
    assert pq.read_table(tmp_path / "m.parquet").equals(MATCHES)
    write_matches(MATCHES, str(tmp_path / "m.arrow"))
    with pa.OSFile(str(tmp_path / "m.arrow")) as file:
        assert pa.ipc.open_file(file).read_all().equals(MATCHES)


@pytest.mark.parametrize("start", [0, 1])
def test_csv_writes_lists_as_text(tmp_path: Path, start: int) -> None:
    write_matches(MATCHES.slice(start), tmp_path / "m.csv")
    lines = ['"query","a","b","c"', '"q1",1,"[1 2]","[x]"', '"q, 2",2,"[]","[y null]"', ',,,"[z]"']
    assert (tmp_path / "m.csv").read_text().splitlines() == lines[:1] + lines[1 + start :]


def test_no_matches(tmp_path: Path) -> None:
    for name in ("m.csv", "m.parquet", "m.arrow"):
        write_matches(MATCHES.slice(0, 0), tmp_path / name)
        write_matches(MATCHES.schema.empty_table(), tmp_path / name)
    assert (tmp_path / "m.csv").read_text() == '"query","a","b","c"\n'


def test_unknown_ending(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"ends in \.parquet, \.arrow or \.csv"):
        write_matches(MATCHES, tmp_path / "m.json")
