"""The words that stand for the constants of a query's programs in one engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastcep.errors import ValidationError
from fastcep.events import StringTable
from fastcep.query import ast
from fastcep.query.registry import native_of

if TYPE_CHECKING:
    from fastcep.query.native import Native

__all__ = ["ConstantBinder"]


class ConstantBinder:
    """Gives the int64 of a constant that is no number: a string's code, the address of a user's function.

    A function is looked up once, so that a query keeps the code it began with, also when its name is registered
    anew; the linker keeps that code alive.

    Parameters
    ----------
    strings
        The engine's strings.

    Attributes
    ----------
    codes
        Codes of the strings that the query names.
    """

    def __init__(self, strings: StringTable) -> None:
        self.codes: set[int] = set()
        self._strings = strings
        self._functions: dict[ast.Signature, Native] = {}

    def __call__(self, constant: str | ast.Signature) -> int:
        """The word of ``constant``; ValidationError if a function is not there or cannot be compiled."""
        if isinstance(constant, str):
            code = self._strings.intern(constant)
            self.codes.add(code)
            return code
        found = self._functions.get(constant)
        if found is None:
            found = self._functions[constant] = native_of(constant)
        return found.address

    def prepare(self, query: ast.Query) -> None:
        """Look up every function that ``query`` calls, in RETURN too; the error names the query."""
        for expression in ast.expressions(query):
            for node in ast.walk(expression):
                if isinstance(node, ast.UserCall):
                    try:
                        self(node.signature)
                    except ValidationError as error:
                        raise ValidationError(f"query {query.name!r}: {error}") from None
