"""Results of functions of strings, by the codes of an engine's strings."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from fastcep._core.program.text_table import ERROR, NULL_RESULT, VALUE, TextTable
from fastcep.events import StringTable
from fastcep.events.units import INT64_MAX, INT64_MIN
from fastcep.plan.text import TextCall
from fastcep.query import ast
from fastcep.query.user_functions.registry import python_of

__all__ = ["Results", "results_of"]

#: Number of results of a function of several arguments that are kept.
MAX_RESULTS = 1 << 16
Functions: TypeAlias = "dict[ast.Signature, Callable[..., Any]]"
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64))
#: Statuses of a user function, by the state of its result (`UserFunction` in machine.pxd).
_STATUS = {VALUE: 0, ERROR: 1, NULL_RESULT: 2}


class Results(Protocol):
    """Results that programs reach by an address, valid as long as this object exists."""

    @property
    def address(self) -> int:
        """Address for programs."""


def results_of(call: TextCall, strings: StringTable) -> Results:
    """Return the results of ``call`` for an engine with the table ``strings``; calls that are equal share them.

    Raises
    ------
    ValidationError
        The call uses a function that is not registered.
    """
    functions: Functions = {signature: python_of(signature) for signature in call.signatures()}
    key = (call, tuple(map(id, functions.values())))
    existing: Any = strings.derived.get(key)
    if existing is not None:
        return existing  # type: ignore[no-any-return]
    made = _ByCode(call, strings, functions) if call.places() == ["s"] else _ByArguments(call, strings, functions)
    strings.derived[key] = made
    return made


class _Function:
    """A call with the Python functions that it uses.

    Parameters
    ----------
    call
        The call.
    strings
        The string table of the engine.
    functions
        The registered functions that it uses.
    """

    def __init__(self, call: TextCall, strings: StringTable, functions: Functions) -> None:
        self.call = call
        self.strings = strings
        self.functions = functions

    def result(self, values: list[Any]) -> tuple[int, int]:
        """Return the state and the word of the result for the values of the places."""
        try:
            value = self.call.value(values, self.functions.__getitem__)
        except Exception:
            return ERROR, 0
        if value is None:
            return NULL_RESULT, 0
        if isinstance(value, str):
            return VALUE, self.strings.intern(value)
        if isinstance(value, float):
            return VALUE, int.from_bytes(struct.pack("<d", value), "little", signed=True)
        return (VALUE, int(value)) if INT64_MIN <= value <= INT64_MAX else (ERROR, 0)


class _ByCode(_Function):
    """The results of a call with one string, in a table by code."""

    def __init__(self, call: TextCall, strings: StringTable, functions: Functions) -> None:
        super().__init__(call, strings, functions)
        self._table = TextTable(self._compute)

    @property
    def address(self) -> int:
        return self._table.address

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._table.nbytes

    def clear(self) -> None:
        """Forget all results."""
        self._table.clear()

    def _compute(self, code: int) -> tuple[int, int] | None:
        try:
            text = self.strings.lookup(code)
        except KeyError:
            return None
        return self.result([text])


class _ByArguments(_Function):
    """The results of a call with other arguments, in a dict that is cleared when it is full."""

    def __init__(self, call: TextCall, strings: StringTable, functions: Functions) -> None:
        super().__init__(call, strings, functions)
        self._dtypes = call.places()
        self._results: dict[tuple[int, ...], tuple[int, int]] = {}
        self._native = _FUNCTION(self._run)

    @property
    def address(self) -> int:
        return ctypes.cast(self._native, ctypes.c_void_p).value or 0

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes: of the dict, and of the key and the result of each entry."""
        entry = 2 * sys.getsizeof((0, 0)) + 3 * sys.getsizeof(1 << 40)
        return sys.getsizeof(self._results) + entry * len(self._results)

    def clear(self) -> None:
        """Forget all results."""
        self._results = {}

    def _run(self, arguments: Any, result: Any) -> int:
        key = tuple(arguments[: len(self._dtypes)])
        known = self._results.get(key)
        if known is None:
            known = self.result([self._value(word, dtype) for word, dtype in zip(key, self._dtypes, strict=True)])
            if len(self._results) >= MAX_RESULTS:
                self.clear()
            self._results[key] = known
        result[0] = known[1]
        return _STATUS[known[0]]

    def _value(self, word: int, dtype: str) -> Any:
        if dtype == "s":
            return self.strings.lookup(word)
        if dtype == "f":
            return struct.unpack("<d", struct.pack("<q", word))[0]
        return bool(word) if dtype == "b" else word
