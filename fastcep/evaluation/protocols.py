"""What may be evaluated beside the spellings of shedders."""

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
    """Makes a shedder for a seed; a class of shedders that needs no more than a seed is one.

    It may have a ``name``, a ``label`` for people, and ``reference=True``: then it knows what no strategy can, and does
    not win. For a runner it must be of the top level of a module.
    """

    def __call__(self, seed: int, /) -> Shedder:
        """Make a new one."""
        ...


class ShedderFit(Protocol):
    """Learns from history; it may have ``label`` and ``reference`` as `ShedderFactory` has.

    Attributes
    ----------
    name
        In the report.
    """

    name: str

    @abstractmethod
    def fit(
        self, queries: Sequence[ast.Query], history: pa.Table, *, cost_table: CostTable, index: Index
    ) -> ShedderFactory:
        """Learn from events, in order; what is returned sheds other ones of the same source, in such engines."""
        ...


class ReferenceFit(Protocol):
    """Finds out, before anything runs, what no strategy can know.

    It may have ``label`` and ``reference`` as `ShedderFactory` has.

    Attributes
    ----------
    name
        In the report.
    """

    name: str

    @abstractmethod
    def knowing(self, queries: Sequence[ast.Query], stream: Stream, setting: Setting) -> ShedderFactory:
        """Look at the events and at how they are run; what is returned sheds them."""
        ...


class Reference(Protocol):
    """Tells by itself what comes out, as no engine with a shedder could.

    Attributes
    ----------
    name, label
        In the report: a word, and what people understand.
    reference
        True.
    """

    name: str
    label: str
    reference: bool = True

    def check(self, queries: Sequence[ast.Query]) -> None:
        """Refuse queries that it cannot tell anything of, before anything runs: `ValidationError`. It takes all."""

    @abstractmethod
    def outcome(self, trial: Trial, target: Target, seed: int) -> Outcome:
        """What comes out of the trial's events for a target. Counts operations: the clock is virtual."""
        ...
