"""The rows of a streaming query: matches, late events and timed-out partial matches in one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.engine import Engine, Matches
from fastcep.errors import ValidationError
from fastcep.events import Schema, StringTable
from fastcep.events.convert import from_numpy
from fastcep.events.export import empty_events, events_to_arrow
from fastcep.query import ast
from fastcep.query.plain_schema import NUMBER, TIME
from fastcep.spark.output_types import spark_type, to_spark

__all__ = ["KINDS", "Output", "output_of"]

#: Values of the column ``kind``.
KINDS = ("match", "late", "timed_out")
_KIND, _LATE = "kind", "late"
_TIMED_OUT = ("timed_out_at", "bound", "waits_for")


@dataclass(frozen=True)
class Output:
    """Layout of the rows.

    Attributes
    ----------
    schema
        Columns of the rows.
    numbered
        Whether the events have sequence numbers of the user.
    """

    schema: pa.Schema
    numbered: bool

    def matches(self, matches: Matches) -> pa.Table | None:
        """Return the rows of matches; None if there are none."""
        return self._rows("match", matches.to_arrow(), {}) if len(matches) else None

    def timed_out(self, table: pa.Table) -> pa.Table | None:
        """Return the rows of timed-out partial matches; None if there are none."""
        return self._rows("timed_out", table, {}) if table.num_rows else None

    def late_events(self, table: pa.Table) -> pa.Table | None:
        """Return the rows of late events, in stream order; None if there are none."""
        if not table.num_rows:
            return None
        time, number = table.column(TIME).cast(pa.int64()).to_numpy(), table.column(NUMBER).to_numpy()
        table = table.take(from_numpy(np.lexsort((number, time))))
        kind = self.schema.field(_LATE).type
        fields = [kind.field(index) for index in range(kind.num_fields)]
        columns: list[Any] = [
            to_spark(column, field.type) for column, field in zip(table.columns, fields, strict=True)
        ]
        return self._rows("late", pa.table({}), {_LATE: pa.StructArray.from_arrays(columns, fields=fields)})

    def _rows(self, kind: str, table: pa.Table, more: dict[str, Any]) -> pa.Table:
        count = table.num_rows or len(next(iter(more.values())))
        columns: list[Any] = []
        for field in self.schema:
            if field.name == _KIND:
                columns.append(pa.array([kind] * count, pa.string()))
            elif field.name in more:
                columns.append(more[field.name])
            elif field.name in table.column_names:
                columns.append(to_spark(table.column(field.name), field.type))
            else:
                columns.append(pa.nulls(count, field.type))
        return pa.table(columns, schema=self.schema)


def output_of(engine: Engine, schema: Schema, query: ast.Query, *, timed_out: bool) -> Output:
    """Return the layout of the rows of an engine over plain events.

    Parameters
    ----------
    engine
        Engine of the query over plain events.
    schema
        Schema of the user.
    query
        The query.
    timed_out
        Whether the engine collects timed-out partial matches.

    Raises
    ------
    ValidationError
        If the query has a column of a reserved name.
    """
    (empty,) = engine._stream.queries.nothings
    fields: list[Any] = [pa.field(_KIND, pa.string())]
    fields += [pa.field(column.name, spark_type(column.type)) for column in empty.table().schema]
    if timed_out:
        types: dict[str, Any] = {field.name: spark_type(field.type) for field in engine.timed_out().schema}
        fields += [pa.field(name, types[name]) for name in _TIMED_OUT]
    late = events_to_arrow(empty_events(schema), StringTable()).schema
    fields.append(pa.field(_LATE, pa.struct([pa.field(field.name, spark_type(field.type)) for field in late])))
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValidationError(
            f"query {query.name!r} has a column {twice[0]!r}, a name reserved for the rows of a stream; rename it"
        )
    return Output(pa.schema(fields), schema.sequence is not None)
