"""Import modules of the extra ``fastcep[degree]`` that the simulation needs: SimPy."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fastcep.errors import ValidationError

__all__ = ["load"]


def load(module: str) -> Any:
    """Return a module; ValidationError if SimPy is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "simpy":
            raise
        raise ValidationError(
            f"the simulation of a migration needs {error.name}; install it with: pip install 'fastcep[degree]'"
        ) from None
