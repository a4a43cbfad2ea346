"""Fit a model of hybrid shedding on history, in this process.

All of it is done by `fit_pieces`, which takes history in pieces; here it is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from fastcep.events.batch import as_table
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.query import ast
from fastcep.shedding.hybrid.history import Piece, Pieces
from fastcep.shedding.hybrid.model import HybridModel
from fastcep.shedding.hybrid.pieces import check_fit, fit_pieces, observed_piece
from fastcep.shedding.lineage import observe

__all__ = ["fit_hybrid", "observed_piece", "records_per_event"]

#: Of how many partial matches and matches a record may be; docs/hybrid.md tells how much memory each took.
_RECORDS = 8_000_000
_PILOT = 5_000  # events by which it is found how many there are


def fit_hybrid(
    query: ast.Query,
    history: Any,
    *,
    slices: int = 4,
    clusters: int | Literal["gap"] = 10,
    per: Literal["value", "leaf", "cluster"] = "value",
    percentile: float = 90,
    features: Mapping[str, Sequence[str]] | None = None,
    consumption: Literal["work", "memory"] = "work",
    cost_table: CostTable | str = "measured",
    index: Index = "full",
    seed: int = 0,
) -> HybridModel:
    """Fit a model for a query.

    Parameters
    ----------
    query
        WITHIN a time or number of events, or over explicit windows (which are one slice).
    history
        What `Engine.process` takes, in order. Of what would make more than eight million partial matches and matches
        the last part is used that has about so many.
    slices
        Into how many slices the window is cut; with more, partial matches can be dropped by age.
    clusters, per, percentile
        See `fit_classes`.
    features
        By variable further expressions by which partial matches that have bound it last may be told apart.
    consumption
        What partial matches consume: the work that is spent on them, or memory, the events that they bind.
    cost_table, index
        Of the engines that are to shed.
    seed
        Of what is drawn.

    Raises
    ------
    ValidationError
        If an option is wrong, history has no events, or no partial match comes of it.
    """
    check_fit(slices=slices, clusters=clusters, per=per, percentile=percentile, consumption=consumption)
    piece = _last_part(query, as_table(history, "history"), index)
    whole = Pieces([Piece(piece, 0, (0, len(piece)))])
    return fit_pieces(
        query, whole, slices=slices, clusters=clusters, per=per, percentile=percentile,
        features=features, consumption=consumption, cost_table=cost_table, index=index, seed=seed,
    )  # fmt: skip


def _last_part(query: ast.Query, history: pa.Table, index: Index) -> pa.Table:
    """The last events of history, as many as make about so many records as there is room for."""
    pilot = history.slice(max(0, len(history) - _PILOT))
    room = _RECORDS / max(records_per_event(query, pilot, index), 1e-9)
    return history if len(history) <= room else history.slice(len(history) - max(_PILOT, int(room)))


def records_per_event(query: ast.Query, pilot: pa.Table, index: Index) -> float:
    """How many partial matches and matches come of an event, by a few events."""
    return len(observe(query, pilot, index=index).records[0].parents) / max(len(pilot), 1)
