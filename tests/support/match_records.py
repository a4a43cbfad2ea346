"""Compare matches as Python objects with the table of the same matches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import fastcep as fc

__all__ = ["check_records"]


def check_records(matches: fc.Matches) -> None:
    """Check that iterating over matches gives the rows of their table, without the columns of other queries."""
    try:
        table = matches.to_arrow()
    except fc.ValidationError:  # two queries have a column of one name with different types
        for name in matches.counts():
            check_records(matches.query(name))
        return
    rows = table.set_column(2, "detected_at", table["detected_at"].cast(pa.int64())).to_pylist()
    records = matches.to_dicts()
    assert len(records) == len(rows) == len(matches)
    for record, row in zip(records, rows, strict=True):
        time = record["detected_at"]
        assert isinstance(time, np.datetime64)
        values = {**record, "detected_at": int(time.astype(np.int64))}
        assert repr(values) == repr({name: row[name] for name in values})
        assert all(value is None for name, value in row.items() if name not in values)
