"""Curves: each family is recovered, and the inverse is correct."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.errors import ValidationError
from fastcep.shedding.regression import FAMILIES, Curve, fit_curve

CURVES = (
    Curve("linear", 1000.0, 50.0),
    Curve("linear", -20.0, 3.0),
    Curve("quadratic", 500.0, 20.0, 0.3),
    Curve("quadratic", 500.0, 0.0, 2.0),
    Curve("power", 30.0, 0.5),
    Curve("power", 2.0, 1.7),
    Curve("log-linear", 3.0, 0.02),
)
PLACES = np.arange(3, 300, 7)


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_a_curve_is_found_again(curve: Curve) -> None:
    found = fit_curve(PLACES.tolist(), curve.values(PLACES.astype(float)).tolist())
    assert found.family == curve.family
    assert (found.a, found.b, found.c) == pytest.approx((curve.a, curve.b, curve.c), rel=1e-6, abs=1e-6)
    assert Curve(**found.spec()) == found


@pytest.mark.parametrize("curve", CURVES[:6], ids=str)
def test_it_is_found_in_noise(curve: Curve) -> None:
    exact = curve.values(PLACES.astype(float))
    noisy = exact * (1 + 0.05 * np.random.default_rng(1).standard_normal(len(PLACES)))
    found = fit_curve(PLACES.tolist(), noisy.tolist())
    assert found.values(PLACES[10:].astype(float)) == pytest.approx(exact[10:], rel=0.1)


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    family = draw(st.sampled_from(FAMILIES))
    number = st.floats(0.01, 1e4)
    if family == "power":
        return Curve(family, draw(number), draw(st.floats(0.1, 4)))
    if family == "log-linear":
        return Curve(family, draw(st.floats(-5, 20)), draw(st.floats(1e-4, 0.01)))
    return Curve(family, draw(st.floats(-1e4, 1e4)), draw(number), draw(number) if family == "quadratic" else 0.0)


@given(curves(), st.floats(1, 1e4))
def test_the_inverse_of_the_value_is_the_place(curve: Curve, n: float) -> None:
    assert curve.inverse(curve(n)) == pytest.approx(n, rel=1e-6)


@given(curves(), st.floats(-1e6, 1e12))
def test_the_inverse_is_the_last_place_that_is_not_above(curve: Curve, value: float) -> None:
    n = curve.inverse(value)
    assert n >= 0
    scale = 1e-9 * max(abs(value), abs(curve.a))
    if n > 0:
        assert curve(n * (1 - 1e-9)) <= value + scale
    assert curve(n * (1 + 1e-9) + 1e-6) >= value - scale


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1e9)), min_size=1, max_size=40))
def test_whatever_is_measured_the_curve_does_not_fall(samples: list[tuple[int, float]]) -> None:
    curve = fit_curve([n for n, _ in samples], [value for _, value in samples])
    values = curve.values(np.linspace(0, 1e6, 50))
    assert np.isfinite(values).all()
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()
    again = fit_curve([n for n, _ in samples], [value for _, value in samples])
    assert again == curve


def test_ends_of_the_inverse() -> None:
    assert Curve("linear", 10.0, 2.0).inverse(9.0) == 0
    assert Curve("linear", 10.0, 2.0).inverse(10.0) == 0
    assert Curve("linear", 10.0, 0.0).inverse(11.0) == math.inf
    assert Curve("linear", 10.0, 0.0).inverse(9.0) == 0
    assert Curve("log-linear", 0.0, 0.1).inverse(-1.0) == 0
    assert Curve("power", 0.0, 1.0).inverse(1.0) == math.inf


def test_samples_at_one_place_are_taken_as_proportional() -> None:
    assert fit_curve([20] * 12, [100.0] * 12) == Curve("linear", 0.0, pytest.approx(5.0))
    assert fit_curve([0] * 3, [100.0] * 3) == Curve("linear", 100.0, 0.0)
    assert fit_curve([4], [8.0]) == Curve("linear", 0.0, pytest.approx(2.0))


def test_without_samples_there_is_no_curve() -> None:
    with pytest.raises(ValidationError, match="found 0 arguments and 0 values"):
        fit_curve([], [])
