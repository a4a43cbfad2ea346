"""Models with any field forged and valid checksums: they raise `ModelError`, or are harmless."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from conftest import EXAMPLES
from support.forged_engines import HYBRID, SHED, hybrid_model, stream_of_shed
from support.forging import forge_model

import fastcep as fc
from fastcep import shedding
from fastcep.errors import FastcepError, ModelError

SEED = 27
COUNT = max(10, EXAMPLES)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    hybrid_model().save(folder)
    return folder


def used(folder: Path) -> bool:
    """Shed load with a model; return False if it is rejected."""
    try:
        shedder = shedding.by_name("hybrid", model=folder)
    except ModelError as error:
        assert len(str(error)) < 2000
        return False
    query = fc.parse(HYBRID, SHED, name="q0")
    try:
        engine = fc.Engine(query, clock="virtual", cost_table="paper", latency_bound=40, index="key", shedder=shedder)
        for first in range(0, 400, 100):
            engine.process(stream_of_shed(first, first + 100)).to_arrow()
            assert repr(engine.metrics())
        engine.flush().to_arrow()
    except FastcepError:
        return False
    return True


def test_what_is_not_forged_is_used(saved: Path) -> None:
    assert used(saved)


@pytest.mark.property
def test_forged(saved: Path, tmp_path: Path) -> None:
    taken = 0
    for number in range(COUNT):
        folder = tmp_path / str(number)
        shutil.copytree(saved, folder)
        told = forge_model(folder, random.Random(SEED * 1_000_003 + number))
        try:
            taken += used(folder)
        except Exception as error:
            raise AssertionError(f"seed {SEED}, number {number}: {told}") from error
        shutil.rmtree(folder)
    assert 0 < taken < COUNT
