"""What the numbers of a dumped state may be: they are checked against what they index before they are used.

`_rows` says of each row of each table between which numbers it lies; what must hold between rows comes behind that.
Keys, registers, outputs and times that are only compared may be any. The core checks again what it indexes itself, and
that the elements of a list hang together (``fastcep/_core/snapshot/load.pyx``).

Invariant (tested by forging): a state that passes lets no matcher read or write outside of its memory, or run for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.word_layout import START, STATE, State, WordLayout
from fastcep.plan import Plan
from fastcep.stored import COUNT, INT64, MOST, Check, Misfit, whole

__all__ = ["MOST_EVENTS", "NUMBERS", "Stand", "check_columns", "check_state", "check_within"]

Ints = npt.NDArray[np.int64]

#: A position stands in 48 bits of a node.
MOST_EVENTS = 1 << 47
#: Above the position of a node: the member, and whether a round of its group begins.
_NODE = (1 << 57) - 1
_NEVER = (1 << 63) - 1
_EVENTS, _UNBOUNDED, _EXPLICIT = 1, 2, 3  # kinds of window
_FIRST = -1  # the source of edges that begin matches
_CLASSES = 0xFF  # of the word with the class of a partial match, which
_HOME = 1 << 8  # says beside it that the row is the one of those in several indexes that is counted

#: What of a matcher is no table, see `Matcher.numbers`.
NUMBERS: Mapping[str, Check] = {
    "next_birth": COUNT, "now": INT64, "blind": INT64, "last": whole(-1, MOST_EVENTS),
    **dict.fromkeys((
        "relevant", "rows_visited", "rows_created", "matches", "peak", "lost", "events", "arithmetic_nulls",
        "function_errors", "sweep_at"), COUNT),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a matcher stands.

    Attributes
    ----------
    name
        Of its tables, for messages.
    position
        How many events the stream has had.
    numbers
        Its own, see `NUMBERS`, which they have passed.
    classes
        How many classes of partial matches a state has at most.
    """

    name: str
    position: int
    numbers: Mapping[str, int]
    classes: int


class _Row(NamedTuple):
    """A row of a table, what it holds, and the least and the largest number."""

    table: str
    row: int
    what: str
    low: int
    high: int


def check_columns(name: str, columns: Mapping[str, Any], dtypes: Mapping[str, Any], more: Collection[str] = ()) -> None:
    """Refuse a table that has other columns than these, perhaps those of `more` beside, or of other types.

    Raises
    ------
    Misfit
        Says which column.
    """
    for column in columns:
        if column not in dtypes and column not in more:
            raise Misfit(f"table {name!r}", f"a column {column!r}", f"only {', '.join(map(repr, dtypes))}")
    for column, dtype in dtypes.items():
        if column not in columns:
            raise Misfit(f"table {name!r}", f"no column {column!r}", f"one of {np.dtype(dtype)}")
        found = getattr(columns[column], "dtype", "text")
        if found != dtype:
            raise Misfit(f"table {name!r}, column {column!r}", f"{found}", f"{np.dtype(dtype)}")


def check_within(name: str, values: npt.NDArray[Any], low: int, high: int) -> None:
    """Refuse numbers outside of a range: `Misfit` tells the first."""
    if len(values) and (int(values.min()) < low or int(values.max()) > high):
        at = int(np.flatnonzero((values < low) | (values > high))[0])
        expected = f"a number from {low} to {high}" if low <= high else "no entry"
        raise Misfit(f"{name}, entry {at}", str(int(values[at])), expected)


def check_state(words: WordLayout, state: State, stand: Stand) -> None:
    """Refuse a state of which a number does not fit what it indexes, or what others say.

    Parameters
    ----------
    words
        Of the matcher that is to hold it.
    state
        The tables, of the right shapes.
    stand
        Where the matcher stands.

    Raises
    ------
    Misfit
        Says which number, and what was expected.
    """
    for row in _rows(words, state, stand):
        check_within(f"table {stand.name + row.table!r}, {row.what}", state[row.table][row.row], row.low, row.high)
    check = _Checker(words, state, stand)
    check.order()
    check.buckets()
    check.rows()
    check.nodes()
    check.waiting()
    check.counts()


