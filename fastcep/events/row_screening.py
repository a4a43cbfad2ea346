"""Find all invalid rows of a batch, so that the valid ones can be processed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.events.batch import EventBatch, read
from fastcep.events.convert import Fault
from fastcep.events.schema import Schema
from fastcep.events.units import format_time

__all__ = ["Fault", "Order", "read_without_strings", "screen"]


@dataclass
class Order:
    """Time (ns) and sequence number of the last event of a stream; None before the first event."""

    time: int | None = None
    sequence: int | None = None


class _ZeroEncoder:
    """Encodes every string as 0: no string makes a row invalid."""

    def encode(self, array: Any) -> tuple[npt.NDArray[np.int64], None]:
        return np.zeros(len(array), dtype=np.int64), None


def read_without_strings(schema: Schema, data: Any) -> tuple[EventBatch, npt.NDArray[np.bool_] | None]:
    """Read a batch with every string code 0. Return the events, and bool[rows], true for rows kept; None: all."""
    return read(schema, data, _ZeroEncoder())


def screen(
    schema: Schema, data: Any, origin: str = "batch", first_row: int = 0, order: Order | None = None
) -> list[Fault]:
    """Find the rows that `EventBatch.from_data` or an engine would reject.

    Parameters
    ----------
    schema, data, origin, first_row
        As for `EventBatch.from_data`.
    order
        Last event of the stream so far, updated to the last event of the batch. Rows out of time or sequence order are
        then faults too. None: order is not checked.

    Returns
    -------
    list of Fault
        One for each invalid row, by ascending row number. The batch without these rows is valid.

    Raises
    ------
    ValidationError, SchemaError
        A whole column is invalid; see `EventBatch.from_data`.
    """
    faults: list[Fault] = []
    batch, keep = read(schema, data, _ZeroEncoder(), origin, first_row, faults)
    fault_of_row: dict[int, Fault] = {}
    for fault in faults:
        fault_of_row.setdefault(fault.row, fault)
    if order is not None and len(batch):
        rows = first_row + (np.arange(len(batch)) if keep is None else np.flatnonzero(keep))
        valid = ~np.isin(rows, list(fault_of_row)) if fault_of_row else np.ones(len(batch), dtype=bool)
        for fault in _disorder(batch, rows, valid, order):
            fault_of_row[fault.row] = fault
    return [fault_of_row[row] for row in sorted(fault_of_row)]


def _disorder(
    batch: EventBatch, rows: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_], order: Order
) -> list[Fault]:
    """Return a fault for each valid row that is out of order; update `order`."""
    schema = batch.schema
    times = batch.time[valid]
    numbers = None if batch.sequence is None else batch.sequence[valid]
    if not len(times):
        return []
    ordered = not (times[1:] < times[:-1]).any() and (order.time is None or times[0] >= order.time)
    if numbers is not None:
        ordered &= not (numbers[1:] <= numbers[:-1]).any() and (order.sequence is None or numbers[0] > order.sequence)
    if ordered:
        order.time, order.sequence = int(times[-1]), None if numbers is None else int(numbers[-1])
        return []
    faults: list[Fault] = []
    number_list = [None] * len(times) if numbers is None else numbers.tolist()
    for row, time, number in zip(rows[valid].tolist(), times.tolist(), number_list, strict=True):
        if order.time is not None and time < order.time:
            faults.append(
                Fault(row, schema.time, f"time {format_time(time)}", f"at least {format_time(order.time)}, as before",
                      "sort the input by time")
            )  # fmt: skip
        elif number is not None and order.sequence is not None and number <= order.sequence:
            assert schema.sequence is not None
            faults.append(
                Fault(row, schema.sequence, str(number), f"more than {order.sequence}, the number before",
                      "number the events in order")
            )  # fmt: skip
        else:
            order.time, order.sequence = time, number
    return faults
