"""Packages of the extra ``fastcep[degree]``: errors without them, and imports that do not need them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fastcep
from fastcep.extras import load

ROOT = Path(fastcep.__file__).parent.parent
EXTRA = ("scipy", "statsmodels", "simpy", "threadpoolctl")


def printed(code: str) -> str:
    """Run code in a new process, in which a warning is an error; return its output."""
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.strip()


@pytest.mark.sample(2)  # one of SciPy, one of statsmodels
@pytest.mark.parametrize(
    ("missing", "use"),
    [
        ("scipy", "parallel.degree"),
        ("scipy", "parallel.fit"),
        ("statsmodels", "parallel.fit(numpy.random.default_rng(1).exponential(1e6, 400))"),
        ("statsmodels", "parallel.forecast(numpy.arange(1.0, 60.0))"),
        ("threadpoolctl", "parallel.forecast(numpy.arange(1.0, 60.0))"),
        ("simpy", "parallel.simulate(numpy.zeros(1), None, None, first=1, start_time='1s')"),
    ],
)
def test_a_missing_package_is_named(missing: str, use: str) -> None:
    code = (
        f"import sys, numpy; sys.modules[{missing!r}] = None\nfrom fastcep import ValidationError, parallel\n"
        f"try: {use}\nexcept ValidationError as error: print(error)"
    )
    message = printed(code)
    assert message.startswith(f"the number of instances needs {missing}")
    assert message.endswith("; install it with: pip install 'fastcep[degree]'")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "use",
    ["ParallelEngine", "Profile, Adaptation", "parse_distribution", "measure_profile, forecast"],
)
def test_use_is_light(use: str) -> None:
    loaded = f"print(*[name for name in {EXTRA} if name in sys.modules])"
    assert printed(f"import sys; from fastcep.parallel import {use}; {loaded}") == ""


def test_other_missing_modules_are_errors_of_the_program() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"fastcep\.parallel\.nothing"):
        load("fastcep.parallel.nothing")
    assert load("fastcep.extras").load is load


def test_names_of_the_package() -> None:
    from fastcep import parallel

    assert set(dir(parallel)) == set(parallel.__all__)
    assert all(getattr(parallel, name).__doc__ for name in parallel.__all__)
    with pytest.raises(AttributeError, match=r"module 'fastcep.parallel' has no attribute 'Degre'"):
        parallel.Degre  # noqa: B018


def test_a_name_is_imported_on_first_use() -> None:
    names = "[name for name in ('fastcep.migration.states', 'fastcep.migration.capacity') if name in sys.modules]"
    used = "from fastcep import migration; migration.capacity_of"
    code = f"import sys; {used}; print({names}, 'capacity_of' in vars(migration))"
    assert printed(code) == "['fastcep.migration.capacity'] True"
