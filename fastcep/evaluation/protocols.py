"""Protocols of strategies that can be evaluated besides named shedders."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from fastcep.option_types import Index
from fastcep.overload.protocols import Shedder
from fastcep.query import ast

if TYPE_CHECKING:
    from fastcep.evaluation.outcome import Outcome
    from fastcep.evaluation.setting import Setting
    from fastcep.evaluation.stream import Stream
    from fastcep.evaluation.targets import Target
    from fastcep.evaluation.trial import Trial
    from fastcep.overload.costs import CostTable

__all__ = ["Reference", "ReferenceFit", "ShedderFactory", "ShedderFit"]


class ShedderFactory(Protocol):
    """Function from a seed to a shedder; a shedder class whose only argument is a seed is one.

    It may have a ``name``, a ``label`` for reports, and ``reference=True``: then it uses knowledge that a strategy
    cannot have, and never wins. To be used with a runner, it must be defined at the top level of a module.
    """

    def __call__(self, seed: int, /) -> Shedder:
        """Return a new shedder."""
        ...


class ShedderFit(Protocol):
    """Strategy that learns from history; it may have ``label`` and ``reference`` as `ShedderFactory`.

    Attributes
    ----------
    name
        Name in the report.
    """

    name: str

    @abstractmethod
    def fit(
        self, queries: Sequence[ast.Query], history: pa.Table, *, cost_table: CostTable, index: Index
    ) -> ShedderFactory:
        """Learn from events in order; return a factory of shedders for other events of the same source.

        `cost_table` and `index` are the options of the engines that will shed.
        """
        ...


class ReferenceFit(Protocol):
    """Reference that learns before the runs from knowledge that a strategy cannot have.

    It may have ``label`` and ``reference`` as `ShedderFactory`.

    Attributes
    ----------
    name
        Name in the report.
    """

    name: str

    @abstractmethod
    def prepare(self, queries: Sequence[ast.Query], stream: Stream, setting: Setting) -> ShedderFactory:
        """Inspect the events and the setting; return a factory of shedders for these events."""
        ...


class Reference(Protocol):
    """Reference that computes its outcome itself, without a run of an engine with a shedder.

    Attributes
    ----------
    name, label
        Name in the report, and a longer description.
    reference
        Always True.
    """

    name: str
    label: str
    reference: bool = True

    def check(self, queries: Sequence[ast.Query]) -> None:
        """Raise `ValidationError` for unsupported queries, before any run. This default accepts all queries."""

    @abstractmethod
    def outcome(self, trial: Trial, target: Target, seed: int) -> Outcome:
        """Return the outcome of the trial for a target. It counts operations, so the clock is virtual."""
        ...
