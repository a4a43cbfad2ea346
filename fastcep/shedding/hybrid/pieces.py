"""Fit a model by pieces of history: steps that look at one piece each, and what they give added up.

Data flow: three times something is asked of every piece (`history`), by functions that can be pickled:

1. `Observer.look`: summaries of the members that the piece owns; from those of all pieces follow classes (`told_apart`)
2. `Observer.count`: how often which values occur in each class; so it is known what classes are worth (`valued`)
3. `Observer.flow`: what came of what, class by class; flows are added up (`total`)

What comes out does not depend on how the stream is cut, if pieces have enough around what they own, see `Piece`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa

from fastcep.errors import ParseError, ValidationError
from fastcep.events import EventBatch, StringTable
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.overload.costs import cost_table as cost_table_of
from fastcep.overload.protocols import Classes, Tree
from fastcep.query import ast, expression_text
from fastcep.query.features import parse_feature
from fastcep.query.source import Problem
from fastcep.query.types import type_of
from fastcep.shedding.hybrid.attribution import Account, Names
from fastcep.shedding.hybrid.classes import check_options, told_apart
from fastcep.shedding.hybrid.clusters import Map
from fastcep.shedding.hybrid.features import of_events, of_matches
from fastcep.shedding.hybrid.flow import Flow, Windows, count_flow, total
from fastcep.shedding.hybrid.history import History, Piece
from fastcep.shedding.hybrid.model import HybridModel
from fastcep.shedding.hybrid.summary import Summary, merged
from fastcep.shedding.hybrid.values import Counts, Fitted, Members, Raw, merged_counts, value_counts, valued
from fastcep.shedding.lineage import observe
from fastcep.shedding.options import as_choice, as_count

__all__ = ["Kind", "Observer", "PieceSummary", "check_cut", "check_fit", "fit_pieces", "observed_piece"]

_SLICES = 64  # that the matcher has room for
_FEATURES = 16  # that are recorded of one variable
_WHO = "fit of 'hybrid'"

Found = TypeVar("Found")
Per = Literal["value", "leaf", "cluster"]
Kind = tuple[str, str]  #: ``"partial match"`` or ``"event"``, and of which variable


@dataclass(frozen=True)
class PieceSummary:
    """What there is in a piece, or in several: they add up.

    Attributes
    ----------
    summaries
        Of the members of each kind.
    events, stored
        How many events are owned, and how many partial matches these made.
    reach
        See `Account.reach`.
    variables
        See `Account.variables`.
    """

    summaries: Mapping[Kind, Summary]
    events: int
    stored: int
    reach: int
    variables: tuple[str, ...]

    @classmethod
    def merged(cls, several: Sequence[PieceSummary]) -> PieceSummary:
        """What there is in all of them."""
        kinds = several[0].summaries
        return cls(
            {kind: merged([own.summaries[kind] for own in several]) for kind in kinds},
            sum(own.events for own in several), sum(own.stored for own in several), sum(own.reach for own in several),
            several[0].variables,
        )  # fmt: skip


@dataclass
class Observer:
    """What is asked of a piece: pure functions of it, here and in other processes.

    The account of the last piece is kept, as the next question may be on the same, but it is not pickled.

    Attributes
    ----------
    query, features, event_features, slices, prices, index, memory
        See `observed_piece`.
    seed
        Of samples.
    """

    query: ast.Query
    features: Names
    event_features: Names
    slices: int
    prices: CostTable
    index: Index
    memory: bool
    seed: int

    def __post_init__(self) -> None:
        self._last: tuple[Piece, Account] | None = None
        self._made: dict[Kind, pa.Table] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None, "_made": {}}

    def account(self, piece: Piece) -> Account:
        """Observe a piece and account for it."""
        if self._last is None or self._last[0] is not piece:
            self._made.clear()
            self._last = None  # there may be room for one only
            account = observed_piece(
                self.query, piece.table, self.features, self.event_features, self.slices, self.prices, self.index,
                self.memory, piece.owned, piece.base,
            )  # fmt: skip
            self._last = piece, account
        return self._last[1]

    def members(self, account: Account, kind: Kind) -> pa.Table:
        """The owned members of a kind; those of the last piece that `look` has made are given once more."""
        if self._last is not None and self._last[1] is account and kind in self._made:
            return self._made.pop(kind)
        return (account.matches_of if kind[0] == "partial match" else account.events_of)(kind[1])

    def look(self, piece: Piece) -> PieceSummary:
        """What there is in a piece."""
        account = self.account(piece)
        kinds = [("partial match", name) for name in self.features if account.states_of(name)]
        kinds += [("event", name) for name in self.event_features]
        summaries = {}
        for kind in kinds:
            members = self.members(account, kind)
            summaries[kind] = Summary.of(members, self.seed)
            self._made[kind] = members
        first, last = account.owned
        stored = int((account.stored & account.mine).sum())
        return PieceSummary(summaries, last - first, stored, account.reach, account.variables)

    def count(self, piece: Piece, raw: Mapping[Kind, Raw]) -> dict[Kind, Counts]:
        """How often which values occur in classes."""
        account = self.account(piece)
        return {kind: value_counts(self.members(account, kind), own) for kind, own in raw.items()}

    def value(self, piece: Piece, raw: Mapping[Kind, Raw], percentile: float) -> dict[Kind, Fitted]:
        """What classes are worth, if the piece is the whole stream: the same as by counts, but faster."""
        account = self.account(piece)
        return {kind: valued(own, Members(self.members(account, kind), own), percentile) for kind, own in raw.items()}

    def flow(
        self,
        piece: Piece,
        classes: Mapping[str, Classes | Tree],
        event_classes: Mapping[str, Classes | Tree],
        windows: Windows,
    ) -> Flow:
        """What came of what."""
        return count_flow(self.account(piece), classes, event_classes, windows)


def fit_pieces(
    query: ast.Query,
    pieces: History,
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
    references: Map = map,
) -> HybridModel:
    """Fit a model for a query, by pieces of a stream.

    Parameters
    ----------
    query
        WITHIN a time or number of events, and without what depends on all that came before (`AFTER MATCH`, `CONSUME`,
        `LIMIT`, `SELECT`); others take one piece only.
    pieces
        Of history.
    slices, clusters, per, percentile, features, consumption, cost_table, index, seed
        See `fit_hybrid`. Costs are measured here, once.
    references
        See `gap_statistic`.

    Raises
    ------
    ValidationError
        As `fit_hybrid`; or the query takes one piece only.
    """
    check_fit(slices=slices, clusters=clusters, per=per, percentile=percentile, consumption=consumption)
    _check_cut(query, len(pieces))
    if not isinstance(query.window, ast.TimeWindow | ast.CountWindow):
        slices = 1  # as `last_in_slices` takes it
    prices = cost_table_of(cost_table)
    observer = Observer(query, *_names(query, features), slices, prices, index, consumption == "memory", seed)
    apart = partial(_apart, clusters=clusters, per=per, seed=seed, references=references)
    found = pieces.gather("members", observer.look, PieceSummary.merged, _by_kind, apart)
    looked, told = next(iter(found), None), found[1:]  # nothing of no events
    if not isinstance(looked, PieceSummary) or not looked.stored:
        events = looked.events if isinstance(looked, PieceSummary) else 0
        raise ValidationError(
            f"{_WHO}: query {query.name!r} has no partial match in {events:,} events of history; give events in which "
            "it has some"
        )
    options: dict[str, Any] = {"clusters": clusters, "per": per, "percentile": percentile, "seed": seed}
    raw: dict[Kind, Raw] = dict(told)
    if len(pieces) == 1:
        value = partial(observer.value, raw=raw, percentile=percentile)
        (fitted,) = pieces.gather("values", value, _one, _whole, _same)
    else:
        worth = partial(_worth, raw=raw, percentile=percentile)
        fitted = dict(pieces.gather("values", partial(observer.count, raw=raw), _by_kind_merged, _items, worth))
    classes, event_classes = (
        {name: own.classes for (of, name), own in fitted.items() if of == what and own.classes is not None}
        for what in ("partial match", "event")
    )
    windows = Windows.of(looked.reach, looked.events)
    count = partial(observer.flow, classes=classes, event_classes=event_classes, windows=windows)
    (flow,) = pieces.gather("flow", count, total, _whole, _same)
    return HybridModel(
        query, classes, event_classes, flow.alone(),
        pa.concat_tables([_named(own.values, name, of) for (of, name), own in fitted.items()]),
        looked.variables, prices, {"slices": slices, "index": index, "consumption": consumption, **options},
    )  # fmt: skip


def check_fit(*, slices: int, clusters: int | str, per: str, percentile: float, consumption: str) -> None:
    """Refuse wrong options before anything is observed."""
    if as_count(_WHO, "slices", slices) > _SLICES:
        raise ValidationError(f"{_WHO}: slices={slices}; expected at most {_SLICES}, such as 4")
    if clusters != "gap":
        as_count(_WHO, "clusters", clusters)
    as_choice(_WHO, "consumption", consumption, ("work", "memory"))
    check_options(per, percentile)


def _by_kind(looked: PieceSummary) -> Sequence[PieceSummary | tuple[Kind, Summary]]:
    """What there is, without summaries; and these, of kind after kind."""
    return [replace(looked, summaries={}), *looked.summaries.items()]


def _apart(
    part: PieceSummary | tuple[Kind, Summary], *, clusters: int | Literal["gap"], per: Per, seed: int, references: Map
) -> Any:
    if isinstance(part, PieceSummary):
        return part
    kind, summary = part
    return kind, told_apart(summary, clusters=clusters, per=per, seed=seed, map=references)


def _by_kind_merged(counts: Sequence[Mapping[Kind, Counts]]) -> Mapping[Kind, Counts]:
    return {kind: merged_counts([own[kind] for own in counts]) for kind in counts[0]}


def _worth(
    part: tuple[Kind, Counts], *, raw: Mapping[Kind, Raw], percentile: float
) -> tuple[Kind, Fitted]:
    kind, counts = part
    return kind, valued(raw[kind], counts, percentile)


def _items(found: Mapping[Kind, Counts]) -> Sequence[tuple[Kind, Counts]]:
    return list(found.items())


def _one(found: Sequence[Found]) -> Found:
    (only,) = found
    return only


def _whole(found: Found) -> Sequence[Found]:
    return [found]


def _same(part: Found) -> Found:
    return part


def check_cut(query: ast.Query) -> str:
    """What makes matches depend on all that came before, so that history has to be one piece; empty: nothing."""
    found = [
        what
        for what, is_so in (
            ("a window that is neither a time nor a number of events", not isinstance(
                query.window, ast.TimeWindow | ast.CountWindow)),
            (f"SELECT {query.select}", query.select != "each"),
            (f"CONSUME {query.consume}", query.consume != "zero"),
            (f"AFTER MATCH {query.after_match}", query.after_match != "no skip"),
            ("LIMIT", query.limit is not None),
            ("PERIODIC", isinstance(query.pattern, ast.Periodic)),
        )
        if is_so
    ]  # fmt: skip
    return ", ".join(found)


def _check_cut(query: ast.Query, pieces: int) -> None:
    """Refuse what cannot be fitted by pieces."""
    if not pieces:
        raise ValidationError(f"{_WHO}: found no piece of history, expected at least one")
    found = check_cut(query) if pieces > 1 else ""
    if found:
        raise ValidationError(
            f"{_WHO}: query {query.name!r} has {found}, so that what an event makes may depend on all that "
            "came before; give history as one piece"
        )


def observed_piece(
    query: ast.Query,
    piece: pa.Table,
    features: Names,
    event_features: Names,
    slices: int,
    prices: CostTable,
    index: Index,
    memory: bool = False,
    owned: tuple[int, int] | None = None,
    base: int = 0,
) -> Account:
    """Observe a query over a piece of history and account for it; features by variable, see `Account`."""
    (record,) = observe(
        query, piece, cost_table=prices, index=index, classes=_recorded(features),
        event_classes=_recorded(event_features),
    ).records  # fmt: skip
    times = EventBatch.from_data(query.schema, piece, StringTable(), "history").time
    return Account(record, times, slices, prices, features, event_features, memory, owned, base)


def _recorded(features: Names) -> dict[str, Classes]:
    """Classes that tell nothing apart, so that features are recorded."""
    none = {name: np.zeros((1,) * len(texts), np.uint8) for name, texts in features.items() if texts}
    return {name: Classes(tuple(features[name]), (0,) * table.ndim, table) for name, table in none.items()}


def _names(query: ast.Query, features: Mapping[str, Sequence[str]] | None) -> tuple[Names, Names]:
    """By variable the features of partial matches, and of events."""
    own = {name: _usable(query, texts) for name, texts in of_matches(query, keys=True).items()}
    for name, more in (features or {}).items():
        own[name] = list(dict.fromkeys([*own.get(name, []), *more]))
    return own, {name: _usable(query, texts) for name, texts in of_events(query, keys=True).items()}


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


def _named(values: pa.Table, name: str, what: str) -> pa.Table:
    """Values with whose they are, and as lists of any length: events have one slice."""
    lists = [column for column in values.column_names if column not in ("class", "members")]
    for column in lists:
        at = values.column_names.index(column)
        values = values.set_column(at, column, values[column].cast(pa.list_(pa.float64())))
    of, kind = pa.array([name] * len(values)), pa.array([what] * len(values))
    return values.add_column(0, "of", kind).add_column(0, "variable", of)
