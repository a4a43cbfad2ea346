"""Base class of registered functions, with the parts that the compiler of functions uses."""

from __future__ import annotations

from types import FunctionType

from fastcep.query import ast

__all__ = ["UserFunction"]


class UserFunction:
    """A Python function with declared dtypes.

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
        self.name: str = signature.name
        self.signature = signature
        self.python = python
