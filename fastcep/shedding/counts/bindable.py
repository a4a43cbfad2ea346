"""Events that a query can bind: those of the types of its variables that pass the conditions on the event alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.engine.engine import Engine
from fastcep.query import ast, traversal
from fastcep.query.patterns import PatternVariable, pattern_variables
from fastcep.shedding.counts.piece import Piece

__all__ = ["bindable_events"]


def bindable_events(piece: Piece, query: ast.Query) -> npt.NDArray[np.bool_]:
    """Return a mask of the events of a piece that some variable can bind: bool[events].

    Negated variables count as well. Conditions on a repeated variable are ignored, so all events of its types count.
    """
    number = {name: place for place, name in enumerate(query.schema.type_names)}
    mask = np.zeros(len(piece), bool)
    for types, condition in {_condition(query, variable) for variable in pattern_variables(query.pattern)}:
        if condition is None:
            mask |= np.isin(piece.batch.type, [number[name] for name in types])
            continue
        variable = sorted(traversal.variables(condition))[0]
        pattern = ast.Sequence((ast.Variable(types, variable),))
        alone = ast.Query(f"{query.name} events", pattern, ast.CountWindow(1), condition, schema=query.schema)
        bound = Engine(alone).process(piece.events).to_arrow()[variable].combine_chunks()
        mask[piece.positions(_numbers(bound))] = True
    return mask


def _condition(query: ast.Query, variable: PatternVariable) -> tuple[tuple[str, ...], ast.Expr | None]:
    """Return the types of a variable, and the conjunction of the conditions on it alone; None if there is none."""
    types = variable.declaration.types
    if variable.repeated or variable.group is not None:
        return types, None
    condition: ast.Expr | None = None
    for conjunct in traversal.conjuncts(query.where):
        if traversal.variables(conjunct) == {variable.name}:
            condition = conjunct if condition is None else ast.Binary("AND", condition, conjunct)
    return types, condition


def _numbers(column: Any) -> npt.NDArray[np.int64]:
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.int64())
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)
