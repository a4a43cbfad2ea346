"""Fit a model of hybrid shedding on history.

Data flow: a piece of history is observed and accounted for (`observed_piece`); from its tables of partial matches and
of events classes are fitted (`fit_classes`), and by these the flow is counted (`count_flow`). Here history is one
piece. All of these are pure functions of their input, and flows of several pieces add up (`total`): matches that span
two of them are not seen then, so that pieces should be long against the window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from fastcep.engine.overload.costs import CostTable
from fastcep.engine.overload.costs import cost_table as cost_table_of
from fastcep.engine.overload.observe import observe
from fastcep.engine.overload.protocols import Classes, Tree
from fastcep.errors import ParseError, ValidationError
from fastcep.events import EventBatch, StringTable
from fastcep.events.batch import as_table
from fastcep.query import ast, expression_text
from fastcep.query.features import parse_feature
from fastcep.query.source import Problem
from fastcep.query.types import type_of
from fastcep.shedding.hybrid.account import Account, Names
from fastcep.shedding.hybrid.classes import Fitted, fit_classes
from fastcep.shedding.hybrid.flow import count_flow
from fastcep.shedding.hybrid.model import HybridModel
from fastcep.shedding.hybrid.wanted import of_events, of_matches
from fastcep.shedding.options import as_choice, as_count

__all__ = ["fit_hybrid", "observed_piece", "records_per_event"]

#: Of how many partial matches and matches a record may be; docs/hybrid.md tells how much memory each took.
_RECORDS = 8_000_000
_PILOT = 5_000  # events by which it is found how many there are
_SLICES = 64  # that the matcher has room for
_FEATURES = 16  # that are recorded of one variable
_WHO = "fit of 'hybrid'"


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
    index: str = "full",
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
    if as_count(_WHO, "slices", slices) > _SLICES:
        raise ValidationError(f"{_WHO}: slices={slices}; expected at most {_SLICES}, such as 4")
    if not isinstance(query.window, ast.TimeWindow | ast.CountWindow):
        slices = 1  # as `last_in_slices` takes it
    prices = cost_table_of(cost_table)
    own = {name: _usable(query, texts) for name, texts in of_matches(query, keys=True).items()}
    for name, more in (features or {}).items():
        own[name] = list(dict.fromkeys([*own.get(name, []), *more]))
    of_event = {name: _usable(query, texts) for name, texts in of_events(query, keys=True).items()}
    piece = _last_part(query, as_table(history, "history").combine_chunks(), index)
    if clusters != "gap":
        as_count(_WHO, "clusters", clusters)
    memory = as_choice(_WHO, "consumption", consumption, ("work", "memory")) == "memory"
    account = observed_piece(query, piece, own, of_event, slices, prices, index, memory)
    if not account.stored.any():
        raise ValidationError(
            f"{_WHO}: query {query.name!r} has no partial match in {len(piece):,} events of history; give events in "
            "which it has some"
        )
    options: dict[str, Any] = {"clusters": clusters, "per": per, "percentile": percentile, "seed": seed}
    matches = {name: fit_classes(account.matches_of(name), **options) for name in own if account.states_of(name)}
    events = {name: fit_classes(account.events_of(name), **options) for name in of_event}
    classes, event_classes = _told_apart(matches), _told_apart(events)
    values = [_named(found.values, name, "partial match") for name, found in matches.items()]
    values += [_named(found.values, name, "event") for name, found in events.items()]
    return HybridModel(
        query, classes, event_classes, count_flow(account, classes, event_classes), pa.concat_tables(values),
        account.variables, prices, {"slices": slices, "index": index, "consumption": consumption, **options},
    )  # fmt: skip


def observed_piece(
    query: ast.Query,
    piece: pa.Table,
    features: Names,
    event_features: Names,
    slices: int,
    prices: CostTable,
    index: str,
    memory: bool = False,
) -> Account:
    """Observe a query over a piece of history and account for it; features by variable, see `Account`."""
    (record,) = observe(
        query, piece, cost_table=prices, index=index, classes=_recorded(features),
        event_classes=_recorded(event_features),
    ).records  # fmt: skip
    times = EventBatch.from_data(query.schema, piece, StringTable(), "history").time
    return Account(record, times, slices, prices, features, event_features, memory)


def _recorded(features: Names) -> dict[str, Classes]:
    """Classes that tell nothing apart, so that features are recorded."""
    none = {name: np.zeros((1,) * len(texts), np.uint8) for name, texts in features.items() if texts}
    return {name: Classes(tuple(features[name]), (0,) * table.ndim, table) for name, table in none.items()}


def _told_apart(found: Mapping[str, Fitted]) -> dict[str, Classes | Tree]:
    return {name: own.classes for name, own in found.items() if own.classes is not None}


def _named(values: pa.Table, name: str, what: str) -> pa.Table:
    """Values with whose they are, and as lists of any length: events have one slice."""
    lists = [column for column in values.column_names if column not in ("class", "members")]
    for column in lists:
        at = values.column_names.index(column)
        values = values.set_column(at, column, values[column].cast(pa.list_(pa.float64())))
    of, kind = pa.array([name] * len(values)), pa.array([what] * len(values))
    return values.add_column(0, "of", kind).add_column(0, "variable", of)


def _usable(query: ast.Query, expressions: Sequence[ast.Expr]) -> list[str]:
    """Texts of those that are numbers, and of which a partial match has one."""
    texts = []
    for expression in expressions:
        text = expression_text(expression)
        try:
            if type_of(parse_feature(text, query, "feature"), query) in ("int64", "float64", "bool"):
                texts.append(text)
        except (ParseError, Problem):
            continue
    return texts[:_FEATURES]


def _last_part(query: ast.Query, history: pa.Table, index: str) -> pa.Table:
    """The last events of history, as many as make about so many records as there is room for."""
    pilot = history.slice(max(0, len(history) - _PILOT))
    room = _RECORDS / max(records_per_event(query, pilot, index), 1e-9)
    return history if len(history) <= room else history.slice(len(history) - max(_PILOT, int(room)))


def records_per_event(query: ast.Query, pilot: pa.Table, index: str) -> float:
    """How many partial matches and matches come of an event, by a few events."""
    return len(observe(query, pilot, index=index).records[0].parents) / max(len(pilot), 1)
