"""The user's functions that queries call, on their way to processes that do not have them."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

from fastcep.errors import ValidationError
from fastcep.query import ast
from fastcep.query.registry import find, function, functions

__all__ = ["NO_FUNCTIONS", "Shipped", "all_shipped", "by_value", "pickled", "shipped"]

#: The code of those that this process has by now, by name.
_there: dict[str, bytes] = {}


@dataclass(frozen=True)
class Shipped:
    """Functions with their code, as bytes: other machines need not have the modules that they are from.

    Attributes
    ----------
    functions
        Of each its name, its code, and its signature.
    """

    functions: tuple[tuple[str, bytes, str], ...] = ()

    def register(self) -> None:
        """Let queries of this process call them."""
        for name, code, signature in self.functions:
            known = find(name)
            if known is None or str(known) != signature or _there.get(name) != code:
                function(signature, name=name, replace=True)(pickle.loads(code))
                _there[name] = code


NO_FUNCTIONS = Shipped()


def shipped(query: ast.Query) -> Shipped:
    """Those that a query calls.

    Raises
    ------
    ValidationError
        If one cannot be pickled.
    """
    nodes = (node for expression in ast.expressions(query) for node in ast.walk(expression))
    return _shipped({node.signature.name for node in nodes if isinstance(node, ast.UserCall)})


def all_shipped() -> Shipped:
    """All that there are; errors as from `shipped`."""
    return _shipped(functions())


def _shipped(names: Iterable[str]) -> Shipped:
    known = functions()
    return Shipped(tuple((name, _code(name), str(known[name].signature)) for name in sorted(names)))


def _code(name: str) -> bytes:
    python = functions()[name].python
    with by_value([python]):
        code = pickled(python, f"function {name!r}", "let it")
    _there[name] = code
    return code


def pickled(thing: Any, what: str, let: str, other: str = "") -> bytes:
    """By value what is of the program itself, which other machines do not have; the other arguments are for errors.

    Raises
    ------
    ValidationError
        If it cannot be pickled.
    """
    from pyspark import cloudpickle

    try:
        return cast("bytes", cast("Any", cloudpickle).dumps(thing))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValidationError(
            f"{what} cannot be sent to other machines ({error}); {let} hold nothing of this process, such as open "
            f"files and locks{other}"
        ) from None


@contextmanager
def by_value(pythons: Iterable[Callable[..., Any]]) -> Iterator[None]:
    """Have the modules of functions pickled with their code."""
    from pyspark import cloudpickle

    pickles: Any = cloudpickle
    found = {sys.modules.get(python.__module__) for python in pythons}
    modules: set[ModuleType] = {module for module in found if module is not None}
    with ExitStack() as stack:
        for module in modules:
            if module.__name__ != "__main__" and module.__name__ not in pickles.list_registry_pickle_by_value():
                pickles.register_pickle_by_value(module)
                stack.callback(pickles.unregister_pickle_by_value, module)
        yield
