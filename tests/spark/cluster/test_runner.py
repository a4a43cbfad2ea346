"""``SparkRunner``: an evaluation on Spark gives the report of a local one."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any

import pytest
from support.shedding.evaluations import evaluated, stream
from support.shedding.shed_runs import SCHEMA

import fastcep as fc
from fastcep.engine.runner import Runner
from fastcep.shedding import RandomEvents
from fastcep.spark import SparkRunner

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


def test_the_report_is_the_same(spark: Any) -> None:
    """Also with a shedder that other machines cannot import."""
    runner: Runner = SparkRunner(spark)
    progress: list[int] = []
    shedders = ["ri", "rs", lambda seed: RandomEvents(seed)]
    options: dict[str, Any] = {"bounds": ["90%", "50%"], "seeds": 2}
    report = evaluated(shedders, runner=runner, progress=lambda done, of: progress.append(done), **options)
    assert report.to_json() == evaluated(shedders, **options).to_json()
    assert progress == list(range(13))


def test_functions_of_the_user_go_along(spark: Any) -> None:
    @fc.function("int64(int64, int64)", replace=True)
    def spark_sum(x: int, y: int) -> int:
        return x + y

    try:
        text = "PATTERN SEQ(A a, B b) WHERE a.ID = b.ID AND spark_sum(a.V, b.V) = 7 WITHIN 1ms"
        query, events = fc.parse(text, SCHEMA, name="q"), stream().slice(0, 3_000)
        options: dict[str, Any] = {"shedders": "rs", "demands": "30%", "events": events, "queries": query}
        assert evaluated(runner=SparkRunner(spark), **options).to_json() == evaluated(**options).to_json()
    finally:
        spark_sum.unregister()


def test_results_come_in_order_from_other_processes(spark: Any) -> None:
    results = SparkRunner(spark).map(lambda item: (item, os.getpid()), range(40))
    assert [item for item, _ in results] == list(range(40))
    assert os.getpid() not in {process for _, process in results}
    assert SparkRunner(spark).map(abs, []) == []


def test_an_error_comes_back_as_it_was_raised(spark: Any) -> None:
    def fails(item: int) -> int:
        if item % 4 == 3:
            error = fc.OrderError(f"item {item}", "leave it out")
            error.add_note("a note")
            raise error
        return item

    with pytest.raises(fc.OrderError, match=r"^item 3; leave it out") as caught:
        SparkRunner(spark).map(fails, range(12))
    assert caught.value.__notes__ == ["a note"]


def test_what_cannot_be_sent_is_refused(spark: Any) -> None:
    lock = Lock()
    with pytest.raises(fc.ValidationError, match="cannot be sent to other machines"):
        SparkRunner(spark).map(lambda item: lock, [1])
    with pytest.raises(fc.ValidationError, match=r"expected a Spark session: SparkRunner\(spark\)"):
        SparkRunner("local")  # type: ignore[arg-type]


def test_workers_without_the_package(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = SparkRunner(spark)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python-that-is-missing")
    with pytest.raises(fc.ValidationError, match=r"cannot run 'python-that-is-missing' for .* set PYSPARK_PYTHON"):
        runner.map(abs, [1])


def test_an_error_that_cannot_be_sent_is_reported_as_text(spark: Any) -> None:
    class TwoParts(Exception):
        def __init__(self, one: str, other: str) -> None:
            super().__init__(f"{one} and {other}")

    def fails(item: int) -> int:
        if item:
            raise TwoParts("this", "that")
        error = ValueError("with a lock")
        error.lock = Lock()  # type: ignore[attr-defined]
        raise error

    with pytest.raises(RuntimeError, match="TwoParts: this and that"):
        SparkRunner(spark).map(fails, [1])
    with pytest.raises(RuntimeError, match="ValueError: with a lock"):
        SparkRunner(spark).map(fails, [0])


def test_a_function_that_cannot_be_sent_is_named(spark: Any) -> None:
    lock = Lock()

    @fc.function("int64(int64)", replace=True)
    def locked(x: int) -> int:
        with lock:
            return x

    try:
        with pytest.raises(fc.ValidationError, match="function 'locked' cannot be sent to other machines"):
            SparkRunner(spark).map(abs, [1])
    finally:
        locked.unregister()
