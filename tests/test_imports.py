"""What `import fastcep` brings in, and what it shows."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import fastcep

HEAVY = ("numba", "llvmlite", "pyspark", "pandas", "sklearn", "scipy", "matplotlib")


def test_import_is_light() -> None:
    code = f"import sys, fastcep; print(*[name for name in {HEAVY} if name in sys.modules])"
    root = Path(fastcep.__file__).parent.parent
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.split(), run.stderr) == (0, [], "")


def test_public_names_exist_and_are_documented() -> None:
    assert sorted(set(fastcep.__all__)) == sorted(fastcep.__all__)
    public = {name: getattr(fastcep, name) for name in fastcep.__all__ if not name.startswith("__")}
    assert [name for name, value in public.items() if not (inspect.getdoc(value) or "").strip()] == []
