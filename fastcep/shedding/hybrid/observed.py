"""Observe a piece of history: run the query over it and account for its partial matches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fastcep.events import EventBatch, StringTable
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.overload.protocols import Classes
from fastcep.query import ast
from fastcep.shedding.hybrid.attribution import Account, Names
from fastcep.shedding.lineage import observe

__all__ = ["observed_piece"]


def observed_piece(
    query: ast.Query,
    piece: pa.Table,
    features: Names,
    event_features: Names,
    slices: int,
    costs: CostTable,
    index: Index,
    memory: bool = False,
    owned: tuple[int, int] | None = None,
    base: int = 0,
) -> Account:
    """Run a query over a piece of history and return its account; features by variable, see `Account`."""
    (record,) = observe(
        query, piece, cost_table=costs, index=index, classes=_recorded(features),
        event_classes=_recorded(event_features),
    ).records  # fmt: skip
    times = EventBatch.from_data(query.schema, piece, StringTable(), "history").time
    return Account(record, times, slices, costs, features, event_features, memory, owned, base)


def _recorded(features: Names) -> dict[str, Classes]:
    """Return trivial classes over the features, so that the features are recorded."""
    tables = {name: np.zeros((1,) * len(texts), np.uint8) for name, texts in features.items() if texts}
    return {name: Classes(tuple(features[name]), (0,) * table.ndim, table) for name, table in tables.items()}
