"""Functions that conditions can call: the built-in names, and the registry of user-defined functions.

A user-defined function is an ordinary Python function of numbers. Numba compiles it when an engine first needs it (see
:mod:`fastcep.query.user_functions.native`). Queries and plans contain only its `Signature`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from threading import Lock
from types import FunctionType
from typing import TYPE_CHECKING, Any

from fastcep.errors import ValidationError
from fastcep.query import ast
from fastcep.query.builder.terms import Term, node_of
from fastcep.query.printer import KEYWORDS
from fastcep.query.scalar_functions import FUNCTIONS
from fastcep.query.source import suggest
from fastcep.query.user_functions.user_function import UserFunction

if TYPE_CHECKING:
    from fastcep.query.user_functions.native import Native

__all__ = [
    "AGGREGATES", "FUNCTIONS", "MAX_ARGUMENTS", "Function", "find", "function", "functions", "native_of",
    "python_of",
]  # fmt: skip

AGGREGATES = ("AVG", "SUM", "MIN", "MAX", "COUNT", "STDDEV")
#: Must equal the value in ``_core/program/predicate.pxd``.
MAX_ARGUMENTS = 8
_DTYPES = ("int64", "float64", "bool", "string")
_NAME = re.compile(r"[^\W\d]\w*")

_registered: dict[str, Function] = {}
_lock = Lock()


class Function(UserFunction):
    """A function that queries can call; created by `function`.

    A call with numbers runs the Python function. A call with terms of the builder returns a term.

    Attributes
    ----------
    name
        Name in queries.
    signature
        Dtypes of result and arguments; as text, ``"float64(float64, float64)"``.
    python
        The Python function.
    """

    def __init__(self, python: FunctionType, signature: ast.Signature) -> None:
        functools.update_wrapper(self, python)
        super().__init__(python, signature)

    def __repr__(self) -> str:
        return f"<function {self.name}: {self.signature}>"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the Python function, or return a term if an argument is a term."""
        if any(isinstance(argument, Term) for argument in (*arguments, *named.values())):
            if named:
                raise TypeError(f"{self.name} takes only positional arguments in a query")
            return Term(ast.UserCall(self.signature, tuple(map(node_of, arguments))))
        return self.python(*arguments, **named)

    def check(self) -> None:
        """Compile the function now, as an engine that calls it would do; does nothing for a function of strings.

        Raises
        ------
        ValidationError
            Numba cannot compile the function, or its result has another dtype than declared.
        """
        if "string" not in (*self.signature.parameters, self.signature.result):
            self.native()

    def native(self) -> Native:
        """Return the machine code, compiled at the first call; globals that it reads are frozen at that moment."""
        from fastcep.query.user_functions.native import compile_function

        # Only Numba locks: two threads may both compile, and one of the results is kept.
        native: Native | None = self.__dict__.get("_native")
        return native or self.__dict__.setdefault("_native", compile_function(self))

    def unregister(self) -> None:
        """Remove the function from the registry; existing engines can still call it."""
        with _lock:
            if _registered.get(self.name) is self:
                del _registered[self.name]


def function(signature: str, *, name: str | None = None, replace: bool = False) -> Callable[[Any], Function]:
    """Register a Python function for use in queries.

    Parameters
    ----------
    signature
        Dtypes of result and arguments, such as ``"float64(float64, float64)"``: int64, float64, bool or string, and at
        most 8 arguments.
    name
        Name in queries; the default is the Python name.
    replace
        Whether the function may replace another one of the same name. Existing engines keep the old function.

    Returns
    -------
    Callable
        A decorator that returns a `Function`.

    Raises
    ------
    ValidationError
        The signature or name is invalid, the object is not a plain Python function, or the name is already used.

    Notes
    -----
    The function must be *pure*: the plan determines when and how often the engine calls it. A null argument gives null
    without a call. Returning None gives null. An exception gives null and is counted in ``function_errors``.

    Numba compiles a function of numbers. A function that takes or returns a string runs as Python code, and its results
    are kept: one with a single string argument is called once per distinct string.
    """
    if not isinstance(signature, str):
        raise ValidationError(
            f"found {signature!r} as signature, expected a string: @fastcep.function('float64(float64, float64)')"
        )

    def register(python: Any) -> Function:
        function_name = _name(python, name)
        registered = Function(python, _signature(signature, function_name))
        _check_parameters(python, registered.signature)
        with _lock:
            existing = _registered.get(function_name)
            if existing is not None and not replace and not _same(existing, registered):
                raise ValidationError(
                    f"function {function_name!r} is already registered with other code or another signature "
                    f"({existing.signature}); choose another name, or pass replace=True"
                )
            _registered[function_name] = registered
        return registered

    return register


def functions() -> dict[str, Function]:
    """Return the registered functions by name, in the order of registration."""
    return dict(_registered)


def find(name: str) -> ast.Signature | None:
    """Return the signature of the function registered under ``name``, or None."""
    registered = _registered.get(name)
    return None if registered is None else registered.signature


