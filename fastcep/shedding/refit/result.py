"""Result of a fit on the recent events of a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from fastcep.shedding.model import Model

__all__ = ["FitResult", "fit_function"]


@dataclass(frozen=True)
class FitResult:
    """Result for one query.

    Attributes
    ----------
    model
        The new model, if it is to be used; otherwise None.
    measured
        What the fit measured, by name, such as the held-out recall of the model.
    why
        The reason why there is no model, or empty.
    """

    model: Model | None = None
    measured: Mapping[str, float] = field(default_factory=dict)
    why: str = ""


def fit_function(place: str) -> Callable[..., Mapping[str, FitResult]]:
    """Return the function at a place such as ``"package.module:function"``.

    It is given as text because another process imports it. Its arguments are the queries, the recorded events
    (pyarrow.Table), the models in use by name of the query, cost table, index option and seed; it returns a result for
    each query by name.
    """
    module, _, name = place.partition(":")
    function: Callable[..., Mapping[str, FitResult]] = getattr(import_module(module), name)
    return function
