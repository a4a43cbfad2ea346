"""Utilities of partial states that are rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastcep.errors import ValidationError
from fastcep.migration.states import Floats, Ints

__all__ = ["NAMES", "utilities"]

#: Names of utilities; any other is a function.
NAMES = ("auto", "size", "random")


def utilities(utility: Any, seed: int, size: Ints, auto: Callable[[], Floats], call: Callable[[Any], Any]) -> Any:
    """Return the utility of each state; float64[n], or what the user's function has returned.

    Parameters
    ----------
    utility
        ``"auto"``, ``"size"`` (the size to the power of 1.5), ``"random"`` (0 to 1), or a function.
    seed
        Seed for ``"random"``.
    size
        int64[n]: sizes of the states.
    auto
        Returns the utilities of the operator.
    call
        Calls a function of the user.

    Raises
    ------
    ValidationError
        If the utility is neither a known name nor a function.
    """
    if callable(utility):
        return call(utility)
    if utility == "size":
        return np.asarray(size, np.float64) ** 1.5
    if utility == "random":
        return np.random.default_rng(seed).random(len(size))
    if utility != "auto":
        raise ValidationError(f"utility={utility!r}: expected one of {', '.join(NAMES)}, or a function")
    return auto()
