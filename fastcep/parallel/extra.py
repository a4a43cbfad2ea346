"""Import modules of the extra ``fastcep[degree]`` (SciPy, statsmodels, …), and our modules that need them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fastcep.errors import ValidationError

__all__ = ["load"]

_PACKAGES = ("scipy", "statsmodels", "simpy", "threadpoolctl")


def load(module: str) -> Any:
    """Return a module; ValidationError if a package of the extra is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _PACKAGES:
            raise
        raise ValidationError(
            f"the number of instances needs {error.name}; install it with: pip install 'fastcep[degree]'"
        ) from None
