"""Functions that conditions may call: the built-in names, and the allow-list of the user's own.

A user's function is an ordinary Python function of numbers. Numba compiles it when an engine first needs it (see
:mod:`fastcep.query.native`); queries and plans hold only its `Signature`.
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
from fastcep.query.printer import KEYWORDS
from fastcep.query.source import suggest
from fastcep.query.terms import Term, node_of
from fastcep.query.user_function import UserFunction

if TYPE_CHECKING:
    from fastcep.query.native import Native

__all__ = ["AGGREGATES", "FUNCTIONS", "MAX_ARGUMENTS", "Function", "find", "function", "functions", "native_of"]

AGGREGATES = ("AVG", "SUM", "MIN", "MAX", "COUNT", "STDDEV")
# Built-in scalar functions: the least and the greatest number of arguments (None: any).
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "abs": (1, 1), "sqrt": (1, 1), "exp": (1, 1), "log": (1, 1), "floor": (1, 1),
    "min": (1, None), "max": (1, None), "avg": (1, None),
}  # fmt: skip
#: As in ``_core/program/predicate.pxd``.
MAX_ARGUMENTS = 8
_DTYPES = ("int64", "float64", "bool")
_NAME = re.compile(r"[^\W\d]\w*")

_registered: dict[str, Function] = {}
_lock = Lock()


class Function(UserFunction):
    """A function that queries may call; `function` makes it.

    Called with numbers it is the Python function; called with terms of the builder it gives a term.

    Attributes
    ----------
    name
        Its name in queries.
    signature
        The dtypes; as text, ``"float64(float64, float64)"``.
    python
        The Python function.
    """

    def __init__(self, python: FunctionType, signature: ast.Signature) -> None:
        functools.update_wrapper(self, python)
        super().__init__(python, signature)

    def __repr__(self) -> str:
        return f"<function {self.name}: {self.signature}>"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the Python function, or give a term if an argument is one."""
        if any(isinstance(argument, Term) for argument in (*arguments, *named.values())):
            if named:
                raise TypeError(f"{self.name} in a query takes its arguments by position")
            return Term(ast.UserCall(self.signature, tuple(map(node_of, arguments))))
        return self.python(*arguments, **named)

    def check(self) -> None:
        """Compile the function now (an engine that calls it does the same).

        Raises
        ------
        ValidationError
            Numba cannot compile it, or it gives another dtype than declared.
        """
        self.native()

    def native(self) -> Native:
        """Its machine code, compiled at the first call; what it reads of its module is frozen then."""
        from fastcep.query.native import compile_function

        # No lock of our own beside Numba's: two threads may both compile, and one result is kept.
        found: Native | None = self.__dict__.get("_native")
        return found or self.__dict__.setdefault("_native", compile_function(self))

    def unregister(self) -> None:
        """Take the function off the list; engines that already call it go on."""
        with _lock:
            if _registered.get(self.name) is self:
                del _registered[self.name]


def function(signature: str, *, name: str | None = None, replace: bool = False) -> Callable[[Any], Function]:
    """Register a Python function for use in queries.

    Parameters
    ----------
    signature
        Result and arguments, ``"float64(float64, float64)"``, of int64, float64 and bool; at most 8 arguments.
    name
        Its name in queries; by default the Python name.
    replace
        Whether it may take the place of another function of that name. Engines made before keep the old one.

    Returns
    -------
    Callable
        A decorator; it gives a `Function`.

    Raises
    ------
    ValidationError
        A wrong signature or name, not a plain Python function, or the name is taken.

    Notes
    -----
    The function must be *pure*: the engine calls it when, and as often as, its plan needs. A null argument gives null
    without a call. Returning None gives null. An exception gives null and is counted in ``function_errors``.
    """
    if not isinstance(signature, str):
        raise ValidationError(
            f"found {signature!r} as signature, expected a text: @fastcep.function('float64(float64, float64)')"
        )

    def register(python: Any) -> Function:
        label = _name(python, name)
        made = Function(python, _signature(signature, label))
        _fit(python, made.signature)
        with _lock:
            known = _registered.get(label)
            if known is not None and not replace and not _same(known, made):
                raise ValidationError(
                    f"a function {label!r} is registered already, with other code or another signature "
                    f"({known.signature}); choose another name, or replace=True"
                )
            _registered[label] = made
        return made

    return register


def functions() -> dict[str, Function]:
    """Give the registered functions by name, in the order of registration."""
    return dict(_registered)


def find(name: str) -> ast.Signature | None:
    """Give the signature of the function registered under ``name``, or None."""
    known = _registered.get(name)
    return None if known is None else known.signature


