"""Find out whether a DataFrame is a set of Parquet files that tasks can read themselves, and cut these into slices.

The statistics of row groups give the range of times in each. If few ranges overlap, a task can read the row groups of
its slice itself: no event is sent to another task, or converted by the JVM. The driver reads the footers, without a
Spark job.

Row groups are *separate* if all times of one are before those of the next. If positions of events count, slices begin
at separate row groups of files in order, so the position of their first event is the number of rows before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyarrow.fs import LocalFileSystem
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from fastcep.events import Schema
from fastcep.events.units import INT64_MAX, NANOSECONDS
from fastcep.plan.slicing import Context
from fastcep.spark.file_filter import condition_of
from fastcep.spark.slices import Slice

__all__ = ["FileSlice", "OrderedFiles", "RowGroup", "cut_by_time", "cut_files", "files_of", "ordered_files"]

_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
_RELATIONS = "org.apache.spark.sql.execution.datasources."
#: Maximum number of files whose footers the driver reads.
_MAX_FILES = 2_000
#: Share of the stream that may be read twice.
_MAX_REREAD = 0.25


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
    file_rows
        Number of rows of the file.
    """

    path: str
    number: int
    rows: int
    first: int
    last: int
    file_rows: int


@dataclass(frozen=True)
class OrderedFiles:
    """Row groups, sorted by their first time.

    Attributes
    ----------
    groups
        All row groups that have rows.
    unit
        Nanoseconds per unit of the time column.
    condition, names
        Condition of the rows that are events, and the columns that only it reads; None: all are.
    """

    groups: tuple[RowGroup, ...]
    unit: int
    condition: pc.Expression | None = None
    names: tuple[str, ...] = ()

    @property
    def in_order(self) -> bool:
        """True if no row group begins before the end of the one before it."""
        return all(one.last <= other.first for one, other in pairwise(self.groups))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(group.rows for group in self.groups)


@dataclass(frozen=True)
class FileSlice:
    """Slice of a stream in files.

    Attributes
    ----------
    groups
        Row groups to read, in order.
    bounds
        Matches that the slice owns, and the position of the first event of `groups`.
    begin, end
        Events before the time ``begin`` in ns are not needed, nor those from ``end`` on; None: all are.
    """

    groups: tuple[RowGroup, ...]
    bounds: Slice
    begin: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class _Source:
    """Files of a DataFrame.

    Attributes
    ----------
    paths
        Local paths.
    kinds
        Spark's types of the columns, by name.
    condition, names
        Condition of the rows that are events, and the columns that it reads; None: all are.
    """

    paths: list[str]
    kinds: dict[str, str]
    condition: pc.Expression | None = None
    names: frozenset[str] = frozenset()


def ordered_files(
    frame: DataFrame, schema: Schema, columns: Sequence[str], *, any_order: bool = False
) -> OrderedFiles | None:
    """Return the row groups of a DataFrame if it is nothing but Parquet files that tasks can read; otherwise None.

    Parameters
    ----------
    frame
        Any DataFrame. Joins or computed columns make it something else than files.
    schema
        Schema of the query.
    columns
        Names of the columns that the tasks read.
    any_order
        Whether files that are not in order, and filters, are allowed.
    """
    source = _source(frame)
    if source is None or not 0 < len(source.paths) <= _MAX_FILES:
        return None
    if not any_order and source.condition is not None:
        return None
    read = [*columns, *sorted(source.names.difference(columns))]
    files = files_of(source.paths, source.kinds, schema, read, any_order=any_order, condition=source.condition)
    return None if files is None else replace(files, names=tuple(read[len(columns) :]))


