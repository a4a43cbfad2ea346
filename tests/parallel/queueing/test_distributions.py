"""Distributions as text and as objects, and the errors for those that are invalid."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.errors import DataError, ValidationError
from fastcep.parallel.queueing.distributions import (
    Deterministic,
    Distribution,
    Exponential,
    Family,
    Normal,
    Pareto,
    Samples,
    Uniform,
    parse_distribution,
    show_time,
)

TEXTS: list[tuple[str, Distribution]] = [
    ("exponential:300ms", Exponential(300e6)),
    ("deterministic:1.25s", Deterministic(1.25e9)),
    ("uniform:100ms:200ms", Uniform(100e6, 200e6)),
    ("uniform:0ns:1us", Uniform(0.0, 1e3)),
    ("normal:100ms:10ms", Normal(100e6, 10e6)),
    ("pareto:50ms:2", Pareto(50e6, 2.0)),
    ("pareto:50ms:1.5", Pareto(50e6, 1.5)),
]


@pytest.mark.parametrize(("text", "distribution"), TEXTS)
def test_text_and_object(text: str, distribution: Distribution) -> None:
    assert parse_distribution(text) == distribution
    assert parse_distribution(str(distribution)) == distribution


@pytest.mark.parametrize("distribution", [found for _, found in TEXTS if not isinstance(found, Deterministic)], ids=str)
def test_mean_and_quantiles_are_those_of_the_law(distribution: Family) -> None:
    assert distribution.mean == pytest.approx(distribution.law.mean())
    shares = np.array([0.0, 0.01, 0.5, 0.99])
    np.testing.assert_allclose(distribution.law.cdf(distribution.quantiles(shares)), shares, atol=1e-12)
    assert distribution.quantile(0.5) == distribution.quantiles(shares)[2]


def test_times_of_a_normal_distribution_are_above_0() -> None:
    wide = Normal(1e6, 5e6)
    assert wide.mean > 1e6 and wide.quantile(1e-9) >= 0


def test_constant_times() -> None:
    constant = Deterministic.of(timedelta(milliseconds=2))
    assert constant.quantiles(np.array([0.1, 0.9])).tolist() == [2e6, 2e6]
    assert constant == Deterministic(2e6)


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=50), st.floats(0.001, 1))
def test_quantiles_of_samples_are_samples(times: list[int], share: float) -> None:
    samples = Samples(np.array(times))
    quantile = samples.quantile(share)
    assert quantile in times and (samples.times <= quantile).mean() >= share - 1e-12
    assert (samples.times < quantile).mean() < share
    assert samples.mean == pytest.approx(np.mean(times))


@pytest.mark.parametrize("times", [[1, 2, 3], np.array([1, 2, 3], np.uint8), np.array([1, 2, 3], np.float32)])
def test_samples_of_any_numbers(times: Any) -> None:
    samples = Samples(times)
    assert samples.times.dtype == np.float64 and samples.times.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([], r"x: found an array of type float64 and shape \(0,\); expected a list of at least one time in ns"),
        (np.ones((2, 3)), r"type float64 and shape \(2, 3\)"),
        (5.0, r"shape \(\)"),
        (None, "type object"),
        (["1ms", "2ms"], "type <U3"),
        ([1j], "type complex128"),
        ([[1], [1, 2]], "type object"),
        ([timedelta(1)], "type object"),
        ([1.0, -2.0], r"x: time number 2 is -2.0; expected ns, from 0 to 1e\+20"),
        ([np.nan, 1.0], "x: time number 1 is nan"),
        ([1.0, 2.0, np.inf], "x: time number 3 is inf"),
        ([1e300], r"x: time number 1 is 1e\+300"),
    ],
)
def test_invalid_samples(times: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Samples(times, "x")


@pytest.mark.parametrize(
    "text",
    ["", ":", "exponential", "exponential:", "exponential:1ms:", "exponential:1ms:2ms", "uniform:1ms", "normal:1ms",
     "pareto:1ms", "samples:", "Exponential:1ms", " exponential:1ms", "gamma:1ms:2", "300ms"],
)  # fmt: skip
def test_text_of_another_form(text: str) -> None:
    with pytest.raises(ValidationError) as error:
        parse_distribution(text)
    assert str(error.value).startswith(f"{text!r} is no distribution; expected exponential:MEAN, deterministic:TIME, ")
    assert "samples:FILE" in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exponential:300", "mean='300': '300' is no duration"),
        ("exponential:0ms", "mean='0ms': expected more than 0"),
        ("exponential:-3ms", "mean='-3ms': '-3ms' is no duration"),
        ("exponential:nanms", "mean='nanms': 'nanms' is no duration"),
        ("exponential:99999999d", "mean='99999999d': duration '99999999d' is too long"),
        ("deterministic:3 parsec", "time='3 parsec': unknown unit 'parsec'"),
        ("uniform:2ms:1ms", "uniform: the lowest time is 2ms and the highest 1ms; expected finite times"),
        ("uniform:1ms:1ms", "uniform: the lowest time is 1ms and the highest 1ms"),
        ("uniform:x:1ms", "lowest time='x': 'x' is no duration"),
        ("uniform:0ms:0ms", "highest time='0ms': expected more than 0"),
        ("normal:1ms:0ms", "deviation='0ms': expected more than 0"),
        ("normal:0ms:1ms", "mean='0ms': expected more than 0"),
        ("pareto:1ms:x", "shape 'x' of a Pareto distribution: expected a number above 1"),
        ("pareto:1ms:1", "shape '1' of a Pareto"),
        ("pareto:1ms:nan", "shape 'nan' of a Pareto"),
        ("pareto:1ms:1e999", "shape '1e999' of a Pareto"),
        ("pareto:0ms:2", "minimum='0ms': expected more than 0"),
    ],
)
def test_text_with_invalid_values(text: str, message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(f"{text!r}: {message}")):
        parse_distribution(text)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Exponential(-5.0), r"exponential: mean is -5.0; expected a number from 1e-12 to 1e\+20 \(times in ns"),
        (lambda: Exponential(0.0), "exponential: mean is 0.0"),
        (lambda: Exponential(np.nan), "exponential: mean is nan"),
        (lambda: Exponential(np.inf), "exponential: mean is inf"),
        (lambda: Deterministic(-1.0), "deterministic: time is -1.0"),
        (lambda: Deterministic(np.nan), "deterministic: time is nan"),
        (lambda: Uniform(3e6, 1e6), "uniform: the lowest time is 3ms and the highest 1ms"),
        (lambda: Uniform(-1.0, 1.0), "uniform: the lowest time is -1ns"),
        (lambda: Uniform(1.0, np.inf), "the highest inf"),
        (lambda: Normal(1.0, 0.0), "normal: deviation is 0.0"),
        (lambda: Normal(np.nan, 1.0), "normal: center is nan"),
        (lambda: Pareto(1.0, 0.0), "pareto: shape is 0.0"),
        (lambda: Pareto(-1.0, 2.0), "pareto: minimum is -1.0"),
        (lambda: Pareto.of("1ms", None), "shape None of a Pareto distribution"),  # type: ignore[arg-type]
        (lambda: Exponential.of(3), "mean=3: a duration cannot be of type int"),  # type: ignore[arg-type]
    ],
)
def test_invalid_parameters(build: Callable[[], Distribution], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        build()


def test_samples_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "times.txt"
    path.write_bytes(b"1ms\n\n 2.5 ms\r\n0ns\n")
    samples = parse_distribution(f"samples:{path}")
    assert isinstance(samples, Samples) and samples.times.tolist() == [1e6, 2.5e6, 0]
    assert str(samples) == f"samples:{path}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1ms\n\n2ms\n3 xs\n", ", line 4: unknown unit 'xs'"),
        (b"1ms\n-2ms\n", ", line 2: '-2ms' is no duration"),
        (b"", ": no values; expected one time per line, such as 12.5ms"),
        (b"\n \n", ": no values"),
        (b"\xff\xfe1", ": not UTF-8 at byte 0; expected one time per line"),
    ],
)
def test_invalid_file(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "times.txt"
    path.write_bytes(data)
    with pytest.raises(DataError, match=re.escape(f"{path}{message}")):
        parse_distribution(f"samples:{path}")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        parse_distribution(f"samples:{tmp_path}/missing")
    with pytest.raises(DataError, match=r"'a\\x00b': a null byte in the name of the file"):
        parse_distribution("samples:a\0b")


@pytest.mark.parametrize(
    ("time", "text"),
    [(43_212_345.6, "43.21ms"), (0, "0ns"), (999, "999ns"), (1_000, "1us"), (0.25, "0.25ns"), (1.25e9, "1.25s"),
     (123_456e9, "123500s"), (-2e6, "-2ms")],
)  # fmt: skip
def test_times_in_messages(time: float, text: str) -> None:
    assert show_time(time) == text
