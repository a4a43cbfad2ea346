"""Fit a model of pSPICE on history: count transitions, then compute the tables of the model."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from math import ceil
from typing import Any

import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.events.batch import as_table
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.query import ast
from fastcep.shedding.counts import transition_counts, window_size
from fastcep.shedding.fixed_plan import latest
from fastcep.shedding.history_size import warn_short
from fastcep.shedding.model import Model
from fastcep.shedding.options import as_count
from fastcep.shedding.pspice.children import count_children, events_to_count
from fastcep.shedding.pspice.model import PSpiceModel
from fastcep.stored import MOST

__all__ = ["check_window", "fit_model", "fit_pspice", "model_of_counts", "with_children"]

_CALLER = "fit"
_BINS = 256  #: number of bins of the mean window by default
_GROWTH = 2.0  #: how much longer than the mean window of the history a window may become


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
        Number of events between two rows of the tables. None: 1/256 of the mean window.
    cost_table, index
        Cost table and index option of the engines that are to shed.

    Raises
    ------
    ValidationError
        If an option is invalid, the query cannot be counted or has no window, or the history has no partial match.
    SchemaError, DataError, OrderError
        If the history does not fit the query.

    Notes
    -----
    The children of partial matches by age, from which `Drift` sees that the stream changes, are counted on the last
    50,000 events or 21 windows, at most 200,000 events.
    """
    check_window(query, bin)
    history = as_table(history, "history")  # a reader can be read once only
    model = model_of_counts(query, transition_counts(query, history, cost_table=cost_table, index=index), bin)
    if not model.knows_age():
        return model
    return with_children(model, latest(query, history, events_to_count(model.window)))


def with_children(model: PSpiceModel, history: pa.Table) -> PSpiceModel:
    """Return the model with the children of partial matches by age, counted on the last events of the history."""
    return replace(model, children=count_children(model.query, history))


@wraps(fit_pspice, assigned=(), updated=())  # `fastcep.fit` reads the options from the signature
def fit_model(query: ast.Query, history: Any, **options: Any) -> Model:
    """Fit a model for a query, see `fit_pspice`, in the form in which it is stored."""
    model = fit_pspice(query, history, **options)
    warn_short_counts(model)
    return model.stored()


def warn_short_counts(model: PSpiceModel) -> None:
    """Log a warning if the counts of a model are of too short a history."""
    events, matches = (int(number) for number in model.match_rate[:2])
    warn_short("pspice", model.query.name, events, matches, events / model.window)


def check_window(query: ast.Query, bin: int | None) -> None:
    """Raise `ValidationError` for a query without a window, or an invalid number of events in a bin."""
    if isinstance(query.window, ast.Unbounded):
        raise ValidationError(
            f"{_CALLER}: query {query.name!r} has WITHIN UNBOUNDED, so it is unknown how many events remain for a "
            "partial match; give a window"
        )
    if bin is not None:
        as_count(_CALLER, "bin", bin)


def model_of_counts(query: ast.Query, counts: pa.Table, bin: int | None) -> PSpiceModel:
    """Return the model of transition counts, see `fit_pspice`.

    Raises
    ------
    ValidationError
        If no partial match was counted.
    """
    if not (counts["source"].to_numpy() >= 0).any():
        raise ValidationError(f"{_CALLER}: the history has no partial match of query {query.name!r}; give more history")
    window = max(1.0, window_size(query, counts))
    size = max(1, ceil(window / _BINS)) if bin is None else bin
    rows = min(ceil(_GROWTH * window / size), MOST // size)
    return PSpiceModel.of_counts(query, counts, size, rows, window, {"bin": bin})
