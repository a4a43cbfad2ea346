"""Operations that only the planner creates (guards, selections, keys, running aggregates): kernel = interpreter."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.waiting import LIMIT

from fastcep._core.program.evaluate import Evaluator
from fastcep._core.program.predicate import OPCODES
from fastcep.kernels import Kernels
from fastcep.kernels.generate import generate
from fastcep.kernels.operations import OPERATIONS
from fastcep.plan.bytecode import Compiler, Program
from fastcep.plan.ir import Op, const

pytestmark = pytest.mark.thorough

INTS = [0, 1, -5, 2**63 - 1, -(2**63), None]
FLOATS = [0.0, -0.0, 1.5, math.nan, math.inf, None]
BOOLS = [True, False, None]
COUNTS = [0, 1, 2, 7]
POOLS: dict[str, list[Any]] = {"i": INTS, "f": FLOATS, "b": BOOLS, "n": COUNTS}

#: Name, type of the result and types of the operands (n: a count, never null).
OPERANDS = [
    ("guard", "b", "bb"), ("select", "i", "bii"), ("select", "f", "bff"), ("select", "b", "bbb"), ("known_i", "b", "i"),
    ("known_f", "b", "f"), ("key_f", "f", "f"), ("agg_known", "i", "ni"), ("agg_sum_i", "i", "ini"),
    ("agg_sum_f", "f", "fnf"), ("agg_min_i", "i", "ini"), ("agg_max_i", "i", "ini"), ("agg_min_f", "f", "fnf"),
    ("agg_max_f", "f", "fnf"), ("agg_mean", "f", "fnf"), ("agg_m2", "f", "ffnf"), ("stddev", "f", "fn"),
]  # fmt: skip


def leaf(number: int, dtype: str) -> Op:
    return Op("event", dtype, (), (number,))


def program_of(expr: Op) -> Program:
    compiler = Compiler(lambda node: ("event", node.data[0]) if node.name == "event" else None)
    compiler.store(0, expr)
    return compiler.finish()


def programs() -> dict[str, tuple[Program, str]]:
    """Return programs with every operation on columns, and with a null or a constant instead of each operand."""
    operations: dict[str, tuple[Program, str]] = {}
    for name, result, kinds in OPERANDS:
        operands = [leaf(number, "i" if kind == "n" else kind) for number, kind in enumerate(kinds)]
        operations[f"{name} {kinds}"] = program_of(Op(name, result, tuple(operands))), kinds
        for number, kind in enumerate(kinds):
            for value in (POOLS[kind][1], None) if kind != "n" else (0,):
                changed = [*operands[:number], const(value, operands[number].dtype), *operands[number + 1 :]]
                operations[f"{name} {kinds} {number}={value}"] = program_of(Op(name, result, tuple(changed))), kinds
    less = Op("lt_i", "b", (leaf(0, "i"), leaf(1, "i")))
    mixed = Op("select", "i", (less, Op("not", "b", (leaf(2, "b"),)), leaf(1, "i")))
    operations["bool beside int"] = program_of(mixed), "iib"
    bits = Op("select", "f", (leaf(0, "b"), leaf(1, "f"), Op("neg_f", "f", (leaf(1, "f"),))))
    operations["float by bits"] = program_of(bits), "bf"
    return operations


PROGRAMS = programs()


class User:
    tasks = tuple((program, "whole") for program, _ in PROGRAMS.values())

    def __init__(self) -> None:
        self.addresses: dict[Any, int] = {}

    def use_kernels(self, kernels: Any) -> None:
        self.addresses.update(kernels)


_user = User()


@pytest.fixture
def compiled(kernels: Path) -> dict[Any, int]:
    if not _user.addresses:
        service = Kernels([_user])
        assert service.wait(LIMIT * 10**9), service.metrics()
    return _user.addresses


@pytest.mark.parametrize("name", PROGRAMS)
def test_operation(name: str, compiled: dict[Any, int]) -> None:
    program, kinds = PROGRAMS[name]
    for pools in ([POOLS[kind] for kind in kinds], [[v for v in POOLS[kind] if v is not None] for kind in kinds]):
        rows = list(itertools.product(*pools))
        values, nulls = [], []
        for number, kind in enumerate(kinds):
            cells = [row[number] for row in rows]
            dtype = np.float64 if kind == "f" else np.int64
            values.append(np.array([0 if cell is None else cell for cell in cells], dtype).view(np.int64))
            missing = np.array([cell is None for cell in cells], np.uint8)
            nulls.append(missing if missing.any() else None)
        results = []
        for address in (0, compiled[program, "whole"]):
            evaluator = Evaluator(program, lambda text: 0)
            evaluator.use_kernel(address)
            out, null = evaluator(values, nulls, len(rows))
            out[null == 1] = 0
            typed = out.view(np.float64) if is_float(name) else out
            results.append((list(map(repr, typed.tolist())), null.tolist(), evaluator.arithmetic_nulls))
        assert results[0] == results[1]


def is_float(name: str) -> bool:
    return name.startswith("float") or any(name.startswith(op) and f" {k}" in name for op, r, k in OPERANDS if r == "f")


def test_every_operation_has_a_generated_form() -> None:
    # Programs with a user-defined function are interpreted.
    machine = {"end", "load", "const", "store", "filter", "call"}
    assert set(OPERATIONS) == set(OPCODES) - machine - {"in_i", "in_f", "text", "zone"}, "look-ups have other tests"
    assert {name for name, _, _ in OPERANDS} | {"and", "or"} <= set(OPERATIONS)


def test_source_is_a_pure_function_of_the_shape() -> None:
    def source(threshold: Any) -> str:
        compiler = Compiler(lambda node: ("row", 0) if node.name == "q" else None)
        compiler.filter(Op("lt_i", "b", (const(threshold, "i"), Op("q", "i", (), ("first", 0, 0, "import os")))))
        return generate(compiler.finish(), "predicate")

    assert source(10) == source(20), "a constant is no part of the source"
    assert source(10) != source(None), "a null one is"
    assert "import" not in source(10), "no name of a user is"


def test_unknown_operation_stays_with_the_interpreter() -> None:
    compiler = Compiler(lambda node: ("event", 0) if node.name == "event" else None)
    compiler.filter(leaf(0, "b"))
    compiler.store(0, leaf(0, "b"))
    with pytest.raises(NotImplementedError, match="filters and stores"):
        generate(compiler.finish(), "whole")
