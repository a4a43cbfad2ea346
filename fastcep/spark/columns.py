"""A DataFrame's columns as the engine needs them: times as nanoseconds, types as numbers, attributes under plain names.

So tasks need not know how the stream is stored, and what is sent to them is small. All of it are Spark's own
expressions, but for timestamps without a zone, and dates, where the schema names one: fastcep's own rules read these.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type

from fastcep.errors import SchemaError, ValidationError
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.events.convert import Place, from_numpy, time_column
from fastcep.events.schema import suggestion
from fastcep.events.units import NANOSECONDS
from fastcep.query import ast

__all__ = ["NUMBER", "SLICE", "TIME", "TYPE", "Events", "events_of", "plain_query", "read_by"]

#: Columns of `Events.frame`, beside ``c0``, ``c1``, … for attributes and ``o0``, … for what ties are broken by.
TIME, TYPE, NUMBER, SLICE = "time", "type", "number", "slice"
_ORIGIN = "DataFrame"
#: Of an interval of days to seconds, whatever the session's zone.
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
        ``raw`` (bigint: the time in its own unit), ``type`` (int: type id, -1 not declared; none if the schema has no
        type column), ``number`` (bigint, if the schema has a sequence column), attributes; nulls where they are.
    schema
        The user's.
    unit
        Nanoseconds of a unit of ``raw``.
    order
        Columns that say, after the time, in which order events come.
    numbered
        Whether ``number`` is there.
    """

    frame: DataFrame
    schema: Schema
    unit: int
    order: tuple[str, ...]
    numbered: bool


def read_by(query: ast.Query, expressions: object = ()) -> frozenset[int]:
    """Which of its schema's columns a query, or texts of expressions, may read: those whose names are anywhere."""
    schema, names = query.schema, set(_texts(replace(query, text=None)))
    names.update(name for text in _texts(expressions) for name in re.findall(r"\w+", text))
    own = ((kind, name) for kind in schema.type_names for name in schema.attributes(kind) if name in names)
    return frozenset(schema.column_of(kind, name) for kind, name in own)


def _texts(node: Any) -> Iterator[str]:
    """All texts in it."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, tuple | list | set | frozenset):
        for item in node:
            yield from _texts(item)
    elif isinstance(node, Mapping):
        yield from _texts(tuple(node.values()))
    elif is_dataclass(node):
        for item in fields(node):
            yield from _texts(getattr(node, item.name))


def events_of(
    frame: DataFrame,
    schema: Schema,
    order_by: str | Sequence[str] | None = None,
    columns: Collection[int] | None = None,
) -> Events:
    """Take the events of a DataFrame.

    Parameters
    ----------
    frame, order_by
        As for `detect`.
    schema
        Of the query.
    columns
        Which of the schema's are needed; None: all.

    Raises
    ------
    SchemaError
        A column is missing, or of a type that does not fit.
    ValidationError
        `order_by` is wrong, or the DataFrame is a stream.
    """
    if not isinstance(frame, DataFrame):
        raise ValidationError(f"found {type(frame).__name__}, expected a Spark DataFrame; spark.read gives one")
    if frame.isStreaming:
        raise ValidationError("found a streaming DataFrame, expected one with an end, as spark.read gives it")
    _check(frame, schema)
    ties = _ties(frame, schema, order_by)
    raw, unit = _time(frame, schema)
    taken = [raw.alias("raw")]
    if schema.type is not None:
        taken.append(_type(frame, schema).alias(TYPE))
    if schema.sequence is not None:
        taken.append(_column(frame, schema.sequence).cast("bigint").alias(NUMBER))
    taken += [_column(frame, name).alias(f"o{at}") for at, name in enumerate(ties)]
    needed = sorted(range(len(schema.columns)) if columns is None else columns)
    taken += [_column(frame, schema.columns[at].source).alias(f"c{at}") for at in needed]
    plain = frame.select(*taken)
    order: list[str] = [NUMBER]
    if schema.sequence is None:  # what is left to tell apart after these is the same to every query
        kinds = [TYPE] if schema.type is not None else []
        order = [*(f"o{at}" for at in range(len(ties))), *kinds, *(f"c{at}" for at in needed)]
    if schema.type is not None and schema.other_types == "ignore":
        plain = plain.filter(F.col(TYPE).isNull() | (F.col(TYPE) >= 0))
    return Events(plain, schema, unit, tuple(order), schema.sequence is not None)


def plain_query(query: ast.Query, columns: Collection[int] | None = None) -> ast.Query:
    """The query over the columns of `Events.frame`, all or some, with times in ns as ``time``."""
    schema = query.schema
    types = {
        kind: {name: dtype for name, dtype in schema.attributes(kind).items()
               if columns is None or schema.column_of(kind, name) in columns}
        for kind in schema.type_names
    }  # fmt: skip
    several = schema.type is not None
    plain = Schema(
        types, time=TIME, type=TYPE if several else None, sequence=NUMBER,
        codes={name: number for number, name in enumerate(types)} if several else None,
        sources={name: {of: f"c{schema.column_of(name, of)}" for of in own} for name, own in types.items()},
    )  # fmt: skip
    return replace(query, schema=plain)


def _check(frame: DataFrame, schema: Schema) -> None:
    """Let the engine refuse columns before anything runs."""
    fields = [pa.field(field.name, _arrow_type(field.dataType)) for field in frame.schema.fields]
    empty = pa.Table.from_batches([], schema=pa.schema(fields))
    EventBatch.from_data(schema, empty, StringTable(), _ORIGIN)


def quoted(name: str) -> str:
    """A column's name as Spark reads it."""
    return f"`{name.replace('`', '``')}`"


