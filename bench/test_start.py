"""pytest-benchmark suites of the start before the first event, imports and kernels: ``make bench``.

Each measurement of imports and kernels is a new process. ``test_import[numpy, pyarrow]`` is the reference.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fastcep as fc
from bench.kernels import environment
from bench.queries import QUERIES, SCHEMA

IMPORTS = {
    "nothing": "pass",
    "numpy, pyarrow": "import numpy, pyarrow, pyarrow.compute, pyarrow.csv, pyarrow.parquet",
    "fastcep": "import fastcep",
    "command": "import fastcep.cli.run, fastcep.cli.commands",
}
COMPILE = f"""
import fastcep as fc
from bench.queries import SCHEMA
assert fc.Engine(fc.parse({QUERIES["Q1"]!r}, SCHEMA)).compile("120s")
"""


def start(code: str, environ: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)


@pytest.mark.parametrize("name", IMPORTS)
def test_import(benchmark: Any, name: str) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users import compiled bytecode
    benchmark.pedantic(start, (IMPORTS[name], environ), rounds=5, warmup_rounds=1)


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_kernels_in_use(benchmark: Any, tmp_path: Path, cache: str) -> None:
    """Measure from the start of Python until Q1 uses generated kernels; until then the engine runs bytecode."""
    environ = environment(tmp_path, "1")

    def clear_cache() -> None:
        if cache == "cold":
            for path in tmp_path.glob("*.kernel"):
                path.unlink()

    benchmark.pedantic(start, (COMPILE, environ), setup=clear_cache, rounds=3, warmup_rounds=1)


@pytest.mark.parametrize("start", ["new query", "same query", "snapshot"])
def test_engine(benchmark: Any, start: str) -> None:
    """Measure the start of an engine, with a plan that the process has kept or without one, and with its state."""
    query, numbers = fc.parse(QUERIES["QS"], SCHEMA), itertools.count()
    snapshot = fc.Engine(query).snapshot()

    def make() -> fc.Engine:
        if start == "snapshot":
            return fc.Engine.restore(snapshot, query)
        return fc.Engine(replace(query, name=f"QS{next(numbers)}") if start == "new query" else query)

    benchmark.pedantic(make, rounds=100, warmup_rounds=3)
