"""Import modules on first use, and those of packages that fastcep does not require, such as ``fastcep[degree]``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from fastcep.errors import ValidationError

__all__ = ["load", "load_name"]

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


def load_name(package: str, module_of: Mapping[str, str], name: str) -> Any:
    """Return a name of a package, for its ``__getattr__``; the module that defines the name is imported on first use.

    Parameters
    ----------
    package
        The package.
    module_of
        For each name, the module of the package that defines it.
    name
        The name.

    Raises
    ------
    AttributeError
        If the package does not have the name.
    ValidationError
        If a package of the extra ``degree`` is not installed.
    """
    if name not in module_of:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    value = getattr(load(f"{package}.{module_of[name]}"), name)
    setattr(sys.modules[package], name, value)
    return value
