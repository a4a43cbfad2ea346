"""Import modules that need the packages of an extra, such as ``fastcep[degree]``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fastcep.errors import ValidationError

__all__ = ["load"]

#: Packages by extra.
_PACKAGES = {"degree": ("scipy", "statsmodels", "simpy", "threadpoolctl")}


def load(module: str, purpose: str = "the number of instances", extra: str = "degree") -> Any:
    """Return a module.

    Parameters
    ----------
    module
        Its name.
    purpose
        What it is for, to begin the message of an error.
    extra
        Name of the extra that has the packages which the module imports.

    Raises
    ------
    ValidationError
        If a package of the extra is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _PACKAGES[extra]:
            raise
        raise ValidationError(
            f"{purpose} needs {error.name}; install it with: pip install 'fastcep[{extra}]'"
        ) from None
