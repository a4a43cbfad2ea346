"""Events that arrive during a migration: held back for the old operator, and forwarded to the new one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

__all__ = ["Held", "Outbox"]


@dataclass(frozen=True, slots=True)
class Held:
    """A batch of events.

    Attributes
    ----------
    table
        The events.
    options
        Options of the call of ``process``.
    """

    table: pa.Table
    options: Mapping[str, Any]


class Outbox:
    """Queue of batches; one thread puts them in, another one forwards them.

    Parameters
    ----------
    limit
        Bytes of events that it may hold.
    keep
        Keep batches after they are forwarded, for the old operator, which may have to process them.
    """

    def __init__(self, limit: int, keep: bool) -> None:
        self._limit, self._keep = limit, keep
        self._lock = threading.Lock()
        self._batches: deque[Held] = deque()
        self._next = 0
        self._bytes = 0
        self._wake: Callable[[], object] | None = None
        self.closed = False
        self.forwarded_events = 0

    @property
    def waiting(self) -> int:
        """Number of events that have not been forwarded."""
        with self._lock:
            return sum(len(batch.table) for batch in list(self._batches)[self._next :])

    def on_change(self, wake: Callable[[], object]) -> None:
        """Call a function, which may run in any thread, after each change."""
        with self._lock:
            self._wake = wake

    def fits(self, batch: Held) -> bool:
        """Return whether there is room for a batch."""
        with self._lock:
            return self._bytes + batch.table.nbytes <= self._limit

    def put(self, batch: Held) -> None:
        """Append a batch."""
        with self._lock:
            self._batches.append(batch)
            self._bytes += batch.table.nbytes
        self._changed()

    def close(self) -> None:
        """Accept that no batch follows."""
        self.closed = True
        self._changed()

    def forward(self) -> Held | None:
        """Return the next batch to forward; None if there is none now."""
        with self._lock:
            if self._next == len(self._batches):
                return None
            batch = self._batches[self._next]
            self.forwarded_events += len(batch.table)
            if self._keep:
                self._next += 1
            else:
                self._batches.popleft()
                self._bytes -= batch.table.nbytes
            return batch

    def take_back(self) -> Held | None:
        """Remove and return the first batch, whether it was forwarded or not; None if there is none."""
        with self._lock:
            if not self._batches:
                return None
            batch = self._batches.popleft()
            self._bytes -= batch.table.nbytes
            return batch

    def after(self, count: int) -> list[pa.Table]:
        """Return the events after the first ``count`` ones, in their batches; of an outbox that keeps them."""
        rest = []
        with self._lock:
            for batch in self._batches:
                if count < len(batch.table):
                    rest.append(batch.table.slice(max(count, 0)))
                count -= len(batch.table)
        return rest

    def _changed(self) -> None:
        wake = self._wake
        if wake is not None:
            wake()
