"""The model of hybrid shedding: how classes are told apart, and how one comes of the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

import pyarrow as pa

from fastcep.engine.overload.costs import CostTable
from fastcep.engine.overload.protocols import Classes, Tree
from fastcep.query import ast
from fastcep.shedding.hybrid.flow import Flow

__all__ = ["HybridModel"]


@dataclass(frozen=True)
class HybridModel:
    """A model of one query.

    Attributes
    ----------
    query
        That it was fitted for.
    classes, event_classes
        By variable how the partial matches that have bound it last are told apart, and the events that may be bound to
        it; those of a variable that is not there are all of one class.
    flow
        How partial matches come of each other.
    values
        What classes are worth, for people: a row per variable and class.
    prices
        What operations cost.
    parameters
        Of the fit.
    """

    query: ast.Query
    classes: Mapping[str, Classes | Tree]
    event_classes: Mapping[str, Classes | Tree]
    flow: Flow
    values: pa.Table
    prices: CostTable
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def hash(self) -> str:
        """Of all that decides what is shed."""
        return "todo"

    def check(self, query: ast.Query) -> None:
        """Refuse another query."""

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> HybridModel:
        """Read."""
        raise NotImplementedError
