"""Ring buffer of the recent events of a stream: circular columns, addressed by arrival position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError
from fastcep.events.batch import EventBatch
from fastcep.events.schema import Schema

__all__ = ["EventRing"]

_BUILTINS = {"time": np.int64, "type": np.uint16, "seq": np.int64}


class EventRing:
    """Columns of the events at positions ``head <= p < tail``. Position p is in slot ``p & (capacity - 1)``.

    Parameters
    ----------
    columns
        Indices into ``schema.columns`` of the attributes to keep. Time, type and sequence number are always kept.
    schema
        Schema of the batches.
    capacity
        Initial number of slots, rounded up to a power of two.
    start
        Position of the first event.
    is_float
        Returns whether a column has float64 values; needed if there are columns that are not in the schema.
    """

    __slots__ = ("_has_nulls", "_head", "_is_float", "_nulls", "_schema", "_tail", "_values")

    def __init__(
        self, columns: Sequence[int], schema: Schema, capacity: int = 1024, *, start: int = 0,
        is_float: Callable[[int], bool] | None = None,
    ) -> None:  # fmt: skip
        slots = _slots(capacity)
        self._schema = schema
        self._is_float = is_float
        self._head = start
        self._tail = start
        self._values: dict[str | int, npt.NDArray[Any]] = {
            name: np.zeros(slots, dtype=dtype) for name, dtype in _BUILTINS.items()
        }
        for column in columns:
            self._values[column] = self._zeros(column, slots)
        # Built-in attributes are never null: they share one buffer of zeros.
        not_null = np.zeros(slots, dtype=np.uint8)
        self._nulls: dict[str | int, npt.NDArray[np.uint8]] = {
            key: not_null if isinstance(key, str) else np.zeros(slots, dtype=np.uint8) for key in self._values
        }
        self._has_nulls: set[str | int] = set()

    def _zeros(self, column: int, slots: int) -> npt.NDArray[Any]:
        if self._is_float is not None:
            is_float = self._is_float(column)
        else:
            is_float = self._schema.columns[column].dtype == "float64"
        return np.zeros(slots, dtype=np.float64 if is_float else np.int64)

    def keep(self, columns: Sequence[int]) -> None:
        """Keep these attributes, and no others, from the next event on; added attributes of earlier events are null."""
        values = {key: buffer for key, buffer in self._values.items() if isinstance(key, str) or key in columns}
        nulls = {key: self._nulls[key] for key in values}
        for column in columns:
            if column not in values:
                values[column] = self._zeros(column, self.capacity)
                nulls[column] = np.ones(self.capacity, dtype=np.uint8)
        self._has_nulls = {key for key in values if key in self._has_nulls or key not in self._values}
        self._values, self._nulls = values, nulls

    @property
    def columns(self) -> set[int]:
        """Attributes that are kept, as indices into ``schema.columns``."""
        return {column for column in self._values if not isinstance(column, str)}

    @property
    def head(self) -> int:
        """Oldest position that is kept."""
        return self._head

    @property
    def tail(self) -> int:
        """Position of the next event."""
        return self._tail

    @property
    def buffers(self) -> object:
        """Identity of the buffers: a different object after all buffers were replaced."""
        return self._values

    def __len__(self) -> int:
        return self._tail - self._head

    @property
    def capacity(self) -> int:
        """Number of slots, a power of two."""
        return len(self._values["time"])

    @property
    def nbytes(self) -> int:
        """Size of all buffers, in bytes."""
        distinct = {id(buffer): buffer for buffer in (*self._values.values(), *self._nulls.values())}
        return sum(buffer.nbytes for buffer in distinct.values())

    def bytes_with(self, events: int) -> int:
        """Return the size of all buffers, in bytes, once the ring holds `events` events. Buffers never shrink."""
        return self.nbytes if events <= self.capacity else self.nbytes // self.capacity * _slots(events)

    def append(self, batch: EventBatch) -> None:
        """Append the events of a batch. This can increase the capacity, which replaces all buffers.

        The sequence numbers of a batch without them are its arrival positions.

        Raises
        ------
        ValidationError
            The batch has another schema.
        """
        if batch.schema is not self._schema and batch.schema != self._schema:
            raise ValidationError("the batch has a different schema than the ring; read it with the ring's schema")
        n = len(batch)
        self.make_room(n)
        for slots, rows in self._contiguous(n):
            self._values["time"][slots] = batch.time[rows]
            self._values["type"][slots] = batch.type[rows]
            self._values["seq"][slots] = (
                np.arange(self._tail + rows.start, self._tail + rows.stop)
                if batch.sequence is None
                else batch.sequence[rows]
            )
            for column, values in self._values.items():
                if isinstance(column, str):
                    continue
                values[slots] = batch.columns[column][rows]
                missing = batch.nulls[column]
                if missing is not None:
                    self._nulls[column][slots] = missing[rows]
                    self._has_nulls.add(column)
                elif column in self._has_nulls:
                    self._nulls[column][slots] = 0
        self._tail += n

    def make_room(self, events: int) -> None:
        """Increase the capacity, if necessary, so that `events` more events fit."""
        if len(self) + events > self.capacity:
            self._grow(len(self) + events)

    def note_nulls(self, column: int) -> None:
        """Record that events written directly into the buffers have nulls in a column."""
        self._has_nulls.add(column)

    def appended(self, events: int) -> None:
        """Advance ``tail`` past events that were written directly into the buffers."""
        self._tail += events

    def cut(self, tail: int) -> None:
        """Remove the events from the position ``tail`` on."""
        self._tail = max(self._head, min(tail, self._tail))

    def rows(self, positions: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
        """Return the kept values at these positions: ``time``, ``type``, ``seq``, columns ``c3`` …, nulls ``n3`` …"""
        slots = positions & (self.capacity - 1)
        rows = {"position": positions}
        for key, values in self._values.items():
            rows[key if isinstance(key, str) else f"c{key}"] = values[slots]
        for column in self.columns & self._has_nulls:
            missing = self._nulls[column][slots]
            if missing.any():
                rows[f"n{column}"] = missing
        return rows

    def begin(self, tail: int) -> None:
        """Set the position of the next event; the ring must be empty."""
        assert not len(self)
        self._head = self._tail = tail

    def put(self, rows: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore events at their former positions, which ascend and are below ``tail``.

        `rows` is as `rows` returns it. If this moves ``head`` back, attributes at the positions in between that are not
        in `rows` become null, because their old values, such as codes of strings since released, are no longer valid.
        """
        positions = rows["position"]
        head = min([self._head, *positions[:1].tolist()])
        if self._tail - head > self.capacity:
            self._grow(self._tail - head)
        gap = np.arange(head, self._head) & (self.capacity - 1)
        for column in self.columns if len(gap) else ():
            self._values[column][gap] = 0
            self._nulls[column][gap] = 1
            self._has_nulls.add(column)
        self._head = head
        slots = positions & (self.capacity - 1)
        for key, values in self._values.items():
            values[slots] = rows[key if isinstance(key, str) else f"c{key}"]
        for column in self.columns:
            missing = rows.get(f"n{column}")
            if missing is not None:
                self._has_nulls.add(column)
                self._nulls[column][slots] = missing
            elif column in self._has_nulls:
                self._nulls[column][slots] = 0

    def reclaim(self, before: int) -> None:
        """Free all positions below `before`, at most up to ``tail``."""
        self._head = max(self._head, min(before, self._tail))

    def take(
        self, column: str | int, positions: npt.ArrayLike
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8] | None]:
        """Gather values by position.

        Parameters
        ----------
        column
            ``"time"``, ``"type"``, ``"seq"`` or an index of a kept column.
        positions
            int64[m].

        Returns
        -------
        values, nulls
            New arrays of m rows: int64, float64 or (type) uint16; uint8 with 1 = null, or None if none is null.

        Raises
        ------
        IndexError
            A position is outside ``[head, tail)``.
        KeyError
            The column is not kept.
        """
        values, missing = self.arrays(column)
        requested = np.asarray(positions, dtype=np.int64)
        if requested.size and (requested.min() < self._head or requested.max() >= self._tail):
            outside = int(requested[(requested < self._head) | (requested >= self._tail)].flat[0])
            raise IndexError(f"position {outside} is not in the ring, which holds {self._head} to {self._tail - 1}")
        slots = requested & (self.capacity - 1)
        if column not in self._has_nulls:
            return values[slots], None
        nulls = missing[slots]
        return values[slots], nulls if nulls.any() else None

    def arrays(self, column: str | int) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
        """Return the raw buffers of a column: values and nulls (1 = null), both of length `capacity`.

        Position p is at index ``p & (capacity - 1)``. The buffers are valid until the next `append`.
        KeyError if the column is not kept.
        """
        try:
            return self._values[column], self._nulls[column]
        except KeyError:
            raise KeyError(f"the ring does not keep column {column!r}; it keeps {list(self._values)}") from None

    def _contiguous(self, n: int) -> Iterator[tuple[slice, slice]]:
        """Split n rows from ``tail`` into at most two contiguous ranges: slots of the ring, rows of the batch."""
        start = self._tail & (self.capacity - 1)
        first = min(n, self.capacity - start)
        if first:
            yield slice(start, start + first), slice(0, first)
        if n > first:
            yield slice(0, n - first), slice(first, n)

    def _grow(self, needed: int) -> None:
        capacity = _slots(needed)
        positions = np.arange(self._head, self._tail)
        old, new = positions & (self.capacity - 1), positions & (capacity - 1)

        def moved(buffer: npt.NDArray[Any]) -> npt.NDArray[Any]:
            larger = np.zeros(capacity, dtype=buffer.dtype)
            larger[new] = buffer[old]
            return larger

        values = {key: moved(buffer) for key, buffer in self._values.items()}
        not_null = np.zeros(capacity, dtype=np.uint8)
        nulls = {key: not_null if isinstance(key, str) else moved(buffer) for key, buffer in self._nulls.items()}
        self._values, self._nulls = values, nulls  # only now: the allocations can fail


def _slots(capacity: int) -> int:
    """Round a number of events up to a power of two."""
    return 1 << max(0, capacity - 1).bit_length()
