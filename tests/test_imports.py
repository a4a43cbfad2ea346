"""The modules that `import fastcep` loads, and the names that it exports."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import fastcep

HEAVY = ("numba", "llvmlite", "pyspark", "pandas", "sklearn", "scipy", "matplotlib")


def printed(code: str) -> str:
    """Run code in a new process, in which a warning is an error; return its output."""
    root = Path(fastcep.__file__).parent.parent
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.strip()


def test_import_loads_no_other_package() -> None:
    code = "import sys, fastcep; print(*sorted(name for name in sys.modules if name.startswith(('fastcep', 'numpy'))))"
    assert printed(code) == "fastcep"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "use", ["fastcep.Engine, fastcep.parse, fastcep.Schema", "fastcep.replay, fastcep.fit", "fastcep.evaluate"]
)
def test_use_is_light(use: str) -> None:
    assert printed(f"import sys, fastcep; {use}; print(*[name for name in {HEAVY} if name in sys.modules])") == ""


@pytest.mark.sample("Schema")
@pytest.mark.parametrize("first", ["Schema", "fit", "evaluate", "replay", "InputQueue", "shedding"])
def test_any_name_may_be_used_first(first: str) -> None:
    """Neither a folder nor a later import replaces a public name."""
    code = (
        f"import fastcep; fastcep.{first}; import fastcep.evaluation.report, fastcep.arrivals.replay, fastcep.cli\n"
        "assert callable(fastcep.evaluate) and callable(fastcep.replay) and callable(fastcep.fit)\n"
        "fastcep.Schema({'A': {}}, type='type', time='ts').A('a')\n"
    )
    assert printed(code) == ""


def test_public_names_exist_and_are_documented() -> None:
    assert sorted(set(fastcep.__all__)) == sorted(fastcep.__all__) == sorted(fastcep._MODULE_OF)
    assert set(fastcep.__all__) <= set(dir(fastcep))
    public = {name: getattr(fastcep, name) for name in fastcep.__all__ if not name.startswith("__")}
    assert [name for name, value in public.items() if not (inspect.getdoc(value) or "").strip()] == []
    with pytest.raises(AttributeError, match="has no attribute 'Machine'"):
        fastcep.Machine  # noqa: B018
