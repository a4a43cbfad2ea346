"""The four limit queries on DS1 (seed 7): exact counts, and the same matches for any batch boundaries."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import fastcep as fc
from bench.queries import COUNTS, QUERIES, SCHEMA, events


def query(name: str) -> fc.Query:
    return fc.parse(QUERIES[name], SCHEMA, name=name)


@pytest.fixture(scope="module")
def stream() -> pa.Table:
    """Return DS1 with dictionary-coded types, so that small batches need not encode them."""
    return events()


def run(engine: fc.Engine, table: pa.Table, size: int) -> dict[str, list[pa.Table]]:
    """Return tables of matches by query, over batches of ``size`` events, without empty ones."""
    found: dict[str, list[pa.Table]] = {}
    for batch in table.to_batches(max_chunksize=size):
        matches = engine.process(batch)
        for name, count in matches.counts().items():
            if count:
                found.setdefault(name, []).append(matches.query(name).to_arrow())
    return found


def joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


@pytest.mark.thorough
@pytest.mark.parametrize("store", ["rows", "factorised"])
@pytest.mark.parametrize("name", COUNTS)
def test_counts(stream: pa.Table, name: str, store: str) -> None:
    """One batch and batches of 1,024 give the exact counts and the same rows."""
    whole_engine, engine = fc.Engine(query(name), store=store), fc.Engine(query(name), store=store)
    whole = whole_engine.process(stream)
    assert len(whole) == COUNTS[name] == whole_engine.metrics()["matches"]
    found = joined(run(engine, stream, 1_024)[name])
    assert len(found) == COUNTS[name]
    assert found.equals(whole.to_arrow())
    one, other = whole_engine.metrics(), engine.metrics()
    for key in ("events", "relevant_events", "rows_created", "live_partial_matches", "peak_partial_matches"):
        assert one[key] == other[key], key


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("window", ["200us", "5ms"])
def test_stores(stream: pa.Table, name: str, window: str) -> None:
    """Both stores give the same table, for short windows and for buckets that grow."""
    text = QUERIES[name].rpartition("WITHIN")[0] + f"WITHIN {window}"
    part = stream.slice(0, 30_000)
    rows, factorised = (
        fc.Engine(fc.parse(text, SCHEMA), store=store).process(part).to_arrow() for store in ("rows", "factorised")
    )
    assert rows.equals(factorised)
    assert len(rows) > 0 or (name, window) == ("QS", "200us")


@pytest.mark.thorough
@pytest.mark.parametrize(("size", "events"), [(7, 100_000), (1, 20_000)])
def test_small_batches(stream: pa.Table, size: int, events: int) -> None:
    """All four queries in one engine over tiny batches give the tables of each query alone in one batch."""
    prefix = stream.slice(0, events)
    found = run(fc.Engine([query(name) for name in QUERIES]), prefix, size)
    for name in QUERIES:
        assert joined(found[name]).equals(fc.Engine(query(name)).process(prefix).to_arrow()), name


def test_send_equals_process(stream: pa.Table) -> None:
    prefix = stream.slice(0, 2_000)
    engine = fc.Engine(query("Q1"))
    found: list[Any] = []
    for row in prefix.to_pylist():
        found += engine.send(row.pop("type"), **row).to_arrow().to_pylist()
    assert found == fc.Engine(query("Q1")).process(prefix).to_arrow().to_pylist()
    assert found


@pytest.mark.slow
@pytest.mark.parametrize("size", [7, 1])
def test_counts_of_tiny_batches(stream: pa.Table, size: int) -> None:
    """The full stream in batches of 7 and of 1."""
    engine = fc.Engine([query(name) for name in QUERIES])
    counts = dict.fromkeys(QUERIES, 0)
    for batch in stream.to_batches(max_chunksize=size):
        for name, found in engine.process(batch).counts().items():
            counts[name] += found
    assert counts == COUNTS
