"""The answer to each mistake is the stored one, and has the full grade: place, expectation and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from mistakes.catalogue import AREAS, POINTS, Act, answer, mistakes, stored

CASES = [pytest.param(area, name, act, id=f"{area}: {name}") for area in AREAS for name, act in mistakes(area).items()]


@pytest.mark.sample(100)
@pytest.mark.parametrize(("area", "name", "act"), CASES)
def test_message(area: str, name: str, act: Act, tmp_path: Path) -> None:
    given = answer(act, tmp_path)
    entry = stored(area).get(name)
    assert entry is not None, "not stored; run PYTHONPATH=.:tests python -m mistakes --write, and set its grade"
    assert (given.error, given.message.splitlines()) == (entry["error"], entry["message"])
    assert entry["grade"] == list(POINTS), "read the message, and set in its grade the points that it has"


@pytest.mark.parametrize("area", AREAS)
def test_no_message_is_stored_without_its_mistake(area: str) -> None:
    assert list(stored(area)) == list(mistakes(area))


def test_the_catalogue_is_large() -> None:
    assert sum(len(mistakes(area)) for area in AREAS) >= 200
