"""Engines with state for tests of snapshots: a stream with every kind of key, and the rest of a run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastcep as fc
from support.state_transfer import COUNTERS, quiet

ATTRIBUTES = {"k": "int64", "v": "int64", "x": "float64", "s": "string", "p": "bool"}
SCHEMA = fc.Schema(dict.fromkeys("ABC", ATTRIBUTES), type="type")
NUMBERED = fc.Schema(dict.fromkeys("ABC", ATTRIBUTES), type="type", sequence="n")
OTHER = fc.Schema(dict.fromkeys("ABCD", ATTRIBUTES), type="type")
PAIR = "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.v <= c.v WITHIN 60ns"
UNKEYED = "PATTERN SEQ(A a, B b) WHERE a.v < b.v WITHIN 20ns"


def query(text: str = PAIR, name: str = "q", schema: fc.Schema = SCHEMA) -> fc.Query:
    return fc.parse(text, schema, name=name)


def stream(rows: int = 120, seed: int = 1, start: int = 0) -> dict[str, Any]:
    """Make events with every kind of key: few numbers, both zeros and NaN, texts, nulls."""
    draw = np.random.default_rng(seed)
    nulls = draw.random(rows) < 0.1
    texts = draw.choice(["", "x", "é", "日本", "\U0001f6b2"], rows)
    return {
        "type": draw.choice(list("ABC"), rows),
        "k": [None if null else int(key) for null, key in zip(nulls, draw.integers(0, 4, rows), strict=True)],
        "v": draw.integers(0, 5, rows),
        "x": draw.choice([0.0, -0.0, 1.5, np.nan], rows),
        "s": [None if null else str(text) for null, text in zip(nulls, texts, strict=True)],
        "p": [None if null else bool(flag) for null, flag in zip(nulls, draw.integers(0, 2, rows), strict=True)],
        "ts": start + np.arange(rows) * 2,
        "n": np.arange(rows),
    }


def more(rows: int) -> dict[str, Any]:
    """Return the attributes other than the key."""
    return {name: [None] * rows for name in "vxsp"}


def part(data: dict[str, Any], first: int, last: int | None = None) -> dict[str, Any]:
    return {name: values[first:last] for name, values in data.items()}


def running(text: str = PAIR, events: int = 60, schema: fc.Schema = SCHEMA, **options: Any) -> fc.Engine:
    """Return an engine in the middle of the stream."""
    engine = quiet(fc.Engine, query(text, schema=schema), **options)
    engine.process(part(stream(), 0, events))
    return engine


def logical_metrics(engine: fc.Engine) -> dict[str, Any]:
    """Return its metrics, without those that measure memory."""
    metrics = engine.metrics()
    for facts in metrics["queries"].values():
        del facts["memory_bytes"]
    return {name: metrics[name] for name in (*COUNTERS, "foreign_events", "queries", "matches_by_query")}


def ending(engine: fc.Engine, first: int = 60, **options: Any) -> str:
    """Return the results of an engine for the rest of the stream, as text (NaN then equals itself)."""
    found = [engine.process(part(stream(), first), **options), engine.flush()]
    late = engine.late().to_pylist()
    out = engine.timed_out().to_pylist() if engine._timed_out else None
    return repr([table.to_arrow().to_pylist() for table in found] + [late, out])


def refuses(call: Callable[[], Any], *words: str, kind: type[Exception] = fc.SnapshotError) -> str:
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in words), message
    return message


@functools.cache
def moved(*groups: int) -> bytes:
    """Return key groups of an engine in the middle of the stream."""
    return running().extract(groups or range(32))
