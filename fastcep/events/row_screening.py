"""Find the rows of a batch that would be refused, all of them, so that the others can be taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.events.batch import EventBatch, read
from fastcep.events.convert import Fault
from fastcep.events.schema import Schema
from fastcep.events.units import format_time

__all__ = ["Fault", "Order", "read_blind", "screen"]


@dataclass
class Order:
    """Where a stream has got to: time (ns) and sequence number of its last event, None before the first."""

    time: int | None = None
    sequence: int | None = None


class _Blind:
    """Stands for a table of strings: no text is ever at fault."""

    def encode(self, array: Any) -> tuple[npt.NDArray[np.int64], None]:
        return np.zeros(len(array), dtype=np.int64), None


def read_blind(schema: Schema, data: Any) -> tuple[EventBatch, npt.NDArray[np.bool_] | None]:
    """Read a batch without its texts: events, and bool[rows] which of the rows they are, None for all."""
    return read(schema, data, _Blind())


def screen(
    schema: Schema, data: Any, origin: str = "batch", first_row: int = 0, order: Order | None = None
) -> list[Fault]:
    """Find the rows that `EventBatch.from_data` or an engine would refuse.

    Parameters
    ----------
    schema, data, origin, first_row
        As for `EventBatch.from_data`.
    order
        Where the stream has got to, moved on to the end of the batch: rows that run backwards in time or sequence are
        faults too. None if order does not matter.

    Returns
    -------
    list of Fault
        One for each such row, ascending. Without them the batch is taken.

    Raises
    ------
    ValidationError, SchemaError
        As from `EventBatch.from_data`: what is wrong with a whole column is no matter of rows.
    """
    faults: list[Fault] = []
    batch, keep = read(schema, data, _Blind(), origin, first_row, faults)
    found: dict[int, Fault] = {}
    for fault in faults:
        found.setdefault(fault.row, fault)
    if order is not None and len(batch):
        rows = first_row + (np.arange(len(batch)) if keep is None else np.flatnonzero(keep))
        good = ~np.isin(rows, list(found)) if found else np.ones(len(batch), dtype=bool)
        for late in _late(batch, rows, good, order):
            found[late.row] = late
    return [found[row] for row in sorted(found)]


def _late(batch: EventBatch, rows: npt.NDArray[np.int64], good: npt.NDArray[np.bool_], order: Order) -> list[Fault]:
    """Find the good rows that run backwards; move `order` on."""
    schema = batch.schema
    time = batch.time[good]
    number = None if batch.sequence is None else batch.sequence[good]
    if not len(time):
        return []
    clean = not (time[1:] < time[:-1]).any() and (order.time is None or time[0] >= order.time)
    if number is not None:
        clean &= not (number[1:] <= number[:-1]).any() and (order.sequence is None or number[0] > order.sequence)
    if clean:
        order.time, order.sequence = int(time[-1]), None if number is None else int(number[-1])
        return []
    late: list[Fault] = []
    numbers = [None] * len(time) if number is None else number.tolist()
    for row, now, which in zip(rows[good].tolist(), time.tolist(), numbers, strict=True):
        if order.time is not None and now < order.time:
            late.append(
                Fault(row, schema.time, f"time {format_time(now)}", f"at least {format_time(order.time)}, as before",
                      "sort the input by time")
            )  # fmt: skip
        elif which is not None and order.sequence is not None and which <= order.sequence:
            assert schema.sequence is not None
            late.append(
                Fault(row, schema.sequence, str(which), f"more than {order.sequence}, the number before",
                      "number the events in order")
            )  # fmt: skip
        else:
            order.time, order.sequence = now, which
    return late
