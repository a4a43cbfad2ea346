"""The data formats in which a batch of events can be passed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from support.harness import Data

#: Formats that are Arrow data as a whole; the others are dicts.
ARROW = frozenset({"record batch", "table", "chunks", "coded", "slice"})


def formed(data: Data, form: str) -> Any:
    """Convert a batch to a format."""
    if form == "dict":
        return data
    table = pa.table(data)
    match form:
        case "record batch":
            return table.combine_chunks().to_batches()[0] if len(table) else pa.record_batch(data)
        case "table":
            return table
        case "chunks":
            return pa.concat_tables([table.slice(0, 1), table.slice(1)])
        case "coded":
            return pa.record_batch(coded(data))
        case "coded dict":
            return coded(data)
        case "slice":
            return pa.record_batch(pa.concat_tables([table, table]).combine_chunks().to_pydict(), table.schema).slice(
                len(table)
            )
        case "NumPy":
            return {
                name: values.to_numpy()
                if values.type in (pa.int64(), pa.float64()) and not values.null_count
                else values
                for name, values in data.items()
            }
        case "lists":
            return {name: values.to_pylist() if values.type == pa.string() else values for name, values in data.items()}
    raise AssertionError(form)


def coded(data: Data) -> Data:
    """Encode texts as dictionary arrays."""
    return {name: values.dictionary_encode() if values.type == pa.string() else values for name, values in data.items()}
