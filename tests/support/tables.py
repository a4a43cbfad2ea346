"""Write tables in every format, and read them back."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from fastcep.events import Schema
from fastcep.io import open_source

#: Large data sets outside the repository, for tests marked `shared`.
SHARED = Path(os.environ.get("FASTCEP_SHARED", "../shared")) / "data"
CITIBIKE = Schema(
    {"Trip": {"bike": "int64", "start": "int64", "end": "int64"}},
    time="starttime",
    time_format="%Y-%m-%d %H:%M:%S",
    time_zone="America/New_York",
    sources={"Trip": {"bike": "bikeid", "start": "start station id", "end": "end station id"}},
)
DS1 = Schema({kind: {"ID": "int64", "V": "int64"} for kind in "ABCD"}, type="type", time="ts", time_unit="us")


def csv(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pv.write_csv(table, out)
    return out.getvalue()


def tsv(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pv.write_csv(table, out, pv.WriteOptions(delimiter="\t"))
    return out.getvalue()


def jsonl(table: pa.Table) -> bytes:
    if all(kind in (pa.int64(), pa.string()) for kind in table.schema.types) and not table.column(0).null_count:
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return frame.write_ndjson().encode()
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in table.to_pylist())


def parquet(table: pa.Table, rows: int = 100_000, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=rows, **options)
    return out.getvalue()


def arrow_file(table: pa.Table, rows: int = 50_000) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return out.getvalue()


def arrow_stream(table: pa.Table, rows: int = 50_000) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return out.getvalue()


def feather(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pyarrow.feather.write_feather(table, out)
    return out.getvalue()


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


PLAIN = {
    ".csv": csv, ".tsv": tsv, ".jsonl": jsonl, ".ndjson": jsonl, ".parquet": parquet,
    ".arrow": arrow_file, ".arrows": arrow_stream, ".ipc": arrow_stream, ".feather": feather,
}  # fmt: skip
PACKED = {
    ending + suffix: (make, pack)
    for suffix, pack in ((".gz", lambda data: gzip.compress(data, 1)), (".zst", zstd))
    for ending, make in PLAIN.items()
    if ending in (".csv", ".jsonl", ".arrow", ".arrows")
}


def written(table: pa.Table, ending: str) -> bytes:
    if ending in PLAIN:
        return PLAIN[ending](table)
    make, pack = PACKED[ending]
    return pack(make(table))


def read(data: Any, schema: Schema = DS1, **options: Any) -> pa.Table:
    with open_source(data, schema, **options) as source:
        batches = list(source)
        assert source.rows_read == sum(batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches) if batches else pa.table({})


class StandardInput:
    def __init__(self, data: bytes) -> None:
        self._patch = pytest.MonkeyPatch()
        self._input = type("Input", (), {"buffer": io.BytesIO(data)})

    def __enter__(self) -> None:
        self._patch.setattr(sys, "stdin", self._input)

    def __exit__(self, *_: object) -> None:
        assert not self._input.buffer.closed
        self._patch.undo()
