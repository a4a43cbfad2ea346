"""pytest-benchmark suites of snapshots: 100,000 partial matches, an empty key group, the format: ``make bench``.

``test_copy`` is the reference for the large tables: it joins the same columns into one bytes object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastcep as fc
from bench.queries import SCHEMA
from fastcep.engine.state.container import pack, unpack
from fastcep.engine.state.keygroups import group_of_texts, group_of_words

HEADER = {"queries": ["PATTERN SEQ(A a, B b) WHERE [ID] WITHIN 5ms"], "position": 17}
TABLES: dict[str, Callable[[], dict[str, dict[str, Any]]]] = {
    "none": dict,
    "tiny": lambda: {
        "rows": {"a": np.arange(10), "b": np.arange(10, dtype=np.uint8)},
        "keys": {"k": np.arange(5), "n": np.arange(5, dtype=np.int32)},
    },
    "80MB": lambda: {"rows": {f"c{k}": np.random.default_rng(k).integers(0, 99, 1_000_000) for k in range(10)}},
}


@pytest.mark.parametrize("size", TABLES)
def test_pack(benchmark: Any, size: str) -> None:
    tables = TABLES[size]()
    benchmark(lambda: pack(HEADER, tables))


@pytest.mark.parametrize("size", TABLES)
def test_unpack(benchmark: Any, size: str) -> None:
    snapshot = pack(HEADER, TABLES[size]())
    benchmark(lambda: unpack(snapshot))


def test_copy(benchmark: Any) -> None:
    columns = list(TABLES["80MB"]()["rows"].values())
    benchmark(lambda: b"".join(columns))


@pytest.mark.parametrize("count", [1, 1_000_000])
def test_groups_of_words(benchmark: Any, count: int) -> None:
    words = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, count)
    benchmark(lambda: group_of_words(words))


def test_groups_of_texts(benchmark: Any) -> None:
    texts = [f"bike {number}" for number in range(100_000)]
    benchmark(lambda: group_of_texts(texts))


# ------------------------------------------------------------------------- engines

QUERY = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 1h"
PARTIAL_MATCHES = 100_000
#: Number of keys of the partial matches; with few keys, an event extends many partial matches.
KEYS = {"a key each": PARTIAL_MATCHES, "1,000 keys": 1_000}


def engine_with(keys: int) -> fc.Engine:
    """Return an engine with `PARTIAL_MATCHES` live partial matches of one event each."""
    count = PARTIAL_MATCHES
    engine = fc.Engine(fc.parse(QUERY, SCHEMA, name="q"))
    numbers = np.arange(count)
    engine.process({"ts": numbers, "type": ["A"] * count, "ID": numbers % keys, "V": numbers % 10})
    assert engine.metrics()["live_partial_matches"] == count
    return engine


@pytest.mark.parametrize("keys", KEYS)
def test_snapshot(benchmark: Any, keys: str) -> None:
    benchmark(engine_with(KEYS[keys]).snapshot)


@pytest.mark.parametrize("keys", KEYS)
def test_restore(benchmark: Any, keys: str) -> None:
    """Measure a restore without the time to free the engine."""
    snapshot = engine_with(KEYS[keys]).snapshot()
    engines: list[fc.Engine] = []
    benchmark.pedantic(
        lambda: engines.append(fc.Engine.restore(snapshot)), setup=lambda: engines.clear(), rounds=30, warmup_rounds=2
    )


def test_snapshot_of_an_empty_group(benchmark: Any) -> None:
    engine = fc.Engine(fc.parse(QUERY, SCHEMA, name="q"))
    engine.process({"ts": [1], "type": ["C"], "ID": [1], "V": [1]})
    assert len(benchmark(lambda: engine.snapshot([5]))) <= 1024


def test_extract_of_an_empty_group(benchmark: Any) -> None:
    engine = fc.Engine(fc.parse(QUERY, SCHEMA, name="q"))
    states: list[bytes] = []
    benchmark.pedantic(
        lambda: states.append(engine.extract([5])),
        setup=lambda: engine.merge(states.pop()) if states else None,
        rounds=2_000,
        warmup_rounds=10,
    )


def test_merge_of_an_empty_group(benchmark: Any) -> None:
    engine = fc.Engine(fc.parse(QUERY, SCHEMA, name="q"))
    benchmark.pedantic(engine.merge, setup=lambda: ((engine.extract([5]),), {}), rounds=2_000, warmup_rounds=10)
