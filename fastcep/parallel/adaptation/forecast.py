"""Forecast the arrival rate a few steps ahead, with the method that would have been best so far."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError
from fastcep.extras import load
from fastcep.option_checks import check_whole

__all__ = ["Forecast", "Method", "check_method", "forecast"]

Floats = npt.NDArray[np.float64]

#: ``naive``: the last value; ``seasonal``: the value one period before; ``trend``: the line through the last 20
#: values; ``smoothing``: exponential smoothing with a damped trend (Holt); ``arima``: ARIMA(1, 1, 0). ``auto``: the one
#: with the smallest error in a back-test.
Method = Literal["auto", "naive", "seasonal", "trend", "smoothing", "arima"]

#: Values that methods are fitted on, and forecasts whose errors are compared.
_FITTED = 100
_TESTED = 12
#: Values that a method needs.
_LEAST: dict[Method, int] = {"naive": 1, "trend": 6, "smoothing": 10, "arima": 10}
_LINE = 20


@dataclass(frozen=True)
class Forecast:
    """Result of `forecast`.

    Attributes
    ----------
    value
        The value forecast, in the unit of the history.
    method
        The method that was used.
    errors
        Mean relative error of each method in the back-test; empty without one.
    """

    value: float
    method: Method
    errors: dict[Method, float]


def check_method(method: str, period: int | None) -> None:
    """Raise a ValidationError if a method or a period is invalid."""
    if method not in get_args(Method):
        raise ValidationError(f"forecast={method!r}: expected {', '.join(get_args(Method))}")
    if method == "seasonal" and period is None:
        raise ValidationError("forecast='seasonal' needs a period")


def forecast(history: Floats, steps: int = 1, *, method: Method = "auto", period: int | None = None) -> Forecast:
    """Forecast a value.

    Parameters
    ----------
    history
        Values at equal intervals, above 0, oldest first, [n].
    steps
        Number of intervals from the last value to the one that is forecast.
    method, period
        See `Method`; the length of a season in intervals.

    Raises
    ------
    ValidationError
        If the history is empty, a value is not above 0, or an option is invalid.

    Notes
    -----
    The methods work on logarithms, because rates change by factors, except ``trend``: a straight line grows less. The
    back-test repeats the forecasts of the last 12 values, each from the values before it. A method without enough
    values, or whose fit fails, is left out; ``naive`` never is. (Hyndman, Athanasopoulos, *Forecasting: principles and
    practice*, sections 5.2, 8 and 9.)
    """
    check_method(method, period)
    history = np.asarray(history, np.float64)
    if history.ndim != 1 or not len(history):
        raise ValidationError(f"the history has the shape {history.shape}; expected a list of at least one value")
    wrong = ~((history > 0) & (history < np.inf))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValidationError(f"value number {at + 1} of the history is {history[at]}; expected a finite one above 0")
    for name, count, least in (("steps", steps, 1), ("period", 2 if period is None else period, 2)):
        check_whole(name, count, least)
    values = np.log(history)
    methods = _methods(len(values), steps, period)
    if method != "auto":
        return _forecast(methods, method if method in methods else "naive", values, steps, {})
    first = max(_LEAST.get(name, period or 1) for name in methods)
    origins = range(max(len(values) - steps - _TESTED + 1, first), len(values) - steps + 1)
    errors = {name: _error(of, values, steps, origins) for name, of in methods.items()}
    errors = {name: error for name, error in errors.items() if np.isfinite(error)}
    best: Method = min(errors, key=lambda name: errors[name], default="naive")
    return _forecast(methods, best, values, steps, errors)


_Forecaster = Callable[[Floats, int], float]


def _forecast(
    methods: dict[Method, _Forecaster], method: Method, values: Floats, steps: int, errors: dict[Method, float]
) -> Forecast:
    """Forecast by a method, and by the last value if its fit fails."""
    value = methods[method](values, steps)
    if not np.isfinite(value):
        method, value = "naive", values[-1]
    return Forecast(_exp(value), method, errors)


def _methods(count: int, steps: int, period: int | None) -> dict[Method, _Forecaster]:
    methods: dict[Method, _Forecaster] = {"naive": _naive}
    if period is not None and count >= period + steps:
        methods["seasonal"] = partial(_seasonal, period)
    others: dict[Method, _Forecaster] = {"trend": _trend, "smoothing": _smoothing, "arima": _arima}
    return methods | {name: of for name, of in others.items() if count >= _LEAST[name] + steps}


def _error(of: _Forecaster, values: Floats, steps: int, origins: range) -> float:
    """Return the mean error of forecasts from the first ``origin`` values; infinite without any, or if one failed."""
    errors = [abs(of(values[:origin], steps) - values[origin + steps - 1]) for origin in origins]
    return float(np.mean(errors)) if errors else np.inf


def _exp(value: float) -> float:
    return float(np.exp(value))


def _naive(values: Floats, steps: int) -> float:
    return float(values[-1])


def _seasonal(period: int, values: Floats, steps: int) -> float:
    at = len(values) - 1 + steps
    at -= -(-(at - len(values) + 1) // period) * period
    return float(values[at]) if at >= 0 else np.inf


def _trend(values: Floats, steps: int) -> float:
    last = np.exp(values[-_LINE:])
    slope, first = np.polyfit(np.arange(len(last)), last, 1)
    value = first + slope * (len(last) - 1 + steps)
    return float(np.log(max(value, last.min() / 2)))  # a falling line is followed to half of the lowest value


def _smoothing(values: Floats, steps: int) -> float:
    holt = load("statsmodels.tsa.holtwinters").Holt
    return _fitted(lambda: holt(values[-_FITTED:], damped_trend=True, initialization_method="estimated").fit(), steps)


def _arima(values: Floats, steps: int) -> float:
    arima = load("statsmodels.tsa.arima.model").ARIMA
    return _fitted(lambda: arima(values[-_FITTED:], order=(1, 1, 0)).fit(), steps)


def _fitted(fit: Callable[[], Any], steps: int) -> float:
    """Return the forecast of a fitted model; infinite if it cannot be fitted, for example to constant values."""
    # The matrices are tiny: more threads only wait for each other, which takes ten times as long on a busy machine.
    with load("threadpoolctl").threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: the back-test decides whether a fit is of use
        try:
            value = float(fit().forecast(steps)[-1])
        except (ValueError, np.linalg.LinAlgError, ZeroDivisionError, IndexError):
            return np.inf
    return value if np.isfinite(value) else np.inf
