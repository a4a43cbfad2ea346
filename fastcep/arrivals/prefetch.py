"""The events of a replay's source, block by block, generated a little ahead."""

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
    """The blocks of a source, a few of them generated ahead.

    Parameters
    ----------
    source
        An iterable of batches, or one batch.
    limit
        How many events to take at most; None: all.
    ahead
        How many blocks are held.

    Attributes
    ----------
    total
        How many events there are; None as long as nobody knows.
    """

    def __init__(self, source: Any, limit: int | None, ahead: int) -> None:
        if limit is not None and limit < 1:
            raise ValidationError(f"events={limit}: expected at least 1")
        blocks = _iterable(source)
        self._rest, self._ahead = limit, ahead
        self._held: deque[pa.Table] = deque()
        self._read = 0
        self._ended = False
        known = sum(map(len, blocks)) if isinstance(blocks, list) else getattr(source, "events", None)
        self.total: int | None = known if isinstance(known, int) else limit
        if limit is not None and self.total is not None:
            self.total = min(limit, self.total)
        self._blocks = iter(blocks)

    def __iter__(self) -> Iterator[pa.Table]:
        self.fill()
        while self._held:
            yield self._held.popleft()
            self.fill()

    def limited(self, count: int) -> int:
        """Not more than there are, as far as it is known."""
        return count if self.total is None else min(count, self.total)

    def fill(self) -> None:
        """Generate as many blocks ahead as is allowed."""
        while len(self._held) < self._ahead and not self._ended:
            block = next(self._blocks, _END) if self._rest != 0 else _END
            if block is _END:
                self._ended, self.total = True, self._read
                return
            table = as_table(block, "source")
            if self._rest is not None:
                table = table.slice(0, self._rest)
                self._rest -= len(table)
            self._read += len(table)
            if len(table):
                self._held.append(table)


def _iterable(source: Any) -> Iterable[Any]:
    """The batches of a source; those of a list as tables."""
    if isinstance(source, Mapping) or hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return [as_table(source, "source")]
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        return [as_table(block, "source") for block in source]
    if not isinstance(source, Iterable):
        raise ValidationError(f"source: expected an iterable of batches of events, found {type(source).__name__}")
    return source
