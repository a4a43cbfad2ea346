"""Forecasts of known series, and the choice of a method by a back-test."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.errors import ValidationError
from fastcep.parallel.adaptation import forecast as module
from fastcep.parallel.adaptation.forecast import check_method, forecast

Floats = npt.NDArray[np.float64]

WAVE = np.array([1.0, 2, 4, 8, 9, 6, 3, 2])
METHODS: list[module.Method] = ["naive", "seasonal", "trend", "smoothing", "arima"]


def line(random: np.random.Generator) -> Floats:
    return np.arange(1.0, 61) * 10 * np.exp(random.normal(0, 0.002, 60))


def season(random: np.random.Generator) -> Floats:
    return np.tile(WAVE, 8) * np.exp(random.normal(0, 0.02, 64))


def walk(random: np.random.Generator) -> Floats:
    return np.exp(np.cumsum(random.normal(0, 0.2, 80)))


def growth(random: np.random.Generator) -> Floats:
    """Return a series whose growth rates are those of the step before, in part: ARIMA(1, 1, 0)."""
    growths = [0.0]
    for noise in random.normal(0, 0.05, 99):
        growths.append(0.9 * growths[-1] + noise)
    return 100 * np.exp(np.cumsum(growths))


def level(random: np.random.Generator) -> Floats:
    return 100 * np.exp(random.normal(0, 0.3, 80))


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (2, 3))])
@pytest.mark.parametrize(
    ("series", "steps", "expected"),
    [(line, 1, {"trend"}), (line, 5, {"trend"}), (season, 1, {"seasonal"}), (season, 3, {"seasonal"}),
     (season, 11, {"seasonal"}), (growth, 1, {"arima", "smoothing"}), (level, 1, {"smoothing"})],
)  # fmt: skip
def test_the_back_test_finds_the_best_method(
    series: Callable[[np.random.Generator], Floats], steps: int, expected: set[str], seed: int
) -> None:
    found = forecast(series(np.random.default_rng(seed)), steps, period=8)
    assert found.method in expected
    assert found.errors[found.method] == min(found.errors.values())
    assert set(found.errors) <= set(METHODS)


@pytest.mark.sample(1)
@pytest.mark.parametrize("steps", [1, 4, 20])
def test_a_constant_is_forecast_as_itself(steps: int) -> None:
    found = forecast(np.full(60, 7.0), steps, period=5)
    assert found.value == pytest.approx(7.0) and found.errors["naive"] == 0
    for method in METHODS:
        assert forecast(np.full(60, 7.0), steps, method=method, period=5).value == pytest.approx(7.0)


@pytest.mark.parametrize("steps", [1, 2, 10])
def test_a_line_is_continued(steps: int) -> None:
    assert forecast(np.arange(1.0, 61) * 10, steps, method="trend").value == pytest.approx(600 + 10 * steps)


def test_the_trend_follows_the_last_values() -> None:
    history = np.r_[np.full(100, 5.0), 5 + np.arange(1.0, 21)]
    assert forecast(history, 2, method="trend").value == pytest.approx(27)


def test_a_falling_line_is_followed_to_half_of_its_lowest_value() -> None:
    history = np.arange(60.0, 0, -1)
    assert forecast(history + 100, 3, method="trend").value == pytest.approx(98)
    assert forecast(history, 40, method="trend").value == pytest.approx(0.5)


@given(st.integers(2, 12), st.integers(0, 30), st.integers(1, 40))
def test_the_seasonal_value_is_that_of_whole_periods_before(period: int, more: int, steps: int) -> None:
    wave = np.arange(1.0, period + 1)
    history = np.resize(wave, period + steps + more)
    found = forecast(history, steps, method="seasonal", period=period)
    assert found.method == "seasonal"
    assert found.value == pytest.approx(wave[(len(history) - 1 + steps) % period])


def test_the_last_value_is_the_naive_forecast() -> None:
    assert forecast(np.array([4.0, 5.0, 9.0]), 7, method="naive").value == pytest.approx(9)
    assert forecast(np.array([4.0])).method == "naive"
    assert forecast([4, 5]).errors == {"naive": pytest.approx(np.log(5 / 4))}  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS)
def test_without_enough_values_it_is_the_last_one(method: module.Method) -> None:
    found = forecast(np.array([3.0, 4.0, 5.0]), 3, method=method, period=8)
    assert (found.method, found.errors) == ("naive", {}) and found.value == pytest.approx(5)


def test_methods_need_enough_values() -> None:
    counts = {"trend": 6, "smoothing": 10, "arima": 10, "seasonal": 8}
    for name, least in counts.items():
        steps = 2
        history = np.arange(1.0, least + steps)
        assert name not in module._methods(len(history), steps, 8)
        assert name in module._methods(len(history) + 1, steps, 8)


def test_the_errors_are_those_of_repeated_forecasts() -> None:
    history = walk(np.random.default_rng(4))
    found = forecast(history, 3, period=8)
    origins = range(len(history) - 3 - 12 + 1, len(history) - 3 + 1)
    assert len(origins) == 12
    for name, error in found.errors.items():
        values = [forecast(history[:at], 3, method=name, period=8).value for at in origins]  # type: ignore[arg-type]
        actual = [history[at + 2] for at in origins]
        assert np.abs(np.log(values) - np.log(actual)).mean() == pytest.approx(error)


def test_the_unit_does_not_matter() -> None:
    history = season(np.random.default_rng(5))
    first, second = forecast(history, 2, period=8), forecast(1_000 * history, 2, period=8)
    assert first.method == second.method and second.value == pytest.approx(1_000 * first.value, rel=1e-6)


class Failing:
    """Stands for a model of statsmodels that cannot be fitted."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise self._error


