"""Find out whether a DataFrame is a set of Parquet files that tasks can read themselves.

The statistics of row groups give the range of times in each. If few ranges overlap, a task can read the row groups of
its slice itself: no event is sent to another task, or converted by the JVM. The driver reads the footers, without a
Spark job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem
from pyspark.sql import DataFrame

from fastcep.events import Schema
from fastcep.events.units import INT64_MAX, NANOSECONDS
from fastcep.spark.columns import stored_types
from fastcep.spark.files.parquet import opened
from fastcep.spark.files.source import source_of

__all__ = ["OrderedFiles", "RowGroup", "files_of", "ordered_files"]

#: Maximum number of files whose footers the driver reads.
_MAX_FILES = 2_000
#: Arrow's type of the columns that tasks read, by Spark's type. Strings of a row group may have more than 2 GiB.
_TYPES: dict[str, pa.DataType] = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.large_string(), "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip
#: Metadata of a file: the version of Spark that wrote it, and whether its times are those of the Julian calendar.
_WRITER, _LEGACY = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime"


@dataclass(frozen=True)
class RowGroup:
    """Row group of a file.

    Attributes
    ----------
    path, number
        File, and number of the row group in it.
    rows
        Number of rows.
    first, last
        Lowest and highest time in ns.
    footer
        Digest of the file's footer, see `opened`.
    """

    path: str
    number: int
    rows: int
    first: int
    last: int
    footer: bytes = b""


@dataclass(frozen=True)
class OrderedFiles:
    """Row groups, sorted by their first time.

    Attributes
    ----------
    groups
        All row groups that have rows.
    unit
        Nanoseconds per unit of the time column.
    types
        Types of the columns to read, by their names in the files.
    condition
        Condition of the rows that are events; None: all are.
    stored
        Names in the files of columns of the DataFrame; columns that are not named here have the same name.
    """

    groups: tuple[RowGroup, ...]
    unit: int
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    condition: pc.Expression | None = None
    stored: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_order(self) -> bool:
        """True if no row group begins before the end of the one before it."""
        return all(one.last <= other.first for one, other in pairwise(self.groups))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(group.rows for group in self.groups)


def ordered_files(
    frame: DataFrame, schema: Schema, columns: Sequence[str], *, any_order: bool = False
) -> OrderedFiles | None:
    """Return the row groups of a DataFrame if it is nothing but Parquet files that tasks can read; otherwise None.

    Parameters
    ----------
    frame
        Any DataFrame. Joins and computed columns make it something else than files.
    schema
        Schema of the query.
    columns
        Names of the columns that the query reads.
    any_order
        Whether files that are not in order, and rows that are not events, are allowed.
    """
    source = source_of(frame)
    if source is None or not 0 < len(source.paths) <= _MAX_FILES:
        return None
    if not source.stored.keys() >= set(columns):
        return None
    stored = {name: source.stored[name] for name in columns}
    read = list(dict.fromkeys([*stored.values(), *sorted(source.names)]))
    condition = source.condition
    if schema.type is not None and schema.other_types == "ignore":
        kind = pc.field(stored[str(schema.type)])
        declared = kind.isin(stored_types(schema)) | kind.is_null()
        condition = declared if condition is None else condition & declared
    if condition is not None and not any_order:
        return None
    files = files_of(source.paths, source.kinds, schema, read, any_order=any_order, condition=condition,
                     rebased=source.rebased, time=stored[str(schema.time)])  # fmt: skip
    return None if files is None else replace(files, stored=stored)


def files_of(
    paths: Sequence[str],
    kinds: Mapping[str, str],
    schema: Schema,
    columns: Sequence[str],
    *,
    any_order: bool = False,
    condition: pc.Expression | None = None,
    rebased: bool = False,
    time: str | None = None,
) -> OrderedFiles | None:
    """Return the row groups of Parquet files, given Spark's types of their columns; None if tasks cannot read them.

    ``columns`` are the columns to read, and ``time`` is the time column (None: that of the schema), in the files.
    """
    time = str(schema.time) if time is None else time
    if any("." in name or kinds.get(name) not in _TYPES for name in columns):
        return None
    if kinds[time] not in ("int", "bigint", "timestamp"):
        return None
    unit = NANOSECONDS["us" if kinds[time] == "timestamp" else schema.time_unit]
    dated = any(kinds[name] == "timestamp" for name in columns)
    groups: list[RowGroup] = []
    for path in paths:
        try:
            file, footer = opened(path)
            try:
                stored, metadata = file.schema_arrow, file.metadata
                if not _alike(stored, kinds, columns) or (dated and _julian(metadata.metadata or {}, rebased)):
                    return None
                needed = range(metadata.num_row_groups) if condition is None else _with_rows(path, condition)
                stored_unit = NANOSECONDS[stored.field(time).type.unit] if kinds[time] == "timestamp" else unit
                found = _groups(path, footer, metadata, time, stored_unit, needed)
            finally:
                file.close(force=True)
        except (OSError, pa.ArrowException):
            return None
        if found is None:
            return None
        groups += found
    groups.sort(key=lambda group: (group.first, group.last))
    files = OrderedFiles(tuple(groups), unit, {name: _TYPES[kinds[name]] for name in columns}, condition)
    return files if groups and (any_order or files.in_order) else None


def _alike(stored: pa.Schema, kinds: Mapping[str, str], columns: Sequence[str]) -> bool:
    """Return whether Spark reads the columns of a file as Arrow does."""
    for name in columns:
        # Spark may also take a column whose name has other capital letters.
        if [each for each in stored.names if each.lower() == name.lower()] != [name]:
            return False
        if _spark_name(stored.field(name).type) != kinds[name]:
            return False
    return True


def _julian(metadata: Mapping[bytes, bytes], rebased: bool) -> bool:
    """Return whether Spark may convert old timestamps of a file from the Julian calendar."""
    version = metadata.get(_WRITER)
    return rebased if version is None else _LEGACY in metadata or version < b"3"


def _with_rows(path: str, condition: pc.Expression) -> frozenset[int]:
    """Return the row groups of a file that may have rows for which a condition is true."""
    fragment: Any = ds.ParquetFileFormat().make_fragment(path, LocalFileSystem())
    return frozenset(group.id for part in fragment.split_by_row_group(condition) for group in part.row_groups)


def _spark_name(kind: Any) -> str | None:
    """Return Spark's name of a type that both sides read alike."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz and kind.unit in ("ms", "us") else None
    if pa.types.is_string(kind):
        return "string"
    return next((name for name, known in _TYPES.items() if known == kind), None)


def _groups(
    path: str, footer: bytes, metadata: Any, time: str, unit: int, needed: Collection[int]
) -> list[RowGroup] | None:
    """Return the needed row groups of a file; None if a range of times is not known, or there are nulls."""
    groups = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not group.num_rows or number not in needed:
            continue
        places = [at for at in range(group.num_columns) if group.column(at).path_in_schema == time]
        statistics = group.column(places[0]).statistics if places else None
        if statistics is None or not statistics.has_min_max or statistics.null_count != 0:
            return None
        first, last = int(statistics.min_raw) * unit, int(statistics.max_raw) * unit
        if max(abs(first), abs(last)) > INT64_MAX:
            return None
        groups.append(RowGroup(path, number, group.num_rows, first, last, footer))
    return groups
