"""pytest-benchmark suites of what is there before the first event: imports, queries, kernels; ``make bench``.

Imports and kernels are measured in processes of their own. ``test_import[numpy, pyarrow]`` is the yardstick.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.kernels import environment
from bench.queries import QUERIES

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


@pytest.mark.parametrize("what", IMPORTS)
def test_import(benchmark: Any, what: str) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is there when a user imports
    benchmark.pedantic(start, (IMPORTS[what], environ), rounds=5, warmup_rounds=1)


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_kernels_in_use(benchmark: Any, tmp_path: Path, cache: str) -> None:
    """From the start of Python to generated kernels in use for Q1; an engine works before, by bytecode."""
    environ = environment(tmp_path, "1")

    def ready() -> None:
        if cache == "cold":
            for path in tmp_path.glob("*.kernel"):
                path.unlink()

    benchmark.pedantic(start, (COMPILE, environ), setup=ready, rounds=3, warmup_rounds=1)
