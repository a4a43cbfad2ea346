"""Build a `WindowJoin` from the stored rows that have arrived."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.errors import ValidationError
from fastcep.migration.operators.join import SIDES, Side, Stored, WindowJoin, row_schema
from fastcep.migration.operators.limits import Limits
from fastcep.migration.operators.wire import TableAssembly, rejected, unpack_base
from fastcep.stored import COUNT, INT64, TEXT, listed, one_of, or_null, record, sequence, whole

__all__ = ["start_join"]

_SIDE = record({"first": or_null(INT64), "last": or_null(INT64), "position": COUNT})
_DOCUMENT = record({
    "version": one_of(1), "kind": one_of("join"), "time": TEXT, "time_unit": TEXT, "window": whole(1, 2**61),
    "on": listed(sequence(TEXT, TEXT)), "sides": record({"left": _SIDE, "right": _SIDE}), "states": whole(0, 2**31),
})  # fmt: skip


def start_join(base: bytes, options: Mapping[str, Any]) -> TableAssembly:
    """Start an assembly.

    Parameters
    ----------
    base
        The base of a `WindowJoin`.
    options
        ``max_states`` and ``memory_limit`` of the new operator.

    Raises
    ------
    SnapshotError
        If the base is not that of a join.
    ValidationError
        If an option is wrong.
    """
    schema, document = unpack_base(base, _DOCUMENT)
    Limits.of_options(options)
    try:
        operator = _operator(schema, document, options)
    except (ValidationError, KeyError, AttributeError, TypeError) as error:
        raise rejected(f"the base does not describe a join ({error})") from None
    sides = document["sides"]

    def check(rows: pa.RecordBatch) -> None:
        count = [pc.list_value_length(rows[side]).fill_null(2).to_numpy(zero_copy_only=False) for side in SIDES]
        if len(rows) and (np.sum(count, axis=0) != 1).any():
            raise rejected("a state is not one row of one side")
        for side, table in _split(operator, rows).items():
            form, other = operator.formats[side], sides["left" if side == "right" else "right"]["last"]
            for name in (form.time, *form.keys):
                if table[name].null_count:
                    raise rejected(f"a row of the {side} side has no {name!r}")
            times, last = form.times(table), sides[side]["last"]
            if len(times) and (last is None or times.max() > last):
                raise rejected(f"a row of the {side} side is later than the last one")
            if len(times) and other is not None and times.min() < other - operator.window:
                raise rejected(f"a row of the {side} side is too old to have partners")

    def build(rows: pa.Table) -> WindowJoin:
        tables = _split(operator, rows.combine_chunks())
        built = _operator(schema, document, options)
        stored: dict[Side, Stored] = {}
        for side in SIDES:
            times = built.formats[side].times(tables[side])
            if (np.diff(times) < 0).any():
                raise rejected(f"the rows of the {side} side are out of order")
            stored[side] = Stored(tables[side], times, **sides[side])
        built.resume(stored)
        return built

    return TableAssembly(row_schema(operator.formats), document["states"], check, build)


def _split(operator: WindowJoin, rows: pa.RecordBatch | pa.Table) -> dict[Side, pa.Table]:
    """Return the rows of each side, in the order of the states."""
    tables: dict[Side, pa.Table] = {}
    for side in SIDES:
        values = pc.list_flatten(rows[side])
        chunk = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        tables[side] = pa.table(chunk.flatten(), schema=operator.formats[side].schema)
    return tables


def _operator(schema: pa.Schema, document: Mapping[str, Any], options: Mapping[str, Any]) -> WindowJoin:
    left, right = (pa.schema(list(schema.field(side).type.value_type)) for side in SIDES)
    scale = {"s": 10**9, "ms": 10**6, "us": 10**3}.get(document["time_unit"], 1)
    return WindowJoin(
        left, right, dict(document["on"]), f"{document['window'] * scale}ns", time=document["time"],
        time_unit=document["time_unit"], **options,
    )  # fmt: skip
