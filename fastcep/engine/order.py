"""Check the order of input events, and convert single events to a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastcep._core.input.event_reader import EventReader
from fastcep.errors import DataError, OrderError
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.events.hints import suggestion
from fastcep.events.origin import at_row
from fastcep.events.units import NANOSECONDS, format_time

__all__ = ["check_order", "one_event", "single_events"]


def check_order(
    batch: EventBatch, last_time: int | None, last_sequence: int | None, origin: str, first_row: int
) -> None:
    """Check that times and sequence numbers ascend within a batch, and from the last event of the engine to it.

    Parameters
    ----------
    batch
        The events.
    last_time, last_sequence
        Time in ns and sequence number of the last event that the engine has processed; None: there is none.
    origin, first_row
        Name of the input, and the number of the batch's first row in it, for the error message.

    Raises
    ------
    DataError
        An event is out of order. The message names the first such row.
    """
    if not len(batch):
        return
    time, sequence = batch.time, batch.sequence
    row = batch.first_disorder()
    if last_time is not None and time[0] < last_time:
        row, previous, description = 0, last_time, "which the engine has already reached"
    elif row is not None and time[row] < time[row - 1]:
        previous, description = int(time[row - 1]), "the time of the row before"
    elif row is not None or (sequence is not None and last_sequence is not None and sequence[0] <= last_sequence):
        assert sequence is not None
        previous_number = last_sequence if row is None else sequence[row - 1]
        raise DataError(
            f"{at_row(origin, first_row + batch.row(row or 0))}, column {batch.schema.sequence!r}: found "
            f"{sequence[row or 0]}, expected a sequence number greater than {previous_number}, the one before; number "
            "the events in order"
        )
    else:
        return
    raise OrderError(
        f"{at_row(origin, first_row + batch.row(row))}, column {batch.schema.time!r}: time "
        f"{format_time(int(time[row]))} is before {format_time(previous)}, {description}",
        "sort the input by time, or set allowed_lateness",
    )


def one_event(schema: Schema, type: str, values: Mapping[str, Any]) -> dict[Any, list[Any]]:
    """Return the columns of a batch of one event.

    Raises
    ------
    DataError
        If the schema does not declare the type, if the type lacks one of the attributes, if time or sequence number
        are missing, or if two values belong to one column.
    """
    if type not in schema.type_names:
        if not isinstance(type, str):
            raise DataError(f"unknown event type {type!r}; expected its name, then the values: send('A', ts=1, x=2)")
        raise DataError(f"unknown event type {type!r}{suggestion(type, schema.type_names)}")
    attributes = schema.attributes(type)
    columns: dict[Any, list[Any]] = {column.source: [None] for column in schema.columns}
    has = {"time": False, "seq": schema.sequence is None}
    names: dict[Any, str] = {}
    for name, value in values.items():
        if name in attributes:
            source = schema.columns[schema.column_of(type, name)].source
        elif name in ("time", schema.time):
            source, has["time"] = schema.time, True
        elif schema.sequence is not None and name in ("seq", schema.sequence):
            source, has["seq"] = schema.sequence, True
        else:
            raise DataError(
                f"event of type {type!r} has no attribute {name!r}{suggestion(name, [*attributes, 'time'])}"
            )
        if source in names:
            raise DataError(f"{names[source]} and {name} are both column {source!r}; give one of them")
        columns[source], names[source] = [value], name
    for name, is_present in has.items():
        if not is_present:
            raise DataError(f"the event of type {type!r} has no {name}; give {name}=…")
    if schema.type is not None:
        columns[schema.type] = [type if schema.codes is None else schema.codes[type]]
    if not schema.header:
        columns = {number: columns.get(number, [None]) for number in range(1 + max(map(int, columns)))}
    return columns


def single_events(schema: Schema, strings: StringTable) -> dict[str, EventReader]:
    """Make the readers of single events on the fast path, by type; none if an attribute is also the time or type."""
    builtin = {schema.time, schema.type, schema.sequence}
    if any(column.source in builtin for column in schema.columns):
        return {}
    count = len(schema.columns)
    dtypes = "".join(column.dtype[0] for column in schema.columns).encode()
    common: dict[Any, int] = {"time": count, schema.time: count}
    if schema.sequence is not None:
        common |= {"seq": count + 1, schema.sequence: count + 1}
    return {
        name: EventReader(
            number, common | {attribute: schema.column_of(name, attribute) for attribute in schema.attributes(name)},
            dtypes, NANOSECONDS[schema.time_unit], schema.sequence is not None, strings,
        )
        for number, name in enumerate(schema.type_names)
    }  # fmt: skip
