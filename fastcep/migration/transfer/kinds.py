"""The kinds of operators that can move: the cut of an operator, and the assembly of each kind."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from fastcep.errors import ValidationError
from fastcep.migration.partial_states.protocol import PartialStates, StartAssembly

__all__ = ["ASSEMBLIES", "CUTS", "assembly_of", "cut", "is_partial", "retire"]

#: Module and function that start the assembly of a kind.
ASSEMBLIES: dict[str, tuple[str, str]] = {
    "engine": ("fastcep.migration.partial_states.assembly", "EngineAssembly"),
    "aggregate": ("fastcep.migration.operators.aggregate_assembly", "start_aggregate"),
    "join": ("fastcep.migration.operators.join_assembly", "start_join"),
}
#: Module and function that cut an operator, by module and class of the operator.
CUTS: dict[tuple[str, str], tuple[str, str]] = {
    ("fastcep.engine.engine", "Engine"): ("fastcep.migration.partial_states.engine_partition", "partition"),
    ("fastcep.migration.operators.aggregate", "WindowAggregate"): ("fastcep.migration.operators", "cut"),
    ("fastcep.migration.operators.join", "WindowJoin"): ("fastcep.migration.operators", "cut"),
}

_PARTS = ("kind", "states", "position", "base", "encode")


def is_partial(value: object) -> bool:
    """Return whether a value is `PartialStates`."""
    return all(hasattr(value, name) for name in _PARTS)


def cut(operator: Any) -> PartialStates:
    """Return the state of an operator, or the value itself if it is already cut.

    Raises
    ------
    ValidationError
        If operators of this class cannot be cut.
    """
    if is_partial(operator):
        states: PartialStates = operator
        return states
    for base in type(operator).__mro__:
        if (base.__module__, base.__qualname__) in CUTS:
            cut_it: Callable[[Any], PartialStates] = _load(*CUTS[base.__module__, base.__qualname__])
            return cut_it(operator)
    raise ValidationError(
        f"operator: {type(operator).__name__} cannot be cut into partial states; expected an operator of "
        "fastcep.migration, an Engine, or PartialStates"
    )


def retire(operator: Any) -> None:
    """Let an operator whose state has moved refuse further events, if it can do that."""
    if type(operator).__module__ == "fastcep.engine.engine":
        operator._transfer.retire()


def assembly_of(kind: str) -> StartAssembly | None:
    """Return the function that starts the assembly of a kind; None if the kind is unknown."""
    if kind not in ASSEMBLIES:
        return None
    start: StartAssembly = _load(*ASSEMBLIES[kind])
    return start


def _load(module: str, name: str) -> Any:
    return getattr(import_module(module), name)
