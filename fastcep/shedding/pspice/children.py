"""Children that partial matches of each state and age have on history, as `Drift` expects them of the stream.

The matrix of the model forgets how long a partial match took to get into its state. If all steps of a match follow each
other quickly, its partial matches are younger than the matrix predicts. So the children are counted by age, by the
matcher itself, which counts them on the stream in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.overload.costs import CostTable
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.episodes import without_warnings
from fastcep.overload.protocols import Classes, QueryView
from fastcep.overload.validation import MOST_SLICES
from fastcep.plan import make_plan
from fastcep.query import ast
from fastcep.shedding.counts.chain_states import MOST_NUMBERS, ChainStates, classes_by_number
from fastcep.shedding.fixed_plan import MOST_EVENTS, Measuring, engine_with
from fastcep.shedding.hybrid.flow_keys import field_of
from fastcep.stored import Misfit

if TYPE_CHECKING:
    from fastcep._core.matcher.shedding_controls import Flows

__all__ = [
    "Children", "count_children", "counted_children", "events_to_count", "events_to_record", "relative_difference",
]  # fmt: skip

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Number of windows whose children are counted, if the history has them, and largest number of events for them.
_WINDOWS, _MOST_EVENTS = 20, 200_000

#: Number of windows to record for a new fit: enough for `count_children`, also if some are longer.
_RECORDED = 7

#: Least number of readings, about one in a window, from which an error follows.
_READINGS = 3

#: Least share of all children, and least number of them, that a pair of states must have to count.
_COMMON, _FEWEST = 0.01, 30.0

#: Number of standard errors by which a difference is reduced.
_ERRORS = 2.0

_KEYS: dict[str, pa.DataType] = {"parent": pa.int32(), "child": pa.int32()}
_BY_AGE = _KEYS | {"slice": pa.int32(), "per_event": pa.float64()}
_ERROR = _KEYS | {"error": pa.float64()}


@dataclass(frozen=True)
class Children:
    """Mean number of children per event.

    Attributes
    ----------
    per_event
        By state of the parent (0: none, the child begins a match), by state of the child, and by slice of the parent's
        window: float64[states + 1, states, 64].
    error
        Standard error of the sum over all slices: float64[states + 1, states].
    window
        Mean number of events in a window in which they were counted.
    """

    per_event: Floats
    error: Floats
    window: float

    def by_slice(self, slices: int) -> Floats:
        """Return the numbers for another number of slices: float64[states + 1, states, slices]."""
        bounds = np.linspace(0.0, MOST_SLICES, slices + 1)
        before = np.concatenate([np.zeros((*self.per_event.shape[:2], 1)), np.cumsum(self.per_event, axis=2)], axis=2)
        low = np.minimum(bounds.astype(np.int64), MOST_SLICES - 1)
        at = before[:, :, low] + (bounds - low) * self.per_event[:, :, low]
        return np.asarray(np.diff(at, axis=2))

    def tables(self) -> dict[str, pa.Table]:
        """Return the numbers above 0 as tables, for a model."""
        return {"children": _table(self.per_event, _BY_AGE), "children_error": _table(self.error, _ERROR)}

    @classmethod
    def of(cls, parts: Mapping[str, pa.Table], states: int, window: float) -> Children:
        """Read `tables`; raise `Misfit` if they are malformed."""
        shape = states + 1, states, MOST_SLICES
        per_event = _array(parts, "children", _BY_AGE, shape)
        return cls(per_event, _array(parts, "children_error", _ERROR, shape[:2]), window)


def _table(values: Floats, columns: Mapping[str, pa.DataType]) -> pa.Table:
    parent, *others = np.nonzero(values)
    places = [place.astype(np.int32) for place in (parent - 1, *others)]
    return pa.table([*places, values[values > 0]], schema=pa.schema(list(columns.items())))


def _array(
    parts: Mapping[str, pa.Table], part: str, columns: Mapping[str, pa.DataType], shape: tuple[int, ...]
) -> Floats:
    table = parts.get(part)
    if table is None or list(zip(table.schema.names, table.schema.types, strict=True)) != list(columns.items()):
        raise Misfit("parts", f"no table {part!r}", f"one with the columns {', '.join(columns)}")
    if any(table[name].null_count for name in columns):
        raise Misfit(part, "nulls", "none")
    parent, *others, values = (table[name].to_numpy() for name in columns)
    places = [parent.astype(np.int64) + 1, *(other.astype(np.int64) for other in others)]
    if not all(((place >= 0) & (place < size)).all() for place, size in zip(places, shape, strict=True)):
        raise Misfit(part, "a state or slice that is out of range", "those of the model")
    if not (np.isfinite(values) & (values > 0)).all():
        raise Misfit(part, "a number that is not above 0 or not finite", "numbers above 0")
    numbers = np.zeros(shape)
    numbers[tuple(places)] = values
    if np.count_nonzero(numbers) < len(values):
        raise Misfit(part, "the same states and slice twice", "each once")
    return numbers


def counted_children(flows: Flows, chain: ChainStates, slices: int) -> tuple[Ints, Ints, Ints, Floats]:
    """Return children that were counted: state of the parent + 1, state of the child, slice, and their number.

    See `Children`, and `QueryView.flows`.
    """
    keys, counts = flows[:2]
    places = chain.of_class(MOST_NUMBERS)
    source = field_of(keys, "source")
    parent = np.where(source > 0, places[np.maximum(source - 1, 0), field_of(keys, "source_class")] + 1, 0)
    child = places[field_of(keys, "target"), field_of(keys, "target_class")]
    return parent, child, np.where(source > 0, np.minimum(field_of(keys, "slice"), slices - 1), 0), counts


def relative_difference(found: Floats, expected: Floats, error: Floats) -> float:
    """Return the largest relative difference of the common pairs of states, less `_ERRORS` standard errors of it.

    Parameters
    ----------
    found, expected, error
        Numbers of children, those expected, and the standard error of the difference, of the same shape.
    """
    larger = np.maximum(np.maximum(found, expected), 1e-9)
    common = larger >= max(_COMMON * float(larger.sum()), _FEWEST)
    return float(((np.abs(found - expected) - _ERRORS * error) / larger)[common].max(initial=0.0))


def events_to_record(history: int, window: float) -> int:
    """Return how many events to record for a new fit: `history`, or more if children are counted in long windows."""
    return max(history, min(_RECORDED * ceil(window), _MOST_EVENTS))


def events_to_count(window: float) -> int:
    """Return on how many events, the last ones of the history, children are counted, given the size of a window.

    The first window does not count, because partial matches are missing in it.
    """
    return min(max(MOST_EVENTS, (_WINDOWS + 1) * ceil(window)), _MOST_EVENTS)


def count_children(query: ast.Query, history: pa.Table) -> Children | None:
    """Run a query over history and count the children of its partial matches.

    None: unknown, because the history has less than five windows, or there are too many pairs of states to count.
    """
    counting = _Counting(query)
    engine = engine_with(counting, query, CostTable("none"), "full")
    with without_warnings():
        engine.process(history)
    return counting.children()


class _Counting(Measuring):
    """Shedder that drops nothing and counts children, after the first window, in which partial matches are missing."""

    drops_matches = True
    slices = MOST_SLICES

    def __init__(self, query: ast.Query) -> None:
        states = len(ChainStates.of(make_plan(query, store="rows")).names)
        self._found = np.zeros((states + 1, states, MOST_SLICES))
        #: Sums over the readings of the squares of a pair's children, and of their products with the number of events.
        self._squares, self._products = np.zeros((2, states + 1, states))
        self._readings = self._events = self._event_squares = 0
        self._windows = 0.0
        self._since: int | None = None  #: number of events at the last reading
        self._complete = False  #: whether the first window has passed
        self._lost = False

    def classes(self, query: ast.Query) -> dict[str, Classes]:
        """Return the classes by the number of events that the variable bound last has bound."""
        return dict(classes_by_number(query))

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return a plan that counts."""
        births = np.zeros((len(views[0].plan.states), views[0].classes, views[0].slices))
        return [DropPlan(births=births, steady=True, kept=1.0, counts=1.0)]

    def learn(self, views: Sequence[QueryView]) -> None:
        """Read the counts about once in a window."""
        (view,) = views
        if self._since is None:  # no plan is in force yet
            self._since = view.received
            return
        events = view.received - self._since
        if events < view.window_size:
            return
        flows, self._since = view.flows(), view.received
        if self._complete:
            self._add(flows, ChainStates.of(view.plan), events, view.window_size)
        self._complete = True

    def _add(self, flows: Flows, chain: ChainStates, events: int, window: float) -> None:
        parent, child, age, counts = counted_children(flows, chain, MOST_SLICES)
        np.add.at(self._found, (parent, child, age), counts)
        shape = self._squares.shape
        pairs = np.bincount(parent * shape[1] + child, counts, shape[0] * shape[1]).reshape(shape)
        self._squares += pairs**2
        self._products += pairs * events
        self._events, self._event_squares = self._events + events, self._event_squares + events**2
        self._windows += events / window
        self._readings += 1
        self._lost |= flows[3] > 0

    def children(self) -> Children | None:
        """Return what was counted; see `count_children`."""
        if self._readings < _READINGS or self._lost:
            return None
        per_event = self._found / self._events
        rate = per_event.sum(axis=2)
        squares = self._squares - 2 * rate * self._products + rate**2 * self._event_squares
        n = self._readings
        factor = (n + 1) / (n - 1)  # about the quantile of Student's t distribution, relative to the normal one
        error = factor * np.sqrt(np.maximum(squares, 0.0) * n / (n - 1)) / self._events
        return Children(per_event, error, self._events / self._windows)
