"""Compile registered functions to machine code with Numba; imported when the first function is compiled.

Every function gets the C signature ``int f(const int64_t *arguments, int64_t *result)``. An int64 is passed as it is, a
float64 as its bits and a bool as 0 or 1. The function returns `VALUE`, `RAISED` (an exception was raised and caught) or
`NULL` (the Python function returned None). It needs no GIL, raises nothing and prints nothing.

Where Numba leaves the choice, functions are compiled with Python's rules: a division by zero and an index out of
bounds raise. Machine code cannot survive a stack overflow, so recursion is rejected.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
from numba import types
from numba.core import errors, ir, untyped_passes
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.dispatcher import LiftedCode
from numba.extending import intrinsic, typeof_impl

from fastcep.errors import ValidationError
from fastcep.query.user_functions.user_function import UserFunction

__all__ = ["NULL", "RAISED", "VALUE", "Native", "compile_function"]

VALUE, RAISED, NULL = 0, 1, 2
_TYPES = {"int64": types.int64, "float64": types.float64, "bool": types.boolean}
_POINTER = types.CPointer(types.int64)
_REMEDY = (
    "use only numbers, bools, tuples, NumPy arrays, loops, the functions of math, and functions that are registered or "
    "decorated with @numba.njit"
)


@dataclass(frozen=True, slots=True)
class Native:
    """Machine code at ``address``; the address is valid as long as ``code`` exists."""

    address: int
    code: Any


@register_pass(mutates_CFG=False, analysis_only=False)
class _PlainRaises(FunctionPass):  # type: ignore[misc]  # Numba has no types
    """Drop the values of ``raise Error(values)``: they are unused, and Numba would leak their memory at each raise."""

    _name = "fastcep_plain_raises"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        static_raises = {ir.DynamicRaise: ir.StaticRaise, ir.DynamicTryRaise: ir.StaticTryRaise}
        changed = False
        for block in state.func_ir.blocks.values():
            for index, statement in enumerate(block.body):
                if type(statement) in static_raises:
                    block.body[index] = static_raises[type(statement)](statement.exc_class, None, statement.loc)
                    changed = True
        return changed


class _Compiler(CompilerBase):  # type: ignore[misc]
    def define_pipelines(self) -> list[Any]:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.add_pass_after(_PlainRaises, untyped_passes.RewriteDynamicRaises)
        manager.finalize()
        return [manager]


def _dispatcher(function: UserFunction) -> Any:
    """Return Numba's dispatcher for the function."""
    dispatcher = function.__dict__.get("_dispatcher")
    if dispatcher is not None:
        return dispatcher
    options = {"error_model": "python", "boundscheck": True, "pipeline_class": _Compiler}
    return function.__dict__.setdefault("_dispatcher", numba.njit(**options)(function.python))


@typeof_impl.register(UserFunction)  # type: ignore[untyped-decorator]
def _typeof(function: UserFunction, context: Any) -> Any:
    """Let functions call each other by their names in Python."""
    return types.Dispatcher(_dispatcher(function))


