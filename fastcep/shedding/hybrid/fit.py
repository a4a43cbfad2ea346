"""Fit a model of hybrid shedding on history, in this process.

`fit_pieces` does the work; it is called with the history as a single piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any, Literal

import pyarrow as pa

from fastcep.events import EventBatch, StringTable
from fastcep.events.batch import as_table
from fastcep.events.convert import from_numpy
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.query import ast
from fastcep.shedding.hybrid.history import Piece, Pieces
from fastcep.shedding.hybrid.model import HybridModel
from fastcep.shedding.hybrid.pieces import check_fit, fit_pieces, observed_piece
from fastcep.shedding.lineage import observe
from fastcep.shedding.model import Model

__all__ = ["fit_hybrid", "fit_model", "observed_piece", "records_per_event"]

#: Largest number of partial matches and matches in a lineage record; docs/hybrid.md has their memory use.
_RECORDS = 8_000_000
_PILOT = 5_000  # events from which the number of records per event is estimated


def fit_hybrid(
    query: ast.Query,
    history: Any,
    *,
    slices: int = 4,
    clusters: int | Literal["gap"] = 10,
    per: Literal["value", "leaf", "cluster"] = "value",
    percentile: float = 90,
    features: Mapping[str, Sequence[str]] | None = None,
    exclude: Sequence[str] = (),
    validate: bool = True,
    consumption: Literal["work", "memory"] = "work",
    cost_table: CostTable | str = "measured",
    index: Index = "full",
    decision_cost: str | timedelta = "500us",
    order_cost: str | timedelta = "250ms",
    seed: int = 0,
) -> HybridModel:
    """Fit a model for a query.

    Parameters
    ----------
    query
        Query WITHIN a time or number of events, or over explicit windows (which have one slice).
    history
        Events as `Engine.process` accepts them, in order. If they would create more than about eight million partial
        matches and matches, only their last part is used.
    slices
        Number of slices of time of the window. With several, partial matches can be dropped by age.
    clusters, per, percentile
        See `fit_classes`.
    features
        Further expressions, by variable, to classify the partial matches that have bound it last.
    exclude
        Attributes that no feature uses: identifiers, whose values mean nothing for later events.
    validate
        Whether features are validated on the last 30 % of the history, see `fastcep.shedding.hybrid.validation`. The
        result is `HybridModel.validation`; a warning is logged if the model misleads or the history is too short.
    consumption
        Resource that partial matches consume: work, or memory (the events that they bind).
    cost_table, index
        Cost table and index option of the engines that are to shed.
    decision_cost, order_cost
        Largest times, such as ``"500us"``, that a decision and the computation of the drop order may take, as predicted
        from the size of the model. A larger model has some of its classes merged.
    seed
        Seed of all random decisions.

    Raises
    ------
    ValidationError
        If an option is invalid, or the history has no events or no partial match.
    """
    check_fit(slices=slices, clusters=clusters, per=per, percentile=percentile, consumption=consumption)
    piece = _last_part(query, _declared(query, as_table(history, "history")), index)
    pieces = Pieces([Piece(piece, 0, (0, len(piece)))])
    return fit_pieces(
        query, pieces, slices=slices, clusters=clusters, per=per, percentile=percentile,
        features=features, exclude=exclude, validate=validate, consumption=consumption, cost_table=cost_table,
        index=index, decision_cost=decision_cost, order_cost=order_cost, seed=seed,
    )  # fmt: skip


@wraps(fit_hybrid, assigned=(), updated=())  # `fastcep.fit` reads the options from the signature
def fit_model(query: ast.Query, history: Any, **options: Any) -> Model:
    """Fit a model for a query, see `fit_hybrid`, in the form in which it is stored."""
    return fit_hybrid(query, history, **options).stored()


def _declared(query: ast.Query, history: pa.Table) -> pa.Table:
    """Return the rows of the history that are events of the stream; rows of other types may be ignored."""
    if query.schema.other_types != "ignore":
        return history
    rows = EventBatch.from_data(query.schema, history, StringTable(), "history").rows
    return history if rows is None else history.take(from_numpy(rows))


def _last_part(query: ast.Query, history: pa.Table, index: Index) -> pa.Table:
    """Return the last events of the history, as many as create about `_RECORDS` records."""
    pilot = history.slice(max(0, len(history) - _PILOT))
    room = _RECORDS / max(records_per_event(query, pilot, index), 1e-9)
    return history if len(history) <= room else history.slice(len(history) - max(_PILOT, int(room)))


def records_per_event(query: ast.Query, pilot: pa.Table, index: Index) -> float:
    """Estimate the number of partial matches and matches per event from a few events."""
    return len(observe(query, pilot, index=index).records[0].parents) / max(len(pilot), 1)
