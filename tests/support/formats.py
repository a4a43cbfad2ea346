"""Read the files of the match writers, by the ending of the name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

BINARY = ("parquet", "arrow", "arrows", "feather", "ipc")
TEXT = ("csv", "csv.gz", "csv.zst", "jsonl", "ndjson", "jsonl.gz", "ndjson.zst")


def read_binary(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.OSFile(str(path)) as file:
        opened: Any = pa.ipc.open_stream if path.suffix == ".arrows" else pa.ipc.open_file
        return opened(file).read_all()


def read_text(path: Path) -> str:
    kinds = {".gz": "gzip", ".zst": "zstd"}
    with pa.input_stream(str(path), compression=kinds.get(path.suffix)) as file:
        return file.read().decode()