def _arrow_type(kind: T.DataType) -> Any:
    if isinstance(kind, T.TimestampType):
        return pa.timestamp("us", "UTC")
    try:
        return to_arrow_type(kind)
    except PySparkTypeError:  # is refused if it is needed
        return pa.struct([])


def _column(frame: DataFrame, source: str | int) -> Column:
    """A column; texts are equal only if their letters are, whatever the DataFrame's collation."""
    name = frame.columns[source] if isinstance(source, int) else source
    same = [other for other in frame.columns if other.lower() == name.lower()]
    if len(same) > 1 and frame.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
        raise SchemaError(
            f"{_ORIGIN}: found columns {' and '.join(map(repr, same))}, which Spark takes for one, expected one "
            f"{name!r}; rename the other, or set spark.sql.caseSensitive"
        )
    column = F.col(quoted(name))
    return column.cast("string") if isinstance(frame.schema[name].dataType, T.StringType) else column


def _ties(frame: DataFrame, schema: Schema, order_by: str | Sequence[str] | None) -> list[str]:
    names = [order_by] if isinstance(order_by, str) else list(order_by or ())
    if names and schema.sequence is not None:
        raise ValidationError(
            f"order_by={order_by!r}: the schema's sequence column {schema.sequence!r} gives the order of events with "
            "one time; leave order_by out"
        )
    for name in names:
        if not isinstance(name, str) or name not in frame.columns:
            raise ValidationError(
                f"order_by={order_by!r}: there is no column {name!r}{suggestion(name, frame.columns)}"
            )
        if not _sortable(kind := frame.schema[name].dataType):
            raise ValidationError(
                f"order_by={order_by!r}: column {name!r} is {kind.simpleString()}, which has no order; take another"
            )
    return names


def _sortable(kind: T.DataType) -> bool:
    """Whether Spark can sort by it."""
    if isinstance(kind, T.StructType):
        return all(_sortable(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _sortable(kind.elementType)
    return not isinstance(kind, T.MapType | T.VariantType | T.CalendarIntervalType)


def _time(frame: DataFrame, schema: Schema) -> tuple[Column, int]:
    """The time as bigint, and how many ns its unit has."""
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

        def fastcep_time(times: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # which Spark looks at
            return _local_times(times, zone)

        make: Any = arrow_udf
        return make(fastcep_time, "bigint")(column), 1
    raise SchemaError(
        f"{_ORIGIN}, column {name!r}: found {kind.simpleString()} as time, expected bigint, timestamp or date; cast it"
    )


def _local_times(times: Any, zone: str | None) -> pa.Array[Any]:
    """Times of a zone as ns, null where they are."""
    known = times.drop_null()
    found: Any = time_column(known, "ns", zone, Place(_ORIGIN, "time", lambda row: row))
    valid = times.is_valid().to_numpy(zero_copy_only=False)
    out = np.zeros(len(times), np.int64)
    out[valid] = found
    whole: pa.Array[Any] = from_numpy(out, nulls=~valid)
    return whole


def _type(frame: DataFrame, schema: Schema) -> Column:
    """The type id, -1 of a type that is not declared, null where there is none."""
    assert schema.type is not None
    column = _column(frame, schema.type)
    names = schema.type_names if schema.codes is None else [schema.codes[name] for name in schema.type_names]
    return (F.array_position(F.array(*map(F.lit, names)), column) - 1).cast("int")
