"""Compute the columns of attributes of earlier events, ``prev(x.a, k)``, of each batch before it is matched.

Places count in the order of the stream, after ``allowed_lateness`` has sorted it, and include events that no variable
binds and those that a shedder drops. Per column, k values of each partition are kept, for as long as the engine runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.foreign_events import group_of_keys
from fastcep.engine.state.string_codes import Codes, Texts
from fastcep.engine.state.validation import check_columns, check_within
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.plan.earlier import EarlierColumn, EarlierColumns
from fastcep.plan.plan import PartitionPlan
from fastcep.stored import Misfit

__all__ = ["EarlierValues", "is_earlier", "text_columns_of"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.uint8]
_PREFIX = "previous "
#: Approximate bytes of a key of a partition in a dict.
_KEY_BYTES = 150


@dataclass(frozen=True, slots=True)
class _Values:
    """An attribute of the events of a batch, by partition.

    ``order`` are the events of partition 0, then those of partition 1, …; ``starts`` is where each partition begins in
    it, and ``keys`` are the words of the keys of the partitions. ``values`` and ``nulls`` are in this order.
    """

    order: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]
    keys: list[bytes]
    values: Ints
    nulls: Flags

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        """Number of events of each partition."""
        return np.diff(np.append(self.starts, len(self.order)))


@dataclass(slots=True)
class _Kept:
    """The last values of a column, by partition.

    ``slots`` maps the words of a key, as bytes, to a row of ``values`` and ``nulls``, which are int64[s, k] (float64 as
    its bits) and uint8[s, k] (1 = null or no event), the oldest event first.
    """

    column: EarlierColumn
    slots: dict[bytes, int] = field(default_factory=dict)
    values: Ints = field(init=False)
    nulls: Flags = field(init=False)

    def __post_init__(self) -> None:
        self.values = np.zeros((0, self.column.places), np.int64)
        self.nulls = np.ones((0, self.column.places), np.uint8)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.nulls.nbytes + _KEY_BYTES * len(self.slots)

    def rows_of(self, keys: Iterable[bytes]) -> npt.NDArray[np.intp]:
        """Return the rows of keys; a new key gets a row of nulls."""
        rows = np.array([self.slots.setdefault(key, len(self.slots)) for key in keys], np.intp)
        missing = len(self.slots) - len(self.values)
        if missing > 0:
            size = (max(missing, len(self.values)), self.column.places)
            self.values = np.concatenate([self.values, np.zeros(size, np.int64)])
            self.nulls = np.concatenate([self.nulls, np.ones(size, np.uint8)])
        return rows

    def earlier(self, read: _Values, values: Ints, nulls: Flags) -> None:
        """Write the value ``places`` before each event to ``values`` and ``nulls``."""
        places, order = self.column.places, read.order
        rank = np.arange(len(order)) - np.repeat(read.starts, read.sizes)
        inside = np.flatnonzero(rank >= places)
        outside = np.flatnonzero(rank < places)
        values[order[inside]], nulls[order[inside]] = read.values[inside - places], read.nulls[inside - places]
        rows = np.array([self.slots.get(key, -1) for key in read.keys], np.intp)
        rows = np.repeat(rows, read.sizes)[outside]
        outside, rows = outside[rows >= 0], rows[rows >= 0]
        values[order[outside]] = self.values[rows, rank[outside]]
        nulls[order[outside]] = self.nulls[rows, rank[outside]]
        values[nulls != 0] = 0

    def keep(self, read: _Values) -> None:
        """Keep the last values of each partition."""
        places, rows = self.column.places, self.rows_of(read.keys)
        # Place j of a partition is entry ``sizes + j`` of its old values followed by those of the events.
        at = read.sizes[:, None] + np.arange(places)
        is_old = at < places
        old = rows[:, None], np.where(is_old, at, 0)
        new = np.where(is_old, 0, read.starts[:, None] + at - places)
        if len(rows):
            self.values[rows] = np.where(is_old, self.values[old], read.values[new])
            self.nulls[rows] = np.where(is_old, self.nulls[old], read.nulls[new])


class EarlierValues:
    """The values of earlier events in one engine.

    Parameters
    ----------
    schema
        Schema of the events.
    strings
        The string table of the engine.

    Attributes
    ----------
    columns
        The columns, which plans add to.
    schema
        Schema of the events.
    """

    def __init__(self, schema: Schema, strings: StringTable) -> None:
        self.columns = EarlierColumns(schema)
        self.schema, self._strings = schema, strings
        self._kept: dict[int, _Kept] = {}
        self._read: dict[int, _Values] = {}  # of the batch that is being matched
        self._codes: Ints = np.zeros(0, np.int64)

    def __bool__(self) -> bool:
        return bool(self._kept)

    def use(self, numbers: Iterable[int]) -> None:
        """Compute, from the next event on, the columns with these numbers, and no others."""
        places = sorted({number - self.columns.first for number in numbers})
        self._kept = {place: self._kept.get(place) or _Kept(self.columns.columns[place]) for place in places}
        if any(kept.column.name == "type" for kept in self._kept.values()) and not len(self._codes):
            self._codes = np.array([self._strings.intern(name) for name in self.schema.type_names], np.int64)

    @property
    def nbytes(self) -> int:
        """Size of what is kept, in bytes."""
        return sum(kept.nbytes for kept in self._kept.values())

    def mark_codes(self, marks: Flags) -> None:
        """Set ``marks[c]`` for every string code c that is kept."""
        marks[self._codes] = 1
        for kept in self._kept.values():
            if kept.column.dtype == "s":
                marks[kept.values[kept.nulls == 0]] = 1
            for words, is_text in self._keys(kept):
                marks[words[is_text]] = 1

    def extended(self, batch: EventBatch) -> EventBatch:
        """Return a batch with its columns of earlier values; nothing of the state changes before `advance`."""
        n = len(batch)
        self._read = self._grouped(batch, n)
        columns: list[npt.NDArray[Any]] = []
        nulls: list[Flags | None] = []
        for place, column in enumerate(self.columns.columns):
            values, missing = np.zeros(n, np.int64), np.ones(n, np.uint8)
            if place in self._kept:
                self._kept[place].earlier(self._read[place], values, missing)
            columns.append(values.view(np.float64) if column.dtype == "f" else values)
            nulls.append(missing)
        return replace(batch, columns=(*batch.columns, *columns), nulls=(*batch.nulls, *nulls))

    def advance(self, batch: EventBatch, taken: int) -> None:
        """Keep the last values of the first ``taken`` events of the batch that was extended last."""
        if taken < len(batch) or self._read.keys() != self._kept.keys():  # an error or a change of queries: rare
            self._read = self._grouped(batch, taken)
        for place, kept in self._kept.items():
            kept.keep(self._read[place])
        self._read = {}

    def original(self, batch: EventBatch) -> EventBatch:
        """Return a batch without the columns of earlier values."""
        first = self.columns.first
        return replace(batch, columns=batch.columns[:first], nulls=batch.nulls[:first])

    # ------------------------------------------------------------------ values

    def _grouped(self, batch: EventBatch, taken: int) -> dict[int, _Values]:
        """Return the attributes of the first ``taken`` events by partition, for each column that is used."""
        groups: dict[PartitionPlan | None, tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], list[bytes]]] = {}
        result = {}
        for place, kept in self._kept.items():
            partition = kept.column.partition
            if partition not in groups:
                groups[partition] = _groups(partition, batch, taken)
            order, starts, keys = groups[partition]
            values, nulls = self._values_of(kept.column, batch, taken)
            result[place] = _Values(order, starts, keys, values[order], nulls[order])
        return result

    def _values_of(self, column: EarlierColumn, batch: EventBatch, taken: int) -> tuple[Ints, Flags]:
        """Return the attribute of the first ``taken`` events of a batch, and its nulls."""
        types = batch.type[:taken]
        if column.name == "time":
            return batch.time[:taken], np.zeros(taken, np.uint8)
        if column.name == "type":
            return self._codes[types], np.zeros(taken, np.uint8)
        values, nulls = np.zeros(taken, np.int64), np.ones(taken, np.uint8)
        for source in sorted(set(column.values) - {-1}):
            rows = np.flatnonzero((np.array(column.values) == source)[types])
            source_nulls = batch.nulls[source]
            values[rows] = batch.columns[source].view(np.int64)[rows]
            nulls[rows] = 0 if source_nulls is None else source_nulls[rows]
        return values, nulls

    # ---------------------------------------------------------------- snapshots

    def _keys(self, kept: _Kept) -> Iterator[tuple[Ints, npt.NDArray[np.bool_]]]:
        """Yield each word of the keys, and whether it is the code of a string."""
        partition = kept.column.partition
        for number, name in enumerate(kept.column.keys if partition is not None and kept.slots else ()):
            words = np.frombuffer(b"".join(kept.slots), np.int64).reshape(len(kept.slots), -1)[:, number].copy()
            dtypes = {self.schema.attributes(kind)[name] for kind, columns in zip(
                self.schema.type_names, partition.columns, strict=True) if columns} if partition else set()
            yield words, np.full(len(words), dtypes == {"string"})

    @staticmethod
    def _name(column: EarlierColumn) -> str:
        return f"{_PREFIX}{column.places} {column.name!r} {list(column.keys)}"

    @property
    def tables(self) -> set[str]:
        """Names of the tables in a snapshot."""
        return {self._name(kept.column) for kept in self._kept.values()}

    def to_tables(self, texts: Texts, selected: npt.NDArray[np.bool_] | None = None) -> dict[str, dict[str, Any]]:
        """Return the kept values as tables; string codes become numbers of texts.

        ``selected`` has a flag per key group; the others are left out. None: all partitions.
        """
        tables: dict[str, dict[str, Any]] = {}
        for kept in self._kept.values():
            rows = np.arange(len(kept.slots))
            keys = list(self._keys(kept))
            partition = kept.column.partition
            if selected is not None and keys and partition is not None:
                dtype = "s" if keys[0][1].all() else "f" if partition.floats[0] else "i"
                rows = rows[selected[group_of_keys(dtype, self._strings)(keys[0][0])]]
            if not len(rows):
                continue
            table: dict[str, Any] = {}
            for number, (words, is_text) in enumerate(keys):
                name = _key_name(number, bool(is_text.all()))
                table[name] = words[rows]
                if is_text.all():
                    texts.add(table[name], None)
            for place in range(kept.column.places):
                values, nulls = kept.values[rows, place], kept.nulls[rows, place]
                if kept.column.dtype == "s":
                    texts.add(values, nulls == 0)
                table |= {_value_name(kept.column, place): values, f"null {place}": nulls}
            tables[self._name(kept.column)] = table
        return tables

    def put(self, tables: Mapping[str, Mapping[str, Any]], codes: Codes) -> None:
        """Restore the kept values of a snapshot; those of other partitions stay.

        Raises
        ------
        Misfit
            A table has other columns than `to_tables` writes.
        """
        for kept in self._kept.values():
            name, column = self._name(kept.column), kept.column
            if name not in tables:
                continue
            schema = self.schema
            keys = [
                _key_name(number, any(schema.attributes(kind).get(attribute) == "string" for kind in schema.type_names))
                for number, attribute in enumerate(column.keys)
            ]
            dtypes: dict[str, Any] = dict.fromkeys(keys, np.int64)
            for place in range(column.places):
                dtypes |= {_value_name(column, place): np.int64, f"null {place}": np.uint8}
            check_columns(name, tables[name], dtypes)
            table = {key: np.array(values) for key, values in tables[name].items()}
            size = len(table["null 0"])
            for place in range(column.places):
                check_within(f"table {name!r}, null {place}", table[f"null {place}"], 0, 1)
            for key, mask in text_columns_of(table):
                codes.put(table[key], mask, f"table {name!r}")
            words = np.stack([table[key] for key in keys], axis=1) if keys else np.zeros((size, 0), np.int64)
            names = [np.ascontiguousarray(row).tobytes() for row in words]
            if len(set(names)) != size:
                raise Misfit(f"table {name!r}", "two rows of one partition", "one")
            rows = kept.rows_of(names)
            for place in range(column.places):
                kept.values[rows, place] = table[_value_name(column, place)]
                kept.nulls[rows, place] = table[f"null {place}"]


def is_earlier(table: str) -> bool:
    """Return whether a table of a snapshot has values of earlier events."""
    return table.startswith(_PREFIX)


def text_columns_of(table: Mapping[str, Any]) -> Iterator[tuple[str, npt.NDArray[np.bool_] | None]]:
    """Yield the columns of such a table with numbers of texts, each with the mask of its entries (None: all)."""
    for column in table:
        if column.startswith("text key "):
            yield column, None
        elif column.startswith("text "):
            yield column, table[column.replace("text", "null")] == 0


def _key_name(number: int, is_text: bool) -> str:
    return f"{'text ' * is_text}key {number}"


def _value_name(column: EarlierColumn, place: int) -> str:
    return f"{'text' if column.dtype == 's' else 'value'} {place}"


def _groups(
    partition: PartitionPlan | None, batch: EventBatch, taken: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], list[bytes]]:
    """Return the events in partitions, ordered by partition; where each partition begins; and the keys."""
    if partition is None:
        return np.arange(taken), np.zeros(min(taken, 1), np.intp), [b""] if taken else []
    types = batch.type[:taken]
    has_key = np.array([bool(columns) for columns in partition.columns])[types]
    words = np.zeros((taken, len(partition.floats)), np.int64)
    for sources in sorted(set(partition.columns) - {()}):
        rows = np.flatnonzero(np.array([columns == sources for columns in partition.columns])[types])
        for number, (source, is_float) in enumerate(zip(sources, partition.floats, strict=True)):
            part, source_nulls = batch.columns[source][rows], batch.nulls[source]
            if is_float:
                has_key[rows] &= part == part  # NaN is in no partition
                part = part + 0.0  # -0.0 equals 0.0
            if source_nulls is not None:
                has_key[rows] &= source_nulls[rows] == 0
            words[rows, number] = part.view(np.int64)
    members = np.flatnonzero(has_key)
    words = words[members]
    order = np.lexsort(words.T[::-1]) if words.shape[1] > 1 else np.argsort(words[:, 0], kind="stable")
    words = words[order]
    is_first = np.ones(len(words), np.bool_)
    is_first[1:] = (words[1:] != words[:-1]).any(axis=1)
    starts = np.flatnonzero(is_first)
    return members[order], starts, [row.tobytes() for row in words[starts]]