def files_of(
    paths: Sequence[str],
    kinds: Mapping[str, str],
    schema: Schema,
    columns: Sequence[str],
    *,
    any_order: bool = False,
    condition: pc.Expression | None = None,
) -> OrderedFiles | None:
    """Return the row groups of Parquet files, given Spark's types of their columns; None if tasks cannot read them."""
    if not isinstance(schema.time, str) or any("." in name for name in columns):
        return None
    groups: list[RowGroup] = []
    units: set[int] = set()
    for path in paths:
        try:
            file = pq.ParquetFile(path)
        except (OSError, pa.ArrowException):
            return None
        with file:
            unit = _unit(file.schema_arrow, kinds, schema, columns)
            needed = None if condition is None else _with_rows(path, condition)
            found = None if unit is None else _groups(path, file.metadata, schema.time, unit, needed)
        if unit is None or found is None:
            return None
        units.add(unit)
        groups += found
    groups.sort(key=lambda group: (group.first, group.last))
    if not groups or len(units) != 1:
        return None
    files = OrderedFiles(tuple(groups), units.pop(), condition)
    return files if any_order or files.in_order else None


def _with_rows(path: str, condition: pc.Expression) -> frozenset[int]:
    """Return the row groups of a file that may have rows for which a condition is true."""
    fragment: Any = ds.ParquetFileFormat().make_fragment(path, LocalFileSystem())
    return frozenset(group.id for part in fragment.split_by_row_group(condition) for group in part.row_groups)


def _source(frame: DataFrame) -> _Source | None:
    """Return the files of a DataFrame that is nothing but columns and rows of Parquet files."""
    try:
        plan: Any = frame._jdf.queryExecution().analyzed()
        condition, names = None, frozenset[str]()
        while (name := plan.getClass().getName()).endswith((".logical.Project", ".logical.Filter")):
            if name.endswith(".Project"):
                items = plan.projectList()
                for number in range(items.size()):
                    if not items.apply(number).getClass().getName().endswith(".AttributeReference"):
                        return None
            elif (translated := condition_of(plan.condition())) is None:
                return None
            else:
                condition = translated[0] if condition is None else condition & translated[0]
                names |= translated[1]
            plan = plan.child()
        if plan.getClass().getName() != f"{_RELATIONS}LogicalRelation":
            return None
        relation = plan.relation()
        if relation.getClass().getName() != f"{_RELATIONS}HadoopFsRelation":
            return None
        if relation.fileFormat().getClass().getName() != _PARQUET or not relation.partitionSchema().isEmpty():
            return None
        uris = [urlsplit(uri) for uri in relation.location().inputFiles()]
        fields = relation.schema().fields()
        kinds = {str(field.name()): str(field.dataType().simpleString()) for field in fields}
    except (Py4JError, PySparkException, AttributeError, TypeError):  # Spark Connect, or another version of Spark
        return None
    if any(uri.scheme != "file" for uri in uris):
        return None
    return _Source([unquote(uri.path) for uri in uris], kinds, condition, names)


def _unit(stored: pa.Schema, kinds: Mapping[str, str], schema: Schema, columns: Sequence[str]) -> int | None:
    """Return the nanoseconds per unit of the times of a file; None if Spark may read its columns differently."""
    for name in columns:
        if stored.get_all_field_indices(name) == [] or len(stored.get_all_field_indices(name)) > 1:
            return None
        if name != schema.time and _spark_name(stored.field(name).type) != kinds.get(name):
            return None
    assert isinstance(schema.time, str)
    time = stored.field(schema.time).type
    if _spark_name(time) == kinds[schema.time] == "timestamp":
        return NANOSECONDS[time.unit]
    return NANOSECONDS[schema.time_unit] if _spark_name(time) == kinds[schema.time] in ("int", "bigint") else None


