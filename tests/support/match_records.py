"""Compare matches as Python objects with the table of the same matches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from support.harness import TIME, without_times

__all__ = ["check_records"]


def check_records(matches: fc.Matches) -> None:
    """Check that iterating over matches gives the rows of their table, without the columns of other queries."""
    try:
        table = matches.to_arrow()
    except fc.ValidationError:  # two queries have a column of one name with different types
        for name in matches.counts():
            check_records(matches.query(name))
        return
    times = [field.name for field in table.schema if field.type in (TIME, pa.large_list(TIME))]
    rows = pa.table({name: without_times(table[name]) for name in table.column_names}).to_pylist()
    records = matches.to_dicts()
    assert len(records) == len(rows) == len(matches)
    for record, row in zip(records, rows, strict=True):
        values = {name: _nanoseconds(value) if name in times else value for name, value in record.items()}
        assert repr(values) == repr({name: row[name] for name in values})
        assert all(value is None for name, value in row.items() if name not in values)


def _nanoseconds(value: Any) -> Any:
    """Return a time, or a list of times, in nanoseconds."""
    if value is None or isinstance(value, list):
        return value and list(map(_nanoseconds, value))
    assert isinstance(value, np.datetime64) and value.dtype == "<M8[ns]"
    return int(value.astype(np.int64))
