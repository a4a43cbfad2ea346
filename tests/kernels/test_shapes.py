"""Every shape of the fixed list: generated kernel = interpreter = reference matcher, nulls and counts included."""

from __future__ import annotations

import math
import os
import struct
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import conditions as naive_conditions
from reference import values as naive_values
from reference.values import INT_MAX, INT_MIN
from support.doc_tables import kernel_shapes
from support.doc_tables.kernel_shapes import SHAPES, WAYS, Shape
from support.waiting import LIMIT

import fastcep as fc
from fastcep._core.program.evaluate import CHUNK_ROWS, Evaluator
from fastcep.kernels import Kernels
from fastcep.plan.bytecode import CODE, WIDTH, Compiler, Program
from fastcep.plan.ir import Op
from fastcep.plan.translate import Translator
from fastcep.query import ast, traversal

pytestmark = pytest.mark.thorough

DTYPES = {"i": "int64", "j": "int64", "x": "float64", "y": "float64", "p": "bool", "q": "bool", "s": "string",
          "t": "string"}  # fmt: skip
SCHEMA = fc.Schema({"A": DTYPES}, time="ts", type="type", time_unit="ns")
WORDS = ["u", "v", "w", ""]
POOLS: dict[str, list[Any]] = {
    "int64": [0, 1, -1, 2, 3, -3, 5, 7, 10, INT_MAX, INT_MIN, INT_MIN + 1, 2**32, -(2**40)],
    "float64": [0.0, -0.0, 1.5, -1.5, 2.5, 0.1, 3.0, -7.0, math.inf, -math.inf, math.nan, 1e308, 5e-324, 2.0**53],
    "bool": [True, False],
    "string": WORDS,
}
Row = dict[str, Any]


def intern(text: str) -> int:
    return WORDS.index(text) if text in WORDS else 99


@cache
def parts(shape: Shape) -> tuple[tuple[ast.Expr, ...], Program, tuple[tuple[str, str], ...]]:
    """Return syntax trees, program, and the variable and attribute that each input reads."""
    where = " AND ".join(f"({text})" for text in shape.texts) if shape.filters else "a.i = b.i"
    returns = "" if shape.filters else f" RETURN {shape.texts[0]} AS v"
    query = fc.parse(f"PATTERN SEQ(A a, A b) WHERE {where} WITHIN 1s{returns}", SCHEMA)
    trees = traversal.conjuncts(query.where) if shape.filters else [query.returns[0].expression]
    translate = Translator(query)
    _, *kinds = WAYS[shape.way]
    read: list[tuple[str, str]] = []

    def resolve(node: Op) -> tuple[str, int] | None:
        if node.name != "q":
            return None
        _, variable, _, attribute = node.data
        if ("ab"[variable], attribute) not in read:
            read.append(("ab"[variable], attribute))
        return kinds[variable], read.index(("ab"[variable], attribute))

    compiler = Compiler(resolve)
    for tree in trees:
        compiler.filter(translate(tree)) if shape.filters else compiler.store(0, translate(tree))
    return tuple(trees), compiler.finish(), tuple(read)


class User:
    """Collects addresses, like a matcher."""

    def __init__(self, tasks: Iterable[Any]) -> None:
        self.tasks = list(tasks)
        self.addresses: dict[Any, int] = {}

    def use_kernels(self, kernels: Mapping[Any, int]) -> None:
        self.addresses.update(kernels)


_compiled: dict[Any, int] = {}


@pytest.fixture
def compiled(kernels: Path) -> dict[Any, int]:
    """Return the addresses of all shapes' kernels, compiled by the service in one process."""
    if not _compiled:
        user = User((parts(shape)[1], WAYS[shape.way][0]) for shape in SHAPES)
        service = Kernels([user])
        assert service.wait(LIMIT * 10**9), service.metrics()
        _compiled.update(user.addresses)
    return _compiled


# ------------------------------------------------------------------- one chunk


@dataclass(frozen=True)
class Chunk:
    """Rows of ``a``, and as many of ``b`` or one event for all; ``rows`` selects rows, ``keep`` marks valid ones."""

    a: list[Row]
    b: list[Row]
    rows: list[int]
    keep: list[int]