def _spark_name(kind: Any) -> str | None:
    """Return Spark's name of a type that both sides read alike."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz and kind.unit in ("ms", "us") else None
    names = {
        pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint", pa.float32(): "float",
        pa.float64(): "double", pa.bool_(): "boolean", pa.string(): "string", pa.large_string(): "string",
    }  # fmt: skip
    return names.get(kind)


def _groups(path: str, metadata: Any, time: str, unit: int, needed: frozenset[int] | None) -> list[RowGroup] | None:
    """Return the needed row groups of a file; None if a range of times is not known, or there are nulls."""
    groups = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not group.num_rows or (needed is not None and number not in needed):
            continue
        places = [at for at in range(group.num_columns) if group.column(at).path_in_schema == time]
        statistics = group.column(places[0]).statistics if places else None
        if statistics is None or not statistics.has_min_max or statistics.null_count != 0:
            return None
        first, last = int(statistics.min_raw) * unit, int(statistics.max_raw) * unit
        if max(abs(first), abs(last)) > INT64_MAX:
            return None
        groups.append(RowGroup(path, number, group.num_rows, first, last, metadata.num_rows))
    return groups


def cut_files(
    files: OrderedFiles, slice_count: int, least: int, context: Context, most_reread: float = _MAX_REREAD
) -> list[FileSlice] | None:
    """Cut files into slices of about equal size.

    Parameters
    ----------
    files
        Row groups in order.
    slice_count
        Number of slices to aim at.
    least
        Minimum number of slices, if there are enough events.
    context
        Context of a slice before its start.
    most_reread
        Maximum share of the stream that is read twice.

    Returns
    -------
    list of FileSlice or None
        None if there are fewer than `least` slices, or if they would read too much twice.
    """
    groups = files.groups
    places = [0]
    for group in groups:
        places.append(places[-1] + group.rows)
    rows = places.pop()
    separate = [at for at in range(len(groups)) if not at or groups[at - 1].last < groups[at].first]
    starts = _starts(places, separate, rows, slice_count)
    if len(starts) < least:
        return None
    slices, read = [], 0
    for at, stop in zip(starts, [*starts[1:], len(groups)], strict=True):
        begin = groups[at].first - context.nanoseconds if at else None
        from_time = at if begin is None else next((one for one in range(at) if groups[one].last >= begin), at)
        from_events = bisect_right(places, max(places[at] - context.events, 0)) - 1
        first = separate[bisect_right(separate, min(from_time, from_events)) - 1]
        bounds = Slice(groups[at].first if at else None, groups[stop].first if stop < len(groups) else None,
                       position=places[first])  # fmt: skip
        read += (places[stop] if stop < len(groups) else rows) - places[first]
        slices.append(FileSlice(groups[first:stop], bounds, None if context.events else begin))
    return slices if read <= (1 + most_reread) * rows or len(slices) == 1 else None


def cut_by_time(
    files: OrderedFiles, slice_count: int, least: int, context: Context, most_reread: float = _MAX_REREAD
) -> list[FileSlice] | None:
    """Cut files whose row groups may overlap; parameters and result as for `cut_files`.

    A slice reads the row groups that have times in its range. The context must not be a number of events, and events
    must have sequence numbers.
    """
    groups = files.groups
    ends = np.cumsum([group.rows for group in groups])
    places = np.searchsorted(ends, [files.rows * part // slice_count for part in range(1, slice_count)], side="right")
    starts = sorted({groups[place].first for place in places.tolist()} - {groups[0].first})
    if len(starts) + 1 < least:
        return None
    slices, read = [], 0
    for start, stop in zip([None, *starts], [*starts, None], strict=True):
        begin = None if start is None else start - context.nanoseconds
        needed = tuple(group for group in groups if (begin is None or group.last >= begin)
                       and (stop is None or group.first < stop))  # fmt: skip
        read += sum(group.rows for group in needed)
        slices.append(FileSlice(needed, Slice(start, stop), begin, stop))
    return slices if read <= (1 + most_reread) * files.rows or len(slices) == 1 else None


def _starts(places: Sequence[int], separate: Sequence[int], rows: int, slice_count: int) -> list[int]:
    """Return the row groups at which slices begin: for each part of equal size the last one that is separate."""
    starts = {0}
    for part in range(1, slice_count):
        at = bisect_right(places, rows * part // slice_count) - 1
        starts.add(separate[bisect_right(separate, at) - 1])
    return sorted(starts)
