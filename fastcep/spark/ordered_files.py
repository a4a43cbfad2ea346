"""Find out whether a DataFrame is a set of Parquet files in the order of time, and cut these into slices.

The statistics of row groups give the range of times in each. If the ranges follow each other, a task can read the row
groups of its slice itself: no event is sorted across row groups, sent to another task, or converted by the JVM. The
driver reads the footers, without a Spark job.

Row groups are *separate* if all times of one are before those of the next. Slices begin at separate row groups, so the
position of their first event is the number of rows before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from fastcep.events import Schema
from fastcep.events.units import INT64_MAX, NANOSECONDS
from fastcep.plan.slicing import Context
from fastcep.spark.slices import Slice

__all__ = ["FileSlice", "OrderedFiles", "RowGroup", "cut_files", "files_of", "ordered_files"]

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
    """Row groups in the order of time.

    Attributes
    ----------
    groups
        All row groups that have rows.
    unit
        Nanoseconds per unit of the time column.
    """

    groups: tuple[RowGroup, ...]
    unit: int

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
    begin
        Events before this time in ns are not needed; None: all are.
    """

    groups: tuple[RowGroup, ...]
    bounds: Slice
    begin: int | None = None


def ordered_files(frame: DataFrame, schema: Schema, columns: Sequence[str]) -> OrderedFiles | None:
    """Return the row groups of a DataFrame if it is nothing but Parquet files in the order of time; otherwise None.

    Parameters
    ----------
    frame
        Any DataFrame. Filters, joins or computed columns make it something else than files.
    schema
        Schema of the query.
    columns
        Names of the columns that the tasks read.
    """
    paths = _paths(frame)
    if paths is None or not 0 < len(paths) <= _MAX_FILES:
        return None
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    return files_of(paths, kinds, schema, columns)


def files_of(
    paths: Sequence[str], kinds: Mapping[str, str], schema: Schema, columns: Sequence[str]
) -> OrderedFiles | None:
    """Return the row groups of Parquet files, given Spark's types of their columns; None unless they are in order."""
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
            found = None if unit is None else _groups(path, file.metadata, schema.time, unit)
        if unit is None or found is None:
            return None
        units.add(unit)
        groups += found
    groups.sort(key=lambda group: (group.first, group.last))
    in_order = all(one.last <= other.first for one, other in pairwise(groups))
    return OrderedFiles(tuple(groups), units.pop()) if in_order and groups and len(units) == 1 else None


def _paths(frame: DataFrame) -> list[str] | None:
    """Return the local files of a DataFrame that is nothing but columns of Parquet files."""
    try:
        plan: Any = frame._jdf.queryExecution().analyzed()
        name = plan.getClass().getName()
        if name.endswith(".logical.Project"):
            items = plan.projectList()
            for number in range(items.size()):
                if not items.apply(number).getClass().getName().endswith(".AttributeReference"):
                    return None
            plan = plan.child()
        if plan.getClass().getName() != f"{_RELATIONS}LogicalRelation":
            return None
        relation = plan.relation()
        if relation.getClass().getName() != f"{_RELATIONS}HadoopFsRelation":
            return None
        if relation.fileFormat().getClass().getName() != _PARQUET or not relation.partitionSchema().isEmpty():
            return None
        uris = [urlsplit(uri) for uri in relation.location().inputFiles()]
    except (Py4JError, PySparkException, AttributeError, TypeError):  # Spark Connect, or another version of Spark
        return None
    return [unquote(uri.path) for uri in uris] if all(uri.scheme == "file" for uri in uris) else None


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


def _groups(path: str, metadata: Any, time: str, unit: int) -> list[RowGroup] | None:
    """Return the row groups of a file; None if the range of times is not known, or there are nulls."""
    groups = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not group.num_rows:
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


def _starts(places: Sequence[int], separate: Sequence[int], rows: int, slice_count: int) -> list[int]:
    """Return the row groups at which slices begin: for each part of equal size the last one that is separate."""
    starts = {0}
    for part in range(1, slice_count):
        at = bisect_right(places, rows * part // slice_count) - 1
        starts.add(separate[bisect_right(separate, at) - 1])
    return sorted(starts)
