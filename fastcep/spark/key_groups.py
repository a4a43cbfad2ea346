"""Groups of keys: all events of a key, and so all events of its group, go to the same slice."""

from __future__ import annotations

from fastcep.plan import Plan
from fastcep.plan.plan import KeyPlan
from fastcep.query.plain_schema import TYPE

__all__ = ["group_text"]

_SQL = {"i": "bigint", "f": "double", "b": "boolean", "s": "string"}


def group_text(plan: Plan, key: KeyPlan, groups: int) -> str:
    """Return SQL for the key group of an event, from 0 to `groups` - 1; keys equal for the engine share a group."""
    columns = list(key.columns)
    if plan.partition is not None:
        for kind, partition_columns in enumerate(plan.partition.columns):
            if partition_columns and columns[kind] < 0:
                columns[kind] = partition_columns[0]
    hashes = {column: _hash(column, key.dtype) for column in sorted(set(columns)) if column >= 0}
    if len(hashes) == 1:
        (text,) = hashes.values()
    else:
        cases = " ".join(f"WHEN {kind} THEN {hashes[column]}" for kind, column in enumerate(columns) if column >= 0)
        text = f"CASE {TYPE} {cases} END"
    return f"CAST(pmod({text}, {groups}) AS INT)"


def _hash(column: int, dtype: str) -> str:
    value = f"CAST(c{column} AS {_SQL[dtype]})"
    return f"xxhash64({value} + 0D)" if dtype == "f" else f"xxhash64({value})"  # -0.0 + 0.0 is 0.0
