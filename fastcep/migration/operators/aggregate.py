"""Aggregates over sliding windows of time, per key, whose state can be sent in parts.

A window ends when a row of its end or later arrives. Its aggregates are returned then, ordered by start and keys; this
does not depend on how the stream is divided into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.errors import OrderError, ValidationError
from fastcep.migration.operators.extents import ExtentFormat, check_aggregates
from fastcep.migration.operators.limits import Limits
from fastcep.migration.operators.rows import LONGEST, Data, RowFormat
from fastcep.migration.operators.suspension import Suspendable
from fastcep.migration.operators.utilities import utilities
from fastcep.migration.operators.wire import StatesOfTable, message_sizes, pack_base, variable_bytes
from fastcep.migration.states import Floats, Ints, States
from fastcep.option_checks import check_whole

__all__ = ["WindowAggregate"]

_MOST_WINDOWS = 10_000
_EXTENTS_AT_ONCE = 1_000_000

#: Utility of window extents: called with the aggregates so far, as in the output, with a row for each extent.
ExtentUtility = Callable[[pa.Table], npt.ArrayLike]


class WindowAggregate(Suspendable):
    """Aggregates of a stream per key and window.

    A window contains the rows from its start to before its end; one begins at every multiple of `slide`. Null values
    are left out, as in SQL: the sum, minimum, maximum and mean of no value is null.

    Parameters
    ----------
    schema
        Schema of the rows. They may have more columns, which are ignored.
    time
        Time column: a timestamp without nulls, or an integer in `time_unit`. Times ascend.
    keys
        Key columns, without nulls: integers, texts or times. An empty list: one aggregate for each window.
    window, slide
        Length of a window, and distance of their starts; by default the same: tumbling windows.
    aggregates
        For each column of the output, ``"count"`` (rows) or a pair: ``count`` (values that are not null), ``sum``,
        ``min``, ``max`` or ``mean``, and a column of numbers.
    time_unit
        Unit of integer times: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``.
    max_states, memory_limit
        Largest number of window extents, and of bytes such as ``"64MiB"``, that are stored after a call.

    Raises
    ------
    ValidationError
        If an argument is wrong.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        time: str,
        keys: Sequence[str],
        window: str | timedelta,
        aggregates: Mapping[str, str | tuple[str, str | None]],
        slide: str | timedelta | None = None,
        time_unit: str = "ns",
        max_states: int | None = None,
        memory_limit: str | int | None = None,
    ) -> None:
        checked = check_aggregates(aggregates)
        columns = tuple(dict.fromkeys(column for _, column in checked.values() if column is not None))
        rows = RowFormat.of("", schema, time, keys, time_unit, columns)
        _check_columns(rows, columns, list(checked))
        length = rows.duration("window", window)
        distance = length if slide is None else rows.duration("slide", slide)
        if not length / _MOST_WINDOWS <= distance <= length:
            raise ValidationError(
                f"slide={slide!r}: expected at most the window, and at least a {_MOST_WINDOWS:,}th of it ({window!r})"
            )
        self._format = ExtentFormat(rows, length, distance, checked, columns)
        self._limits = Limits.of(max_states, memory_limit)
        self._extents = self._format.schema.empty_table()
        self._time: int | None = None
        self._position = 0
        self._closed = 0
        #: Starts of open windows of which a migration has dropped extents.
        self._incomplete: npt.NDArray[np.int64] = np.empty(0, np.int64)

    @property
    def form(self) -> ExtentFormat:
        """Columns of window extents and of the output."""
        return self._format

    @property
    def position(self) -> int:
        """Number of rows read."""
        return self._position

    def process(self, rows: Data) -> pa.Table:
        """Read rows; return the aggregates of the windows that have ended.

        Parameters
        ----------
        rows
            Rows with ascending times, not earlier than those before.

        Returns
        -------
        pyarrow.Table
            The keys, ``window_start``, ``window_end`` (exclusive; both of the type of the time column) and aggregates
            of each window with a row, ordered by start and keys.

        Raises
        ------
        SchemaError, DataError, OrderError
            If a column is missing or has another type, a value is wrong, or a row is out of order.
        MemoryLimitError
            If more state would be stored than the limits allow.

        After an error, the operator is as before the call.
        """
        self._check_here()
        table, times = self._format.rows.read(rows, self._time)
        extents, closed = self._extents, []
        step = max(1, _EXTENTS_AT_ONCE // self._format.windows_per_row)
        for begin in range(0, len(times), step):
            part = times[begin : begin + step]
            extents = self._merged(extents, table.slice(begin, step), part)
            extents, ended = self._split(extents, int(part[-1]))
            closed.append(ended)
            self._limits.check(extents.num_rows, extents.nbytes)
        return self._advanced(extents, closed, len(times), int(times[-1]) if len(times) else self._time)

    def advance(self, time: int) -> pa.Table:
        """Report that no row before a time will arrive; return the aggregates of the windows that have ended.

        Parameters
        ----------
        time
            In units of the time column.

        Raises
        ------
        ValidationError
            If the time is no int.
        OrderError
            If it is before the last row.
        """
        self._check_here()
        check_whole("time", time, -LONGEST, LONGEST)
        if self._time is not None and time < self._time:
            raise OrderError(f"time={time} is before the last row, {self._time}", "advance to a later time")
        extents, ended = self._split(self._extents, time)
        return self._advanced(extents, [ended], 0, time)

    def flush(self) -> pa.Table:
        """Return the aggregates of all windows with a row, also those that have not ended, and forget them."""
        self._check_here()
        return self._advanced(self._format.schema.empty_table(), [self._extents], 0, self._time)

    def metrics(self) -> dict[str, int]:
        """Return the number of rows read, of stored extents (``states``) and their bytes, and of windows returned."""
        return {
            "rows": self._position, "states": self._extents.num_rows, "bytes": self._extents.nbytes,
            "closed": self._closed,
        }  # fmt: skip

    def partial_states(self, utility: str | ExtentUtility = "auto", seed: int = 0) -> StatesOfTable:
        """Cut the state into window extents.

        Parameters
        ----------
        utility
            ``"auto"``
                The number of rows of the extent times the share of its window that has passed: the more rows an
                aggregate has, and the sooner it is returned, the more useful is its extent.
            ``"size"``
                The size to the power of 1.5.
            ``"random"``
                Drawn from 0 to 1 by `seed`.
            a function
                It gets a table of the aggregates so far, with the columns of the output, and returns a finite number,
                at least 0, for each row.
        seed
            Seed for ``"random"``.

        Returns
        -------
        PartialStates
            See `fastcep.migration.partition`.

        Raises
        ------
        ValidationError
            If the utility is unknown, or the values of a function are wrong.

        Notes
        -----
        An extent that does not arrive would only have a part of its rows at the new host. Therefore the new host
        returns nothing for windows that began before, if one of their extents is missing, except for the extents that
        have arrived.
        """
        self._check_here()
        extents = self._extents.combine_chunks()
        batch = pa.record_batch([_flat(column) for column in extents.columns], schema=extents.schema)
        size = message_sizes(batch, [variable_bytes(column) for column in batch.columns])
        values = utilities(
            utility, seed, size, lambda: self._utility(extents), lambda of: of(self._format.in_order(extents))
        )
        starts, counts = np.unique(extents["start"].to_numpy(), return_counts=True)
        form = self._format
        document = {
            "version": 1, "kind": "aggregate", "time": form.rows.time, "keys": list(form.rows.keys),
            "time_unit": form.rows.time_unit, "window": form.window, "slide": form.slide,
            "aggregates": [[name, *aggregate] for name, aggregate in form.aggregates.items()],
            "last": self._time, "position": self._position, "states": extents.num_rows,
            "open": [list(pair) for pair in zip(starts.tolist(), counts.tolist(), strict=True)],
            "incomplete": self._incomplete.tolist(),
        }  # fmt: skip
        packed = pack_base(form.rows.schema, document)
        return StatesOfTable("aggregate", States(size, values), self._position, batch, packed, self)

    def resume(self, extents: pa.Table, last: int | None, position: int, incomplete: Ints) -> None:
        """Take the state of an operator of the same definition, for `fastcep.migration.operators.aggregate_assembly`.

        Parameters
        ----------
        extents
            The extents that have arrived.
        last, position
            Time of the last row, and number of rows.
        incomplete
            int64[n]: starts of the windows of which an extent is missing.

        Raises
        ------
        MemoryLimitError
            If there are more extents than the limits allow.
        """
        self._limits.check(extents.num_rows, extents.nbytes)
        self._extents, self._time, self._position, self._incomplete = extents, last, position, incomplete

    def _utility(self, extents: pa.Table) -> Floats:
        if self._time is None:
            return np.empty(0)
        passed = np.clip((self._time - extents["start"].to_numpy()) / self._format.window, 0.0, 1.0)
        return np.asarray(extents["rows"].to_numpy() * passed, np.float64)

    def _merged(self, extents: pa.Table, table: pa.Table, times: Ints) -> pa.Table:
        merged, is_new = self._format.merge(extents, self._format.of_rows(table, times))
        if len(self._incomplete):
            lost = pc.and_(is_new, pc.is_in(merged["start"], pa.array(self._incomplete)))
            merged = merged.filter(pc.invert(lost))
        return merged

    def _split(self, extents: pa.Table, time: int) -> tuple[pa.Table, pa.Table]:
        """Return the extents of windows that are open at a time, and the others."""
        ended = pc.less_equal(extents["start"], pa.scalar(time - self._format.window, pa.int64()))
        return extents.filter(pc.invert(ended)), extents.filter(ended)

    def _advanced(self, extents: pa.Table, closed: list[pa.Table], rows: int, time: int | None) -> pa.Table:
        found = pa.concat_tables([self._format.output_schema.empty_table(), *map(self._format.output, closed)])
        self._extents, self._time = extents, time
        if time is not None:
            self._incomplete = self._incomplete[self._incomplete + self._format.window > time]
        self._position += rows
        self._closed += found.num_rows
        return found.combine_chunks()


def _check_columns(rows: RowFormat, columns: Sequence[str], names: Sequence[str]) -> None:
    for column in columns:
        dtype = rows.schema.field(column).type
        if not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype)):
            raise ValidationError(f"aggregates: column {column!r} has type {dtype}; expected integers or floats")
    taken = [*rows.keys, "window_start", "window_end", *names]
    for name in taken:
        if taken.count(name) > 1:
            raise ValidationError(f"the output has two columns {name!r}; rename one of the keys or aggregates")


def _flat(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
