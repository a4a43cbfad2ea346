"""Prefetch the blocks of a replay's source."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.events.batch import as_table

__all__ = ["Prefetch"]

_END = object()


class Prefetch:
    """Blocks of a source, a few of them generated in advance.

    Parameters
    ----------
    source
        Iterable of batches, or a single batch.
    limit
        Maximum number of events; None: all.
    depth
        Number of blocks to generate in advance.

    Attributes
    ----------
    total
        Total number of events; None while it is unknown.
    """

    def __init__(self, source: Any, limit: int | None, depth: int) -> None:
        if limit is not None and limit < 1:
            raise ValidationError(f"events={limit}: expected at least 1")
        blocks = _iterable(source)
        self._remaining, self._depth = limit, depth
        self._held: deque[pa.Table] = deque()
        self._read = 0
        self._ended = False
        total = sum(map(len, blocks)) if isinstance(blocks, list) else getattr(source, "events", None)
        self.total: int | None = total if isinstance(total, int) else limit
        if limit is not None and self.total is not None:
            self.total = min(limit, self.total)
        self._blocks = iter(blocks)

    def __iter__(self) -> Iterator[pa.Table]:
        self.fill()
        while self._held:
            yield self._held.popleft()
            self.fill()

    def limited(self, count: int) -> int:
        """Return ``count``, limited by the total number of events if it is known."""
        return count if self.total is None else min(count, self.total)

    def fill(self) -> None:
        """Generate blocks until the depth is reached."""
        while len(self._held) < self._depth and not self._ended:
            block = next(self._blocks, _END) if self._remaining != 0 else _END
            if block is _END:
                self._ended, self.total = True, self._read
                return
            table = as_table(block, "source")
            if self._remaining is not None:
                table = table.slice(0, self._remaining)
                self._remaining -= len(table)
            self._read += len(table)
            if len(table):
                self._held.append(table)


def _iterable(source: Any) -> Iterable[Any]:
    """Return the batches of a source; a list is converted to tables."""
    if isinstance(source, Mapping) or hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return [as_table(source, "source")]
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        return [as_table(block, "source") for block in source]
    if not isinstance(source, Iterable):
        raise ValidationError(f"source: expected an iterable of batches of events, found {type(source).__name__}")
    return source