@pytest.mark.parametrize(
    "error", [ValueError("x"), np.linalg.LinAlgError("x"), ZeroDivisionError("x"), IndexError("x")], ids=repr
)
def test_a_method_whose_fit_fails_is_left_out(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr("statsmodels.tsa.holtwinters.Holt", Failing(error))
    monkeypatch.setattr("statsmodels.tsa.arima.model.ARIMA", Failing(error))
    found = forecast(line(np.random.default_rng(1)))
    assert set(found.errors) == {"naive", "trend"} and found.method == "trend"


def test_a_method_that_fails_at_the_last_value_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The back-test succeeds, and then the fit on all values does not."""
    history = season(np.random.default_rng(1))

    def seasonal(period: int, values: Floats, steps: int) -> float:
        at = len(values) - period
        return np.inf if len(values) == len(history) else float(values[at])

    monkeypatch.setattr(module, "_seasonal", seasonal)
    found = forecast(history, period=8)
    assert "seasonal" in found.errors and found.method == "naive" and found.value == pytest.approx(history[-1])


def test_models_are_fitted_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """More threads of the linear algebra make a forecast ten times as slow on a busy machine."""
    from threadpoolctl import threadpool_info

    seen: list[int] = []

    def holt(*arguments: Any, **options: Any) -> Any:
        seen.extend(library["num_threads"] for library in threadpool_info())
        raise ValueError

    monkeypatch.setattr("statsmodels.tsa.holtwinters.Holt", holt)
    forecast(walk(np.random.default_rng(1)), method="smoothing")
    assert set(seen) <= {1}


@pytest.mark.parametrize("method", ["smoothing", "arima"])
def test_a_fit_that_fails_gives_the_last_value(monkeypatch: pytest.MonkeyPatch, method: module.Method) -> None:
    """Without a back-test, the loop still needs a rate."""
    monkeypatch.setattr("statsmodels.tsa.holtwinters.Holt", Failing(ValueError("x")))
    monkeypatch.setattr("statsmodels.tsa.arima.model.ARIMA", Failing(ValueError("x")))
    found = forecast(walk(np.random.default_rng(1)), method=method)
    assert found.method == "naive" and found.value == pytest.approx(walk(np.random.default_rng(1))[-1])


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ([], r"the history has the shape \(0,\); expected a list of at least one value"),
        (np.ones((3, 3)), r"the history has the shape \(3, 3\)"),
        ([1.0, 0.0, 2.0], "value number 2 of the history is 0.0; expected a finite one above 0"),
        ([1.0, 2.0, -1.0], "value number 3 of the history is -1.0"),
        ([np.nan, 2.0], "value number 1 of the history is nan"),
        ([1.0, np.inf], "value number 2 of the history is inf"),
    ],
)
def test_invalid_histories(history: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        forecast(np.array(history))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "guess"}, "forecast='guess': expected auto, naive, seasonal, trend, smoothing, arima"),
        ({"method": "seasonal"}, "forecast='seasonal' needs a period"),
        ({"steps": 0}, "steps=0: expected a whole number, at least 1"),
        ({"steps": -1}, "steps=-1: expected"),
        ({"steps": 1.5}, "steps=1.5: expected"),
        ({"period": 0}, "period=0: expected a whole number, at least 2"),
        ({"period": 2.0}, "period=2.0: expected"),
        ({"period": True}, "period=True: expected"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        forecast(np.ones(30), **options)


def test_check_method() -> None:
    check_method("seasonal", 8)
    with pytest.raises(ValidationError, match="needs a period"):
        check_method("seasonal", None)
