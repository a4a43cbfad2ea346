"""Options of ``fastcep run`` for several instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastcep.errors import ValidationError

if TYPE_CHECKING:
    from fastcep.parallel import Adaptation

__all__ = ["parallel_options"]

def parallel_options(
    instances: str | None, buffer_limit: int | None, probability: float | None
) -> int | Adaptation | None:
    """Return the number of instances, or how it follows the load; None: without instances.

    Raises
    ------
    ValidationError
        If an option is wrong, or given without the one that it belongs to.
    """
    from fastcep.parallel.adaptation.options import MOST_INSTANCES, Adaptation

    if instances == "auto":
        if buffer_limit is None:
            raise ValidationError("--instances auto needs --buffer-limit, the number of events that may wait")
        return Adaptation(buffer_limit, 0.95 if probability is None else probability)
    for option, value in (("--buffer-limit", buffer_limit), ("--probability", probability)):
        if value is not None:
            raise ValidationError(f"{option} needs --instances auto")
    if instances is None:
        return None
    if not instances.isdecimal() or not 1 <= int(instances) <= MOST_INSTANCES:
        raise ValidationError(f"--instances {instances}: expected a whole number from 1 to {MOST_INSTANCES}, or auto")
    return int(instances)
