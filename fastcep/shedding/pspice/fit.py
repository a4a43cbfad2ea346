"""Fit a model of pSPICE on history: count transitions, then compute the tables of the model."""

from __future__ import annotations

from functools import wraps
from math import ceil
from typing import Any

import numpy as np

from fastcep.errors import ValidationError
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.plan import make_plan
from fastcep.query import ast
from fastcep.shedding.counts import transition_counts
from fastcep.shedding.counts.piece import Ints, Piece, Spans, piece_of
from fastcep.shedding.model import Model
from fastcep.shedding.options import as_count
from fastcep.shedding.pspice.model import PSpiceModel

__all__ = ["fit_model", "fit_pspice"]

_CALLER = "fit"
_BINS = 256  #: number of bins of the longest window by default
_GROWTH = 2.0  #: how much longer than the longest window of the history a window may become


def fit_pspice(
    query: ast.Query,
    history: Any,
    *,
    bin: int | None = None,
    cost_table: CostTable | str = "measured",
    index: Index = "full",
) -> PSpiceModel:
    """Fit a model of pSPICE for a query (section III-C).

    Parameters
    ----------
    query
        Query under skip_till_any or skip_till_next, see `fastcep.shedding.counts.transition_counts`.
    history
        Events as `Engine.process` accepts them, in order. All partial matches are held in memory.
    bin
        Number of events between two rows of the tables. None: 1/256 of the longest window.
    cost_table, index
        Cost table and index option of the engines that are to shed.

    Raises
    ------
    ValidationError
        If an option is invalid, the query cannot be counted or has no window, or the history has no partial match.
    SchemaError, DataError, OrderError
        If the history does not fit the query.
    """
    if isinstance(query.window, ast.Unbounded):
        raise ValidationError(
            f"{_CALLER}: query {query.name!r} has WITHIN UNBOUNDED, so it is unknown how many events remain for a "
            "partial match; give a window"
        )
    if bin is not None:
        as_count(_CALLER, "bin", bin)
    counts = transition_counts(query, history, cost_table=cost_table, index=index)
    if not (counts["source"].to_numpy() >= 0).any():
        raise ValidationError(f"{_CALLER}: the history has no partial match of query {query.name!r}; give more history")
    sizes = _window_sizes(query, piece_of(_CALLER, query, history, None, 0))
    longest = _GROWTH * float(sizes.max())
    size = max(1, ceil(longest / _BINS / _GROWTH)) if bin is None else bin
    parameters = {"bin": bin, "cost_table": cost_table if isinstance(cost_table, str) else cost_table.name}
    return PSpiceModel.of_counts(
        query, counts, size, ceil(longest / size), float(sizes.mean()), parameters | {"index": index}
    )  # fmt: skip


@wraps(fit_pspice, assigned=(), updated=())  # `fastcep.fit` reads the options from the signature
def fit_model(query: ast.Query, history: Any, **options: Any) -> Model:
    """Fit a model for a query, see `fit_pspice`, in the form in which it is stored."""
    return fit_pspice(query, history, **options).stored()


def _window_sizes(query: ast.Query, piece: Piece) -> Ints:
    """Return the number of events of each window: int64[windows], at least one. A partial match opens a window."""
    window = query.window
    if isinstance(window, ast.CountWindow):
        return np.array([window.events], np.int64)
    times: Ints = piece.batch.time
    if isinstance(window, ast.TimeWindow):
        until = np.minimum(times, np.iinfo(np.int64).max - window.nanoseconds) + window.nanoseconds
        return np.asarray(np.searchsorted(times, until, "right") - np.arange(len(times)), np.int64)
    spans = Spans.of(piece, make_plan(query))
    return spans.lasts - spans.opens + 1
