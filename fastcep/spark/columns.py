"""Convert the columns of a DataFrame for the engine: integer times, type ids, attributes under plain names.

Tasks need not know how the stream is stored, and only needed columns are sent to them. Spark's own expressions do the
conversion, except for attributes of dtype timestamp, and for dates and timestamps without a zone where the schema names
a zone: a user-defined function converts these by fastcep's rules.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type

from fastcep.errors import SchemaError, ValidationError
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.events.convert import Place, from_numpy, timestamp_column
from fastcep.events.schema import suggestion
from fastcep.events.units import NANOSECONDS
from fastcep.query.plain_schema import NUMBER, TYPE
from fastcep.spark.interpreter import set_interpreter

__all__ = ["HEADER", "SLICE", "SOURCE_TYPE", "Events", "events_of", "quoted", "stored_types"]

#: Columns of `Events.frame` besides those of plain events and ``o0``, ``o1``, …, which break ties.
SLICE, HEADER = "slice", "header"
#: The event type as it is stored, until times are converted.
SOURCE_TYPE = "kind"
_ORIGIN = "DataFrame"
#: Maximum number of types that are numbered by comparisons.
_MOST_CASES = 32
#: SQL for the microseconds of an interval of days to seconds, independent of the session's zone.
_MICROSECONDS = (
    "EXTRACT(DAY FROM {since}) * 86400000000L + EXTRACT(HOUR FROM {since}) * 3600000000L "
    "+ EXTRACT(MINUTE FROM {since}) * 60000000L + CAST(EXTRACT(SECOND FROM {since}) * 1000000 AS BIGINT)"
)


@dataclass(frozen=True)
class Events:
    """The events of a DataFrame.

    Attributes
    ----------
    frame
        ``raw`` (bigint: time in its own unit), ``type`` (int: type id, -1 for an undeclared type) and ``kind`` (the
        type as it is stored; both are missing if the schema has no type column), ``number`` (bigint; only if the schema
        has a sequence column), attributes. Nulls are kept.
    schema
        Schema of the user.
    unit
        Nanoseconds per unit of ``raw``.
    order
        Columns that order events of the same time.
    numbered
        Whether the frame has the column ``number``.
    """

    frame: DataFrame
    schema: Schema
    unit: int
    order: tuple[str, ...]
    numbered: bool


def events_of(
    frame: DataFrame,
    schema: Schema,
    order_by: str | Sequence[str] | None = None,
    columns: Collection[int] | None = None,
    *,
    streaming: bool = False,
) -> Events:
    """Select and convert the events of a DataFrame.

    Parameters
    ----------
    frame, order_by
        As for `detect`.
    schema
        Schema of the query.
    columns
        Indexes of the schema columns that are needed; None: all.
    streaming
        Whether the DataFrame may be a stream.

    Raises
    ------
    SchemaError
        If a column is missing, or its type does not fit.
    ValidationError
        If `order_by` is wrong, or the DataFrame is a stream.
    """
    if not isinstance(frame, DataFrame):
        raise ValidationError(f"found {type(frame).__name__}, expected a Spark DataFrame; create one with spark.read")
    if frame.isStreaming and not streaming:
        raise ValidationError("found a streaming DataFrame, expected a bounded one; create one with spark.read")
    set_interpreter(frame.sparkSession)
    _check(frame, schema)
    ties = _tie_columns(frame, schema, order_by)
    raw, unit = _time(frame, schema)
    selected = [raw.alias("raw")]
    if schema.type is not None:
        selected += [_type(frame, schema).alias(TYPE), _column(frame, schema.type).alias(SOURCE_TYPE)]
    if schema.sequence is not None:
        selected.append(_column(frame, schema.sequence).cast("bigint").alias(NUMBER))
    selected += [_column(frame, name).alias(f"o{number}") for number, name in enumerate(ties)]
    needed = sorted(range(len(schema.columns)) if columns is None else columns)
    selected += [_attribute(frame, schema, index).alias(f"c{index}") for index in needed]
    plain = frame.select(*selected)
    order: list[str] = [NUMBER]
    if schema.sequence is None:  # events that agree in all of these are the same to the query
        kinds = [TYPE] if schema.type is not None else []
        order = [*(f"o{number}" for number in range(len(ties))), *kinds, *(f"c{index}" for index in needed)]
    if schema.type is not None and schema.other_types == "ignore":
        plain = plain.filter(F.col(SOURCE_TYPE).isNull() | F.col(SOURCE_TYPE).isin(stored_types(schema)))
    return Events(plain, schema, unit, tuple(order), schema.sequence is not None)


def _check(frame: DataFrame, schema: Schema) -> None:
    """Check the types of the columns with an empty batch, before any job runs."""
    fields = [pa.field(field.name, _arrow_type(field.dataType)) for field in frame.schema.fields]
    empty = pa.Table.from_batches([], schema=pa.schema(fields))
    EventBatch.from_data(schema, empty, StringTable(), _ORIGIN)


def quoted(name: str) -> str:
    """Quote the name of a column for Spark."""
    return f"`{name.replace('`', '``')}`"


def _arrow_type(kind: T.DataType) -> Any:
    if isinstance(kind, T.TimestampType):
        return pa.timestamp("us", "UTC")
    try:
        return to_arrow_type(kind)
    except PySparkTypeError:  # rejected later, if the schema reads the column
        return pa.struct([])


def _column(frame: DataFrame, source: str | int) -> Column:
    """Return a column; strings get the default collation, so that they are compared byte by byte."""
    name = frame.columns[source] if isinstance(source, int) else source
    ambiguous = [other for other in frame.columns if other.lower() == name.lower()]
    if len(ambiguous) > 1 and frame.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
        raise SchemaError(
            f"{_ORIGIN}: found columns {' and '.join(map(repr, ambiguous))}, which Spark does not distinguish, "
            f"expected one {name!r}; rename the other, or set spark.sql.caseSensitive"
        )
    column = F.col(quoted(name))
    return column.cast("string") if isinstance(frame.schema[name].dataType, T.StringType) else column


def _tie_columns(frame: DataFrame, schema: Schema, order_by: str | Sequence[str] | None) -> list[str]:
    names = [order_by] if isinstance(order_by, str) else list(order_by or ())
    if names and schema.sequence is not None:
        raise ValidationError(
            f"order_by={order_by!r}: the schema's sequence column {schema.sequence!r} orders events of the same time; "
            "omit order_by"
        )
    for name in names:
        if not isinstance(name, str) or name not in frame.columns:
            raise ValidationError(
                f"order_by={order_by!r}: there is no column {name!r}{suggestion(name, frame.columns)}"
            )
        if not _sortable(kind := frame.schema[name].dataType):
            raise ValidationError(
                f"order_by={order_by!r}: column {name!r} is {kind.simpleString()}, which has no order; use another"
            )
    return names


def _sortable(kind: T.DataType) -> bool:
    """Return whether Spark can sort by a type."""
    if isinstance(kind, T.StructType):
        return all(_sortable(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _sortable(kind.elementType)
    return not isinstance(kind, T.MapType | T.VariantType | T.CalendarIntervalType)


def _time(frame: DataFrame, schema: Schema) -> tuple[Column, int]:
    """Return the time as bigint, and the nanoseconds per unit."""
    column = _column(frame, schema.time)
    name = schema.time if isinstance(schema.time, str) else frame.columns[schema.time]
    kind = next(field.dataType for field in frame.schema.fields if field.name == name)
    if isinstance(kind, T.ByteType | T.ShortType | T.IntegerType | T.LongType):
        return column.cast("bigint"), NANOSECONDS[schema.time_unit]
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(column), NANOSECONDS["us"]
    zone = schema.time_zone
    if isinstance(kind, T.DateType) and zone in (None, "UTC"):
        return F.unix_date(column).cast("bigint"), NANOSECONDS["d"]
    if isinstance(kind, T.TimestampNTZType) and zone in (None, "UTC"):
        return F.expr(_MICROSECONDS.format(since=f"({quoted(name)} - TIMESTAMP_NTZ'1970-01-01 00:00:00')")), 1_000
    if isinstance(kind, T.TimestampNTZType | T.DateType):

        def fastcep_time(times: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # Spark reads the annotation
            return _local_times(times, zone)

        make_udf: Any = arrow_udf
        return make_udf(fastcep_time, "bigint")(column), 1
    raise SchemaError(
        f"{_ORIGIN}, column {name!r}: found {kind.simpleString()} as time, expected bigint, timestamp or date; cast it"
    )


def _attribute(frame: DataFrame, schema: Schema, index: int) -> Column:
    """Return the column of an attribute, with nanoseconds (bigint) for timestamps."""
    column = schema.columns[index]
    selected, name = _column(frame, column.source), column.source
    unit, zone = schema.time_unit, schema.time_zone
    if column.dtype != "timestamp":
        return selected

    def fastcep_times(times: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # Spark reads the annotation
        return _nanoseconds(times, unit, zone, name)

    make_udf: Any = arrow_udf
    return make_udf(fastcep_times, "bigint")(selected)  # type: ignore[no-any-return]


def _local_times(times: Any, zone: str | None) -> pa.Array[Any]:
    """Convert local times of a zone to ns; nulls stay null."""
    return _nanoseconds(times, "ns", zone, "time")


def _nanoseconds(times: Any, unit: str, zone: str | None, name: str | int) -> pa.Array[Any]:
    """Convert times to ns; nulls stay null."""
    values, nulls = timestamp_column(times, unit, zone, Place(_ORIGIN, name, lambda row: row))
    result: pa.Array[Any] = from_numpy(values, nulls=nulls)
    return result


def _type(frame: DataFrame, schema: Schema) -> Column:
    """Return the type id: -1 for an undeclared type, null for a null."""
    assert schema.type is not None
    column = _column(frame, schema.type)
    values = stored_types(schema)
    if len(values) > _MOST_CASES:
        return (F.array_position(F.array(*map(F.lit, values)), column) - 1).cast("int")
    cases = F.when(column == F.lit(values[0]), 0)  # compiled, unlike a search in an array
    for number, value in enumerate(values[1:], start=1):
        cases = cases.when(column == F.lit(value), number)
    return F.when(column.isNotNull(), cases.otherwise(-1))


def stored_types(schema: Schema) -> list[str | int]:
    """Return the values of the type column, by number of the type."""
    return list(schema.type_names) if schema.codes is None else [schema.codes[name] for name in schema.type_names]
