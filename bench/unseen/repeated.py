"""A stream of any length that repeats a table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

__all__ = ["BLOCK", "Repeated"]

#: Largest number of events of a batch.
BLOCK = 65_536


class Repeated:
    """Stream of any length that repeats a table; each repetition begins after the end of the one before.

    Attributes
    ----------
    table, events
        Table that is repeated, and number of events.
    """

    def __init__(self, table: pa.Table, time_name: str, events: int, block: int = BLOCK) -> None:
        self.table, self._name, self.events, self._block = table.combine_chunks(), time_name, events, block
        self._column = table.schema.get_field_index(time_name)
        self._times = table[time_name].combine_chunks().cast(pa.int64()).to_numpy()
        self._period = int(self._times[-1] - self._times[0]) + max(1, int(np.ptp(self._times)) // len(table))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        left, shift, kind = self.events, 0, self.table.schema.field(self._name).type
        while left:
            for first in range(0, len(self.table), self._block):
                piece = self.table.slice(first, min(self._block, left))
                times = pa.array(self._times[first : first + len(piece)] + shift).cast(kind)
                yield from piece.set_column(self._column, self._name, times).combine_chunks().to_batches()
                left -= len(piece)
                if not left:
                    return
            shift += self._period