def _rows(words: WordLayout, state: State, stand: Stand) -> Iterator[_Row]:
    """What each row of a state may be; rows of which it may be anything are left out."""
    plan, numbers = words.plan, stand.numbers
    last, births = min(numbers["last"], stand.position - 1), numbers["next_birth"] - 1
    windows, starts, nodes = (state[name].shape[1] for name in ("windows", "starts", "nodes"))
    isolated = plan.windows is not None and plan.windows.isolated
    shared = plan.windows is not None and not isolated
    place = windows - 1 if isolated else -1
    oldest = max(0, stand.position - plan.window) if plan.window_kind == _EVENTS else 0
    yield _Row("windows", 0, "position", 0, stand.position - 1)
    yield _Row("windows", 1, "time", -_NEVER - 1, numbers["now"])
    yield _Row("windows", 3, "matches", 0, MOST)
    yield _Row("starts", 0, "place", -1, place)
    yield _Row("starts", 1, "time", -_NEVER - 1, numbers["now"])
    yield _Row("starts", 2, "position", oldest, last)
    yield _Row("starts", 3, "partial matches", 0, MOST)
    yield _Row("starts", 4, "window", 0 if shared else -1, windows - 1 if shared else -1)
    yield _Row("nodes", 0, "start", 0, starts - 1)
    yield _Row("nodes", 1, "event", 0, _NODE)
    yield _Row("nodes", 2, "previous node", -1, nodes - 1)
    for number in range(words.stores):
        rows = f"rows {number}"
        yield _Row(f"index {number}", 0, "place", -1, place)
        yield _Row(f"index {number}", 1, "rows", 1, state[rows].shape[1])
        if number < len(words.fixed):
            own = words.fixed[number]
            yield _Row(rows, 0, "start", 0, starts - 1)
            if own.birth >= 0:
                yield _Row(rows, own.birth, "birth", 0, births)
            if own.told >= 0:
                yield _Row(rows, own.told, "whether it was a match", 0, 1)
            for binding, word in own.bindings.items():
                yield _Row(rows, word, "event", -1, nodes - 1 if words.is_node(binding) else last)
        elif words.counts and number == words.stores - 1:
            yield _Row(rows, 0, "matches", 0, MOST)
        elif plan.kept:
            yield _Row(rows, 0, "position", 0, last)
        else:
            yield _Row(rows, 1, "position", 0, last)
            yield _Row(rows, 2, "time", -_NEVER - 1, numbers["now"])
    yield _Row("waiting", 0, "place", -1, place)
    yield _Row("waiting", 2, "birth", 0, births)
    yield _Row("waiting", START, "start", 0, starts - 1)
    yield _Row("waiting", STATE, "state", 0, len(plan.states) - 1)
    for binding, word in words.waiting_bindings():
        yield _Row("waiting", word, "event", -1, nodes - 1 if words.is_node(binding) else last)
    for output in range(max((item.outputs for item in plan.states), default=0)):
        yield _Row("waiting", words.output(output) + 1, "null", 0, 1)
    yield _Row("partitions", 0, "position", -1, last)


