"""Symmetric join of two streams over a window of time, whose state can be sent in parts.

Each row is stored until no row of the other stream can be close enough in time. A pair is returned by the call that
reads the second of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.errors import OrderError, ValidationError
from fastcep.migration.operators.limits import Limits
from fastcep.migration.operators.pairs import close_pairs, key_codes
from fastcep.migration.operators.rows import LONGEST, Data, RowFormat
from fastcep.migration.operators.suspension import Suspendable
from fastcep.migration.operators.utilities import utilities
from fastcep.migration.operators.wire import StatesOfTable, message_sizes, pack_base, variable_bytes
from fastcep.migration.states import Floats, Ints, States
from fastcep.option_checks import check_whole

__all__ = ["SIDES", "Side", "Stored", "WindowJoin", "row_schema", "rows_of_sides"]

Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")

#: Utility of stored rows: called with the side and its rows.
TupleUtility = Callable[[Side, pa.Table], npt.ArrayLike]


@dataclass(frozen=True)
class Stored:
    """State of one side.

    Attributes
    ----------
    rows, times
        The stored rows, in the order of arrival, and their times; int64[n].
    first, last
        Time of the first row of the stream, and of the last; None before the first. No earlier row than `last` follows.
    position
        Number of rows read.
    """

    rows: pa.Table
    times: Ints
    first: int | None = None
    last: int | None = None
    position: int = 0

    def kept(self, keep: npt.NDArray[np.bool_]) -> Stored:
        """Return the state with some of the rows."""
        return self if keep.all() else replace(self, rows=self.rows.filter(pa.array(keep)), times=self.times[keep])

    def with_rows(self, rows: pa.Table, times: Ints) -> Stored:
        """Return the state with further rows."""
        combined = pa.concat_tables([self.rows, rows]).combine_chunks()
        return replace(self, rows=combined, times=np.concatenate([self.times, times]))


class WindowJoin(Suspendable):
    """Pairs of rows of two streams with equal keys, whose times differ by at most a window.

    The streams may be read in turns of any length. Rows of the stream that is ahead are stored until the other has
    caught up, so read them at about the same pace. A call takes time in proportion to the stored rows, so give many
    rows at once.

    Parameters
    ----------
    left, right
        Schemas of the rows. Rows may have more columns, which are left out.
    on
        Key columns, without nulls: a list of names that both sides have, or a mapping of names of the left side to
        those of the right.
    window
        Largest difference of the times of a pair, inclusive.
    time
        Time column of both sides: timestamps of the same unit without nulls, or integers in `time_unit`. Times of each
        side ascend.
    time_unit
        Unit of integer times: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``.
    max_states, memory_limit
        Largest number of rows, and of bytes such as ``"64MiB"``, that are stored after a call.

    Raises
    ------
    ValidationError
        If an argument is wrong.
    """

    def __init__(
        self,
        left: pa.Schema,
        right: pa.Schema,
        on: Sequence[str] | Mapping[str, str],
        window: str | timedelta,
        *,
        time: str,
        time_unit: str = "ns",
        max_states: int | None = None,
        memory_limit: str | int | None = None,
    ) -> None:
        pairs = dict(on) if isinstance(on, Mapping) else {name: name for name in _names(on)}
        if not pairs:
            raise ValidationError(f"on={on!r}: expected at least one key column")
        self._formats: dict[Side, RowFormat] = {
            "left": RowFormat.of("left: ", left, time, list(pairs), time_unit),
            "right": RowFormat.of("right: ", right, time, list(pairs.values()), time_unit),
        }
        _check_sides(*self._formats.values())
        self._window = self._formats["left"].duration("window", window)
        self._limits = Limits.of(max_states, memory_limit)
        self._stored: dict[Side, Stored] = {
            side: Stored(form.schema.empty_table(), np.empty(0, np.int64)) for side, form in self._formats.items()
        }
        self._pairs = 0

    @property
    def formats(self) -> Mapping[Side, RowFormat]:
        """Columns of the sides."""
        return self._formats

    @property
    def window(self) -> int:
        """Largest difference of the times of a pair, in units of the time column."""
        return self._window

    @property
    def position(self) -> int:
        """Number of rows read, of both sides."""
        return sum(stored.position for stored in self._stored.values())

    @property
    def output_schema(self) -> pa.Schema:
        """Schema of the pairs: the columns of the left side as ``left_NAME``, then those of the right side."""
        return pa.schema([
            field.with_name(f"{side}_{field.name}") for side in SIDES for field in self._formats[side].schema
        ])  # fmt: skip

    def process(self, rows: Data, side: Side) -> pa.Table:
        """Read rows of one side; return their pairs with the stored rows of the other.

        Parameters
        ----------
        rows
            Rows with ascending times, not earlier than those of the side before.
        side
            ``"left"`` or ``"right"``.

        Returns
        -------
        pyarrow.Table
            The pairs, see `output_schema`, in the order of the rows, then of the stored rows.

        Raises
        ------
        SchemaError, DataError, OrderError
            If a column is missing or has another type, a value is wrong, or a row is out of order.
        MemoryLimitError
            If more rows would be stored than the limits allow.

        After an error, the operator is as before the call.
        """
        self._check_here()
        own, other = self._side(side), _opposite(side)
        table, times = self._formats[side].read(rows, own.last)
        if not len(times):
            return self.output_schema.empty_table()
        others = self._stored[other]
        codes = key_codes(self._keys(side, table), self._keys(other, others.rows))
        mine, partner = close_pairs(codes[0], times, codes[1], others.times, self._window)
        found = {side: table.take(mine), other: others.rows.take(partner)}
        first = int(times[0]) if own.first is None else own.first
        changed = replace(own.with_rows(table, times), first=first, last=int(times[-1]))
        self._store({side: replace(changed, position=own.position + len(times)), other: others})
        self._pairs += len(mine)
        columns = [column for name in SIDES for column in found[name].columns]
        return pa.table(columns, schema=self.output_schema).combine_chunks()

    def advance(self, time: int) -> None:
        """Report that no row before a time will arrive on either side; forget rows that cannot have partners any more.

        Parameters
        ----------
        time
            In units of the time column.

        Raises
        ------
        ValidationError
            If the time is no int.
        OrderError
            If it is before the last row of a side.
        """
        self._check_here()
        check_whole("time", time, -LONGEST, LONGEST)
        for side, stored in self._stored.items():
            if stored.last is not None and time < stored.last:
                raise OrderError(
                    f"time={time} is before the last row of the {side} side, {stored.last}", "advance to a later time"
                )
        self._store({side: replace(stored, last=time) for side, stored in self._stored.items()})

    def metrics(self) -> dict[str, int]:
        """Return the number of rows read, of stored rows (``states``) and their bytes, and of pairs returned."""
        stored = self._stored.values()
        return {
            "rows": self.position, "states": sum(len(side.times) for side in stored),
            "bytes": sum(_size(side) for side in stored), "pairs": self._pairs,
        }  # fmt: skip

    def partial_states(self, utility: str | TupleUtility = "auto", seed: int = 0) -> StatesOfTable:
        """Cut the state into stored rows.

        Parameters
        ----------
        utility
            ``"auto"``
                The expected number of partners: the rate of rows of the other side with the same key, times the time
                in which partners can still arrive. The rate is measured over the last window of the other side, or
                its whole time if that is shorter.
            ``"size"``
                The size to the power of 1.5.
            ``"random"``
                Drawn from 0 to 1 by `seed`.
            a function
                It is called with each side and a table of its rows, and returns a finite number, at least 0, for each
                row.
        seed
            Seed for ``"random"``.

        Returns
        -------
        PartialStates
            See `fastcep.migration.partition`; the rows of the left side come first.

        Raises
        ------
        ValidationError
            If the utility is unknown, or the values of a function are wrong.
        """
        self._check_here()
        extra = []
        for side in SIDES:
            stored = self._stored[side]
            lengths = [variable_bytes(column.combine_chunks()) for column in stored.rows.columns]
            extra.append(np.sum([np.zeros(len(stored.times), np.int64), *lengths], axis=0))
        rows = rows_of_sides(self._formats, {side: stored.rows for side, stored in self._stored.items()})
        kinds = np.repeat(np.array([0, 1], np.int8), [len(part) for part in extra])
        size = message_sizes(rows, [np.concatenate(extra)], kinds)
        values = utilities(
            utility, seed, size, lambda: np.concatenate([self._partners(side) for side in SIDES]), self._called
        )
        left = self._formats["left"]
        document = {
            "version": 1, "kind": "join", "time": left.time, "time_unit": left.time_unit, "window": self._window,
            "on": [list(pair) for pair in zip(left.keys, self._formats["right"].keys, strict=True)],
            "sides": {
                side: {"first": stored.first, "last": stored.last, "position": stored.position}
                for side, stored in self._stored.items()
            },
            "states": rows.num_rows,
        }  # fmt: skip
        packed = pack_base(row_schema(self._formats), document)
        return StatesOfTable("join", States(size, values), self.position, rows, packed, self)

    def resume(self, stored: Mapping[Side, Stored]) -> None:
        """Take the state of an operator of the same definition, for `fastcep.migration.operators.join_assembly`.

        Raises
        ------
        MemoryLimitError
            If there are more rows than the limits allow.
        """
        self._store(stored)

    def _side(self, side: Side) -> Stored:
        if side not in SIDES:
            raise ValidationError(f"side={side!r}: expected 'left' or 'right'")
        return self._stored[side]

    def _keys(self, side: Side, table: pa.Table) -> list[Any]:
        return [table[name] for name in self._formats[side].keys]

    def _store(self, stored: Mapping[Side, Stored]) -> None:
        """Keep the rows that can have partners in the future."""
        kept: dict[Side, Stored] = {}
        for side in SIDES:
            last = stored[_opposite(side)].last
            kept[side] = stored[side] if last is None else stored[side].kept(stored[side].times >= last - self._window)
        self._limits.check(sum(len(side.times) for side in kept.values()), sum(map(_size, kept.values())))
        self._stored = kept

    def _called(self, utility: TupleUtility) -> Floats:
        """Return the utilities of a function of the user."""
        values = []
        for side, stored in self._stored.items():
            values.append(np.asarray(utility(side, stored.rows)))
            if values[-1].shape != stored.times.shape:
                found = f"shape {values[-1].shape} for {len(stored.times):,} rows of the {side} side"
                raise ValidationError(f"utility: {found}; return one value for each row")
        return np.concatenate(values)

    def _partners(self, side: Side) -> Floats:
        own, others = self._stored[side], self._stored[_opposite(side)]
        if others.first is None or others.last is None:
            return np.zeros(len(own.times))
        recent = others.times > others.last - self._window
        codes, other_codes = key_codes(
            self._keys(side, own.rows),
            [column.filter(pa.array(recent)) for column in self._keys(_opposite(side), others.rows)],
        )
        counts = np.bincount(other_codes, minlength=int(codes.max(initial=0)) + 1)
        span = max(1, min(self._window, others.last - others.first))
        left = np.clip(own.times + self._window - others.last, 0, None)
        return np.asarray(counts[codes] / span * left, np.float64)


def row_schema(formats: Mapping[Side, RowFormat]) -> pa.Schema:
    """Return the schema of stored rows as states: a list for each side, of which one has a row and the other none."""
    return pa.schema([pa.field(side, pa.list_(pa.struct(list(formats[side].schema)))) for side in SIDES])


def rows_of_sides(formats: Mapping[Side, RowFormat], tables: Mapping[Side, pa.Table]) -> pa.RecordBatch:
    """Return the rows of both sides as states, the left side first."""
    schema = row_schema(formats)
    count = [tables[side].num_rows for side in SIDES]
    lists = []
    for side, lengths in zip(SIDES, ([1, 0], [0, 1]), strict=True):
        table = tables[side]
        rows = pa.StructArray.from_arrays(
            [column.combine_chunks() for column in table.columns], fields=list(table.schema)
        )
        offsets = np.cumsum(np.concatenate([[0], np.repeat(lengths, count)])).astype(np.int32)
        lists.append(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), rows, type=schema.field(side).type))
    return pa.record_batch(lists, schema=schema)


def _opposite(side: Side) -> Side:
    return "right" if side == "left" else "left"


def _size(stored: Stored) -> int:
    return stored.rows.nbytes + stored.times.nbytes


def _names(on: Sequence[str]) -> Sequence[str]:
    if isinstance(on, str):
        raise ValidationError(f"on={on!r}: expected a list of names, or a mapping of names")
    return on


def _check_sides(left: RowFormat, right: RowFormat) -> None:
    if left.time_unit != right.time_unit:
        raise ValidationError(
            f"time column {left.time!r} is in {left.time_unit} on the left, in {right.time_unit} on the right; cast one"
        )
    for first, second in zip(left.keys, right.keys, strict=True):
        found = left.schema.field(first).type, right.schema.field(second).type
        if found[0] != found[1]:
            raise ValidationError(
                f"on: {first!r} has type {found[0]} on the left, {second!r} has type {found[1]} on the right; cast one"
            )
