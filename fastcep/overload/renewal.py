"""Shedders that change while the engine runs: they see the events of the stream, and are asked for a change."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from fastcep.events import EventBatch
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.overload.protocols import Shedder
from fastcep.query import ast

__all__ = ["EngineSetting", "Renewal", "RenewingShedder"]

#: Small batches are collected until they have this many events, because converting a batch has a fixed cost.
_COLLECTED = 1024


@dataclass(frozen=True, slots=True)
class EngineSetting:
    """Options of an engine that matter for a shedder which fits models.

    Attributes
    ----------
    virtual
        Whether latencies are on the virtual clock, so that everything must be repeatable.
    costs
        Cost table.
    store, index
        Options of the engine.
    """

    virtual: bool
    costs: CostTable
    store: str
    index: Index


class RenewingShedder(Shedder):
    """Shedder that changes while the engine runs."""

    @property
    def records(self) -> bool:
        """True if it wants the next events of the stream, see `record`. The default wants none."""
        return False

    @abstractmethod
    def begin(self, setting: EngineSetting) -> None:
        """Take note of the options of the engine that it sheds for, before the queries are planned."""

    @abstractmethod
    def set_queries(self, queries: Sequence[ast.Query]) -> None:
        """Take note of the queries that run from now on, in the order of the engine."""

    @abstractmethod
    def next_renewal(self) -> int:
        """Return the number of events after which `renew` is called, at least 1."""

    @abstractmethod
    def record(self, events: pa.Table) -> None:
        """Take the next events of the stream; called while `records` is true."""

    @abstractmethod
    def renew(self) -> bool:
        """Change the model if it is time; return whether the queries have to be planned again for new classes."""


class Renewal:
    """Passes the events of the stream to a renewing shedder, and asks it for a change when it is time.

    Parameters
    ----------
    shedder
        The shedder; another kind of shedder is never asked.
    to_arrow
        Converts events to a table.
    replan
        Plans the queries again; called after a change.
    """

    def __init__(
        self, shedder: Shedder | None, to_arrow: Callable[[EventBatch], pa.Table], replan: Callable[[], None]
    ) -> None:
        self._shedder = shedder if isinstance(shedder, RenewingShedder) else None
        self._to_arrow, self._replan = to_arrow, replan
        self._batch: EventBatch | None = None
        self._recorded = self._taken = 0  # events of the batch
        self._small: list[EventBatch] = []
        self.remaining = 0 if self._shedder is None else self._shedder.next_renewal()

    @property
    def records(self) -> bool:
        """True if the shedder wants the events of the next batch."""
        return self._shedder is not None and self._shedder.records

    def begin_batch(self, batch: EventBatch) -> None:
        """Record the events of a batch as they are taken."""
        if self._shedder is not None:
            self._batch = batch
        self._recorded = self._taken = 0

    def end_batch(self) -> None:
        """Record the events of the batch that were taken; the data of the batch may change afterwards."""
        self._record()
        self._batch = None

    def take(self, place: int, number: int) -> None:
        """Account for ``number`` events, which end at ``place`` in the batch, and change the shedder if it is time."""
        if self._shedder is None:
            return
        self._taken = place
        self.remaining -= number
        if self.remaining <= 0:
            self._record()
            self.flush()
            if self._shedder.renew():
                self._replan()
            self.remaining = self._shedder.next_renewal()

    def flush(self) -> None:
        """Pass on all events so far; to be called before string codes change."""
        if self._small and self._shedder is not None:
            self._shedder.record(self._to_arrow(EventBatch.concat(self._small)))
        self._small = []

    def _record(self) -> None:
        batch, first = self._batch, self._recorded
        self._recorded = self._taken
        if batch is None or self._shedder is None or not self._shedder.records or self._taken <= first:
            return
        self._small.append(EventBatch.concat([batch.slice(first, self._taken)]))  # a copy
        if sum(map(len, self._small)) >= _COLLECTED:
            self.flush()
