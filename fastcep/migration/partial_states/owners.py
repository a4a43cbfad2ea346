"""Assign the rows and waiting matches of each query to partial states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fastcep.engine.running_query import RunningQuery
from fastcep.engine.state.foreign_events import HasTexts, group_of_keys
from fastcep.engine.state.key_group_split import groups_of
from fastcep.engine.state.row_copies import partial_match_numbers
from fastcep.engine.state.word_layout import START, State, WordLayout
from fastcep.errors import ValidationError
from fastcep.migration.states import Ints
from fastcep.plan.plan import KeyPlan

__all__ = ["WAYS", "Owners", "Owning", "chosen_way", "owners_of"]

#: The ways to cut a state; ``"auto"`` is the first of `_AUTOMATIC` that all queries allow.
WAYS = ("auto", "partial match", "key", "key group", "window", "query")
_AUTOMATIC = ("partial match", "key", "query")


class Owners(NamedTuple):
    """The partial states of the entries of a query's state.

    Attributes
    ----------
    rows
        State of each row, for each index.
    waiting
        State of each waiting match.
    """

    rows: list[Ints]
    waiting: Ints


class Owning(NamedTuple):
    """The partial states of all queries.

    Attributes
    ----------
    queries
        The states of the entries of each query.
    labels
        int64[states]: number of the key group of a state if it is cut by key group, otherwise its own number.
    """

    queries: list[Owners]
    labels: Ints


def chosen_way(by: str, queries: Sequence[RunningQuery]) -> str:
    """Check that the state of all queries can be cut in this way; return the way that ``"auto"`` stands for.

    Raises
    ------
    ValidationError
        If not. The message names the query, the reason and the remedy.
    """
    if by not in WAYS:
        raise ValidationError(f"by: found {by!r}; expected one of {', '.join(map(repr, WAYS))}")
    if by == "auto":
        return next(way for way in _AUTOMATIC if not any(_obstacle(way, item) for item in queries))
    for item in queries:
        reason = _obstacle(by, item)
        if reason is not None:
            raise ValidationError(f"query {item.name!r}: its state cannot be cut by {by}: {reason}")
    return by


def _obstacle(by: str, item: RunningQuery) -> str | None:
    """Return why a state cannot be cut, and the remedy; None if it can."""
    plan = item.plan
    if by == "partial match" and plan.kept:
        return (
            "the factorised store has no single partial matches. Create the engine with store='rows', or cut the state "
            "by key"
        )
    if by in ("key", "key group") and not isinstance(plan.key, KeyPlan):
        return f"{plan.key}. All variables of the query must agree in an attribute: WHERE [attribute]"
    if by == "window" and plan.windows is None:
        return (
            "it has no windows that events or a schedule open (WINDOW OPEN ON …, WINDOW EVERY …); its window begins "
            "with each partial match. Cut the state by partial match"
        )
    return None


def owners_of(by: str, layouts: Sequence[WordLayout], states: Sequence[State], texts: HasTexts) -> Owning:
    """Return the partial states of the entries of all queries; the states are numbered without gaps.

    Parameters
    ----------
    by
        Result of `chosen_way`.
    layouts, states
        Layout and state of each query.
    texts
        The texts of the keys.
    """
    if by == "partial match":
        return _by_partial_match(layouts, states)
    if by == "window":
        return _numbered(_windows(layouts, states))
    if by == "query":
        return _numbered([_in_one(number, *parts) for number, parts in enumerate(zip(layouts, states, strict=True))])
    number = _numbers_of_keys() if by == "key" else lambda key: group_of_keys(key.dtype, texts)
    found = []
    for layout, state in zip(layouts, states, strict=True):
        key = layout.plan.key
        assert isinstance(key, KeyPlan)
        groups = groups_of(layout, state, key, number(key))
        heads = [state[f"index {index}"] for index in range(_moved(layout))]
        rows = [np.repeat(of_index, head[1]) for of_index, head in zip(groups.buckets, heads, strict=False)]
        found.append(Owners(rows, groups.waiting))
    return _numbered(found, keeps_labels=by == "key group")


def _moved(layout: WordLayout) -> int:
    """Return the number of indexes with rows of partial matches."""
    return len(layout.plan.kept) or len(layout.fixed)


def _by_partial_match(layouts: Sequence[WordLayout], states: Sequence[State]) -> Owning:
    """Make a state of each partial match, and of each waiting match."""
    found, first = [], 0
    for layout, state in zip(layouts, states, strict=True):
        numbers, count = partial_match_numbers(state, layout)
        waiting = state["waiting"].shape[1]
        found.append(Owners([first + of_index for of_index in numbers], first + count + np.arange(waiting)))
        first += count + waiting
    return Owning(found, np.arange(first))


def _in_one(number: int, layout: WordLayout, state: State) -> Owners:
    """Assign all entries of a query to one state."""
    rows = [np.full(state[f"rows {index}"].shape[1], number) for index in range(_moved(layout))]
    return Owners(rows, np.full(state["waiting"].shape[1], number))


def _windows(layouts: Sequence[WordLayout], states: Sequence[State]) -> list[Owners]:
    """Return the windows of the entries: that of an isolated window, otherwise the latest one of the start."""
    found, first = [], 0
    for layout, state in zip(layouts, states, strict=True):
        windows = layout.plan.windows
        assert windows is not None
        of_start = first + state["starts"][0 if windows.isolated else 4]
        rows = [of_start[state[f"rows {index}"][0]] for index in range(len(layout.fixed))]
        found.append(Owners(rows, of_start[state["waiting"][START]]))
        first += state["windows"].shape[1] + 1  # the last window of a query is not the one before the first
    return found


def _numbers_of_keys() -> Callable[[KeyPlan], Callable[[Ints], npt.NDArray[np.int64]]]:
    """Return a function that numbers keys; 0 (`NO_KEY`) is null or NaN, and queries share the numbers of equal keys."""
    known: dict[tuple[str, int], int] = {}

    def of_key(key: KeyPlan) -> Callable[[Ints], npt.NDArray[np.int64]]:
        def number(words: Ints) -> npt.NDArray[np.int64]:
            is_null = np.zeros(len(words), np.bool_)
            if key.dtype == "f":
                values = words.view(np.float64) + 0.0  # both zeros are equal
                words, is_null = values.view(np.int64), np.isnan(values)
            distinct, places = np.unique(words, return_inverse=True)
            numbers = [known.setdefault((key.dtype, word), len(known) + 1) for word in distinct.tolist()]
            return np.where(is_null, 0, np.array(numbers, np.int64)[places])

        return number

    return of_key


def _numbered(found: list[Owners], *, keeps_labels: bool = False) -> Owning:
    """Number the states from 0; the old numbers are the labels if they mean something."""
    arrays = [array for owners in found for array in (*owners.rows, owners.waiting)]
    labels, numbers = np.unique(np.concatenate(arrays), return_inverse=True)
    parts = iter(np.split(numbers, np.cumsum([len(array) for array in arrays])[:-1]))
    queries = [Owners([next(parts) for _ in owners.rows], next(parts)) for owners in found]
    return Owning(queries, labels if keeps_labels else np.arange(len(labels)))
