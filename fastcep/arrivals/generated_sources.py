"""Streams for long replays, generated on the fly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from fastcep.datasets.generate import C_VALUES, CHUNK, check_size, check_values, ds1_batches

__all__ = ["DS1Blocks", "ds1_blocks"]


@dataclass(frozen=True)
class DS1Blocks:
    """DS1 in blocks, generated anew, the same, whenever it is iterated over.

    Attributes
    ----------
    events
        In all.
    block
        Events in a block; the last one may hold fewer.
    seed, c_values
        As of `fastcep.datasets.ds1`.
    """

    events: int
    block: int
    seed: int
    c_values: tuple[int, int] = C_VALUES

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return ds1_batches(self.events, self.seed, self.block, self.c_values)


def ds1_blocks(events: int, block: int = CHUNK, seed: int = 7, c_values: tuple[int, int] = C_VALUES) -> DS1Blocks:
    """DS1 for `replay` and `maximum_rate`: times go on from block to block, and no more than one is in memory.

    Raises
    ------
    ValidationError
        If ``events`` or ``block`` is below 1, or ``c_values`` no range.
    """
    check_size(events=events, block=block)
    check_values(c_values)
    return DS1Blocks(events, block, seed, c_values)
