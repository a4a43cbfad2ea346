"""Import modules of packages that fastcep does not require, such as those of the extra ``fastcep[degree]``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fastcep.errors import ValidationError

__all__ = ["load"]

#: Packages by extra.
_PACKAGES = {"degree": ("scipy", "statsmodels", "simpy", "threadpoolctl")}


def load(module: str, purpose: str = "the number of instances", extra: str | None = "degree") -> Any:
    """Return a module.

    Parameters
    ----------
    module
        Its name.
    purpose
        What it is for, to begin the message of an error.
    extra
        Name of the extra that has the packages which the module imports. None: the module is a package by itself.

    Raises
    ------
    ValidationError
        If the package, or one of the extra, is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        packages, remedy = ((module,), module) if extra is None else (_PACKAGES[extra], f"'fastcep[{extra}]'")
        if (error.name or "").split(".")[0] not in packages:
            raise
        raise ValidationError(f"{purpose} needs {error.name}; install it with: pip install {remedy}") from None
