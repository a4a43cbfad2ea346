"""pytest-benchmark suites of user functions: nanoseconds per call over chunks (tier 0), and compile time.

``extra_info["ns_per_call"]`` is the time of the program (load, call, store) divided by the number of calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastcep as fc
from fastcep._core.program.evaluate import evaluate
from fastcep.plan.bytecode import Compiler, Program
from fastcep.plan.ir import Op
from fastcep.query.user_functions.registry import Function, native_of

ROWS = 1_000_000


def add(x: float, y: float) -> float:
    return x + y


def ratio(x: float, y: float) -> float:
    return x / y


def haversine(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    p1, p2 = math.radians(lat1), math.radians(lat2)
    h = math.sin((p2 - p1) / 2) ** 2 + math.cos(p1) * math.cos(p2) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    return 12_742_000 * math.asin(math.sqrt(h))


def registered(python: Callable[..., float], count: int) -> Function:
    return fc.function(f"float64({', '.join(['float64'] * count)})", replace=True)(python)


def program(expr: Op) -> Program:
    compiler = Compiler(lambda node: ("event", node.data[0]) if node.name == "event" else None)
    compiler.store(0, expr)
    return compiler.finish()


def columns(count: int) -> list[Any]:
    rng = np.random.default_rng(7)
    return [rng.uniform(1, 80, ROWS).view(np.int64) for _ in range(count)]


@pytest.mark.parametrize(("python", "count"), [(add, 2), (ratio, 2), (haversine, 4)])
def test_call(benchmark: Any, python: Callable[..., float], count: int) -> None:
    function = registered(python, count)
    code = program(Op("call", "f", tuple(Op("event", "f", (), (k,)) for k in range(count)), (function.signature,)))
    function.check()
    values = columns(count)
    benchmark.pedantic(
        lambda: evaluate(code, lambda signature: native_of(signature).address, values, [None] * count, ROWS),
        rounds=5, warmup_rounds=1,
    )  # fmt: skip
    note(benchmark)


def test_operator_for_comparison(benchmark: Any) -> None:
    code = program(Op("add_f", "f", (Op("event", "f", (), (0,)), Op("event", "f", (), (1,)))))
    values = columns(2)
    benchmark.pedantic(lambda: evaluate(code, str, values, [None] * 2, ROWS), rounds=5, warmup_rounds=1)  # type: ignore[arg-type]
    note(benchmark)


def test_exceptions(benchmark: Any) -> None:
    function = registered(ratio, 2)
    code = program(Op("call", "f", tuple(Op("event", "f", (), (k,)) for k in range(2)), (function.signature,)))
    function.check()
    values = [columns(1)[0], np.zeros(ROWS).view(np.int64)]
    benchmark.pedantic(
        lambda: evaluate(code, lambda signature: native_of(signature).address, values, [None] * 2, ROWS),
        rounds=5, warmup_rounds=1,
    )  # fmt: skip
    note(benchmark)


def test_compile(benchmark: Any) -> None:
    registered(add, 2).check()  # the first compilation of a process also loads Numba
    benchmark.pedantic(lambda: registered(haversine, 4).check(), rounds=3)


def note(benchmark: Any) -> None:
    if benchmark.stats is not None:  # None if benchmarks are disabled
        benchmark.extra_info["ns_per_call"] = round(benchmark.stats.stats.min / ROWS * 1e9, 2)
