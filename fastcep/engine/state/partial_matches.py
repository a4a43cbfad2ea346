"""Table of the live partial matches of an engine: what to move first, or to give up, when state is migrated.

Data flow: each query's state is dumped, as for a snapshot. Its rows give start, age, key group and size, and the
shedder gives the utility of each class and age.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.engine.running_query import RunningQuery
from fastcep.engine.state.foreign_events import group_of_keys
from fastcep.engine.state.key_group_split import groups_of
from fastcep.engine.state.row_copies import CLASS, home_marks
from fastcep.engine.state.word_layout import State, WordLayout
from fastcep.errors import ValidationError
from fastcep.events import StringTable
from fastcep.plan.plan import KeyPlan
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables

__all__ = ["SCHEMA", "partial_matches_of"]

Floats = npt.NDArray[np.float64]

_COLUMNS: dict[str, pa.DataType] = {
    "query": pa.string(), "variable": pa.string(), "started": pa.int64(), "created": pa.int64(),
    "key_group": pa.uint8(), "bytes": pa.int64(), "class": pa.int32(), "utility": pa.float64(),
}  # fmt: skip
SCHEMA = pa.schema(_COLUMNS)
_WORD = 8  #: bytes


def partial_matches_of(
    item: RunningQuery, strings: StringTable, place: tuple[int, int], utility: Floats | None
) -> pa.Table:
    """Return the live partial matches of a query, with the columns of `SCHEMA`.

    Parameters
    ----------
    item
        The query.
    strings
        String table of its engine.
    place
        Position and time of the last event.
    utility
        Utility by state, class and slice of the window: float64[states, classes, slices]; None: unknown.

    Raises
    ------
    ValidationError
        If the query uses the factorised store, which does not hold single partial matches.
    """
    if item.plan.kept:
        raise ValidationError(
            f"query {item.plan.query.name!r}: the factorised store has no single partial matches; create the engine "
            "with store='rows'"
        )
    if item.matcher.is_empty:
        return SCHEMA.empty_table()
    layout, state = WordLayout(item.plan, item.matcher), item.matcher.dump()
    plan, key = layout.plan, layout.plan.key
    buckets = None
    if isinstance(key, KeyPlan):
        buckets = groups_of(layout, state, key, group_of_keys(key.dtype, strings)).buckets
    names = [variable.name for variable in pattern_variables(plan.query.pattern)]
    age = _age_of(plan.query.window, state, place)
    marks = home_marks(state, layout)
    tables = []
    for index, info in enumerate(plan.indexes):
        item_state = plan.states[info.state]
        counted = marks[index] != 0  # other indexes of the state have copies of a row
        rows, heads = state[f"rows {index}"][:, counted], state[f"index {index}"]
        count = rows.shape[1]
        classes = np.zeros(count, np.int64)
        if layout.fixed[index].shed_class >= 0:
            classes = rows[layout.fixed[index].shed_class] & CLASS
        groups = None
        if buckets is not None:
            groups = pa.array(np.repeat(buckets[index], heads[1])[counted], pa.uint8())
        values = pa.nulls(count, pa.float64())
        if utility is not None:
            slices = np.minimum((age[rows[0]] * utility.shape[2]).astype(np.int64), utility.shape[2] - 1)
            values = pa.array(utility[info.state, np.minimum(classes, utility.shape[1] - 1), slices])
        tables.append(pa.table([
            pa.repeat(plan.query.name, count), pa.repeat(names[item_state.variable], count),
            pa.array(state["starts"][2][rows[0]]), pa.array(layout.created_at(state, f"rows {index}")[counted]),
            pa.nulls(count, pa.uint8()) if groups is None else groups,
            pa.repeat(_bytes_of(layout, state, item_state.indexes), count), pa.array(classes, pa.int32()), values,
        ], schema=SCHEMA))  # fmt: skip
    return pa.concat_tables(tables) if tables else SCHEMA.empty_table()


def _bytes_of(layout: WordLayout, state: State, indexes: tuple[int, ...]) -> int:
    """Return the bytes of a partial match in all its indexes, without the shared list of a Kleene variable."""
    return _WORD * sum(layout.shapes[f"rows {index}"] for index in indexes)


def _age_of(window: ast.Window, state: State, place: tuple[int, int]) -> Floats:
    """Return the share of the window that has passed, by start; 0 for an explicit window."""
    _, times, positions, *_ = state["starts"]
    position, time = place
    age: Floats = np.zeros(len(times))
    if isinstance(window, ast.TimeWindow):
        age = (time - times) / max(window.nanoseconds, 1)
    elif isinstance(window, ast.CountWindow):
        age = (position - positions) / window.events
    return np.clip(age, 0.0, 1.0)
