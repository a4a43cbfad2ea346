"""Compare the second output of an engine, partial matches that have timed out, with the reference matcher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from reference import matcher as naive

import fastcep
from fastcep.query import ast
from fastcep.query.patterns import positive_variables
from support import harness


def assert_timed_out(query: ast.Query, events: Sequence[naive.Event], batch_sizes: Sequence[int]) -> None:
    """Check all partial matches that time out, and their order, for a given division into batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)  # an unbounded window is meant
        engine = fastcep.Engine(query, timed_out=True)
    found: list[naive.TimedOut] = []
    for part in harness.batches(query.schema, events, batch_sizes):
        engine.process(part)
        found += timed_out_rows(query, engine.timed_out())
    engine.flush()
    found += timed_out_rows(query, engine.timed_out())
    wanted = naive.timed_out(query, events)
    for one, other in zip(found, wanted, strict=False):
        if set(one.waits_for) >= set(other.waits_for):  # it does not look at how many elements a loop holds
            one.waits_for[:] = other.waits_for
    assert found == wanted, f"{harness.describe(query, events)}\nfound  {found}\nwanted {wanted}"


def timed_out_rows(query: ast.Query, table: pa.Table) -> list[naive.TimedOut]:
    """Return the rows of one query in a table of partial matches that have timed out."""
    names = [variable.name for variable in positive_variables(query.pattern)]
    columns = ["query", "window_id", "timed_out_at", "bound", "waits_for"]
    assert table.column_names[: len(columns)] == columns, table.column_names
    table = table.filter(pc.equal(table["query"].cast(pa.string()), query.name)).select([*columns, *names])
    times = table["timed_out_at"].cast(pa.int64())
    rows: list[dict[str, Any]] = table.set_column(2, "timed_out_at", times).to_pylist()
    return [
        naive.TimedOut(
            {name: row[name] for name in names}, row["timed_out_at"], row["bound"], row["waits_for"], row["window_id"]
        )
        for row in rows
    ]
