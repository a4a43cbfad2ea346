"""Functions that cannot be compiled: errors in one line with fault, position and remedy."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from reference.user_functions import own_registry

import fastcep as fc

PEOPLE: dict[object, object] = {1: "one", "two": []}


class Point:
    pass


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with own_registry():
        yield


def unknown_global(x: float) -> float:
    return undefined_thing(x)  # type: ignore[name-defined,no-any-return]  # noqa: F821


def dictionary(x: float) -> float:
    return PEOPLE[1] + x  # type: ignore[operator,no-any-return]


def attribute(x: float) -> float:
    return x.foo  # type: ignore[attr-defined,no-any-return]


def module_attribute(x: float) -> float:
    return math.foo(x)  # type: ignore[attr-defined,no-any-return]


def text(x: float) -> float:
    return "a" + x  # type: ignore[operator,no-any-return]


def two_kinds(x: float) -> Any:
    if x > 1:
        return "s"
    return x


def own_class(x: float) -> float:
    return Point().x + x  # type: ignore[attr-defined,no-any-return]


def file(x: float) -> float:
    with open("f"):
        return x


def named_exception(x: float) -> float:
    try:
        return 1 / x
    except ZeroDivisionError:
        return 0.0


def formatted(x: float) -> float:
    print(f"{x:5.2f}")
    return x


@pytest.mark.parametrize(
    ("python", "line", "reason"),
    [
        (unknown_global, "return undefined_thing(x)", "name 'undefined_thing' is not defined"),
        (dictionary, "return PEOPLE[1] + x", "Untyped global name 'PEOPLE'"),
        (attribute, "return x.foo", "Unknown attribute 'foo' of type float64"),
        (module_attribute, "def module_attribute(x: float)", "module 'math' has no attribute 'foo'"),
        (text, 'return "a" + x', "Numba has no add("),
        (two_kinds, "return ", "Can't unify return type"),  # Numba lists them in any order
        (own_class, "return Point().x", "Untyped global name 'Point'"),
        (file, "with open", "with"),
        (named_exception, "except ZeroDivisionError", "Numba supports only 'except Exception'"),
        (formatted, "print(", "format spec in f-strings"),
    ],
)
def test_what_numba_cannot_compile(python: Any, line: str, reason: str) -> None:
    function = fc.function("float64(float64)")(python)
    with pytest.raises(fc.ValidationError) as caught:
        function.check()
    message = str(caught.value)
    assert message.startswith(f"function '{python.__name__}' cannot be compiled by Numba: {__file__}, line ")
    assert reason in message and "; use only numbers, bools," in message
    assert "\n" not in message and "pipeline" not in message
    assert f"`{line}" in message or python in (file, formatted)
    assert caught.value.__suppress_context__


def test_an_error_inside_a_called_function_names_its_line() -> None:
    @numba.njit
    def helper(x: float) -> float:
        return x.foo  # type: ignore[attr-defined,no-any-return]

    @fc.function("float64(float64)")
    def outer(x: float) -> float:
        return helper(x)

    with pytest.raises(fc.ValidationError) as caught:
        outer.check()
    assert "Unknown attribute 'foo' of type float64" in str(caught.value)


def test_results_that_would_lose_something() -> None:
    def wrong(signature: str, python: Any) -> str:
        with pytest.raises(fc.ValidationError) as caught:
            fc.function(signature, name="f", replace=True)(python).check()
        return str(caught.value)

    assert "'f' is declared as int64(float64), but it returns float64" in wrong("int64(float64)", lambda x: x)
    assert "; return int(…), or declare another result" in wrong("int64(float64)", lambda x: x)
    assert "but it returns bool" in wrong("int64(float64)", lambda x: x > 1)
    assert "but it returns int64" in wrong("bool(int64)", lambda x: x)
    assert "but it returns uint64" in wrong("int64(int64)", lambda x: np.uint64(x))
    assert "but it returns None" in wrong("float64(float64)", lambda x: None)
    assert "but it returns UniTuple(float64, 2)" in wrong("float64(float64)", lambda x: (x, x))
    assert "but it returns complex128" in wrong("float64(float64)", lambda x: complex(x, 1))


def test_recursion_is_refused() -> None:
    @fc.function("int64(int64)")
    def factorial(n: int) -> int:
        if n <= 1:
            return 1
        return n * factorial(n - 1)  # type: ignore[no-any-return]

    @fc.function("int64(int64)")
    def even(n: int) -> int:
        if n == 0:
            return 1
        return odd(n - 1)  # type: ignore[no-any-return]

    @fc.function("int64(int64)")
    def odd(n: int) -> int:
        if n == 0:
            return 0
        return even(n - 1)  # type: ignore[no-any-return]

    @numba.njit
    def deep(n: int) -> int:
        if n <= 1:
            return 1
        return n * deep(n - 1)

    @fc.function("int64(int64)")
    def hidden(n: int) -> int:
        return deep(n)

    assert factorial(5) == 120 and even(4) == 1
    for function in (factorial, even, odd, hidden):
        with pytest.raises(fc.ValidationError, match=f"function '{function.name}' is recursive .* write it as a loop"):
            function.check()


def test_python_code_inside_is_refused() -> None:
    @fc.function("int64(int64)")
    def spelled(n: int) -> int:
        with numba.objmode(y="int64"):
            y = int(str(n))
        return y

    with pytest.raises(fc.ValidationError, match="'spelled' runs Python code in objmode"):
        spelled.check()


@pytest.mark.thorough
def test_without_numba_s_compiler() -> None:
    code = (
        "import fastcep as fc\n"
        "try:\n    fc.function('float64(float64)', name='f')(lambda x: x).check()\n"
        "except fc.ValidationError as error:\n    print(error)\n"
    )
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    root = Path(fc.__file__).parent.parent
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == (
        "function 'f' must be compiled, but NUMBA_DISABLE_JIT is set; unset it to use the function\n"
    ), run.stderr
