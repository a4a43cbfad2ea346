"""Divide the key groups of a query among slices, and let the number of slices change between two batches.

Each slice has one or more *units*, and each unit has the events of some key groups and an engine for them. At first, a
slice has one unit. If the number of slices changes, a unit whose groups go to several slices is divided; units whose
groups go to the same slice stay apart. So the states of two engines, which have processed different events, are never
merged, and there are at most as many units as key groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fastcep.engine.state.keygroups import GROUPS, NO_KEY
from fastcep.plan import Plan
from fastcep.plan.partition_key import key_columns
from fastcep.plan.plan import KeyPlan
from fastcep.query.plain_schema import TYPE
from fastcep.spark.key_groups import key_value

__all__ = ["Unit", "assign_units", "group_sql", "owners_of"]

_MASK = (1 << 64) - 1
# The constants of XXH64.
_P1, _P2, _P4, _P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_SPARK_SEED = 42


@dataclass(frozen=True)
class Unit:
    """Key groups that one engine processes.

    Attributes
    ----------
    groups
        The key groups, ascending; all of them if the stream is not cut.
    state
        Name of the file with the state after the previous batch, in the checkpoint; empty: none yet.
    is_part
        Whether the file also has the state of other groups.
    """

    groups: tuple[int, ...]
    state: str = ""
    is_part: bool = False


def assign_units(units: Sequence[Unit], slices: int) -> tuple[tuple[Unit, ...], ...]:
    """Return the units of each slice.

    Parameters
    ----------
    units
        Units of the previous batch; empty at the first one.
    slices
        Number of slices, from 1 to `GROUPS`.
    """
    before = list(units) or [Unit(tuple(range(GROUPS)))]
    assigned: list[tuple[Unit, ...]] = []
    for number in range(slices):
        own = range(-(-number * GROUPS // slices), -(-(number + 1) * GROUPS // slices))
        parts = ((unit, tuple(group for group in unit.groups if group in own)) for unit in before)
        assigned.append(tuple(_part(unit, groups) for unit, groups in parts if groups))
    return tuple(assigned)


def _part(unit: Unit, groups: tuple[int, ...]) -> Unit:
    return unit if groups == unit.groups else Unit(groups, unit.state, is_part=bool(unit.state))


def group_sql(plan: Plan, key: KeyPlan) -> str:
    """Return SQL for the key group of an event, that of `fastcep.key_group`, over the columns of `columns.Events`."""
    columns = key_columns(plan, key)
    hashes = {column: _hash(column, key.dtype) for column in sorted(set(columns)) if column >= 0}
    if plan.query.schema.type is None or len(set(columns)) == 1:
        (text,) = hashes.values()
        return text
    cases = " ".join(f"WHEN {kind} THEN {hashes[column]}" for kind, column in enumerate(columns) if column >= 0)
    return f"CASE {TYPE} {cases} ELSE {NO_KEY} END"


def _hash(column: int, dtype: str) -> str:
    value = key_value(column, dtype)
    if dtype == "b":
        value = f"CAST({value} AS bigint)"
    # The first argument gives 0, which is the seed of the hash of the second.
    group = f"CAST(xxhash64({_argument_for_zero()}L, {value}) & {GROUPS - 1}L AS INT)"
    is_null = f"{value} IS NULL OR isnan({value})" if dtype == "f" else f"{value} IS NULL"
    return f"(CASE WHEN {is_null} THEN {NO_KEY} ELSE {group} END)"


def _argument_for_zero() -> int:
    """Return the int64 that Spark's ``xxhash64`` maps to 0: each step of the hash has an inverse."""
    start = (_SPARK_SEED + _P5 + 8) & _MASK
    mixed = _rotated_right(-_P4 * _inverse(_P1), 27) ^ start
    word = _rotated_right(mixed * _inverse(_P1), 31) * _inverse(_P2) & _MASK
    return word - (1 << 64) if word >> 63 else word


def _inverse(odd: int) -> int:
    return pow(odd, -1, 1 << 64)


def _rotated_right(word: int, bits: int) -> int:
    word &= _MASK
    return (word >> bits | word << (64 - bits)) & _MASK


def owners_of(units: Iterable[Unit]) -> list[int]:
    """Return the number of the unit of each key group, in the order of the groups."""
    owners = [0] * GROUPS
    for number, unit in enumerate(units):
        for group in unit.groups:
            owners[group] = number
    return owners
