"""The operation ``call`` of tier 0: chunks, nulls, broadcast arguments, counting."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from reference.user_functions import own_registry, sample

from fastcep._core.program.evaluate import evaluate
from fastcep.plan.bytecode import Compiler
from fastcep.plan.ir import Op, const
from fastcep.query.user_functions.registry import Function, function, native_of

ROWS = 600  # more than one chunk


@pytest.fixture(autouse=True)
def registered() -> Iterator[dict[str, Function]]:
    with own_registry():
        yield sample()


def run(expr: Op, columns: Sequence[Sequence[Any]], dtypes: str) -> tuple[list[Any], int]:
    """Evaluate ``expr``; its leaf ``event`` number k reads column k. Gives values and the number of exceptions."""
    compiler = Compiler(lambda node: ("event", node.data[0]) if node.name == "event" else None)
    compiler.store(0, expr)
    values, nulls = [], []
    for column, dtype in zip(columns, dtypes, strict=True):
        cells = [0 if cell is None else cell for cell in column]
        values.append(np.array(cells, np.float64 if dtype == "f" else np.int64).view(np.int64))
        nulls.append(np.array([cell is None for cell in column], np.uint8) if None in column else None)
    link = native_of
    words, missing, overflows, errors = evaluate(
        compiler.finish(), lambda constant: link(constant).address, values, nulls, len(columns[0])
    )
    assert overflows == 0
    typed = words.view(np.float64).tolist() if expr.dtype == "f" else words.tolist()
    return [None if gone else value for value, gone in zip(typed, missing, strict=True)], errors


def call(own: Function, *arguments: Op) -> Op:
    result = {"int64": "i", "float64": "f", "bool": "b"}[own.signature.result]
    return Op("call", result, arguments, (own.signature,))


def leaf(number: int, dtype: str) -> Op:
    return Op("event", dtype, (), (number,))


def test_rows_nulls_and_exceptions(registered: dict[str, Function]) -> None:
    x = [None, 1.0, 0.0, math.nan, math.inf, -2.5] * 100
    y = [1.0, None, 0.0, 2.0, 3.0, -0.0, 4.0, 2.0] * 75
    found, errors = run(call(registered["ratio"], leaf(0, "f"), leaf(1, "f")), [x, y], "ff")
    wanted = [None if a is None or b is None or b == 0 else a / b for a, b in zip(x, y, strict=True)]
    assert repr(found) == repr(wanted)
    assert errors == sum(b == 0 and a is not None for a, b in zip(x, y, strict=True)) > 0


def test_computed_arguments_use_registers_in_a_row(registered: dict[str, Function]) -> None:
    ratio, distance = registered["ratio"], registered["distance"]
    x = [float(n % 7) for n in range(ROWS)]
    inner = call(ratio, leaf(0, "f"), Op("add_f", "f", (leaf(0, "f"), const(1.0, "f"))))
    outer = call(distance, Op("neg_f", "f", (inner,)), call(distance, inner, leaf(0, "f")))
    wanted = [abs(-(v / (v + 1)) - abs(v / (v + 1) - v)) for v in x]
    assert run(outer, [x], "f") == (wanted, 0)


def test_constant_arguments(registered: dict[str, Function]) -> None:
    ratio = registered["ratio"]
    column = [1] * ROWS
    assert run(call(ratio, const(1.0, "f"), const(4.0, "f")), [column], "i") == ([0.25] * ROWS, 0)
    found, errors = run(call(ratio, const(1.0, "f"), const(0.0, "f")), [column], "i")
    assert found == [None] * ROWS and errors == ROWS
    assert run(call(ratio, const(None, "f"), const(0.0, "f")), [column], "i") == ([None] * ROWS, 0)
    below = Op("lt_f", "b", (call(ratio, const(1.0, "f"), const(4.0, "f")), leaf(0, "f")))
    assert run(below, [[0.0, 1.0, None] * 200], "f")[0] == [0, 1, None] * 200


def test_bool_results_and_eight_arguments(registered: dict[str, Function]) -> None:
    k, b = [n % 5 for n in range(ROWS)], [n % 3 == 0 for n in range(ROWS)]
    negated = Op("not", "b", (call(registered["odd"], leaf(0, "i"), leaf(1, "b")),))
    wanted = [int((n % 2 == 1) == flag) for n, flag in zip(k, b, strict=True)]
    assert run(negated, [k, b], "ib") == (wanted, 0)

    @function(f"int64({', '.join(['int64'] * 8)})")
    def span(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int) -> int:
        return a - h

    columns = [[n + k for k in range(ROWS)] for n in range(8)]
    columns[7] = [3 * k for k in range(ROWS)]
    assert run(call(span, *(leaf(n, "i") for n in range(8))), columns, "i" * 8) == ([k - 3 * k for k in range(ROWS)], 0)
