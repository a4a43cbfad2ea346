"""The adaptation of a running engine: what it measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parallel.adapted import options

from fastcep.engine.instance_pool import InstanceCounts
from fastcep.parallel.adaptation.live import LiveAdaptation, MeasuredService
from fastcep.parallel.splitter import Splitter
from fastcep.plan.slicing import Context


class Recorder:
    """Stands in for the loop."""

    def __init__(self) -> None:
        self.gaps: list[list[float]] = []

    def arrived(self, gaps: Any) -> None:
        self.gaps.append(gaps.tolist())


def recorded(*arrivals: tuple[int, list[int]]) -> list[list[float]]:
    """Return the gaps of batches: time of arrival, and times of the events."""
    live = LiveAdaptation(Pool(), options(), Splitter(Context(0, 0), 10, 10), start=100)
    live._loop = recorder = Recorder()  # type: ignore[assignment]
    for now, times in arrivals:
        live.arrived(np.array(times, np.int64), now)
    return recorder.gaps


class Pool:
    """A pool without instances."""

    def resize(self, instances: int) -> None:
        pass

    def counts(self) -> InstanceCounts:
        return InstanceCounts(1)


def test_the_time_since_the_last_batch_is_divided_by_the_times_of_the_events() -> None:
    """The first event of a stream has no time before it."""
    assert recorded((160, [1000, 1001, 1003]), (220, [1003, 1004, 1006])) == [[0, 20, 40], [0, 20, 40]]


def test_equal_times() -> None:
    assert recorded((160, [7, 7, 7]), (200, [7, 7]), (230, [9])) == [[20, 20, 20], [20, 20], [30]]


def test_batches_at_the_same_time() -> None:
    assert recorded((160, [7, 8]), (160, [8, 9]), (160, [9, 9])) == [[0, 60], [0, 0], [0, 0]]


def test_times_further_apart_than_the_largest_integer() -> None:
    low, high = -(1 << 63), (1 << 63) - 1
    assert recorded((160, [low, high])) == [[0, 60]]
    assert recorded((160, [low]), (220, [-1, high])) == [[60], [30, 30]]


def test_service_times_are_means_of_blocks() -> None:
    measured = MeasuredService(buffer_limit=40)
    assert measured.p99() is None
    measured.add(9, 900)
    assert measured.p99() is None
    measured.add(1, 1_100)
    assert measured.p99() == 200.0
    measured.add(0, 5)
    measured.add(20, 5_995)
    assert measured.p99() == pytest.approx(200 + 0.99 * 100)
    for _ in range(400):
        measured.add(10, 10)
    assert measured.p99() == 1.0, "the last 400 blocks count"


def test_blocks_of_a_small_limit() -> None:
    measured = MeasuredService(buffer_limit=1)
    measured.add(1, 7)
    assert measured.p99() == 7.0


def test_the_service_time_of_events_in_two_slices() -> None:
    splitter = Splitter(Context(0, 0), 10, 10)
    splitter.position, splitter.fed = 100, 150
    live = LiveAdaptation(Pool(), options(), splitter, 0)
    service = live._service(400.0)
    assert service is not None
    assert service.mean == pytest.approx(1.5e6)
    live = LiveAdaptation(Pool(), options(profile=None), splitter, 0)
    assert live._service(400.0) is None
    live.measured.add(10, 1_000)
    service = live._service(400.0)
    assert service is not None
    assert service.mean == pytest.approx(150)
