"""Bind the constants of a query's programs to int64 words of one engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fastcep.engine.text_results import Results, results_of
from fastcep.engine.zone_tables import zone_table
from fastcep.errors import ValidationError
from fastcep.events import StringTable
from fastcep.plan.calendar import Zone
from fastcep.plan.text import TextCall, has_texts
from fastcep.query import ast, traversal
from fastcep.query.user_functions.registry import native_of, python_of

if TYPE_CHECKING:
    from fastcep.query.user_functions.native import Native

__all__ = ["ConstantBinder"]


class ConstantBinder:
    """Map constants that are not numbers to int64 words: a string to its code, a user's function to its address, and a
    function of strings or a time zone to the address of its table.

    A function is looked up once. So a query keeps the code that it started with, even if the name is registered
    again later; this object keeps that code alive.

    Parameters
    ----------
    strings
        The string table of the engine.

    Attributes
    ----------
    codes
        Codes of the strings in the query.
    """

    def __init__(self, strings: StringTable) -> None:
        self.codes: set[int] = set()
        self._strings = strings
        self._functions: dict[ast.Signature, Native] = {}
        self._zones: dict[Zone, npt.NDArray[np.int64]] = {}
        self._texts: dict[TextCall, Results] = {}

    def __call__(self, constant: str | ast.Signature | TextCall | Zone) -> int:
        """Return the word of ``constant``; `ValidationError` if a function is not registered or cannot be compiled."""
        if isinstance(constant, str):
            code = self._strings.intern(constant)
            self.codes.add(code)
            return code
        if isinstance(constant, TextCall):
            results = self._texts.get(constant)
            if results is None:
                results = self._texts[constant] = results_of(constant, self._strings)
            return results.address
        if isinstance(constant, Zone):
            table = self._zones[constant] = zone_table(constant)
            return table.ctypes.data
        function = self._functions.get(constant)
        if function is None:
            function = self._functions[constant] = native_of(constant)
        return function.address

    def prepare(self, query: ast.Query) -> None:
        """Look up every function that ``query`` calls, including those in RETURN; the error names the query."""
        for expression in traversal.expressions(query):
            for node in traversal.walk(expression):
                if isinstance(node, ast.UserCall):
                    try:
                        if has_texts(node.signature):
                            python_of(node.signature)
                        else:
                            self(node.signature)
                    except ValidationError as error:
                        raise ValidationError(f"query {query.name!r}: {error}") from None
