"""Registered functions as machine code: the C interface, with Python's semantics."""

from __future__ import annotations

import ctypes
import gc
import math
import random
import threading
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys
from reference.user_functions import own_registry

import fastcep as fc
from fastcep.query.user_functions.native import NULL, RAISED, VALUE
from fastcep.query.user_functions.registry import Function

INTERFACE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
TABLE = np.array([3, 1, 4, 1, 5])
FACTOR = 2.5


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with own_registry():
        yield


def call(function: Function, *arguments: Any) -> tuple[int, Any]:
    """Return status and result of one call by address."""
    words = np.zeros(len(arguments), np.int64)
    for number, (value, dtype) in enumerate(zip(arguments, function.signature.parameters, strict=True)):
        words[number] = np.float64(value).view(np.int64) if dtype == "float64" else int(value)
    result = np.zeros(1, np.int64)
    status = INTERFACE(function.native().address)(words.ctypes.data, result.ctypes.data)
    if status != VALUE:
        return status, None
    kind = function.signature.result
    return status, result.view(np.float64)[0] if kind == "float64" else bool(result[0]) if kind == "bool" else result[0]


# ------------------------------------------------------------------------ values


@pytest.mark.thorough
def test_every_dtype_goes_in_and_out() -> None:
    @fc.function("int64(int64, float64, bool)")
    def whole(k: int, x: float, b: bool) -> int:
        return k + int(x) if b else -k

    @fc.function("float64(int64, float64, bool)")
    def real(k: int, x: float, b: bool) -> float:
        return k * x if b else -x

    @fc.function("bool(int64, float64, bool)")
    def truth(k: int, x: float, b: bool) -> bool:
        return (k > x) != b

    big = 2**62 + 1
    for k, x, b in [(3, 2.5, True), (big, 0.5, False), (-big, -1e300, True), (0, math.inf, False), (1, 7.9, True)]:
        if abs(x) < 2**62:
            assert call(whole, k, x, b) == (VALUE, whole(k, x, b))
        assert call(real, k, x, b) == (VALUE, real(k, x, b))
        assert call(truth, k, x, b) == (VALUE, truth(k, x, b))
    assert math.isnan(call(real, 1, math.nan, True)[1])
    assert repr(float(call(real, 0, -1.0, True)[1])) == "-0.0"


def test_a_whole_result_widens_and_none_is_null() -> None:
    @fc.function("float64(int64)")
    def widened(k: int) -> float:
        return k // 2

    @fc.function("int64(float64)")
    def positive(x: float) -> int | None:
        if x > 0:
            return int(x)
        return None

    @fc.function("float64(int64)")
    def widened_or_null(k: int) -> float | None:
        return k if k > 0 else None

    @fc.function("bool(int64)")
    def unsure(k: int) -> bool | None:
        return None if k == 0 else k > 0

    @fc.function("int64(int64)")
    def small(k: int) -> int:
        return np.int32(k)

    @fc.function("float64(float64)")
    def mixed(x: float) -> float:
        if x > 1:
            return 0
        return x

    assert call(widened, 7) == (VALUE, 3.0)
    assert [call(positive, x) for x in (2.5, -1.0, math.nan)] == [(VALUE, 2), (NULL, None), (NULL, None)]
    assert [call(widened_or_null, k) for k in (3, 0)] == [(VALUE, 3.0), (NULL, None)]
    assert [call(unsure, k) for k in (3, 0, -3)] == [(VALUE, True), (NULL, None), (VALUE, False)]
    assert call(small, -5) == (VALUE, -5)
    assert [call(mixed, x) for x in (2.0, 0.5)] == [(VALUE, 0.0), (VALUE, 0.5)]


def test_eight_arguments() -> None:
    @fc.function(f"int64({', '.join(['int64'] * 8)})")
    def digits(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int) -> int:
        return int(a * 10**7 + b * 10**6 + c * 10**5 + d * 10**4 + e * 1000 + f * 100 + g * 10 + h)

    assert call(digits, *range(1, 9)) == (VALUE, 12345678)


