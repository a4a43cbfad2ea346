"""pytest-benchmark suites of the engine: ``make bench``."""

from __future__ import annotations

from typing import Any

import pytest

import fastcep as fc
from bench.queries import COUNTS, OPERATORS, QUERIES, SCHEMA, events, run, run_to_end


@pytest.fixture(scope="module")
def table() -> Any:
    return events()


@pytest.mark.parametrize("name", QUERIES)
def test_limit_query(benchmark: Any, table: Any, name: str) -> None:
    query = fc.parse(QUERIES[name], SCHEMA)
    assert benchmark.pedantic(run, (query, table), rounds=5, warmup_rounds=1) == COUNTS[name]


@pytest.mark.parametrize("batch_rows", [256, 1024, 65_536])
def test_batches(benchmark: Any, table: Any, batch_rows: int) -> None:
    query = fc.parse(QUERIES["Q1s"], SCHEMA)
    assert benchmark.pedantic(run, (query, table, batch_rows), rounds=3, warmup_rounds=1) == COUNTS["Q1s"]


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(benchmark: Any, table: Any, name: str) -> None:
    query = fc.parse(f"PATTERN {OPERATORS[name]} WITHIN 1ms", SCHEMA)
    assert benchmark.pedantic(run_to_end, (query, table), rounds=3, warmup_rounds=1) > 0


def test_send(benchmark: Any) -> None:
    engine = fc.Engine(fc.parse(QUERIES["Q1s"], SCHEMA))
    times = iter(range(10, 1 << 40, 10))
    benchmark(lambda: engine.send("A", ts=next(times), ID=3, V=7))


def test_parse_and_plan(benchmark: Any) -> None:
    benchmark(lambda: fc.Engine(fc.parse(QUERIES["QK"], SCHEMA)))


def test_few_matches_to_arrow(benchmark: Any, table: Any) -> None:
    engine = fc.Engine(fc.parse(QUERIES["Q1"], SCHEMA))
    batches = table.slice(0, 100_000).to_batches(max_chunksize=256)
    matches = next(found for found in map(engine.process, batches) if 3 <= len(found) <= 20)
    assert len(benchmark(matches.to_arrow)) == len(matches)
