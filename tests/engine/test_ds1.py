"""The four limit queries on DS1 (seed 7): exact counts, and the same matches wherever the stream is cut."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import fastcep as fc
from fastcep import datasets

ATTRIBUTES = {"ID": "int64", "V": "int64"}
SCHEMA = fc.Schema(dict.fromkeys("ABCD", ATTRIBUTES), time="ts", type="type", time_unit="us")
ABC = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID"
TEXTS = {
    "Q1": f"{ABC} AND a.V + b.V = c.V WITHIN 8ms",
    "Q1s": f"{ABC} AND a.V + b.V = c.V WITHIN 1ms",
    "QS": f"{ABC} AND a.V = 10 AND b.V = 10 AND c.V = 10 WITHIN 1ms",
    "QK": "PATTERN SEQ(A a, B+ k[], C c) WHERE a.ID = k[i].ID AND a.ID = c.ID AND k[i].V = a.V WITHIN 1ms",
}
COUNTS = {"Q1": 2_244_896, "Q1s": 34_837, "QS": 751, "QK": 83_737}


def query(name: str) -> fc.Query:
    return fc.parse(TEXTS[name], SCHEMA, name=name)


@pytest.fixture(scope="module")
def stream() -> pa.Table:
    """DS1, types dictionary-coded once so that small batches do not pay for it."""
    table = datasets.ds1(1_000_000, 7)
    return table.set_column(0, "type", table["type"].dictionary_encode().combine_chunks())


def run(engine: fc.Engine, table: pa.Table, size: int) -> dict[str, list[pa.Table]]:
    """Tables of matches by query, over batches of ``size`` events; the empty ones are left out."""
    found: dict[str, list[pa.Table]] = {}
    for batch in table.to_batches(max_chunksize=size):
        matches = engine.process(batch)
        for name, count in matches.counts().items():
            if count:
                found.setdefault(name, []).append(matches.query(name).to_arrow())
    return found


def joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


@pytest.mark.parametrize("name", COUNTS)
def test_counts(stream: pa.Table, name: str) -> None:
    """All in one batch and in batches of 1,024: the exact counts, the same rows."""
    whole_engine, engine = fc.Engine(query(name)), fc.Engine(query(name))
    whole = whole_engine.process(stream)
    assert len(whole) == COUNTS[name] == whole_engine.metrics()["matches"]
    found = joined(run(engine, stream, 1_024)[name])
    assert len(found) == COUNTS[name]
    assert found.equals(whole.to_arrow())
    one, other = whole_engine.metrics(), engine.metrics()
    for key in ("events", "relevant_events", "rows_created", "live_partial_matches", "peak_partial_matches"):
        assert one[key] == other[key], key


@pytest.mark.parametrize(("size", "events"), [(7, 100_000), (1, 20_000)])
def test_small_batches(stream: pa.Table, size: int, events: int) -> None:
    """All four queries in one engine over tiny batches: the same tables as each alone in one batch."""
    prefix = stream.slice(0, events)
    found = run(fc.Engine([query(name) for name in TEXTS]), prefix, size)
    for name in TEXTS:
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
    engine = fc.Engine([query(name) for name in TEXTS])
    counts = dict.fromkeys(TEXTS, 0)
    for batch in stream.to_batches(max_chunksize=size):
        for name, found in engine.process(batch).counts().items():
            counts[name] += found
    assert counts == COUNTS
