"""Send the user functions that queries call to other processes."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

from fastcep.errors import ValidationError
from fastcep.query import ast, traversal
from fastcep.query.user_functions.registry import find, function, functions

__all__ = ["NO_FUNCTIONS", "ShippedFunctions", "by_value", "pickled", "ship_all", "ship_functions"]

#: Code of the functions that are registered in this process, by name.
_registered: dict[str, bytes] = {}


@dataclass(frozen=True)
class ShippedFunctions:
    """Functions with their pickled code: other machines need not have the modules that define them.

    Attributes
    ----------
    functions
        (name, pickled code, signature) of each function.
    """

    functions: tuple[tuple[str, bytes, str], ...] = ()

    def register(self) -> None:
        """Register the functions in this process."""
        for name, code, signature in self.functions:
            current = find(name)
            if current is None or str(current) != signature or _registered.get(name) != code:
                function(signature, name=name, replace=True)(pickle.loads(code))
                _registered[name] = code


NO_FUNCTIONS = ShippedFunctions()


def ship_functions(*queries: ast.Query) -> ShippedFunctions:
    """Pickle the functions that queries call.

    Raises
    ------
    ValidationError
        If a function cannot be pickled.
    """
    expressions = (expression for query in queries for expression in traversal.expressions(query))
    nodes = (node for expression in expressions for node in traversal.walk(expression))
    return _ship({node.signature.name for node in nodes if isinstance(node, ast.UserCall)})


def ship_all() -> ShippedFunctions:
    """Pickle all registered functions; errors as for `ship_functions`."""
    return _ship(functions())


def _ship(names: Iterable[str]) -> ShippedFunctions:
    registry = functions()
    return ShippedFunctions(tuple((name, _code(name), str(registry[name].signature)) for name in sorted(names)))


def _code(name: str) -> bytes:
    python = functions()[name].python
    with by_value([python]):
        code = pickled(python, f"function {name!r}", "make sure that it does")
    _registered[name] = code
    return code


def pickled(value: Any, description: str, advice: str, alternative: str = "") -> bytes:
    """Pickle a value; code that other machines do not have is pickled by value.

    Parameters
    ----------
    value
        Value to pickle.
    description, advice, alternative
        Parts of the error message: the name of the value, who must hold nothing of this process, another remedy.

    Raises
    ------
    ValidationError
        If the value cannot be pickled.
    """
    from pyspark import cloudpickle

    try:
        return cast("bytes", cast("Any", cloudpickle).dumps(value))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValidationError(
            f"{description} cannot be sent to other machines ({error}); {advice} not hold objects of this process, "
            f"such as open files and locks{alternative}"
        ) from None


@contextmanager
def by_value(pythons: Iterable[Callable[..., Any]]) -> Iterator[None]:
    """Pickle the modules of functions by value, with their code, inside this context."""
    from pyspark import cloudpickle

    pickles: Any = cloudpickle
    loaded = {sys.modules.get(python.__module__) for python in pythons}
    modules: set[ModuleType] = {module for module in loaded if module is not None}
    with ExitStack() as stack:
        for module in modules:
            if module.__name__ != "__main__" and module.__name__ not in pickles.list_registry_pickle_by_value():
                pickles.register_pickle_by_value(module)
                stack.callback(pickles.unregister_pickle_by_value, module)
        yield
