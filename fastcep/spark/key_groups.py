"""Groups of keys: all events of a key, and so all events of its group, go to the same slice."""

from __future__ import annotations

from fastcep.plan import Plan
from fastcep.plan.partition_key import key_columns
from fastcep.plan.plan import KeyPlan
from fastcep.query.plain_schema import TYPE

__all__ = ["group_text", "key_value"]

_SQL = {"i": "bigint", "f": "double", "b": "boolean", "s": "string"}


def group_text(plan: Plan, key: KeyPlan, groups: int) -> str:
    """Return SQL for the key group of an event, from 0 to `groups` - 1; keys equal for the engine share a group."""
    columns = key_columns(plan, key)
    hashes = {column: _hash(column, key.dtype) for column in sorted(set(columns)) if column >= 0}
    if len(hashes) == 1:
        (text,) = hashes.values()
    else:
        cases = " ".join(f"WHEN {kind} THEN {hashes[column]}" for kind, column in enumerate(columns) if column >= 0)
        text = f"CASE {TYPE} {cases} END"
    return f"CAST(pmod({text}, {groups}) AS INT)"


def key_value(column: int, dtype: str) -> str:
    """Return SQL for a key, equal for keys that are equal for the engine; nulls and NaN are kept."""
    value = f"CAST(c{column} AS {_SQL[dtype]})"
    return f"({value} + 0D)" if dtype == "f" else value  # -0.0 + 0.0 is 0.0


def _hash(column: int, dtype: str) -> str:
    return f"xxhash64({key_value(column, dtype)})"
