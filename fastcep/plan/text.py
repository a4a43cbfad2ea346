"""Functions of strings in a plan.

Strings are codes in the engine, and nothing about a code says what its string is. A call whose only argument that
differs between rows is a string becomes a ``text`` operation: a look-up in a table by code, whose entries are computed
in Python at the first look-up. Other calls become a ``call`` operation of a Python function with a memory of its
results. Nested calls become one operation, unless it would have more than `MAX_ARGUMENTS` arguments that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fastcep.plan.ir import Op, const
from fastcep.query import ast
from fastcep.query.printer import expression_text
from fastcep.query.text_functions import FUNCTIONS
from fastcep.query.user_functions.registry import MAX_ARGUMENTS

__all__ = ["TextCall", "compare_texts", "has_texts", "text_call"]

_INFIX = {"like": "LIKE", "<": "<", "<=": "<="}


@dataclass(frozen=True, slots=True)
class Place:
    """An argument that differs between rows: its number and its physical dtype."""

    number: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Constant:
    """An argument that is the same for all rows."""

    value: int | float | str | bool


Argument: TypeAlias = "Place | Constant | TextCall"


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call of a function of strings; null if any argument is.

    Attributes
    ----------
    function
        Name in `fastcep.query.text_functions.FUNCTIONS`, or the signature of a registered function.
    arguments
        Constants, places and inner calls.
    result
        Physical dtype of the result.
    """

    function: str | ast.Signature
    arguments: tuple[Argument, ...]
    result: str

    def value(self, values: Sequence[Any], functions: Callable[[ast.Signature], Callable[..., Any]]) -> Any:
        """Return the result for the values of the places; None is null. May raise what a registered function raises."""
        arguments = []
        for argument in self.arguments:
            value = (
                argument.value(values, functions)
                if isinstance(argument, TextCall)
                else values[argument.number]
                if isinstance(argument, Place)
                else argument.value
            )
            if value is None:
                return None
            arguments.append(value)
        if isinstance(self.function, str):
            return FUNCTIONS[self.function](*arguments)
        pairs = zip(arguments, self.function.parameters, strict=True)
        result = functions(self.function)(*(float(value) if dtype == "float64" else value for value, dtype in pairs))
        return None if result is None else _RESULTS[self.function.result](result)

    def signatures(self) -> Iterator[ast.Signature]:
        """Yield the registered functions that the call uses."""
        if isinstance(self.function, ast.Signature):
            yield self.function
        for argument in self.arguments:
            if isinstance(argument, TextCall):
                yield from argument.signatures()

    def places(self) -> list[str]:
        """Return the physical dtypes of the places, by number."""
        dtypes = self._places()
        return [dtypes[number] for number in range(len(dtypes))]

    def _places(self) -> dict[int, str]:
        dtypes: dict[int, str] = {}
        for argument in self.arguments:
            if isinstance(argument, Place):
                dtypes[argument.number] = argument.dtype
            elif isinstance(argument, TextCall):
                dtypes |= argument._places()
        return dtypes

    def text(self, operands: Sequence[str]) -> str:
        """Return the call in the language, given the texts of the places."""
        texts = [
            argument.text(operands)
            if isinstance(argument, TextCall)
            else operands[argument.number]
            if isinstance(argument, Place)
            else expression_text(ast.Literal(argument.value))
            for argument in self.arguments
        ]
        if isinstance(self.function, ast.Signature):
            return f"{self.function.name}({', '.join(texts)})"
        if self.function in _INFIX:
            escape = f" ESCAPE {texts[2]}" if len(texts) > 2 else ""
            return f"({texts[0]} {_INFIX[self.function]} {texts[1]}{escape})"
        return f"{self.function}({', '.join(texts)})"


def _typed(kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if kind is float and isinstance(value, int):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TypeError(f"the result {value!r} is not of the type {kind.__name__}")
        return value

    return convert


_RESULTS = {"int64": _typed(int), "float64": _typed(float), "bool": _typed(bool), "string": _typed(str)}


def has_texts(signature: ast.Signature) -> bool:
    """Return whether a registered function takes or returns strings."""
    return "string" in (*signature.parameters, signature.result)


def text_call(function: str | ast.Signature, arguments: Sequence[Op], result: str) -> Op:
    """Return a call of a function of strings; ``result`` is its physical dtype."""
    if any(argument.name == "const" and argument.data[0] is None for argument in arguments):
        return const(None, result)
    operands: list[Op] = []
    call = TextCall(function, tuple(_argument(argument, operands) for argument in arguments), result)
    if len(operands) > MAX_ARGUMENTS:  # too many for one call: the inner calls stay operations of their own
        operands = []
        call = TextCall(function, tuple(_plain(argument, operands) for argument in arguments), result)
    if not operands:  # constants only
        if isinstance(function, str):
            return const(call.value((), _unknown), result)
        operands.append(const(arguments[0].data[0], arguments[0].dtype))
        call = TextCall(function, (Place(0, operands[0].dtype), *call.arguments[1:]), result)
    name = "text" if [operand.dtype for operand in operands] == ["s"] else "call"
    return Op(name, result, tuple(operands), (call,))


def compare_texts(operator: str, left: Op, right: Op) -> Op:
    """Return ``left operator right`` for strings, with the operator ``lt`` or ``le``."""
    return text_call({"lt": "<", "le": "<="}[operator], (left, right), "b")


def _argument(argument: Op, operands: list[Op]) -> Argument:
    """Return an argument of a call; add the operands that it needs."""
    inner = argument.data[0] if argument.name in ("text", "call") else None
    if isinstance(inner, TextCall):
        numbers = [_number(operand, operands) for operand in argument.args]
        return _renumbered(inner, numbers)
    return _plain(argument, operands)


def _plain(argument: Op, operands: list[Op]) -> Argument:
    """Return an argument of a call that is a constant or the value of one operand; add that operand."""
    if argument.name == "const":
        return Constant(argument.data[0])
    return Place(_number(argument, operands), argument.dtype)


def _number(operand: Op, operands: list[Op]) -> int:
    if operand not in operands:
        operands.append(operand)
    return operands.index(operand)


def _renumbered(call: TextCall, numbers: Sequence[int]) -> TextCall:
    arguments: list[Argument] = []
    for argument in call.arguments:
        if isinstance(argument, Place):
            argument = Place(numbers[argument.number], argument.dtype)
        elif isinstance(argument, TextCall):
            argument = _renumbered(argument, numbers)
        arguments.append(argument)
    return TextCall(call.function, tuple(arguments), call.result)


def _unknown(signature: ast.Signature) -> Callable[..., Any]:
    raise AssertionError(signature)
