"""Check the numbers of a dumped state before they are used as indexes.

`_row_ranges` gives the range of each row of each table; `_Checker` then checks conditions between rows. Keys,
registers, outputs and times that are only compared are not restricted. The core checks its own indexes again, and that
the elements of a list are connected (``fastcep/_core/snapshot/load.pyx``).

Invariant (tested by forging): with a state that passes, no matcher reads or writes outside its memory or runs forever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.row_copies import CLASS, HOME
from fastcep.engine.state.word_layout import START, STATE, State, WordLayout
from fastcep.plan import Plan
from fastcep.stored import COUNT, INT64, MOST, Check, Misfit, whole

__all__ = ["MOST_EVENTS", "NUMBERS", "MatcherContext", "check_columns", "check_state", "check_within"]

Ints = npt.NDArray[np.int64]

#: A node index_count a position in 48 bits.
MOST_EVENTS = 1 << 47
#: Largest node: above the position it index_count the variable, and a flag for the start of a round of its group.
_NODE = (1 << 57) - 1
_NEVER = (1 << 63) - 1
_TIME, _EVENTS, _UNBOUNDED = 0, 1, 2  # kinds of window
_FIRST = -1  # source state of edges that start matches

#: The state of a matcher that is not in tables, see `Matcher.numbers`.
NUMBERS: Mapping[str, Check] = {
    "next_birth": COUNT, "now": INT64, "blind": INT64, "last": whole(-1, MOST_EVENTS),
    **dict.fromkeys((
        "relevant", "rows_visited", "rows_created", "matches", "peak", "lost", "events", "arithmetic_nulls",
        "function_errors", "sweep_at"), COUNT),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MatcherContext:
    """The facts about a matcher that its state is checked against.

    Attributes
    ----------
    prefix
        Prefix of the names of its tables, for messages.
    position
        Number of events in the stream so far.
    numbers
        The numbers of the matcher; they have passed `NUMBERS`.
    classes
        Maximum number of classes of partial matches in a state.
    """

    prefix: str
    position: int
    numbers: Mapping[str, int]
    classes: int


class _RowRange(NamedTuple):
    """A row of a table, the name of its content, and its smallest and largest valid number."""

    table: str
    row: int
    content: str
    low: int
    high: int


def check_columns(
    name: str, columns: Mapping[str, Any], dtypes: Mapping[str, Any], optional: Collection[str] = ()
) -> None:
    """Check the names and dtypes of a table's columns.

    Parameters
    ----------
    name
        Name of the table, for messages.
    columns
        The columns by name.
    dtypes
        Dtypes of the required columns.
    optional
        Names of further columns that the table may have.

    Raises
    ------
    Misfit
        A column is missing, unexpected, or has another dtype. The message names it.
    """
    for column in columns:
        if column not in dtypes and column not in optional:
            raise Misfit(f"table {name!r}", f"a column {column!r}", f"only {', '.join(map(repr, dtypes))}")
    for column, dtype in dtypes.items():
        if column not in columns:
            raise Misfit(f"table {name!r}", f"no column {column!r}", f"one of {np.dtype(dtype)}")
        column_dtype = getattr(columns[column], "dtype", "text")
        if column_dtype != dtype:
            raise Misfit(f"table {name!r}, column {column!r}", f"{column_dtype}", f"{np.dtype(dtype)}")


def check_within(name: str, values: npt.NDArray[Any], low: int, high: int) -> None:
    """Check that all numbers are within a range; `Misfit` names the first that is not."""
    if len(values) and (int(values.min()) < low or int(values.max()) > high):
        entry = int(np.flatnonzero((values < low) | (values > high))[0])
        expected = f"a number from {low} to {high}" if low <= high else "no entry"
        raise Misfit(f"{name}, entry {entry}", str(int(values[entry])), expected)


def check_state(layout: WordLayout, state: State, context: MatcherContext) -> None:
    """Check that the numbers of a state are valid indexes, and that they are consistent.

    Parameters
    ----------
    layout
        Layout of the state.
    state
        The tables, with the shapes of the layout.
    context
        Facts about the matcher that will hold the state.

    Raises
    ------
    Misfit
        A number is invalid. The message names it, and the expected value.
    """
    for item in _row_ranges(layout, state, context):
        name = f"table {context.prefix + item.table!r}, {item.content}"
        check_within(name, state[item.table][item.row], item.low, item.high)
    check = _Checker(layout, state, context)
    check.order()
    check.buckets()
    check.rows()
    check.nodes()
    check.waiting()
    check.counts()


def _row_ranges(layout: WordLayout, state: State, context: MatcherContext) -> Iterator[_RowRange]:
    """Yield the valid range of each row of a state; rows without a restriction are left out."""
    plan, numbers = layout.plan, context.numbers
    last, births = min(numbers["last"], context.position - 1), numbers["next_birth"] - 1
    windows, starts, nodes = (state[name].shape[1] for name in ("windows", "starts", "nodes"))
    isolated = plan.windows is not None and plan.windows.isolated
    shared = plan.windows is not None and not isolated
    place = windows - 1 if isolated else -1
    oldest = max(0, context.position - plan.window) if plan.window_kind == _EVENTS else 0
    yield _RowRange("windows", 0, "position", 0, context.position - 1)
    yield _RowRange("windows", 1, "time", -_NEVER - 1, numbers["now"])
    yield _RowRange("windows", 3, "matches", 0, MOST)
    yield _RowRange("starts", 0, "place", -1, place)
    yield _RowRange("starts", 1, "time", -_NEVER - 1, numbers["now"])
    yield _RowRange("starts", 2, "position", oldest, last)
    yield _RowRange("starts", 3, "partial matches", 0, MOST)
    yield _RowRange("starts", 4, "window", 0 if shared else -1, windows - 1 if shared else -1)
    yield _RowRange("nodes", 0, "start", 0, starts - 1)
    yield _RowRange("nodes", 1, "event", 0, _NODE)
    yield _RowRange("nodes", 2, "previous node", -1, nodes - 1)
    for number in range(layout.index_count):
        rows = f"rows {number}"
        yield _RowRange(f"index {number}", 0, "place", -1, place)
        yield _RowRange(f"index {number}", 1, "rows", 1, state[rows].shape[1])
        if number < len(layout.fixed):
            fixed = layout.fixed[number]
            yield _RowRange(rows, 0, "start", 0, starts - 1)
            if fixed.birth >= 0:
                yield _RowRange(rows, fixed.birth, "birth", 0, births)
            if fixed.reported >= 0:
                yield _RowRange(rows, fixed.reported, "flag of a reported match", 0, 1)
            for binding, word in fixed.bindings.items():
                yield _RowRange(rows, word, "event", -1, nodes - 1 if layout.is_node(binding) else last)
        elif layout.counts and number == layout.index_count - 1:
            yield _RowRange(rows, 0, "matches", 0, MOST)
        elif plan.kept:
            yield _RowRange(rows, 0, "position", 0, last)
        else:
            yield _RowRange(rows, 1, "position", 0, last)
            yield _RowRange(rows, 2, "time", -_NEVER - 1, numbers["now"])
    yield _RowRange("waiting", 0, "place", -1, place)
    yield _RowRange("waiting", 2, "birth", 0, births)
    yield _RowRange("waiting", START, "start", 0, starts - 1)
    yield _RowRange("waiting", STATE, "state", 0, len(plan.states) - 1)
    for binding, word in layout.waiting_bindings():
        yield _RowRange("waiting", word, "event", -1, nodes - 1 if layout.is_node(binding) else last)
    for output in range(max((item.outputs for item in plan.states), default=0)):
        yield _RowRange("waiting", layout.output(output) + 1, "null", 0, 1)
    yield _RowRange("partitions", 0, "position", -1, last)


class _Checker:
    """Checks of the conditions between rows of a state, whose numbers are all within their ranges."""

    def __init__(self, layout: WordLayout, state: State, context: MatcherContext) -> None:
        self._layout, self._state, self._context = layout, state, context
        self._plan: Plan = layout.plan

    def _expect(self, valid: npt.NDArray[np.bool_], table: str, found: str, expected: str) -> None:
        """Raise `Misfit` for the first entry that is not valid."""
        if not valid.all():
            entry = int(np.flatnonzero(~valid)[0])
            raise Misfit(f"table {self._context.prefix + table!r}, entry {entry}", found, expected)

    def order(self) -> None:
        """Check that windows and starts are in stream order, and entries with a place in the order of places."""
        state = self._state
        positions, times = state["windows"][:2]
        self._expect(np.diff(positions) > 0, "windows", "an opening event not after the previous one", "a later one")
        self._expect(np.diff(times) >= 0, "windows", "a time before that of the previous window", "ascending times")
        for table in ("starts", "waiting", *(f"index {number}" for number in range(self._layout.index_count))):
            ascends = np.diff(state[table][0]) >= 0
            self._expect(ascends, table, "a place before that of the previous entry", "ascending places")
        ascends = np.diff(state["nodes"][0]) >= 0
        self._expect(ascends, "nodes", "a start before that of the previous entry", "ascending starts")
        places, times, positions, _, windows = state["starts"]
        new_place = np.diff(places) != 0
        later = new_place | (np.diff(positions) > 0)
        self._expect(later, "starts", "an event not after the previous one", "a later one")
        ascends = new_place | (np.diff(times) >= 0)
        self._expect(ascends, "starts", "a time before that of the previous start", "ascending times")
        ascends = new_place | (np.diff(windows) >= 0)
        self._expect(ascends, "starts", "a window before that of the previous start", "ascending windows")

    def buckets(self) -> None:
        """Check that the sizes of the buckets of an index add up to its number of rows."""
        for number in range(self._layout.index_count):
            sizes, rows = self._state[f"index {number}"][1], self._state[f"rows {number}"].shape[1]
            total = sum(sizes.tolist())  # a Python int, which does not overflow
            if total != rows:
                table = f"table {self._context.prefix + f'index {number}'!r}, rows"
                raise Misfit(table, f"{total} in all", f"{rows}, as many as 'rows {number}' has")

    def rows(self) -> None:
        """Check that each row has the place of its start, and that rows are in the order of their creation."""
        layout, state, plan = self._layout, self._state, self._plan
        begins = {edge.target for edge in plan.edges} - {edge.target for edge in plan.edges if edge.source != _FIRST}
        for number in range(layout.index_count):
            heads, rows, table = state[f"index {number}"], state[f"rows {number}"], f"rows {number}"
            bucket = np.repeat(np.arange(heads.shape[1]), heads[1])
            new_bucket = np.diff(bucket) != 0
            if number < len(layout.fixed):
                fixed = layout.fixed[number]
                same_place = state["starts"][0][rows[0]] == heads[0][bucket]
                self._expect(same_place, table, "a start of another window", "one of the window of its bucket")
                if fixed.birth >= 0:
                    later = (np.diff(rows[fixed.birth]) > 0) | new_bucket
                    self._expect(later, table, "a birth not after the previous one", "a later one")
                if fixed.shed_class >= 0:
                    name = f"table {self._context.prefix + table!r}, class"
                    check_within(name, rows[fixed.shed_class] & CLASS, 0, self._context.classes - 1)
                order = rows[0] if plan.indexes[number].state in begins else None
            elif layout.counts and number == layout.index_count - 1:
                self._expect(heads[1] == 1, f"index {number}", "more than one row", "one, the number of matches")
                continue
            elif plan.kept:
                order = rows[0]
            else:
                expiry, order, times = rows[:3]
                by_time = plan.negations[number - len(layout.fixed)].by_time
                valid = expiry == (times if by_time else order)
                self._expect(valid, table, "another expiry", f"its {'time' if by_time else 'position'}")
                ascends = (np.diff(times) >= 0) | new_bucket
                self._expect(ascends, table, "a time before that of the previous row", "ascending times")
            if order is not None:
                ascends = (np.diff(order) >= 0) | new_bucket
                self._expect(ascends, table, "an event before that of the previous row", "ascending events")

    def nodes(self) -> None:
        """Check that the elements of a list are events of one start, in stream order."""
        starts, events, previous = self._state["nodes"]
        positions = events & (MOST_EVENTS * 2 - 1)
        first = previous < 0
        before = np.where(first, 0, previous)
        variables = (events >> 48) & 0xFF
        known_variable = variables < len(self._plan.negated)
        self._expect(known_variable, "nodes", "a variable that does not exist", "one of the query")
        self._expect(positions < self._context.position, "nodes", "a future event", "one that has come")
        same_start = first | (starts[before] == starts)
        self._expect(same_start, "nodes", "a previous node of another start", "one of the same start")
        later = first | (positions[before] < positions)
        self._expect(later, "nodes", "an event before that of the previous node", "a later one")
        for table, row in self._layout.nodes():
            nodes = self._state[table][row]
            has_list = nodes >= 0
            valid = ~has_list
            start = self._state[table][START if table == "waiting" else 0]
            valid[has_list] = starts[nodes[has_list]] == start[has_list]
            self._expect(valid, table, "a list of another start", "one of its own start")

    def waiting(self) -> None:
        """Check that matches wait in states in which matches can wait, at most until their window ends."""
        waiting, plan = self._state["waiting"], self._plan
        if not waiting.shape[1]:
            return
        _, due, _, start, number, last = waiting[:6]
        deferred = np.array([item.deferred for item in plan.states], np.bool_)
        self._expect(deferred[number], "waiting", "a state in which no match waits", "one in which matches wait")
        same_place = self._state["starts"][0][start] == waiting[0]
        self._expect(same_place, "waiting", "a start of another window", "one of its own window")
        times = self._state["starts"][1][start]
        ends = np.full(len(times), _NEVER)
        if plan.window_kind == _TIME:
            ends = np.where(times <= _NEVER - plan.window, times + min(plan.window, _NEVER), _NEVER)
        self._expect(last == ends, "waiting", "another end of its window", "the end that follows from its start")
        silent = np.array([item.due >= 0 for item in plan.states], np.bool_)[number]  # WITHIN does not limit a silence
        self._expect(silent | (due <= last), "waiting", "a time after the end of its window", "one up to the end")
        now = self._context.numbers["now"]
        self._expect(due >= now, "waiting", "a time in the past", f"one from {now} on, the time of the matcher")

    def counts(self) -> None:
        """Check the number of partial matches of each start."""
        if self._plan.kept:
            return  # loading counts them again
        layout, state, plan = self._layout, self._state, self._plan
        starts = state["starts"]
        states = [item.state for item in plan.indexes]
        least = np.bincount(state["waiting"][START], minlength=starts.shape[1])
        born = [np.empty((2, 0), np.int64)]
        copies: dict[int, list[npt.NDArray[np.int64]]] = {}  # by state, the number of rows in each of its indexes
        for number, fixed in enumerate(layout.fixed):
            rows, index_state = state[f"rows {number}"], plan.indexes[number].state
            if fixed.shed_class >= 0 and states.count(index_state) > 1:  # other indexes may still have a dropped row
                least += np.bincount(rows[0, rows[fixed.shed_class] & HOME != 0], minlength=starts.shape[1])
            elif fixed.birth >= 0:
                born.append(rows[[0, fixed.birth]])
            else:
                copies.setdefault(index_state, []).append(np.bincount(rows[0], minlength=starts.shape[1]))
        distinct = np.unique(np.concatenate(born, axis=1), axis=1)  # several indexes may have the same row
        least += np.bincount(distinct[0], minlength=starts.shape[1])
        most = least.copy()
        for counts in copies.values():  # an index lacks rows with a null key, and copies of a row cannot be identified
            least, most = least + np.max(counts, axis=0), most + np.sum(counts, axis=0)
        valid = (least <= starts[3]) & (starts[3] <= most)
        self._expect(valid, "starts", "another number of partial matches", "as many as it has rows")
