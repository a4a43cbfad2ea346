"""A fit on the recent events of a stream: what it gets, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

import pyarrow as pa

from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.query import ast
from fastcep.shedding.model import Model

__all__ = ["FitFunction", "FitJob", "FitResult", "fit_function"]


@dataclass(frozen=True)
class FitJob:
    """Queries to fit models for, and what to fit them on.

    Attributes
    ----------
    queries
        The queries.
    history
        Recorded events, in order.
    current
        Models in use, by name of the query.
    costs, index
        Cost table and index option of the engine.
    seed
        Seed of all random decisions.
    demand
        Share of the work that had to be saved while the history was recorded and load was shed; None if unknown.
    """

    queries: Sequence[ast.Query]
    history: pa.Table
    current: Mapping[str, Model]
    costs: CostTable
    index: Index
    seed: int
    demand: float | None = None


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
    random
        Whether random shedding is better than the model in use, which is to be used no longer.
    """

    model: Model | None = None
    measured: Mapping[str, float] = field(default_factory=dict)
    why: str = ""
    random: bool = False


#: Function that fits models, and returns a result for each query by name.
FitFunction = Callable[[FitJob], Mapping[str, FitResult]]


def fit_function(place: str) -> FitFunction:
    """Return the function at a place such as ``"package.module:function"``; another process imports it by this text."""
    module, _, name = place.partition(":")
    function: FitFunction = getattr(import_module(module), name)
    return function
