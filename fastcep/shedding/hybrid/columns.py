"""Columns of tables of members (partial matches or events): names, and conversion to NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.errors import ValidationError
from fastcep.overload.protocols import Floats, Ints

__all__ = [
    "CONSUMPTION", "CONTRIBUTION", "ORDINAL", "POSITION", "Flags", "Parts", "column", "features_in", "identity",
    "matrix", "vectors",
]  # fmt: skip

Flags = npt.NDArray[np.bool_]
Parts = npt.NDArray[np.float32]

CONTRIBUTION, CONSUMPTION = "contribution", "consumption"
#: Identity of a member, however the stream is cut: the position in the whole stream of the event that created it, and
#: its number among the members that this event created. Features contain a dot, so none has such a name.
POSITION, ORDINAL = "position", "ordinal"


def features_in(members: pa.Table) -> list[str]:
    """Return the names of the features."""
    return [name for name in members.column_names if name not in (CONTRIBUTION, CONSUMPTION, POSITION, ORDINAL)]


def vectors(members: pa.Table, name: str) -> Parts:
    """Return a column of lists as float32[n, slices]."""
    kind: Any = members.schema.field(name).type if name in members.column_names else None
    if kind is None or not pa.types.is_fixed_size_list(kind) or members[name].null_count:
        raise ValidationError(
            f"found {kind} as column {name!r} of members, expected FixedSizeList<float32>[slices] without null"
        )
    chunks: list[Any] = members[name].chunks
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks]
    return np.concatenate([np.empty(0, np.float32), *parts], dtype=np.float32).reshape(-1, kind.list_size)


def column(members: pa.Table, name: str) -> tuple[Floats, Flags]:
    """Return a feature as float64[n], and the mask of its nulls and NaN."""
    values: Any = members[name].combine_chunks()
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise ValidationError(f"found {values.type} as feature {name!r} of members, expected int64 or float64")
    null = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    return pc.cast(values, pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False), null


def matrix(members: pa.Table, names: Sequence[str]) -> tuple[Floats, Flags]:
    """Return features as float64[n, names], and the mask of their nulls and NaN."""
    if not names:
        return np.zeros((len(members), 0)), np.zeros((len(members), 0), np.bool_)
    columns = [column(members, name) for name in names]
    return np.column_stack([values for values, _ in columns]), np.column_stack([null for _, null in columns])


def identity(members: pa.Table) -> tuple[Ints, Ints]:
    """Return the columns `POSITION` and `ORDINAL`; members without them are identified by their row."""
    if POSITION not in members.column_names:
        return np.arange(len(members)), np.zeros(len(members), np.int64)
    return members[POSITION].to_numpy(), members[ORDINAL].to_numpy().astype(np.int64)