def native_of(signature: ast.Signature) -> Native:
    """Return the machine code of the function with which a query was checked.

    Raises
    ------
    ValidationError
        The function is not registered in this process, has other dtypes or cannot be compiled.
    """
    return _registered_as(signature).native()


def python_of(signature: ast.Signature) -> FunctionType:
    """Return the Python function with which a query was checked, for a function of strings.

    Raises
    ------
    ValidationError
        The function is not registered in this process or has other dtypes.
    """
    return _registered_as(signature).python


def _registered_as(signature: ast.Signature) -> Function:
    registered = _registered.get(signature.name)
    if registered is None:
        raise ValidationError(
            f"function {signature.name!r} is not registered in this process"
            f"{suggest(signature.name, _registered, 'registered functions:')}; import the module that registers it"
        )
    if registered.signature != signature:
        raise ValidationError(
            f"function {signature.name!r} was {signature} when the query was checked, but is now registered as "
            f"{registered.signature}; create the query again"
        )
    return registered


# ------------------------------------------------------------------------ checks


def _name(python: Any, name: str | None) -> str:
    if not isinstance(python, FunctionType):
        remedy = "define a function with def that calls it"
        if hasattr(python, "py_func"):
            remedy = "use @fastcep.function instead of @njit: fastcep compiles it itself, with checks"
        raise ValidationError(f"found {python!r}, expected a Python function; {remedy}")
    checks = inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction
    if any(check(python) for check in checks):
        raise ValidationError(f"function {python.__name__!r} must return a number; it cannot be a generator or async")
    label = python.__name__ if name is None else name
    if label == "<lambda>":
        raise ValidationError("a lambda has no name; pass name='…'")
    if not isinstance(label, str) or not _NAME.fullmatch(label):
        raise ValidationError(f"{label!r} is not a valid name; expected letters, digits and _, as in 'distance'")
    lower_name = label.lower()
    if lower_name in (*FUNCTIONS, "prev") or label.upper() in AGGREGATES:
        raise ValidationError(f"{label!r} is a built-in function (in any case); choose another name with name='…'")
    if lower_name in KEYWORDS:
        raise ValidationError(f"{label!r} is a keyword of the language; choose another name with name='…'")
    return label


def _signature(text: str, name: str) -> ast.Signature:
    parts = re.fullmatch(r"\s*(\w+)\s*\(\s*([\w\s,]*?)\s*\)\s*", text)
    if parts is None:
        raise ValidationError(
            f"function {name!r}: {text!r} is not a signature; expected result(arguments), such as 'float64(int64)'"
        )
    parameters = tuple(word.strip() for word in parts[2].split(",")) if parts[2] else ()
    for dtype in (parts[1], *parameters):
        if dtype not in _DTYPES:
            raise ValidationError(
                f"function {name!r}: unknown dtype {dtype!r} in {text!r}{suggest(dtype, _DTYPES, 'the dtypes are')}"
            )
    if not 1 <= len(parameters) <= MAX_ARGUMENTS:
        raise ValidationError(
            f"function {name!r} has {len(parameters)} arguments; expected 1 to {MAX_ARGUMENTS}"
            + ("" if parameters else ": a function without arguments is a constant, which you can write in the query")
        )
    return ast.Signature(name, parameters, parts[1])


def _check_parameters(python: FunctionType, signature: ast.Signature) -> None:
    python_signature = inspect.signature(python)
    parameters = python_signature.parameters.values()
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    if any(parameter.kind not in positional for parameter in parameters):
        raise ValidationError(f"function {signature.name!r}: list its arguments one by one, without * and **")
    if len(parameters) != len(signature.parameters):
        raise ValidationError(
            f"function {signature.name!r} is defined with {len(parameters)} arguments, {python_signature}, but its "
            f"signature {signature} has {len(signature.parameters)}; list all of them, including those with a default"
        )


def _same(one: Function, other: Function) -> bool:
    """Return whether two functions are equal, as when a module is reloaded or a notebook cell is run twice."""
    left, right = one.python, other.python
    return (
        one.signature == other.signature
        and _code_key(left) == _code_key(right)
        and all(map(_equal, _values(left), _values(right)))
    )


def _code_key(python: FunctionType) -> tuple[Any, ...]:
    code = python.__code__
    parts = code.co_code, code.co_consts, code.co_names, code.co_varnames, code.co_freevars
    return (python.__module__, python.__qualname__, *parts, len(_values(python)))


def _values(python: FunctionType) -> list[Any]:
    """Return the defaults and the closure of a function; a cell can still be empty when the decorator runs."""
    values = list(python.__defaults__ or ())
    for cell in python.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:
            values.append(None)
    return values


def _equal(one: Any, other: Any) -> bool:
    same_constant_type = type(one) is type(other) and isinstance(one, int | float | str | bool | None)
    return one is other or (same_constant_type and bool(one == other))
