"""Registration of functions, their use in text and builder, and errors."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import pytest
from reference.user_functions import own_registry, sample

import fastcep as fc
from fastcep.query import ast, i, seq, to_text
from fastcep.query.builder.terms import Term
from fastcep.query.user_functions.registry import Function, find

W = " WITHIN 1ms"


@pytest.fixture(autouse=True)
def registered() -> Iterator[dict[str, Function]]:
    with own_registry():
        yield sample()


def refused(text: str, schema: fc.Schema) -> tuple[str, str]:
    """Return the message and the underlined text of the error."""
    with pytest.raises(fc.ParseError) as caught:
        fc.parse("PATTERN " + text + W, schema)
    error = caught.value
    assert error.column is not None and error.source is not None
    return error.message, error.source[error.column - 1 : error.column - 1 + error.length]


# ---------------------------------------------------------------- registration


def test_what_is_registered(registered: dict[str, Function]) -> None:
    assert list(fc.functions()) == ["distance", "cell", "odd", "ratio"]
    assert str(registered["cell"].signature) == "int64(float64, int64)"
    assert repr(registered["odd"]) == "<function odd: bool(int64, bool)>"
    assert registered["cell"].__doc__ == "Raise for size 0; return None for values without a cell."
    fc.functions().clear()
    assert len(fc.functions()) == 4, "the result is a copy"
    registered["odd"].unregister()
    registered["odd"].unregister()
    assert "odd" not in fc.functions() and find("odd") is None


def test_called_with_numbers_it_is_the_python_function(registered: dict[str, Function]) -> None:
    assert registered["distance"](2.5, 4) == 1.5
    assert registered["distance"](y=1, x=4) == 3
    with pytest.raises(ZeroDivisionError):
        registered["ratio"](1, 0)


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("float(float64)", "unknown dtype 'float' in 'float(float64)'; did you mean 'float64'?"),
        ("int32(int64)", "did you mean 'int64'?"),
        ("float64(float64", "'float64(float64' is not a signature; expected result(arguments)"),
        ("float64", "is not a signature"),
        ("float64(x: float64)", "is not a signature"),
        ("float64()", "has 0 arguments; expected 1 to 8: a function without arguments is a constant"),
        (f"int64({', '.join(['int64'] * 9)})", "has 9 arguments; expected 1 to 8"),
        ("float64(float64)", "has 1; list all of them, including those with a default"),
        ("float64(float64,)", "unknown dtype ''"),
        (7, "found 7 as signature"),
    ],
)
def test_a_wrong_signature(signature: Any, message: str) -> None:
    def wanted(x: float, y: float) -> float:
        return x

    with pytest.raises(fc.ValidationError) as caught:
        fc.function(signature)(wanted)
    assert message in str(caught.value)
    assert "wanted" not in fc.functions()


def starred(*values: float) -> float:
    return values[0]


async def later(x: float) -> float:
    return x


def several(x: float) -> Iterator[float]:
    yield x


@pytest.mark.parametrize(
    ("python", "name", "message"),
    [
        (math.hypot, None, "expected a Python function; define a function with def"),
        (int, None, "expected a Python function"),
        (numba.njit(several), None, "use @fastcep.function instead of @njit"),
        (lambda x: x, None, "a lambda has no name; pass name="),
        (lambda x: x, "two words", "'two words' is not a valid name"),
        (lambda x: x, "", "'' is not a valid name"),
        (lambda x: x, "2x", "'2x' is not a valid name"),
        (lambda x: x, "sqrt", "'sqrt' is a built-in function"),
        (lambda x: x, "Avg", "'Avg' is a built-in function"),
        (lambda x: x, "stddev", "'stddev' is a built-in function"),
        (lambda x: x, "within", "'within' is a keyword"),
        (starred, None, "list its arguments one by one"),
        (later, None, "cannot be a generator or async"),
        (several, None, "cannot be a generator or async"),
    ],
)
def test_what_cannot_be_registered(python: Any, name: str | None, message: str) -> None:
    with pytest.raises(fc.ValidationError) as caught:
        fc.function("float64(float64)", name=name)(python)
    assert message in str(caught.value)
    assert len(fc.functions()) == 4


def test_a_name_is_taken_once_unless_replaced(registered: dict[str, Function]) -> None:
    def make(factor: float) -> Callable[[float], float]:
        def scaled(x: float) -> float:
            return factor * x

        return scaled

    first = fc.function("float64(float64)")(make(2.0))
    again = fc.function("float64(float64)")(make(2.0))
    assert again is not first and fc.functions()["scaled"] is again, "the same function again renews the entry"
    for signature, factor in (("float64(float64)", 3.0), ("float64(int64)", 2.0)):
        with pytest.raises(fc.ValidationError, match=r"'scaled' is already registered with other code or another"):
            fc.function(signature)(make(factor))
    assert fc.functions()["scaled"] is again
    other = fc.function("float64(float64)", replace=True)(make(3.0))
    assert fc.functions()["scaled"] is other
    first.unregister()
    assert "scaled" in fc.functions(), "an old one does not take the new one off the list"


def test_names_tell_capitals_apart() -> None:
    fc.function("float64(float64)", name="Distance")(lambda x: x)
    assert {"distance", "Distance"} <= set(fc.functions())


# --------------------------------------------------------------------- queries


def test_text_and_builder_give_the_same_query(registered: dict[str, Function], schema: fc.Schema) -> None:
    text = (
        "PATTERN SEQ(A a, B+ b[], C c) WHERE distance(a.x, b[i].x) < 2.5 AND odd(a.V + 1, NOT a.flag)"
        " AND cell(MAX(b[].x), 3) = cell(c.V, 2) AND ratio(a.V, NULL) > 1"
        + W
        + " RETURN cell(a.V, 3) AS c1, ratio(1, 2)"
    )
    query = fc.parse(text, schema)
    assert fc.parse(to_text(query), schema) == query
    assert "WHERE distance(a.x, b[i].x) < 2.5\n  AND odd(a.V + 1, NOT a.flag)\n" in to_text(query)
    assert query.returns[1].name == "ratio(1, 2)"
    a, b, c = schema.A("a"), schema.B("b").plus(), schema.C("c")
    distance, cell, odd, ratio = (registered[name] for name in ("distance", "cell", "odd", "ratio"))
    built = (
        seq(a, b, c)
        .where(distance(a.x, b[i].x) < 2.5, odd(a.V + 1, ~a.flag))
        .where(cell(b.max("x"), 3) == cell(c.V, 2), ratio(a.V, None) > 1)
        .within("1ms")
        .returns(ratio_of_constants(ratio), c1=cell(a.V, 3))
        .build()
    )
    assert built.where == query.where
    assert set(built.returns) == set(query.returns)
    assert hash(built.where) == hash(query.where)
    assert pickle.loads(pickle.dumps(query)) == query


def ratio_of_constants(ratio: Function) -> Any:
    """Return ``ratio(1, 2)`` as a term, because a call with numbers returns a number."""
    return Term(ast.UserCall(ratio.signature, (ast.Literal(1), ast.Literal(2))))


def test_nodes_hold_the_signature_and_not_the_function(schema: fc.Schema) -> None:
    query = fc.parse("PATTERN SEQ(A a) WHERE odd(a.V, TRUE)" + W, schema)
    assert query.where == ast.UserCall(
        ast.Signature("odd", ("int64", "bool"), "bool"), (ast.Attribute("a", "V"), ast.Literal(True))
    )


@pytest.mark.parametrize(
    ("condition", "message", "marked"),
    [
        ("distanc(a.x, 1) < 2", "unknown function 'distanc'; did you mean 'distance'?", "distanc"),
        ("Distance(a.x, 1) < 2", "unknown function 'Distance'; did you mean 'distance'?", "Distance"),
        ("zzz(a.x) < 2", "known names: distance, cell, odd, ratio, abs", "zzz"),
        ("zzz(a.x) < 2", "register your own functions with @fastcep.function", "zzz"),
        ("distance(a.x) < 2", "distance takes 2 arguments (float64, float64), not 1", "distance(a.x)"),
        ("distance() < 2", "distance takes 2 arguments (float64, float64), not 0", "distance()"),
        ("distance(a.x, a.name) < 2", "distance needs a float64 as argument 2, but a.name is a string", "a.name"),
        ("distance(a.x, a.flag) < 2", "needs a float64 as argument 2, but a.flag is a bool", "a.flag"),
        ("cell(a.x, a.x) = 2", "cell needs an int64 as argument 2, but a.x is a float64", "a.x"),
        ("odd(a.V, a.V)", "odd needs a bool as argument 2, but a.V is an int64", "a.V"),
        ("odd(a.flag, a.flag)", "odd needs an int64 as argument 1, but a.flag is a bool", "a.flag"),
        ("cell(a.x, 1)", "WHERE needs conditions, but cell(a.x, 1) has the type int64", "cell(a.x, 1)"),
        ("odd(a.V, TRUE) + 1 = 2", "+ needs numbers, but odd(a.V, TRUE) is a bool", "odd(a.V, TRUE)"),
        ("distance(b.x, 1) < 2", "unknown variable 'b'", "b.x"),
    ],
)
def test_a_wrong_call(condition: str, message: str, marked: str, schema: fc.Schema) -> None:
    actual, underlined = refused(f"SEQ(A a) WHERE {condition}", schema)
    assert message in actual
    assert underlined == marked


def test_a_list_is_no_argument(schema: fc.Schema) -> None:
    message, marked = refused("SEQ(A+ a[]) WHERE distance(a[].x, 1) < 2", schema)
    assert "'distance' takes no list" in message and marked == "distance"


def test_the_builder_refuses_too(registered: dict[str, Function], schema: fc.Schema) -> None:
    a = schema.A("a")
    builder = seq(a).within("1ms")
    with pytest.raises(fc.ValidationError, match=r"cell takes 2 arguments \(float64, int64\), not 1"):
        builder.where(registered["cell"](a.x) == 1).build()
    with pytest.raises(fc.ValidationError, match=r"cell needs an int64 as argument 2, but a\.name is a string"):
        builder.where(registered["cell"](a.x, a.name) == 1).build()
    with pytest.raises(TypeError, match="only positional arguments"):
        registered["cell"](a.x, size=3)


def test_a_function_that_is_gone_is_refused(registered: dict[str, Function], schema: fc.Schema) -> None:
    query = fc.parse("PATTERN SEQ(A a) WHERE odd(a.V, TRUE)" + W, schema, name="q")
    registered["odd"].unregister()
    assert "unknown function 'odd'" in refused("SEQ(A a) WHERE odd(a.V, TRUE)", schema)[0]
    with pytest.raises(fc.ValidationError, match="query 'q': function 'odd' is not registered in this process"):
        fc.Engine(query)
    fc.function("bool(int64, int64)", name="odd")(lambda k, flag: k == flag)
    with pytest.raises(fc.ValidationError, match=r"'odd' was bool\(int64, bool\) when the query was checked, but"):
        fc.Engine(query)


@pytest.mark.thorough
def test_registration_needs_no_numba() -> None:
    code = (
        "import sys, fastcep as fc\n"
        "f = fc.function('float64(float64)', name='f')(lambda x: 2 * x)\n"
        "schema = fc.Schema({'A': {'x': 'float64'}})\n"
        "fc.parse('PATTERN SEQ(A a) WHERE f(a.x) < 3 WITHIN 1s', schema)\n"
        "assert f(2) == 4 and 'numba' not in sys.modules\n"
        "f.check()\n"
        "assert 'numba' in sys.modules\n"
    )
    root = Path(fc.__file__).parent.parent
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
