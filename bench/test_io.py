"""pytest-benchmark suites of reading and matching, by format: ``make bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fastcep as fc
from bench.io import FORMATS, document, match, write
from bench.queries import COUNTS
from fastcep.io import open_source


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write(tmp_path_factory.mktemp("io"))


@pytest.mark.parametrize("form", FORMATS)
def test_match(benchmark: Any, paths: dict[str, Path], form: str) -> None:
    parsed = document(form)

    def setup() -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (fc.Engine(parsed.queries), parsed.schema, paths[form]), {}

    assert benchmark.pedantic(match, setup=setup, rounds=3, warmup_rounds=1) == COUNTS["QS"]


@pytest.mark.parametrize("form", FORMATS)
def test_read(benchmark: Any, paths: dict[str, Path], form: str) -> None:
    schema = document(form).schema

    def read() -> int:
        with open_source(paths[form], schema) as source:
            return sum(batch.num_rows for batch in source)

    assert benchmark.pedantic(read, rounds=3, warmup_rounds=1) == 1_000_000
