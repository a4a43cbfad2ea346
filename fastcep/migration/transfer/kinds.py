"""The kinds of operators that can move: the cut of an operator, and the assembly of each kind."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fastcep.engine import Engine
from fastcep.errors import ValidationError
from fastcep.migration.partial_states.engine_partition import partition
from fastcep.migration.partial_states.protocol import PartialStates, StartAssembly

__all__ = ["ASSEMBLIES", "assembly_of", "check_cut", "cut", "is_partial", "suspend"]

#: Module and function that start the assembly of a kind.
ASSEMBLIES: dict[str, tuple[str, str]] = {
    "engine": ("fastcep.migration.partial_states.assembly", "EngineAssembly"),
    "aggregate": ("fastcep.migration.operators.aggregate_assembly", "start_aggregate"),
    "join": ("fastcep.migration.operators.join_assembly", "start_join"),
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
    if isinstance(operator, Engine):
        return partition(operator)
    own_cut = getattr(operator, "partial_states", None)
    if callable(own_cut):
        parts: PartialStates = own_cut()
        return parts
    raise ValidationError(
        f"operator: {type(operator).__name__} cannot be cut into partial states; expected an Engine, an "
        "operator with a method partial_states, such as WindowAggregate, or PartialStates"
    )


def suspend(operator: Any, reason: str) -> None:
    """Let an operator refuse all calls with this reason, or accept them again (``""``), if it can do that."""
    method = getattr(operator, "_suspend", None)
    if method is not None:
        method(reason)


def check_cut(states: Any, operator: Any = None) -> PartialStates:
    """Check that states can be sent, and are those of an operator at this event, as far as they know it.

    Raises
    ------
    ValidationError
        If not.
    """
    if not is_partial(states):
        raise ValidationError(f"states: {type(states).__name__}; expected those of migration.partition")
    checked: PartialStates = states
    if getattr(states, "is_used", False):
        raise ValidationError("states: they were sent before; cut the state of the operator again for each migration")
    source = getattr(states, "operator", None)
    if operator is not None and source is not None and source is not operator:
        raise ValidationError("states: they are of another operator; cut the state of this one")
    if source is not None and (now := _position_of(source)) != states.position:
        raise ValidationError(
            f"states: they are of event {states.position:,}, and the operator is at event {now:,}; cut its state "
            "again, right before it is sent"
        )
    return checked


def _position_of(operator: Any) -> int:
    """Return the number of events that an operator has received."""
    position: int = operator._transfer.received if isinstance(operator, Engine) else operator.position
    return position


def assembly_of(kind: str) -> StartAssembly | None:
    """Return the function that starts the assembly of a kind; None if the kind is unknown."""
    if kind not in ASSEMBLIES:
        return None
    module, name = ASSEMBLIES[kind]
    start: StartAssembly = getattr(import_module(module), name)
    return start
