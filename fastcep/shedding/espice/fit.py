"""Fit a model of eSPICE on history: count events and matches by type and position, and measure the effect of drops."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from functools import wraps
from math import ceil
from typing import Any

import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.events.batch import as_table
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.plan import make_plan
from fastcep.plan.plan import AFTER_EVENTS
from fastcep.query import ast
from fastcep.shedding.counts import position_counts, size_counts, window_sizes
from fastcep.shedding.espice.drop_table import DropTable
from fastcep.shedding.espice.effect import SHARES, measure_effect
from fastcep.shedding.espice.model import ESpiceModel
from fastcep.shedding.fixed_plan import MOST_EVENTS, latest
from fastcep.shedding.history_size import LEAST_MATCHES, warn_short
from fastcep.shedding.model import Model
from fastcep.shedding.options import as_count

__all__ = [
    "CountOptions", "check_options", "count_options", "fit_espice", "fit_model", "fixed_size", "model_of_counts",
    "with_effect",
]  # fmt: skip

_CALLER = "fit"
_LOG = logging.getLogger("fastcep.shedding")
#: Number of bins by default, so that a bin has enough events.
_BINS = 64
#: Mutual information in bits below which type and position say nothing about the part of an event in matches.
_LITTLE = 0.02

#: Options of `position_counts`: number of positions to scale windows to (None: no scaling), and positions per bin.
CountOptions = dict[str, Any]


def fit_espice(
    query: ast.Query, history: Any, *, bin: int | None = None, positions: int | None = None,
    equal_costs: bool = False, cost_table: CostTable | str = "measured", index: Index = "full",
) -> ESpiceModel:  # fmt: skip
    """Fit a model of eSPICE for a query over explicit windows (section 3.3).

    Parameters
    ----------
    query
        Query over explicit windows.
    history
        Events as `Engine.process` accepts them, in order.
    bin
        Number of positions in a bin, whose events have one utility (section 3.6). None: 1/64 of the mean window.
    positions
        N, the number of positions that windows of other sizes are scaled to. None: the mean size of the windows of the
        history.
    equal_costs
        Whether to take it that every event costs the same in each of its windows, as in the paper. By default, the
        effect of drops on the work and on the matches is measured on the last 50,000 events of the history.
    cost_table, index
        Cost table and index option of the engines that are to shed, for this measurement.

    Warns
    -----
    UserWarning
        If type and position say almost nothing about which events take part in matches.

    Raises
    ------
    ValidationError
        If an option is invalid, the query has no explicit windows, or the history has no match.
    SchemaError, DataError, OrderError
        If the history does not fit the query.
    """
    check_options(bin, positions, equal_costs)
    history = as_table(history, "history")  # a reader can be read once only
    size = fixed_size(query)
    sizes = size_counts(query, history) if size is None and positions is None else None
    options = count_options(query, sizes, bin, positions)
    model = model_of_counts(query, position_counts(query, history, **options), options, bin, positions, equal_costs)
    return model if equal_costs else with_effect(model, latest(query, history, MOST_EVENTS), cost_table, index)


def with_effect(
    model: ESpiceModel, history: pa.Table, cost_table: CostTable | str = "measured", index: Index = "full"
) -> ESpiceModel:
    """Return the model with the effect of its drops on the last events of the history."""
    table = DropTable(model, model.positions)
    probabilities = [table.probabilities(share) for share in SHARES if share > 0]
    drops = [(drop, table.cells.bin, table.kept(drop)) for drop in probabilities]
    return replace(model, effect=measure_effect(model.query, history, drops, cost_table, index))


@wraps(fit_espice, assigned=(), updated=())  # `fastcep.fit` reads the options from the signature
def fit_model(query: ast.Query, history: Any, **options: Any) -> Model:
    """Fit a model for a query, see `fit_espice`, in the form in which it is stored."""
    model = fit_espice(query, history, **options)
    warn_few_windows(model)
    return model.stored()


def warn_few_windows(model: ESpiceModel) -> None:
    """Log a warning if a model was fitted on too few windows, each of which gives one event per position."""
    events = int(model.counts["events"].to_numpy().sum())
    warn_short("espice", model.query.name, events, None, model.windows, least_windows=LEAST_MATCHES)


def check_options(bin: int | None, positions: int | None, equal_costs: bool) -> None:
    """Raise `ValidationError` for an invalid option of `fit_espice`."""
    for name, value in (("bin", bin), ("positions", positions)):
        if value is not None:
            as_count(_CALLER, name, value)
    if not isinstance(equal_costs, bool):
        raise ValidationError(f"{_CALLER}: equal_costs={equal_costs!r}; expected True or False")


def fixed_size(query: ast.Query) -> int | None:
    """Return the number of events in each window of a query; None if it varies."""
    windows = make_plan(query).windows
    return int(windows.length) if windows is not None and windows.closing == AFTER_EVENTS else None


def count_options(query: ast.Query, sizes: pa.Table | None, bin: int | None, positions: int | None) -> CountOptions:
    """Return the options of `position_counts` for a fit, given `size_counts` if the size of windows varies.

    Windows of a fixed size are not scaled: only the last ones of the history are smaller, because it ends.
    """
    fixed = fixed_size(query)
    if positions is not None:
        number = positions
    elif fixed is not None:
        number = fixed
    else:
        assert sizes is not None
        table = window_sizes(sizes)
        size, windows = table["size"].to_numpy(), table["windows"].to_numpy()
        number = max(1, round(float(size @ windows) / max(int(windows.sum()), 1)))
    size_of_bin = max(1, ceil(number / _BINS)) if bin is None else min(bin, number)
    return {"bins": size_of_bin, "positions": None if number == fixed else number, "bindable": True}


def model_of_counts(
    query: ast.Query, counts: pa.Table, options: CountOptions, bin: int | None, positions: int | None,
    equal_costs: bool,
) -> ESpiceModel:  # fmt: skip
    """Return the model of position counts, see `fit_espice`, without the effect of drops; log its information.

    Raises
    ------
    ValidationError
        If no match was counted.
    """
    if not (counts["matched"].to_numpy() > 0).any():
        raise ValidationError(f"{_CALLER}: the history has no match of query {query.name!r}; give more history")
    number = options["positions"] or fixed_size(query) or 1
    windows = int(window_sizes(counts)["windows"].to_numpy().sum())
    parameters = {"bin": bin, "positions": positions, "equal_costs": equal_costs}
    model = ESpiceModel(query, number, options["bins"], windows, counts, parameters)
    _LOG.info(
        "model 'espice' of query %r: type and position of an event have %.3f of 1 bit of information on its part in "
        "matches",
        query.name, model.information,
    )  # fmt: skip
    if model.information < _LITTLE:
        warnings.warn(
            f"model 'espice' of query {query.name!r}: type and position of an event say almost nothing about its part "
            f"in matches (mutual information {model.information:.3f} bits, at least {_LITTLE} expected), so that drops "
            "are almost random; fit a model of kind 'hybrid' or 'pspice'",
            UserWarning, stacklevel=4,
        )  # fmt: skip
    return model
