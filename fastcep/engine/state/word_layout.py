"""The meaning of the int64 words in a dumped state (`Matcher.dump`): texts, events, births, keys.

In memory a text is a code of the engine's string table, and only the plan knows the type of a word. `WordLayout`
combines both. So a snapshot can replace codes by numbers of a list of texts, and a restore can reverse that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fastcep.plan import Plan
from fastcep.plan.plan import KeptPlan, NegationPlan

__all__ = ["START", "STATE", "FixedWords", "State", "WordLayout"]

Ints = npt.NDArray[np.int64]
State = dict[str, Ints]  #: tables of `Matcher.dump` by name, int64[rows, entries]

#: Rows of the table ``waiting``: number of the start, number of the state, the first binding (``dump``, ``decide``).
START, STATE, _BINDINGS = 3, 4, 6
_POSITION = (1 << 48) - 1  # bits of a node's word that hold the position


class HasLayout(Protocol):
    """A matcher, whose property `layout` describes its rows."""

    @property
    def layout(self) -> tuple[list[bool], list[tuple[int, int, int, int, dict[int, int]]]]:
        """The layout of its rows, see `Matcher.layout`."""
        ...


class FixedWords(NamedTuple):
    """Places of the fixed words in the rows of an index, see `Matcher.layout`; -1: there is no such word.

    Attributes
    ----------
    size
        Number of fixed words.
    birth
        Place of the birth.
    reported
        Place of the flag that the partial match was itself reported as a match.
    shed_class
        Place of the class of the partial match for load shedding.
    bindings
        Place of each binding that a row holds.
    """

    size: int
    birth: int
    reported: int
    shed_class: int
    bindings: dict[int, int]


@dataclass(frozen=True, slots=True)
class _Register:
    """A word of the rows of an index that may be null: its place, the place of the null bits, and its bit."""

    word: int
    nulls: int
    bit: int


class WordLayout:
    """The tables in the state of one plan, and the places of texts, events, births and numbers in them.

    Parameters
    ----------
    plan
        The plan.
    matcher
        A matcher of this plan.

    Attributes
    ----------
    plan
        The plan.
    shapes
        Number of rows of each table of its state, by name.
    fixed
        The fixed words of the rows of each index; the factorised store has none.
    counts
        Words in the key of the last index, if matches are limited by partition, otherwise 0.
    """

    def __init__(self, plan: Plan, matcher: HasLayout) -> None:
        self.plan = plan
        # A plan has at most one of the two kinds.
        self._kept: tuple[NegationPlan | KeptPlan, ...] = (*plan.negations, *plan.kept)
        self._nodes, indexes = matcher.layout
        self.fixed = [FixedWords(*item) for item in indexes]
        self.counts = len(plan.per_partition[0]) if plan.limit and plan.per_partition else 0
        self.shapes = self._shapes()
        self._texts = [self._index_texts(number) for number in range(len(plan.indexes) + len(self._kept))]
        if self.counts:
            dtypes = [plan.columns[column].dtype for column in plan.per_partition[0]]
            self._texts.append(([word for word, dtype in enumerate(dtypes) if dtype == "s"], []))

    def _shapes(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        plan = self.plan
        shapes = {"windows": 4, "starts": 5, "nodes": 3}
        for number, index in enumerate(plan.indexes):
            registers = plan.states[index.state].registers
            shapes[f"index {number}"] = 2 + len(index.keys)
            shapes[f"rows {number}"] = self.fixed[number].size + (registers + 1 if registers else 0)
        for number, kept in enumerate(self._kept, len(plan.indexes)):
            shapes[f"index {number}"] = 2 + len(kept.keys)
            shapes[f"rows {number}"] = self._kept_words + (len(kept.registers) + 1 if kept.registers else 0)
        if self.counts:
            number = len(plan.indexes) + len(self._kept)
            shapes |= {f"index {number}": 2 + self.counts, f"rows {number}": 1}
        outputs = max((state.outputs for state in plan.states), default=0)
        partition = 0 if plan.partition is None else len(plan.partition.floats)
        return shapes | {"waiting": _BINDINGS + len(self._nodes) + 2 * outputs, "partitions": 1 + partition}

    def _index_texts(self, number: int) -> tuple[list[int], list[_Register]]:
        """Return the words of an index's keys, and the registers of its rows, that are texts."""
        plan = self.plan
        if number < len(plan.indexes):
            index = plan.indexes[number]
            state = plan.states[index.state]
            keys, registers = [state.dtypes[key] for key in index.keys], list(state.dtypes[: state.registers])
            fixed = self.fixed[number].size
        else:
            kept = self._kept[number - len(plan.indexes)]
            keys = [plan.columns[column].dtype for column in kept.keys]
            registers = [plan.columns[column].dtype for column in kept.registers]
            fixed = self._kept_words
        texts = [_Register(fixed + 1 + bit, fixed, bit) for bit, dtype in enumerate(registers) if dtype == "s"]
        return [word for word, dtype in enumerate(keys) if dtype == "s"], texts

    @property
    def _kept_words(self) -> int:
        """Words of a kept event before its registers: the position; for a negated variable also expiry and time."""
        return 1 if self.plan.kept else 3

    # ----------------------------------------------------------------------- tables

    def to_tables(self, state: State, prefix: str) -> dict[str, dict[str, Ints]]:
        """Return the tables of a snapshot for a state, without those that have no entries."""
        return {
            prefix + name: {str(row): values for row, values in enumerate(state[name])}
            for name in self.shapes if state[name].shape[1]
        }  # fmt: skip

    def from_tables(self, tables: Mapping[str, Mapping[str, Any]], prefix: str) -> State:
        """Return the state in the tables of a snapshot, as new arrays; the reverse of `to_tables`."""
        state: State = {}
        for name, rows in self.shapes.items():
            columns = tables.get(prefix + name)
            state[name] = np.empty((rows, 0), np.int64)
            if columns is not None:
                state[name] = np.stack([columns[str(row)] for row in range(rows)])
        return state

    # ------------------------------------------------------------------------ texts

    def texts(self, state: State) -> Iterator[tuple[str, int, npt.NDArray[np.bool_] | None]]:
        """Yield the places of codes: ``(table, row, mask of its entries)``; the mask is None for all entries."""
        plan = self.plan
        for number, (keys, registers) in enumerate(self._texts):
            for word in keys:
                yield f"index {number}", 2 + word, None
            rows = state[f"rows {number}"]
            for register in registers:
                yield f"rows {number}", register.word, (rows[register.nulls] >> register.bit) & 1 == 0
        waiting = state["waiting"]
        for number, item in enumerate(plan.states if waiting.shape[1] else ()):
            for output, dtype in enumerate(item.dtypes if item.deferred else ""):
                if dtype == "s":
                    word = self.output(output)
                    yield "waiting", word, (waiting[STATE] == number) & (waiting[word + 1] == 0)
        for word, dtype in enumerate(self._partition_dtypes()):
            if dtype == "string":
                yield "partitions", 1 + word, None

    def _partition_dtypes(self) -> list[str]:
        """Return the dtypes of the words that identify the partition of an event."""
        partition, schema = self.plan.partition, self.plan.query.schema
        columns = next((columns for columns in partition.columns if columns), ()) if partition is not None else ()
        return [schema.columns[column].dtype for column in columns]

    # ----------------------------------------------------------------------- events

    def positions(self, state: State) -> Iterator[Ints]:
        """Yield the positions of the events that partial matches and waiting matches bind; -1: no event."""
        yield state["starts"][2]
        yield self.node_positions(state)
        yield from (state[f"rows {number}"][0] for number in range(len(self.plan.kept)))
        for number, fixed in enumerate(self.fixed):
            for binding, word in fixed.bindings.items():
                if not self._nodes[binding]:
                    yield state[f"rows {number}"][word]
        for binding, word in self.waiting_bindings():
            if not self._nodes[binding]:
                yield state["waiting"][word]

    @staticmethod
    def node_positions(state: State) -> Ints:
        """Return the position of the event of each node."""
        positions: Ints = state["nodes"][1] & _POSITION
        return positions

    @property
    def index_count(self) -> int:
        """Number of indexes, including those of negations."""
        return len(self._texts)

    def output(self, number: int) -> int:
        """Return the row of ``waiting`` with an output of its state; the next row has its null flag."""
        return _BINDINGS + len(self._nodes) + 2 * number

    def waiting_bindings(self) -> Iterator[tuple[int, int]]:
        """Return the bindings of a waiting match, and their rows of ``waiting``."""
        return ((binding, _BINDINGS + binding) for binding in range(len(self._nodes)))

    def is_node(self, binding: int) -> bool:
        """Return True if a binding is the number of a node (-1: none), False if it is a position."""
        return self._nodes[binding]

    def starts(self) -> Iterator[tuple[str, int]]:
        """Yield the places of the numbers of starts: table, row."""
        yield from ((f"rows {number}", 0) for number in range(len(self.fixed)))
        yield "waiting", START

    def nodes(self) -> Iterator[tuple[str, int]]:
        """Yield the places of the numbers of nodes: table, row."""
        for number, fixed in enumerate(self.fixed):
            yield from ((f"rows {number}", word) for binding, word in fixed.bindings.items() if self._nodes[binding])
        yield from (("waiting", word) for binding, word in self.waiting_bindings() if self._nodes[binding])

    # ----------------------------------------------------------------------- births

    def births(self) -> Iterator[tuple[str, int]]:
        """Yield the places of births: table, row."""
        yield "waiting", 2
        yield from ((f"rows {number}", fixed.birth) for number, fixed in enumerate(self.fixed) if fixed.birth >= 0)

    def created_at(self, state: State, table: str) -> Ints:
        """Return the position of the event that created each entry of ``rows N`` or ``waiting``: the last one bound."""
        entries = state[table]
        row, bindings = START, {binding: _BINDINGS + binding for binding in range(len(self._nodes))}
        if table != "waiting":
            row, bindings = 0, self.fixed[int(table.split()[1])].bindings
        events = np.append(self.node_positions(state), -1)  # index -1, no node, selects the last element, -1
        created: Ints = state["starts"][2][entries[row]]
        for binding, word in bindings.items():
            bound = events[entries[word]] if self._nodes[binding] else entries[word]
            created = np.maximum(created, bound)
        return created
