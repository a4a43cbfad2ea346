"""Generated streams for long replays, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from fastcep.datasets.generate import C_VALUES, CHUNK, check_size, check_values, ds1_batches

__all__ = ["DS1Blocks", "ds1_blocks"]


@dataclass(frozen=True)
class DS1Blocks:
    """DS1 in blocks; each iteration generates the same blocks again.

    Attributes
    ----------
    events
        Total number of events.
    block
        Events per block; the last block may have fewer.
    seed, c_values
        As for `fastcep.datasets.ds1`.
    """

    events: int
    block: int
    seed: int
    c_values: tuple[int, int] = C_VALUES

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return ds1_batches(self.events, self.seed, self.block, self.c_values)


def ds1_blocks(events: int, block: int = CHUNK, seed: int = 7, c_values: tuple[int, int] = C_VALUES) -> DS1Blocks:
    """Return DS1 as a source for `replay` and `maximum_rate`, with one block in memory at a time.

    Times continue from block to block.

    Raises
    ------
    ValidationError
        If ``events`` or ``block`` is below 1, or ``c_values`` is not a range.
    """
    check_size(events=events, block=block)
    check_values(c_values)
    return DS1Blocks(events, block, seed, c_values)
