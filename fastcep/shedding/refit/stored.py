"""Tables and models as JSON values, for snapshots."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pyarrow as pa

from fastcep.query import Document, document_text, parse_document
from fastcep.shedding.model import Model
from fastcep.stored import TEXT, anything, by_name, record

__all__ = ["check_model", "dump_model", "dump_table", "load_stored_model", "load_table"]

check_model = record({
    "kind": TEXT, "text": TEXT, "parameters": by_name(anything), "numbers": by_name(anything), "parts": by_name(TEXT),
})  # fmt: skip


def dump_table(table: pa.Table) -> str:
    """Return a table as text: base64 of an Arrow IPC file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return b64encode(sink.getvalue()).decode()


def load_table(text: str) -> pa.Table:
    """Return the table of a text; raise ValueError if it is damaged."""
    return pa.ipc.open_file(pa.BufferReader(b64decode(text, validate=True))).read_all()


def dump_model(model: Model) -> dict[str, Any]:
    """Return a model as JSON values."""
    return {
        "kind": model.kind, "text": document_text(Document(model.query.schema, (model.query,))),
        "parameters": model.parameters, "numbers": model.numbers,
        "parts": {name: dump_table(part) for name, part in model.parts.items()},
    }  # fmt: skip


def load_stored_model(stored: dict[str, Any]) -> Model:
    """Return the model of JSON values, which have passed `check_model`."""
    (query,) = parse_document(stored["text"], "model").queries
    parts = {name: load_table(part) for name, part in stored["parts"].items()}
    return Model(stored["kind"], query, stored["parameters"], stored["numbers"], parts)
