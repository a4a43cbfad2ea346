"""The tier-0 evaluator: every operation against the reference matcher's arithmetic, nulls and overflow included."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from reference import values as naive_values
from reference.values import INT_MAX, INT_MIN

from fastcep._core.program import predicate
from fastcep._core.program.evaluate import evaluate
from fastcep.plan import bytecode
from fastcep.plan.bytecode import Compiler
from fastcep.plan.ir import Op, const

Column = Sequence[Any]
Result = tuple[list[Any], int]  # values (None is null) and the number of arithmetic nulls
INTS = [0, 1, -1, 2, 3, -3, 7, -7, INT_MAX, INT_MIN, INT_MIN + 1, 2**32, -(2**40), None]
FLOATS = [0.0, -0.0, 1.5, -1.5, 7.0, -7.0, 2.0, 0.1, math.inf, -math.inf, math.nan, 1e308, 5e-324, 3.0, None]
BOOLS = [True, False, None]
REPEAT = 4  # more rows than one chunk


def run(expr: Op, columns: Sequence[Column], dtypes: str) -> Result:
    """Evaluate ``expr`` over columns; its leaf ``event`` number k reads column k."""
    compiler = Compiler(lambda node: ("event", node.data[0]) if node.name == "event" else None)
    compiler.store(0, expr)
    program = compiler.finish()
    values, nulls = [], []
    for column, dtype in zip(columns, dtypes, strict=True):
        cells = [0 if cell is None else cell for cell in column]
        values.append(np.array(cells, np.float64 if dtype == "f" else np.int64).view(np.int64))
        mask = np.array([cell is None for cell in column], np.uint8)
        nulls.append(mask if mask.any() else None)
    words, missing, counted, _ = evaluate(program, lambda text: 77, values, nulls, len(columns[0]))
    typed = words.view(np.float64).tolist() if expr.dtype == "f" else words.tolist()
    if expr.dtype == "b":
        typed = [bool(value) for value in typed]
    return [None if gone else value for value, gone in zip(typed, missing, strict=True)], counted


def leaf(number: int, dtype: str) -> Op:
    return Op("event", dtype, (), (number,))


def apply(name: str, result: str, operands: str, columns: Sequence[Column]) -> Result:
    """Run one operation."""
    return run(Op(name, result, tuple(leaf(k, d) for k, d in enumerate(operands))), columns, operands)


def pairs(values: Sequence[Any]) -> list[list[Any]]:
    """All ordered pairs as two columns, several times over."""
    both = list(itertools.product(values, repeat=2)) * REPEAT
    return [[one for one, _ in both], [other for _, other in both]]


def same(found: list[Any], wanted: list[Any], columns: Sequence[Column], tolerance: float = 0.0) -> None:
    assert len(found) == len(wanted)
    for row, (one, other) in enumerate(zip(found, wanted, strict=True)):
        close = tolerance and isinstance(one, float) and isinstance(other, float) and math.isclose(
            one, other, rel_tol=tolerance
        )  # fmt: skip
        assert close or repr(one) == repr(other), ([column[row] for column in columns], one, other)


def test_opcodes_agree() -> None:
    assert bytecode.OPCODES == predicate.OPCODES


ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_int_arithmetic(name: str) -> None:
    columns = pairs(INTS)
    wanted = [naive_values.arithmetic(ARITHMETIC[name], a, b) for a, b in zip(*columns, strict=True)]
    found, counted = apply(name + "_i", "i", "ii", columns)
    same(found, wanted, columns)
    lost = sum(w is None and a is not None and b is not None for w, a, b in zip(wanted, *columns, strict=True))
    assert counted == lost > 0, "overflows and zero divisors are counted, null operands are not"


@pytest.mark.parametrize("name", ARITHMETIC)
def test_float_arithmetic(name: str) -> None:
    columns = pairs(FLOATS)
    wanted = [naive_values.arithmetic(ARITHMETIC[name], a, b) for a, b in zip(*columns, strict=True)]
    found, counted = apply(name + "_f", "f", "ff", columns)
    same(found, wanted, columns)
    assert counted == 0


@pytest.mark.parametrize(("name", "operator"), [("div_f", "/"), ("pow_f", "^")])
def test_float_division_and_power(name: str, operator: str) -> None:
    columns = pairs(FLOATS)
    wanted = [naive_values.arithmetic(operator, a, b) for a, b in zip(*columns, strict=True)]
    same(apply(name, "f", "ff", columns)[0], wanted, columns, 0.0 if operator == "/" else 1e-12)


@pytest.mark.parametrize(
    ("a", "b", "quotient", "rest"), [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (6, -2, -3, 0)]
)
def test_floor_signs(a: int, b: int, quotient: int, rest: int) -> None:
    for dtype, kind in (("i", int), ("f", float)):
        columns = [[kind(a)], [kind(b)]]
        assert apply("floordiv_" + dtype, dtype, dtype * 2, columns)[0] == [quotient]
        assert apply("mod_" + dtype, dtype, dtype * 2, columns)[0] == [rest]


@pytest.mark.parametrize("name", ["min", "max"])
def test_min_and_max(name: str) -> None:
    for dtype, values in (("i", INTS), ("f", FLOATS)):
        columns = pairs(values)
        wanted = [naive_values.call(name, [a, b]) for a, b in zip(*columns, strict=True)]
        same(apply(f"{name}_{dtype}", dtype, dtype * 2, columns)[0], wanted, columns)


@pytest.mark.parametrize("name", ["abs", "neg"])
def test_unary_of_both_types(name: str) -> None:
    for dtype, values in (("i", INTS), ("f", FLOATS)):
        column = values * 30
        wanted: list[Any] = []
        for value in column:
            if name == "abs":
                wanted.append(naive_values.call("abs", [value]))
            else:
                wanted.append(None if value is None else naive_values.checked(-value))
        found, counted = apply(f"{name}_{dtype}", dtype, dtype, [column])
        same(found, wanted, [column])
        assert counted == (30 if dtype == "i" else 0), "only -(-2**63) overflows"


@pytest.mark.parametrize("name", ["sqrt", "exp", "log", "floor"])
def test_functions(name: str) -> None:
    column = [*FLOATS, 710.0, -745.2, -2.5] * 20
    wanted = [naive_values.call(name, [value]) for value in column]
    same(apply(name, "f", "f", [column])[0], wanted, [column], 1e-12 if name in ("exp", "log") else 0.0)


@pytest.mark.parametrize(("name", "operator"), [("eq", "="), ("ne", "!="), ("lt", "<"), ("le", "<=")])
def test_comparisons(name: str, operator: str) -> None:
    for dtype, values in (("i", INTS), ("f", FLOATS)):
        columns = pairs(values)
        wanted = [naive_values.compare(operator, a, b) for a, b in zip(*columns, strict=True)]
        same(apply(f"{name}_{dtype}", "b", dtype * 2, columns)[0], wanted, columns)


def test_int_to_float_is_the_nearest() -> None:
    column = [*INTS, 2**53 + 1, -(2**53) - 1, 2**62 + 1] * 20
    wanted = [None if value is None else float(value) for value in column]
    same(apply("i2f", "f", "i", [column])[0], wanted, [column])


def test_three_valued_logic() -> None:
    columns = [column * 10 for column in pairs(BOOLS)]
    table: dict[str, Callable[[Any, Any], Any]] = {
        "and": naive_values.both,
        "or": naive_values.either,
        "guard": lambda a, b: b if a is True else True,
    }
    for name, meaning in table.items():
        wanted = [meaning(a, b) for a, b in zip(*columns, strict=True)]
        same(apply(name, "b", "bb", columns)[0], wanted, columns)
    same(apply("not", "b", "b", columns[:1])[0], [naive_values.negate(a) for a in columns[0]], columns)


def test_logic_without_any_null() -> None:
    columns = pairs([True, False])
    assert apply("and", "b", "bb", columns)[0] == [a and b for a, b in zip(*columns, strict=True)]
    assert apply("or", "b", "bb", columns)[0] == [a or b for a, b in zip(*columns, strict=True)]


def test_select_takes_the_second_unless_true() -> None:
    rows = list(itertools.product(BOOLS, [1, None], [2, None])) * 30
    columns = [[row[k] for row in rows] for k in range(3)]
    assert apply("select", "i", "bii", columns)[0] == [x if c is True else y for c, x, y in rows]


def test_known_and_key() -> None:
    assert apply("known_i", "b", "i", [[1, None, 0]])[0] == [True, False, True]
    assert apply("known_f", "b", "f", [[1.0, None, math.nan, 0.0]])[0] == [True, False, False, True]
    found = apply("key_f", "f", "f", [[1.5, None, math.nan, -0.0, 0.0]])[0]
    assert repr(found) == "[1.5, None, None, 0.0, 0.0]", "one bit pattern for zero; NaN and null join nothing"


def test_constants() -> None:
    column = [1, 2, None] * 200
    assert run(Op("add_i", "i", (leaf(0, "i"), const(5, "i"))), [column], "i")[0] == [6, 7, None] * 200
    assert run(Op("eq_i", "b", (leaf(0, "s"), const("x", "s"))), [[77, 1]], "s")[0] == [True, False]
    assert run(Op("lt_i", "b", (leaf(0, "i"), const(None, "i"))), [[77, 1]], "i")[0] == [None, None]
    assert run(Op("mul_f", "f", (const(0.5, "f"), leaf(0, "f"))), [[3.0]], "f")[0] == [1.5]
    assert run(Op("guard", "b", (const(True, "b"), leaf(0, "b"))), [[True, False]], "b")[0] == [True, False]


def test_no_rows() -> None:
    assert apply("add_i", "i", "ii", [[], []]) == ([], 0)


def test_deep_expressions_keep_their_registers_apart() -> None:
    expr = leaf(0, "i")
    for number in range(40):
        expr = Op("sub_i", "i", (leaf(number % 2, "i"), expr))
    columns = [[5, 6, None] * 100, [1, 2, 3] * 100]
    wanted: list[Any] = columns[0]
    for number in range(40):
        wanted = [naive_values.arithmetic("-", a, b) for a, b in zip(columns[number % 2], wanted, strict=True)]
    assert run(expr, columns, "ii")[0] == wanted


def aggregated(function: str, dtype: str, sequences: list[list[Any]]) -> tuple[list[Any], int]:
    """Run an aggregate's steps over sequences of one length, as the engine does element by element."""
    n = len(sequences)
    known: list[Any] = [0] * n
    state: list[Any] = [None] * n
    mean: list[Any] = [None] * n
    counted = 0
    for k in range(len(sequences[0])):
        value = [sequence[k] for sequence in sequences]
        if function == "STDDEV":
            reals = [None if v is None else float(v) for v in value]
            state, _ = apply("agg_m2", "f", "ffif", [state, mean, known, reals])
            mean, _ = apply("agg_mean", "f", "fif", [mean, known, reals])
        elif function != "COUNT":
            name = f"agg_{function.lower()}_{dtype}"
            state, more = apply(name, dtype, dtype + "i" + dtype, [state, known, value])
            counted += more
        known, _ = apply("agg_known", "i", "i" + dtype, [known, value])
    if function == "COUNT":
        return known, 0
    if function == "STDDEV":
        return apply("stddev", "f", "fi", [state, known])[0], 0
    return state, counted


@pytest.mark.parametrize("function", ["COUNT", "SUM", "MIN", "MAX", "STDDEV"])
@pytest.mark.parametrize("dtype", ["i", "f"])
def test_running_aggregates(function: str, dtype: str) -> None:
    draw = random.Random(5)
    usual: list[Any] = [None, -2, 3, 5] if dtype == "i" else [None, -2.5, 0.1, 3.0, -0.0, 0.0]
    edges: list[Any] = [None, INT_MAX, INT_MIN, 1] if dtype == "i" else [None, math.nan, math.inf, 1.0]
    if function == "STDDEV":
        edges = usual  # huge integers as floats are exact in neither
    sequences = [[draw.choice(edges if row % 3 == 0 else usual) for _ in range(6)] for row in range(600)]
    wanted = [naive_values.aggregate(function, [v for v in s if v is not None]) for s in sequences]
    found, counted = aggregated(function, dtype, sequences)
    same(found, wanted, [sequences])
    assert (counted > 0) == (function == "SUM" and dtype == "i")