def native_of(signature: ast.Signature) -> Native:
    """Give the machine code of the function that a query was checked against.

    Raises
    ------
    ValidationError
        It is not registered in this process, or with other dtypes, or cannot be compiled.
    """
    known = _registered.get(signature.name)
    if known is None:
        raise ValidationError(
            f"function {signature.name!r} is not registered in this process"
            f"{suggest(signature.name, _registered, 'registered are')}; import the module that registers it first"
        )
    if known.signature != signature:
        raise ValidationError(
            f"function {signature.name!r} was {signature} when the query was checked, but is registered as "
            f"{known.signature} now; make the query again"
        )
    return known.native()


# ------------------------------------------------------------------------ checks


def _name(python: Any, name: str | None) -> str:
    if not isinstance(python, FunctionType):
        mend = "define one with def that calls it"
        if hasattr(python, "py_func"):
            mend = "use @fastcep.function instead of @njit: fastcep compiles it itself, with checks"
        raise ValidationError(f"found {python!r}, expected a Python function; {mend}")
    kinds = inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction
    if any(kind(python) for kind in kinds):
        raise ValidationError(f"function {python.__name__!r} must return a number, so it can be no generator or async")
    label = python.__name__ if name is None else name
    if label == "<lambda>":
        raise ValidationError("a lambda has no name; give name='…'")
    if not isinstance(label, str) or not _NAME.fullmatch(label):
        raise ValidationError(f"{label!r} is no name for a function; expected letters, digits and _, as in 'distance'")
    low = label.lower()
    if low in FUNCTIONS or label.upper() in AGGREGATES:
        raise ValidationError(f"{label!r} is a built-in function (in any case); choose another name with name='…'")
    if low in KEYWORDS:
        raise ValidationError(f"{label!r} is a keyword of the language; choose another name with name='…'")
    return label


def _signature(text: str, name: str) -> ast.Signature:
    parts = re.fullmatch(r"\s*(\w+)\s*\(\s*([\w\s,]*?)\s*\)\s*", text)
    if parts is None:
        raise ValidationError(
            f"function {name!r}: {text!r} is no signature; expected result(arguments), as in 'float64(float64, int64)'"
        )
    parameters = tuple(word.strip() for word in parts[2].split(",")) if parts[2] else ()
    for dtype in (parts[1], *parameters):
        if dtype == "string":
            raise ValidationError(
                f"function {name!r}: a string is no argument or result, because the engine holds strings as codes "
                "without their text; compare strings in the query itself"
            )
        if dtype not in _DTYPES:
            raise ValidationError(
                f"function {name!r}: unknown dtype {dtype!r} in {text!r}{suggest(dtype, _DTYPES, 'there are')}"
            )
    if not 1 <= len(parameters) <= MAX_ARGUMENTS:
        raise ValidationError(
            f"function {name!r} has {len(parameters)} arguments; expected 1 to {MAX_ARGUMENTS}"
            + ("" if parameters else ": without one it is a constant, which the query can hold")
        )
    return ast.Signature(name, parameters, parts[1])


def _fit(python: FunctionType, signature: ast.Signature) -> None:
    shape = inspect.signature(python)
    parts = shape.parameters.values()
    if any(part.kind not in (part.POSITIONAL_ONLY, part.POSITIONAL_OR_KEYWORD) for part in parts):
        raise ValidationError(f"function {signature.name!r}: name its arguments one by one, without * and **")
    if len(parts) != len(signature.parameters):
        raise ValidationError(
            f"function {signature.name!r} is written with {len(parts)} arguments, {shape}, but its signature "
            f"{signature} has {len(signature.parameters)}; name them all, those with a default too"
        )


def _same(one: Function, other: Function) -> bool:
    """Whether it is the same function again, as when a module is reloaded or a notebook cell is run twice."""
    mine, its = one.python, other.python
    return (
        one.signature == other.signature and _text(mine) == _text(its) and all(map(_equal, _values(mine), _values(its)))
    )


def _text(python: FunctionType) -> tuple[Any, ...]:
    code = python.__code__
    parts = code.co_code, code.co_consts, code.co_names, code.co_varnames, code.co_freevars
    return (python.__module__, python.__qualname__, *parts, len(_values(python)))


def _values(python: FunctionType) -> list[Any]:
    """Defaults and closure; a cell may still be empty when the decorator runs."""
    values = list(python.__defaults__ or ())
    for cell in python.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:
            values.append(None)
    return values


def _equal(one: Any, other: Any) -> bool:
    plain = type(one) is type(other) and isinstance(one, int | float | str | bool | None)
    return one is other or (plain and bool(one == other))