@intrinsic  # type: ignore[untyped-decorator]
def _as_float(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


def _as_word(kind: Any) -> Any:
    """Return an intrinsic that casts a result to ``kind`` and then to int64; an optional result must hold a value."""

    @intrinsic  # type: ignore[untyped-decorator]
    def as_word(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            typed = context.cast(builder, values[0], signature.args[0], kind)
            if kind == types.float64:
                return builder.bitcast(typed, context.get_value_type(types.int64))
            return context.cast(builder, typed, kind, types.int64)

        return types.int64(value), generate

    return as_word


def compile_function(function: UserFunction) -> Native:
    """Compile ``function`` for its signature.

    Raises
    ------
    ValidationError
        Numba cannot compile the function, it is recursive, or its result has another dtype than declared.
    """
    if numba.config.DISABLE_JIT:
        raise ValidationError(
            f"function {function.name!r} must be compiled, but NUMBA_DISABLE_JIT is set; unset it to use the function"
        )
    kinds = tuple(_TYPES[dtype] for dtype in function.signature.parameters)
    dispatcher = _dispatcher(function)
    try:
        dispatcher.compile(kinds)
    except Exception as error:  # Numba raises many types of exceptions for unsupported code
        raise _compile_error(function, error) from None
    overload = dispatcher.overloads[kinds]
    _check_result(function, overload.signature.return_type)
    _check_calls(function, overload, set())
    code = _wrap(function, dispatcher)
    return Native(code.address, (code, dispatcher))


def _wrap(function: UserFunction, dispatcher: Any) -> Any:
    """Wrap a compiled function in the C signature; dtypes differ only in how an argument is read."""
    forms = {"int64": "words[{}]", "float64": "as_float(words[{}])", "bool": "words[{}] != 0"}
    arguments = ", ".join(forms[dtype].format(k) for k, dtype in enumerate(function.signature.parameters))
    source = (
        "def call(words, result):\n"
        "    try:\n"
        f"        value = function({arguments})\n"
        "        if value is None:\n"
        f"            return {NULL}\n"
        "        result[0] = as_word(value)\n"
        "    except Exception:\n"
        f"        return {RAISED}\n"
        f"    return {VALUE}\n"
    )
    as_word = _as_word(_TYPES[function.signature.result])
    names: dict[str, Any] = {"function": dispatcher, "as_float": _as_float, "as_word": as_word}
    exec(source, names)
    wrap: Callable[[Any], Any] = numba.cfunc(types.int32(_POINTER, _POINTER), error_model="python")
    return wrap(names["call"])


# ------------------------------------------------------------------------ checks


def _check_result(function: UserFunction, result: Any) -> None:
    """Reject a result whose conversion to the declared dtype loses information."""
    declared = function.signature.result
    kind = types.unliteral(result.type if isinstance(result, types.Optional) else result)
    is_integer = isinstance(kind, types.Integer) and (kind.signed or kind.bitwidth < 64)
    fits = {
        "int64": is_integer,
        "float64": is_integer or (isinstance(kind, types.Float) and kind.bitwidth <= 64),
        "bool": isinstance(kind, types.Boolean),
    }
    if fits[declared]:
        return
    remedies = {"int64": "return int(…)", "float64": "return float(…)", "bool": "return a comparison"}
    returned = "None" if kind == types.none else str(kind)
    raise ValidationError(
        f"function {function.name!r} is declared as {function.signature}, but it returns {returned} "
        f"({_place(function, None, None)}); {remedies[declared]}, or declare another result"
    )


def _check_calls(function: UserFunction, overload: Any, seen: set[int]) -> None:
    """Reject recursion and Python code inside compiled code, in ``function`` and in all functions that it calls."""
    annotation = overload.type_annotation
    if id(overload) in seen or isinstance(annotation, str):  # a text if loaded from Numba's cache
        return
    seen.add(id(overload))
    for kind in annotation.typemap.values():
        if isinstance(kind, types.RecursiveCall):
            raise ValidationError(
                f"function {function.name!r} is recursive ({_place(function, None, None)}): a stack overflow would end "
                "the process; write it as a loop"
            )
        if isinstance(kind, types.Dispatcher):
            if isinstance(kind.dispatcher, LiftedCode):
                raise ValidationError(
                    f"function {function.name!r} runs Python code in objmode ({_place(function, None, None)}), which "
                    f"is not possible in conditions; {_REMEDY}"
                )
            for called in kind.dispatcher.overloads.values():
                _check_calls(function, called, seen)


def _compile_error(function: UserFunction, error: Exception) -> ValidationError:
    """Convert Numba's error into one line: the first reason, and the line of code at fault."""
    lines = [line.strip() for line in str(error).splitlines()]
    useful = [line for line in lines if line and not line.startswith(("Failed in ", "- Resolution failure"))]
    reason = re.sub(r"\s*Raised from .*$", "", useful[0]).rstrip(".") if useful else type(error).__name__
    if "exception_match" in reason:
        reason = "Numba supports only 'except Exception'"
    elif reason.endswith("signature:"):  # "No implementation of function … found for signature:"
        call = next((line.removeprefix(">>> ") for line in useful if line.startswith(">>> ")), "")
        reason = f"Numba has no {call}"
    file, line = None, None
    place = getattr(error, "loc", None) if isinstance(error, errors.NumbaError) else None
    if place is not None and place.line:
        file, line = place.filename, place.line
    else:
        match = re.search(r'File "[^"]*", line (\d+)|\((\d+)\)', str(error))
        line = int(match[1] or match[2]) if match else None
    return ValidationError(
        f"function {function.name!r} cannot be compiled by Numba: {_place(function, file, line)}: {reason}; {_REMEDY}"
    )


def _place(function: UserFunction, file: str | None, line: int | None) -> str:
    """Return ``file, line 3, `code```; the default is the function's first line."""
    code = function.python.__code__
    file, line = file or code.co_filename, line or code.co_firstlineno
    text = linecache.getline(file, line).strip()
    return f"{file}, line {line}" + (f", `{text}`" if text and not text.startswith("@") else "")