class _Checker:
    """What must hold between the rows of a state, whose numbers are all within their ranges."""

    def __init__(self, words: WordLayout, state: State, stand: Stand) -> None:
        self._words, self._state, self._stand = words, state, stand
        self._plan: Plan = words.plan

    def _expect(self, right: npt.NDArray[np.bool_], table: str, what: str, expected: str) -> None:
        """Refuse the first entry that is not right."""
        if not right.all():
            at = int(np.flatnonzero(~right)[0])
            raise Misfit(f"table {self._stand.name + table!r}, entry {at}", what, expected)

    def order(self) -> None:
        """Windows and starts stand in the order of the stream; what has a place, place by place."""
        state = self._state
        positions, times = state["windows"][:2]
        self._expect(np.diff(positions) > 0, "windows", "an opening event that is not behind the one before", "one")
        self._expect(np.diff(times) >= 0, "windows", "a time before that of the window before", "none")
        for table in ("starts", "waiting", *(f"index {number}" for number in range(self._words.stores))):
            self._expect(np.diff(state[table][0]) >= 0, table, "a place before that of the entry before", "none")
        self._expect(np.diff(state["nodes"][0]) >= 0, "nodes", "a start before that of the entry before", "none")
        places, times, positions, _, windows = state["starts"]
        same = np.diff(places) == 0
        self._expect(~same | (np.diff(positions) > 0), "starts", "an event that is not behind the one before", "one")
        self._expect(~same | (np.diff(times) >= 0), "starts", "a time before that of the start before", "none")
        self._expect(~same | (np.diff(windows) >= 0), "starts", "a window before that of the start before", "none")

    def buckets(self) -> None:
        """Each bucket of an index says how many of its rows there are."""
        for number in range(self._words.stores):
            sizes, rows = self._state[f"index {number}"][1], self._state[f"rows {number}"].shape[1]
            total = sum(sizes.tolist())  # which does not wrap
            if total != rows:
                table = f"table {self._stand.name + f'index {number}'!r}, rows"
                raise Misfit(table, f"{total} in all", f"{rows}, as there are in 'rows {number}'")

    def rows(self) -> None:
        """Rows stand in the place of their start, and in the order in which they came."""
        words, state, plan = self._words, self._state, self._plan
        begins = {edge.target for edge in plan.edges} - {edge.target for edge in plan.edges if edge.source != _FIRST}
        for number in range(words.stores):
            heads, rows, table = state[f"index {number}"], state[f"rows {number}"], f"rows {number}"
            bucket = np.repeat(np.arange(heads.shape[1]), heads[1])
            next_to = np.diff(bucket) == 0
            if number < len(words.fixed):
                own = words.fixed[number]
                right = state["starts"][0][rows[0]] == heads[0][bucket]
                self._expect(right, table, "a start of another window", "one of the window of its bucket")
                if own.birth >= 0:
                    births = np.diff(rows[own.birth]) > 0
                    self._expect(births | ~next_to, table, "a birth that is not behind the one before", "one")
                if own.classed >= 0:
                    name = f"table {self._stand.name + table!r}, class"
                    check_within(name, rows[own.classed] & _CLASSES, 0, self._stand.classes - 1)
                order = rows[0] if plan.indexes[number].state in begins else None
            elif words.counts and number == words.stores - 1:
                self._expect(heads[1] == 1, f"index {number}", "more than one row", "the number of matches alone")
                continue
            elif plan.kept:
                order = rows[0]
            else:
                dead, order, times = rows[:3]
                by_time = plan.negations[number - len(words.fixed)].by_time
                right = dead == (times if by_time else order)
                self._expect(right, table, "another time to forget it", f"its {'time' if by_time else 'position'}")
                right = (np.diff(times) >= 0) | ~next_to
                self._expect(right, table, "a time before that of the row before", "none")
            if order is not None:
                right = (np.diff(order) >= 0) | ~next_to
                self._expect(right, table, "an event before that of the row before", "none")

    def nodes(self) -> None:
        """The elements of a list are events of one start, one behind the other."""
        starts, events, previous = self._state["nodes"]
        positions = events & (MOST_EVENTS * 2 - 1)
        has = previous >= 0
        before = np.where(has, previous, 0)
        members = (events >> 48) & 0xFF
        self._expect(members < len(self._plan.negated), "nodes", "a variable that there is not", "one of the query's")
        self._expect(positions < self._stand.position, "nodes", "an event to come", "one that was there")
        self._expect(~has | (starts[before] == starts), "nodes", "a node of another start before it", "one of its own")
        self._expect(~has | (positions[before] < positions), "nodes", "an earlier event than before it", "a later one")
        for table, row in self._words.nodes():
            nodes = self._state[table][row]
            some = nodes >= 0
            right = ~some
            right[some] = starts[nodes[some]] == self._state[table][START if table == "waiting" else 0][some]
            self._expect(right, table, "a list of another start", "one of its own")

    def waiting(self) -> None:
        """A match waits in a state where matches wait, until its window ends at the latest."""
        waiting, plan = self._state["waiting"], self._plan
        if not waiting.shape[1]:
            return
        _, due, _, start, number, last = waiting[:6]
        deferred = np.array([item.deferred for item in plan.states], np.bool_)
        self._expect(deferred[number], "waiting", "a state in which no match waits", "one in which matches do")
        places = self._state["starts"][0][start] == waiting[0]
        self._expect(places, "waiting", "a start of another window", "one of its own")
        times = self._state["starts"][1][start]
        ends = np.full(len(times), _NEVER)
        if plan.window_kind != _EXPLICIT:
            ends = np.where(times <= _NEVER - plan.window, times + min(plan.window, _NEVER), _NEVER)
        self._expect(last == ends, "waiting", "another end of its window", "that which its start tells")
        self._expect(due <= last, "waiting", "a time behind the end of its window", "one up to it")
        now = self._stand.numbers["now"]
        self._expect(due >= now, "waiting", "a time that is over", f"one from {now} on, where the matcher stands")

    def counts(self) -> None:
        """Check how many partial matches each start has."""
        if self._plan.kept:
            return  # they are counted anew
        words, state, plan = self._words, self._state, self._plan
        starts = state["starts"]
        states = [item.state for item in plan.indexes]
        least = np.bincount(state["waiting"][START], minlength=starts.shape[1])
        born = [np.empty((2, 0), np.int64)]
        copies: dict[int, list[npt.NDArray[np.int64]]] = {}  # by state, the rows in each of its indexes
        for number, own in enumerate(words.fixed):
            rows, of = state[f"rows {number}"], plan.indexes[number].state
            if own.classed >= 0 and states.count(of) > 1:  # one that fell may stand in the others yet
                least += np.bincount(rows[0, rows[own.classed] & _HOME != 0], minlength=starts.shape[1])
            elif own.birth >= 0:
                born.append(rows[[0, own.birth]])
            else:
                copies.setdefault(of, []).append(np.bincount(rows[0], minlength=starts.shape[1]))
        distinct = np.unique(np.concatenate(born, axis=1), axis=1)  # a row may stand in several indexes
        least += np.bincount(distinct[0], minlength=starts.shape[1])
        most = least.copy()
        for counts in copies.values():  # an index has no rows whose key is null: which are the same cannot be seen
            least, most = least + np.max(counts, axis=0), most + np.sum(counts, axis=0)
        right = (least <= starts[3]) & (starts[3] <= most)
        self._expect(right, "starts", "another number of partial matches", "as many as it has rows")
