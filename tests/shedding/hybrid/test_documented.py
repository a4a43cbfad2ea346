"""The tables of options in docs/hybrid.md have the options that there are, with their defaults."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastcep.shedding import Hybrid
from fastcep.shedding.hybrid.fit import fit_hybrid

PAGE = Path(__file__).parents[3] / "docs" / "hybrid.md"


@pytest.mark.parametrize(
    ("heading", "function", "given"),
    [("| option |", fit_hybrid, {"query", "history"}), ("| shedder option |", Hybrid, set())],
)
def test_options_and_defaults(heading: str, function: Callable[..., Any], given: set[str]) -> None:
    table = PAGE.read_text(encoding="utf-8").partition(heading)[2].partition("\n\n")[0]
    shown = {name: default.strip("` ") for name, default in re.findall(r"^\| `(\w+)` \| ?([^|]*) \|", table, re.M)}
    options = inspect.signature(function).parameters
    assert set(shown) == set(options) - given
    for name, option in options.items():
        if name in shown and option.default not in (None, option.empty):
            assert shown[name].replace('"', "'") == repr(option.default), name