# -------------------------------------------------------------------- exceptions


@pytest.mark.thorough
def test_what_raises_in_python_raises_here(capfd: pytest.CaptureFixture[str]) -> None:
    @fc.function("float64(float64, float64)")
    def divided(x: float, y: float) -> float:
        return x / y

    @fc.function("int64(int64, int64)")
    def floored(x: int, y: int) -> int:
        return x // y + x % y

    @fc.function("int64(int64)")
    def looked_up(k: int) -> int:
        return int(TABLE[k])

    @fc.function("float64(float64)")
    def checked(x: float) -> float:
        if x <= 0:
            raise AssertionError("positive")
        if x > 100:
            raise ValueError(f"too large: {x}", x)
        return x

    @fc.function("float64(float64)")
    def caught(x: float) -> float:
        try:
            return 1 / x
        except Exception:
            return -1.0

    @fc.function("int64(int64)")
    def ended(k: int) -> int:
        if k == 0:
            raise MemoryError
        if k == 1:
            raise StopIteration
        if k == 2:
            raise OverflowError(k)
        if k == 3:
            return int(np.empty(-k)[0])
        if k == 4:
            return len(np.empty(2**61))
        return (1, 2)[k]

    assert [call(ended, k)[0] for k in range(6)] == [RAISED] * 6
    assert call(divided, 1.0, 0.0) == (RAISED, None) and call(divided, 1.0, 4.0) == (VALUE, 0.25)
    assert call(floored, 7, 0) == (RAISED, None)
    assert call(floored, -(2**63), -1)[0] == VALUE, "the hardware would trap"
    assert [call(looked_up, k)[0] for k in (4, 5, -5, -6, 2**62)] == [VALUE, RAISED, VALUE, RAISED, RAISED]
    assert [call(checked, x)[0] for x in (1.0, 0.0, 101.0)] == [VALUE, RAISED, RAISED]
    assert call(caught, 0.0) == (VALUE, -1.0)
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.mark.thorough
def test_a_raise_with_values_keeps_no_memory() -> None:
    @fc.function("float64(float64)")
    def refused(x: float) -> float:
        if x < 0:
            raise ValueError("too small", x)
        if x < 1:
            raise ValueError(f"too small by {int(x)}")
        return x

    refused.check()
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    for _ in range(100):
        assert call(refused, 0.5) == call(refused, -0.5) == (RAISED, None)
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free


# ------------------------------------------------------------------ other functions


def test_functions_call_each_other_and_njit_functions() -> None:
    @numba.njit
    def half(x: float) -> float:
        return x / 2

    @fc.function("float64(float64)")
    def twice(x: float) -> float:
        if x < 0:
            raise ValueError("negative")
        return 2 * x

    @fc.function("float64(float64, int64)")
    def both(x: float, k: int) -> float:
        return twice(x) + half(x) + twice(k)

    assert both(3.0, 1) == 9.5
    assert call(both, 3.0, 1) == (VALUE, 9.5)
    assert call(both, -1.0, 1) == (RAISED, None), "what a called function raises"


def test_module_values_and_closures_are_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    factor = 10.0

    @fc.function("float64(float64)")
    def scaled(x: float) -> float:
        return x * FACTOR * factor

    assert call(scaled, 1.0) == (VALUE, 25.0)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    factor = 100.0
    assert call(scaled, 1.0) == (VALUE, 25.0)
    assert scaled(1.0) == 300.0, "Python reads them at each call"


# -------------------------------------------------------------------------- life


@pytest.mark.thorough
def test_compiled_once_also_by_threads() -> None:
    @fc.function("float64(float64)")
    def squared(x: float) -> float:
        return x * x

    addresses: list[int] = []
    threads = [threading.Thread(target=lambda: addresses.append(squared.native().address)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(addresses) == 4 and len(set(addresses)) == 1
    gc.collect()
    values = [random.Random(1).uniform(-9, 9) for _ in range(50)]
    assert [call(squared, x) for x in values] == [(VALUE, x * x) for x in values]
