"""Evaluations in other processes."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from support.shedding.evaluations import Everything, Sums, evaluated, stream

import fastcep as fc
from fastcep.engine.runner import Runner
from fastcep.shedding import RandomEvents


@pytest.mark.thorough
def test_processes_give_the_same_bytes() -> None:
    shedders = ["ri", "rs", RandomMatchesOfOwn, Sums(), Everything()]
    local = evaluated(shedders, bounds=["90%", "50%"], seeds=2)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        runner: Runner = pool
        progress: list[int] = []
        remote = evaluated(
            shedders, bounds=["90%", "50%"], seeds=2, runner=runner, progress=lambda done, of: progress.append(done)
        )
        again = evaluated(shedders, stream().slice(0, 15_000), bounds=["90%"], runner=runner)
    assert remote.to_json() == local.to_json() and progress == list(range(21))
    assert again.to_json() == evaluated(shedders, stream().slice(0, 15_000), bounds=["90%"]).to_json()


class RandomMatchesOfOwn(fc.shedding.RandomMatches):
    name = "own"


def test_an_error_if_a_strategy_cannot_be_pickled() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(
        fc.ValidationError, match=r"runner: the shedders cannot be sent to other processes .*top level of a module"
    ):
        evaluated(lambda seed: RandomEvents(seed), bounds="50%", runner=pool)
