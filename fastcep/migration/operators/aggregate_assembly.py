"""Build a `WindowAggregate` from the window extents that have arrived."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.migration.operators.aggregate import WindowAggregate
from fastcep.migration.operators.limits import Limits
from fastcep.migration.operators.wire import TableAssembly, rejected, unpack_base
from fastcep.stored import COUNT, INT64, TEXT, listed, one_of, or_null, record, sequence, whole

__all__ = ["start_aggregate"]

_POSITIVE = whole(1, 2**61)
_DOCUMENT = record({
    "version": one_of(1), "kind": one_of("aggregate"), "time": TEXT, "keys": listed(TEXT), "time_unit": TEXT,
    "window": _POSITIVE, "slide": _POSITIVE, "aggregates": listed(sequence(TEXT, TEXT, or_null(TEXT))),
    "last": or_null(INT64), "position": COUNT, "states": whole(0, 2**31),
    "open": listed(sequence(INT64, whole(1, 2**31))), "incomplete": listed(INT64),
})  # fmt: skip


def start_aggregate(base: bytes, options: Mapping[str, Any]) -> TableAssembly:
    """Start an assembly.

    Parameters
    ----------
    base
        The base of a `WindowAggregate`.
    options
        ``max_states`` and ``memory_limit`` of the new operator.

    Raises
    ------
    SnapshotError
        If the base is not that of an aggregate.
    ValidationError
        If an option is wrong.
    """
    schema, document = unpack_base(base, _DOCUMENT)
    counts = dict(document["open"])
    if sum(counts.values()) != document["states"] or len(counts) != len(document["open"]):
        raise rejected("the base does not have one number of extents for each open window")
    Limits.of_options(options)
    try:
        operator = _operator(schema, document, options)
    except ValidationError as error:
        raise rejected(f"the base does not describe an aggregate ({error})") from None
    form = operator.form
    last, position = document["last"], document["position"]
    if any(start % form.slide or last is None or not last - form.window < start <= last for start in counts):
        raise rejected("the base has extents of a window that is not open")

    def check(extents: pa.RecordBatch) -> None:
        for name in (*form.keys, "start", "rows", *(f"n{i}" for i in range(len(form.columns)))):
            if extents[name].null_count:
                raise rejected(f"an extent has no {name}")
        rows = np.asarray(extents["rows"].to_numpy(), np.int64)
        if not set(np.unique(extents["start"].to_numpy()).tolist()) <= counts.keys():
            raise rejected("an extent belongs to a window that is not open")
        if ((rows < 1) | (rows > position)).any():
            raise rejected(f"an extent has a number of rows that is not from 1 to {position:,}")

    def build(extents: pa.Table) -> WindowAggregate:
        distinct = extents.group_by([*form.keys, "start"], use_threads=False).aggregate([])
        if distinct.num_rows < extents.num_rows:
            raise rejected("two extents have the same key and window")
        starts, numbers = np.unique(extents["start"].to_numpy(), return_counts=True)
        arrived = dict(zip(starts.tolist(), numbers.tolist(), strict=True))
        missing = [start for start, count in counts.items() if arrived.get(start, 0) < count]
        built = _operator(schema, document, options)
        incomplete = np.array(sorted({*missing, *document["incomplete"]}), np.int64)
        built.resume(extents, last, position, incomplete)
        return built

    return TableAssembly(form.schema, document["states"], check, build)


def _operator(schema: pa.Schema, document: Mapping[str, Any], options: Mapping[str, Any]) -> WindowAggregate:
    scale = {"s": 10**9, "ms": 10**6, "us": 10**3}.get(document["time_unit"], 1)
    return WindowAggregate(
        schema, time=document["time"], keys=document["keys"], time_unit=document["time_unit"],
        window=f"{document['window'] * scale}ns", slide=f"{document['slide'] * scale}ns",
        aggregates={name: (function, column) for name, function, column in document["aggregates"]}, **options,
    )  # fmt: skip
