"""The answers to mistakes with Spark DataFrames, see `tests/mistakes`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mistakes.catalogue import POINTS, Act, answer, mistakes, stored

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("name", "act"), [pytest.param(name, act, id=name) for name, act in mistakes("spark").items()])
def test_message(spark: Any, name: str, act: Act, tmp_path: Path) -> None:
    given = answer(act, tmp_path)
    entry = stored("spark")[name]
    assert (given.error, given.message.splitlines()) == (entry["error"], entry["message"])
    assert entry["grade"] == list(POINTS)
