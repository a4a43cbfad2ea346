"""Computations in a thread."""

from __future__ import annotations

from threading import Event, current_thread, main_thread

import pytest

from fastcep.shedding.background import Background


def test_one_computation_at_a_time_whose_result_is_taken_once() -> None:
    background: Background[str] = Background()
    assert background.ready and background.take() is None and background.take(wait=True) is None
    go = Event()

    def compute() -> str:
        assert go.wait(60)
        return current_thread().name

    background.start(compute)
    assert not background.ready and background.take() is None
    go.set()
    assert background.take(wait=True) not in (None, main_thread().name)
    assert background.take() is None


def test_it_rests_nine_tenths_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("fastcep.shedding.background.perf_counter", lambda: now[0])
    background: Background[int] = Background()

    def compute() -> int:
        now[0] = 2.0
        return 1

    background.start(compute)
    assert background.take(wait=True) == 1
    for time, ready in ((2.0, False), (19.9, False), (20.1, True)):
        now[0] = time
        assert background.ready is ready


def test_its_error_is_raised_by_who_takes_the_result() -> None:
    background: Background[float] = Background()
    background.start(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        background.take(wait=True)
    assert background.take() is None
