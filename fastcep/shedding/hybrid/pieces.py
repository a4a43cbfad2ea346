"""Fit a model from pieces of history: map steps over the pieces, and merge their results.

Each piece is observed once: `Observer.account` runs the query over it, and the accounts are kept (`History.map`). Three
functions are mapped over the accounts (`History.gather`):

1. `Observer.summarise`: summaries of the members that the piece owns. Their merge gives the classes (`find_classes`).
2. `Observer.count`: frequencies of values in each class. Their sum gives the values of classes (`evaluate_classes`).
3. `Observer.flow`: the flow between classes. Flows are added up (`total`).

The model does not depend on how the stream is cut, if pieces have enough context, see `Piece`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal, TypeVar

import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.overload.costs import cost_table as cost_table_of
from fastcep.overload.match_counts import MatchRate
from fastcep.overload.protocols import Classes, Tree
from fastcep.query import ast
from fastcep.shedding.history_size import warn_short
from fastcep.shedding.hybrid.attribution import Account, Names
from fastcep.shedding.hybrid.classes import check_options, find_classes
from fastcep.shedding.hybrid.clusters import Map
from fastcep.shedding.hybrid.coarsening import affordable
from fastcep.shedding.hybrid.feature_names import feature_names
from fastcep.shedding.hybrid.flow import Flow, Windows, count_flow, total
from fastcep.shedding.hybrid.history import History, Piece
from fastcep.shedding.hybrid.model import HybridModel
from fastcep.shedding.hybrid.observed import observed_piece
from fastcep.shedding.hybrid.summary import Summary, merged
from fastcep.shedding.hybrid.validation import Kind, Validation
from fastcep.shedding.hybrid.validation import validate as validated
from fastcep.shedding.hybrid.values import Counts, Fitted, Members, Raw, evaluate_classes, merged_counts, value_counts
from fastcep.shedding.options import as_choice, as_count, as_duration

__all__ = ["Kind", "Observer", "PieceSummary", "check_cut", "check_fit", "fit_pieces", "observed_piece"]

_SLICES = 64  # largest number of slices in the matcher
_VALIDATED = 2_000_000  # largest number of partial matches and matches of a validation
_CALLER = "fit of 'hybrid'"

Answer = TypeVar("Answer")
Per = Literal["value", "leaf", "cluster"]


@dataclass(frozen=True)
class PieceSummary:
    """Summary of a piece, or of several.

    Attributes
    ----------
    summaries
        Summary of the members of each kind.
    events, stored, matches
        Number of owned events, of the partial matches that they created, and of the matches reported at them.
    reach
        See `Account.reach`.
    variables
        See `Account.variables`.
    """

    summaries: Mapping[Kind, Summary]
    events: int
    stored: int
    matches: int
    reach: int
    variables: tuple[str, ...]

    @classmethod
    def merged(cls, several: Sequence[PieceSummary]) -> PieceSummary:
        """Merge the summaries of several pieces."""
        kinds = several[0].summaries
        return cls(
            {kind: merged([piece.summaries[kind] for piece in several]) for kind in kinds},
            sum(piece.events for piece in several), sum(piece.stored for piece in several),
            sum(piece.matches for piece in several), sum(piece.reach for piece in several), several[0].variables,
        )  # fmt: skip


@dataclass
class Observer:
    """Functions of a piece and of its account, which may run in other processes.

    The account of the last piece is cached for the validation, and the members of the last account for the next step;
    they are not pickled.

    Attributes
    ----------
    query, features, event_features, slices, costs, index, memory
        See `observed_piece`.
    seed
        Seed of samples.
    """

    query: ast.Query
    features: Names
    event_features: Names
    slices: int
    costs: CostTable
    index: Index
    memory: bool
    seed: int

    def __post_init__(self) -> None:
        self._account: tuple[Piece, Account] | None = None
        self._members: tuple[Account | None, dict[Kind, pa.Table]] = None, {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_account": None, "_members": (None, {})}

    def account(self, piece: Piece) -> Account:
        """Return the account of a piece, cached for the last piece."""
        if self._account is None or self._account[0] is not piece:
            self._account = None  # there may be memory for one only
            account = observed_piece(
                self.query, piece.table, self.features, self.event_features, self.slices, self.costs, self.index,
                self.memory, piece.owned, piece.base,
            )  # fmt: skip
            self._account = piece, account
        return self._account[1]

    def members(self, account: Account, kind: Kind) -> pa.Table:
        """Return the owned members of a kind; those that `remembered` keeps are returned once."""
        if self._members[0] is account and kind in self._members[1]:
            return self._members[1].pop(kind)
        return (account.matches_of if kind[0] == "partial match" else account.events_of)(kind[1])

    def reslice(self, slices: int) -> None:
        """Set the number of slices, also of the cached account."""
        self.slices = slices
        if self._account is not None:
            self._account = self._account[0], self._account[1].sliced(slices)

    def remembered(self, account: Account, kind: Kind) -> pa.Table:
        """Return the owned members of a kind, and keep them for the next step."""
        members = self.members(account, kind)
        if self._members[0] is not account:
            self._members = account, {}
        self._members[1][kind] = members
        return members

    def kinds(self, account: Account) -> list[Kind]:
        """Return the kinds of members."""
        kinds = [("partial match", name) for name in self.features if account.states_of(name)]
        return kinds + [("event", name) for name in self.event_features]

    def summarise(self, account: Account) -> PieceSummary:
        """Summarise a piece."""
        summaries = {kind: Summary.of(self.remembered(account, kind), self.seed) for kind in self.kinds(account)}
        stored, matches = (int((flags & account.is_owned).sum()) for flags in (account.stored, account.matched))
        if account.owned == (0, len(account.times)):
            matches = account.record.reported  # a query that can be cut into pieces reports every match once
        events = account.owned[1] - account.owned[0]
        return PieceSummary(summaries, events, stored, matches, account.reach, account.variables)

    def count(self, account: Account, raw: Mapping[Kind, Raw]) -> dict[Kind, Counts]:
        """Count the values of members in each class."""
        return {kind: value_counts(self.members(account, kind), classes) for kind, classes in raw.items()}

    def evaluate(self, account: Account, raw: Mapping[Kind, Raw], percentile: float) -> dict[Kind, Fitted]:
        """Evaluate classes if the piece is the whole stream: equal to the result from counts, but faster."""
        return {
            kind: evaluate_classes(classes, Members(self.members(account, kind), classes), percentile)
            for kind, classes in raw.items()
        }

    def flow(
        self,
        account: Account,
        classes: Mapping[str, Classes | Tree],
        event_classes: Mapping[str, Classes | Tree],
        windows: Windows,
    ) -> Flow:
        """Count the flow of a piece."""
        return count_flow(account, classes, event_classes, windows)


def fit_pieces(
    query: ast.Query,
    pieces: History[Piece],
    *,
    slices: int = 4,
    clusters: int | Literal["gap"] = 10,
    per: Literal["value", "leaf", "cluster"] = "value",
    percentile: float = 90,
    features: Mapping[str, Sequence[str]] | None = None,
    exclude: Sequence[str] = (),
    validate: bool = False,
    consumption: Literal["work", "memory"] = "work",
    cost_table: CostTable | str = "measured",
    index: Index = "full",
    decision_cost: str | timedelta = "500us",
    order_cost: str | timedelta = "250ms",
    seed: int = 0,
    references: Map = map,
) -> HybridModel:
    """Fit a model for a query from pieces of a stream.

    Parameters
    ----------
    query
        Query. To use several pieces, it must be WITHIN a time or number of events, and have no clause that depends on
        all earlier events (`AFTER MATCH`, `CONSUME`, `LIMIT`, `SELECT`).
    pieces
        History.
    slices, clusters, per, percentile, features, exclude, consumption, cost_table, index
        See `fit_hybrid`. The cost table is read here, once.
    decision_cost, order_cost, seed
        See `fit_hybrid`.
    validate
        See `fit_hybrid`. It requires a single piece in this process.
    references
        ``map`` of `gap_statistic`.

    Raises
    ------
    ValidationError
        As for `fit_hybrid`; also if there are several pieces and the query requires one.
    """
    check_fit(slices=slices, clusters=clusters, per=per, percentile=percentile, consumption=consumption)
    limits = [as_duration(_CALLER, "decision_cost", decision_cost), as_duration(_CALLER, "order_cost", order_cost)]
    _check_pieces(query, len(pieces))
    if not isinstance(query.window, ast.TimeWindow | ast.CountWindow):
        slices = 1  # as in `last_in_slices`
    costs = cost_table_of(cost_table)
    names = feature_names(query, features, exclude, _CALLER)
    observer = Observer(query, *names, slices, costs, index, consumption == "memory", seed)
    find = partial(_find_classes, clusters=clusters, per=per, seed=seed, references=references)
    validation: Validation | None = None
    if validate:
        check = partial(_validated, observer, find, percentile)
        (validation,) = pieces.gather("validation", check, _one, _as_list, _identity)
        find = partial(find, features=validation.features)
        if validation.slices != slices:
            observer.reslice(slices := validation.slices)
    accounts = pieces.map("accounts", observer.account)
    answers = accounts.gather("members", observer.summarise, PieceSummary.merged, _by_kind, find)
    summary, by_kind = next(iter(answers), None), answers[1:]  # there is no answer without events
    if not isinstance(summary, PieceSummary) or not summary.stored:
        events = summary.events if isinstance(summary, PieceSummary) else 0
        raise ValidationError(
            f"{_CALLER}: query {query.name!r} has no partial match in {events:,} events of history; give events in "
            "which it has some"
        )
    options: dict[str, Any] = {"clusters": clusters, "per": per, "percentile": percentile, "seed": seed}
    raw: dict[Kind, Raw] = dict(by_kind)
    if len(pieces) == 1:
        evaluate = partial(observer.evaluate, raw=raw, percentile=percentile)
        (fitted,) = accounts.gather("values", evaluate, _one, _as_list, _identity)
    else:
        evaluate_kind = partial(_evaluate, raw=raw, percentile=percentile)
        count_values = partial(observer.count, raw=raw)
        fitted = dict(accounts.gather("values", count_values, _merged_by_kind, _items, evaluate_kind))
    classes, event_classes = (
        {name: result.classes for (kind, name), result in fitted.items() if kind == role and result.classes is not None}
        for role in ("partial match", "event")
    )
    windows = Windows.of(summary.reach, summary.events)
    matches = None if validation is not None else summary.matches  # the validation needs more, and warns itself
    count_of_windows = summary.events / windows.length if summary.reach >= 0 else None
    if validation is None or validation.report.get("warning") is None:
        warn_short("hybrid", query.name, summary.events, matches, count_of_windows)
    count = partial(observer.flow, classes=classes, event_classes=event_classes, windows=windows)
    (flow,) = accounts.gather("flow", count, total, _as_list, _identity)
    model = HybridModel(
        query, classes, event_classes, flow,
        pa.concat_tables([_labelled(result.values, name, kind) for (kind, name), result in fitted.items()]),
        summary.variables, costs,
        {"slices": slices, "index": index, "consumption": consumption, "exclude": list(exclude), **options},
        validation=None if validation is None else validation.report,
        match_rate=MatchRate(summary.events, summary.matches, max(0.0, summary.reach / summary.events)),
    )  # fmt: skip
    return affordable(model, *limits)


def check_fit(*, slices: int, clusters: int | str, per: str, percentile: float, consumption: str) -> None:
    """Check the options of a fit."""
    if as_count(_CALLER, "slices", slices) > _SLICES:
        raise ValidationError(f"{_CALLER}: slices={slices}; expected at most {_SLICES}, such as 4")
    if isinstance(clusters, str) and clusters != "gap":
        raise ValidationError(f"{_CALLER}: clusters={clusters!r}; expected a whole number, at least 1, or 'gap'")
    if clusters != "gap":
        as_count(_CALLER, "clusters", clusters)
    as_choice(_CALLER, "consumption", consumption, ("work", "memory"))
    check_options(per, percentile)


def _by_kind(summary: PieceSummary) -> Sequence[PieceSummary | tuple[Kind, Summary]]:
    """Split a summary into its numbers and the summary of each kind of members."""
    return [replace(summary, summaries={}), *summary.summaries.items()]


def _find_classes(
    part: PieceSummary | tuple[Kind, Summary],
    *,
    clusters: int | Literal["gap"],
    per: Per,
    seed: int,
    references: Map,
    features: Mapping[Kind, Sequence[str]] | None = None,
) -> Any:
    if isinstance(part, PieceSummary):
        return part
    kind, summary = part
    usable = None if features is None else features[kind]
    return kind, find_classes(summary, clusters=clusters, per=per, seed=seed, map=references, candidates=usable)


def _validated(observer: Observer, find: Callable[..., Any], percentile: float, piece: Piece) -> Validation:
    """Validate features on a piece that is the whole history, or on its last part if it has many partial matches."""
    account = observer.account(piece)
    if len(account.record.parents) > _VALIDATED:  # a shorter history, which is observed apart
        first = int(account.record.events[-_VALIDATED])
        recent = piece.table.slice(first)
        observer = replace(observer)
        account = observer.account(Piece(recent, 0, (0, len(recent))))

    def classes_of(kind: Kind, members: pa.Table, features: Sequence[str]) -> Classes | Tree | None:
        _, raw = find((kind, Summary.of(members, observer.seed)), features={kind: features})
        return evaluate_classes(raw, Members(members, raw), percentile).classes

    members = partial(observer.remembered, account)
    return validated(observer.query, account, members, observer.kinds(account), classes_of, observer.seed)


def _merged_by_kind(counts: Sequence[Mapping[Kind, Counts]]) -> Mapping[Kind, Counts]:
    return {kind: merged_counts([of_piece[kind] for of_piece in counts]) for kind in counts[0]}


def _evaluate(part: tuple[Kind, Counts], *, raw: Mapping[Kind, Raw], percentile: float) -> tuple[Kind, Fitted]:
    kind, counts = part
    return kind, evaluate_classes(raw[kind], counts, percentile)


def _items(counts: Mapping[Kind, Counts]) -> Sequence[tuple[Kind, Counts]]:
    return list(counts.items())


def _one(answers: Sequence[Answer]) -> Answer:
    (only,) = answers
    return only


def _as_list(answer: Answer) -> Sequence[Answer]:
    return [answer]


def _identity(part: Answer) -> Answer:
    return part


def check_cut(query: ast.Query) -> str:
    """Return the clauses that make matches depend on all earlier events, so that history must be one piece."""
    clauses = [
        clause
        for clause, present in (
            ("a window that is neither a time nor a number of events", not isinstance(
                query.window, ast.TimeWindow | ast.CountWindow)),
            (f"SELECT {query.select}", query.select != "each"),
            (f"CONSUME {query.consume}", query.consume != "zero"),
            (f"AFTER MATCH {query.after_match}", query.after_match != "no skip"),
            ("LIMIT", query.limit is not None),
            ("PERIODIC", isinstance(query.pattern, ast.Periodic)),
        )
        if present
    ]  # fmt: skip
    return ", ".join(clauses)


def _check_pieces(query: ast.Query, pieces: int) -> None:
    """Check that a query can be fitted on this number of pieces."""
    if not pieces:
        raise ValidationError(f"{_CALLER}: found no piece of history, expected at least one")
    clauses = check_cut(query) if pieces > 1 else ""
    if clauses:
        raise ValidationError(
            f"{_CALLER}: query {query.name!r} has {clauses}, so the matches of an event may depend on all earlier "
            "events; give history as one piece"
        )


def _labelled(values: pa.Table, name: str, kind: str) -> pa.Table:
    """Add the variable and the kind to values, and convert their lists to lists of any length."""
    lists = [column for column in values.column_names if column not in ("class", "members")]
    for column in lists:
        place = values.column_names.index(column)
        values = values.set_column(place, column, values[column].cast(pa.list_(pa.float64())))
    variables, kinds = pa.array([name] * len(values)), pa.array([kind] * len(values))
    return values.add_column(0, "of", kinds).add_column(0, "variable", variables)
