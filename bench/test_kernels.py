"""pytest-benchmark suites of the two tiers of predicates: ``make bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fastcep as fc
from bench.kernels import SIZES, Predicate
from bench.queries import COUNTS, QUERIES, SCHEMA, events
from fastcep.kernels.generate import generate


@pytest.fixture
def jit(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.getbasetemp() / "kernels"
    monkeypatch.setenv("FASTCEP_CACHE_DIR", str(folder))
    monkeypatch.setenv("FASTCEP_JIT", "1")
    return folder


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("tier", [0, 1])
def test_three_conjuncts(benchmark: Any, jit: Path, tier: int, rows: int) -> None:
    predicate = Predicate()
    predicate.ready()
    repeat = max(2, 100_000 // rows)
    benchmark.extra_info["rows"] = rows * repeat
    assert benchmark(predicate.run, tier, rows, repeat) == predicate.run(1 - tier, rows, 2)


@pytest.mark.parametrize("name", QUERIES)
def test_limit_query_by_generated_kernels(benchmark: Any, jit: Path, name: str) -> None:
    table = events()

    def setup() -> tuple[tuple[fc.Engine], dict[str, Any]]:
        engine = fc.Engine(fc.parse(QUERIES[name], SCHEMA))
        assert engine.compile("60s")
        return (engine,), {}

    def run(engine: fc.Engine) -> int:
        return len(engine.process(table).to_arrow())

    assert benchmark.pedantic(run, setup=setup, rounds=5) == COUNTS[name]


def test_generate(benchmark: Any) -> None:
    program, role = Predicate().tasks[0]
    assert "kernel" in benchmark(generate, program, role)


def test_warm_engine(benchmark: Any, jit: Path) -> None:
    query = fc.parse(QUERIES["Q1"], SCHEMA)
    assert fc.Engine(query).compile("60s")
    benchmark(fc.Engine, query)
