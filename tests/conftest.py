"""Settings of every test run: hypothesis repeats itself exactly, unless a seed is given with --hypothesis-seed."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("FASTCEP_EXAMPLES", "200"))


def pytest_configure(config: pytest.Config) -> None:
    """Load the profile; ``--hypothesis-seed=N`` (or ``random``) draws other examples than the fixed ones."""
    seed = config.getoption("--hypothesis-seed", default=None)
    settings.register_profile(
        "fastcep",
        derandomize=seed is None,
        max_examples=EXAMPLES,
        deadline=None,
        print_blob=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("fastcep")


def pytest_report_header(config: pytest.Config) -> str:
    """Name the seed and the number of examples, so that a run can be repeated."""
    seed = config.getoption("--hypothesis-seed", default=None)
    shown = "fixed (derandomized; --hypothesis-seed=N for others)" if seed is None else seed
    return f"fastcep: hypothesis seed {shown}, {EXAMPLES} examples (FASTCEP_EXAMPLES)"