def draw_chunk(shape: Shape, seed: int, n: int, nulls: float) -> Chunk:
    draw = np.random.default_rng(seed)

    def row() -> Row:
        row: Row = {"time": int(draw.integers(0, 9)), "seq": int(draw.integers(0, 9))}
        for name, dtype in DTYPES.items():
            pool = POOLS[dtype]
            usual = 9 if dtype in ("int64", "float64") and draw.random() < 0.7 else len(pool)
            row[name] = None if draw.random() < nulls else pool[int(draw.integers(0, usual))]
        return row

    gathers = WAYS[shape.way][0] in ("outputs", "column")
    rows = list(range(n))
    if gathers and n > 1:
        rows = sorted(draw.choice(n, size=max(1, n * 2 // 3), replace=False).tolist())
    one_event = WAYS[shape.way][2] in ("out",) or WAYS[shape.way][0] in ("predicate", "outputs")
    b = [row()] if one_event else [row() for _ in range(n)]
    return Chunk([row() for _ in range(n)], b, rows, (draw.random(len(rows)) < 0.8).astype(int).tolist())


def word(value: Any) -> int:
    """Return the eight bytes that carry a value."""
    if value is None:
        return 0
    if isinstance(value, float):
        return int(struct.unpack("q", struct.pack("d", value))[0])
    return intern(value) if isinstance(value, str) else int(value)


def engine_side(shape: Shape, chunk: Chunk, address: int) -> tuple[Any, ...]:
    """Return kept rows, or values and nulls, and the count, from the interpreter (address 0) or the kernel."""
    _, program, read = parts(shape)
    role, *_ = WAYS[shape.way]
    bits = np.zeros(len(chunk.a), np.int64)
    inputs: list[Any] = []
    for (variable, attribute), (kind, number) in zip((read[n] for _, n in program.inputs), program.inputs, strict=True):
        cells = [row[attribute] for row in (chunk.a if variable == "a" else chunk.b)]
        values = np.array([word(cell) for cell in cells], np.int64)
        missing = np.array([cell is None for cell in cells], np.uint8)
        if kind == "row":
            bits |= missing.astype(np.int64) << number
            inputs.append((values, None, bits, number, 1))
        else:
            broadcast = kind == "out" or (kind == "event" and role in ("predicate", "outputs"))
            none = missing if missing.any() or kind in ("elem", "out") else None
            inputs.append((values, none, None, 0, 0 if broadcast else 1))
    evaluator = Evaluator(program, intern)
    evaluator.use_kernel(address)
    n = len(chunk.rows)
    rows = np.array(chunk.rows, np.int32) if role in ("outputs", "column") else None
    if shape.filters:
        keep = np.array(chunk.keep, np.uint8)
        kept = evaluator.run_chunks(inputs, rows, keep, None, None, n)
        if kept == 0:  # the interpreter ends before it clears the bytes
            keep[:] = 0
        return keep.tolist(), kept, evaluator.arithmetic_nulls
    out, null = np.zeros((1, n), np.int64), np.ones((1, n), np.uint8)
    evaluator.run_chunks(inputs, rows, None, out, null, n)
    out[null == 1] = 0
    return out[0].tolist(), null[0].tolist(), evaluator.arithmetic_nulls


class Counter:
    """Counts the values that the reference matcher's arithmetic turns into null."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lost = 0
        checked, arithmetic = naive_values.checked, naive_values.arithmetic

        def count_checked(value: Any) -> Any:
            result = checked(value)
            self.lost += result is None
            return result

        def count_zero(operator: str, left: Any, right: Any) -> Any:
            integers = isinstance(left, int) and isinstance(right, int) and operator in ("//", "%")
            self.lost += bool(integers and right == 0)
            return arithmetic(operator, left, right)

        monkeypatch.setattr(naive_values, "checked", count_checked)
        monkeypatch.setattr(naive_conditions, "checked", count_checked)
        monkeypatch.setattr(naive_conditions, "arithmetic", count_zero)


def reference(shape: Shape, chunk: Chunk, counter: Counter) -> tuple[Any, ...]:
    """Return the result by the semantics of the language."""
    trees, _, _ = parts(shape)
    counter.lost = 0
    kept, values = [], []
    for row, alive in zip(chunk.rows, chunk.keep, strict=True):
        b = chunk.b[row] if len(chunk.b) > 1 or len(chunk.a) == 1 else chunk.b[0]
        bound = {"a": [event(chunk.a[row])], "b": [event(b)]}
        if shape.filters:
            kept.append(int(bool(alive) and all(naive_conditions.evaluate(tree, bound) is True for tree in trees)))
        else:
            values.append(naive_conditions.evaluate(trees[0], bound))
    if shape.filters:
        return kept, sum(kept), counter.lost
    return [word(value) for value in values], [int(value is None) for value in values], counter.lost


def event(row: Row) -> naive_conditions.Event:
    return naive_conditions.Event("A", row["time"], row["seq"], row)


def agree(shape: Shape, one: tuple[Any, ...], other: tuple[Any, ...], exact: bool) -> None:
    """Check equal kept rows, nulls and counts; values are equal by bits, or within 1e-12 if not exact."""
    if shape.filters or one[1:] != other[1:] or one[0] == other[0]:
        assert one == other, str(shape)
        return
    assert any(text in shape.texts[0] for text in "./^") or exact
    for left, right in zip(one[0], other[0], strict=True):
        x, y = (struct.unpack("d", struct.pack("q", value))[0] for value in (left, right))
        close = math.isnan(x) and math.isnan(y)
        assert left == right or close or (not exact and math.isclose(x, y, rel_tol=1e-12)), (str(shape), x, y)


def check(shape: Shape, chunk: Chunk, address: int, counter: Counter) -> None:
    interpreted, generated = engine_side(shape, chunk, 0), engine_side(shape, chunk, address)
    agree(shape, generated, interpreted, exact=True)
    transcendental = any(harness_word in text for text in shape.texts for harness_word in ("exp", "log", "^"))
    if not (shape.filters and transcendental):  # a last digit could decide
        agree(shape, interpreted, reference(shape, chunk, counter), exact=not transcendental)


CASES = [(1, 0.0), (1, 0.5), (3, 0.0), (CHUNK_ROWS, 0.0), (CHUNK_ROWS, 0.2), (133, 0.02), (64, 1.0)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shape(shape: Shape, compiled: dict[Any, int], monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counter(monkeypatch)
    address = compiled[parts(shape)[1], WAYS[shape.way][0]]
    for seed, (n, nulls) in enumerate(CASES):
        check(shape, draw_chunk(shape, seed, n, nulls), address, counter)


@settings(max_examples=min(100, settings().max_examples))
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 2**32), n=st.integers(1, CHUNK_ROWS), nulls=st.floats(0, 1))
def any_data(shape: Shape, seed: int, n: int, nulls: float, counter: Counter) -> None:
    check(shape, draw_chunk(shape, seed, n, nulls), _compiled[parts(shape)[1], WAYS[shape.way][0]], counter)


def test_shapes_over_any_data(compiled: dict[Any, int], monkeypatch: pytest.MonkeyPatch) -> None:
    any_data(counter=Counter(monkeypatch))


def test_every_kernel_loads_without_numba(compiled: dict[Any, int], kernels: Path) -> None:
    """A kernel with a symbol that only Numba has would end this process."""
    code = """
import sys
from pathlib import Path
from fastcep.kernels.cache import Cache
from fastcep.kernels.load import load
found = {e.key: (e.symbol, e.code) for _, _, e in Cache(Path(sys.argv[1])).entries() if e is not None and not e.error}
print(len(found) == len(load(found)) >= 200, "numba" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(fc.__file__).parent.parent)}
    command = [sys.executable, "-c", code, str(kernels)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "True False\n", "")


def test_list_is_long_and_covers_what_conditions_compile_to() -> None:
    assert len(set(SHAPES)) >= 200
    codes = [parts(shape)[1].code for shape in SHAPES]
    used = {code[at] for code in codes for at in range(0, len(code), WIDTH)}
    inner = {"call", "guard", "select", "known_i", "known_f", "key_f", "stddev", "text", "zone"}
    inner |= {name for name in CODE if name.startswith("agg_")}
    elsewhere = "those are in test_operations.py and test_lookups.py"
    assert {name for name, number in CODE.items() if number not in used} == inner, elsewhere
    ways = {shape.way for shape in SHAPES}
    assert ways == set(kernel_shapes.WAYS)
