"""What the words of a dumped state are (`Matcher.dump`): texts, events, births, keys.

In memory a text is a code of the engine's string table, and the type of a word is known to the plan alone. Here both
meet, so that state can leave an engine: codes become numbers of a list of texts, and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fastcep.plan import Plan
from fastcep.plan.plan import KeptPlan, NegationPlan

__all__ = ["START", "STATE", "FixedWords", "State", "WordLayout"]

Ints = npt.NDArray[np.int64]
State = dict[str, Ints]  #: what `Matcher.dump` gives

#: Rows of the table ``waiting``: the start's number, the state's, the first binding (``dump``, ``decide``).
START, STATE, _BINDINGS = 3, 4, 6
_POSITION = (1 << 48) - 1  # of a node's word


class HasLayout(Protocol):
    """A matcher, as far as it is asked here."""

    @property
    def layout(self) -> tuple[list[bool], list[tuple[int, int, int, int, dict[int, int]]]]:
        """What stands in a row."""
        ...


class FixedWords(NamedTuple):
    """The fixed words of the rows of an index: how many, and the places of some (-1: none), see `Matcher.layout`."""

    words: int
    birth: int
    told: int
    classed: int
    bindings: dict[int, int]


@dataclass(frozen=True, slots=True)
class _Register:
    """A word of the rows of an index that may be null: its place, that of the null bits, its bit."""

    word: int
    nulls: int
    bit: int


class WordLayout:
    """Where what stands in the state of one plan.

    Attributes
    ----------
    plan
        The plan.
    shapes
        The tables of its state, and how many rows each has.
    fixed
        The fixed words of the rows of each index; the factorised store has none.
    counts
        Words of the key of the last index, if matches are limited by partition; else 0.
    """

    def __init__(self, plan: Plan, matcher: HasLayout) -> None:
        self.plan = plan
        # A plan has one of them at most.
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
        """How many rows each table has."""
        plan = self.plan
        shapes = {"windows": 4, "starts": 5, "nodes": 3}
        for number, index in enumerate(plan.indexes):
            registers = plan.states[index.state].registers
            shapes[f"index {number}"] = 2 + len(index.keys)
            shapes[f"rows {number}"] = self.fixed[number].words + (registers + 1 if registers else 0)
        for number, item in enumerate(self._kept, len(plan.indexes)):
            shapes[f"index {number}"] = 2 + len(item.keys)
            shapes[f"rows {number}"] = self._fixed + (len(item.registers) + 1 if item.registers else 0)
        if self.counts:
            number = len(plan.indexes) + len(self._kept)
            shapes |= {f"index {number}": 2 + self.counts, f"rows {number}": 1}
        outputs = max((state.outputs for state in plan.states), default=0)
        partition = 0 if plan.partition is None else len(plan.partition.floats)
        return shapes | {"waiting": _BINDINGS + len(self._nodes) + 2 * outputs, "partitions": 1 + partition}

    def _index_texts(self, number: int) -> tuple[list[int], list[_Register]]:
        """Of an index the words of its keys, and the registers, that are texts."""
        plan = self.plan
        if number < len(plan.indexes):
            index = plan.indexes[number]
            state = plan.states[index.state]
            keys, registers = [state.dtypes[key] for key in index.keys], list(state.dtypes[: state.registers])
            fixed = self.fixed[number].words
        else:
            kept = self._kept[number - len(plan.indexes)]
            keys = [plan.columns[column].dtype for column in kept.keys]
            registers = [plan.columns[column].dtype for column in kept.registers]
            fixed = self._fixed
        texts = [_Register(fixed + 1 + bit, fixed, bit) for bit, dtype in enumerate(registers) if dtype == "s"]
        return [word for word, dtype in enumerate(keys) if dtype == "s"], texts

    @property
    def _fixed(self) -> int:
        """Words of a kept event before its registers: the position; of a negated variable's also expiry and time."""
        return 1 if self.plan.kept else 3

    # ------------------------------------------------------------------------ texts

    def texts(self, state: State) -> Iterator[tuple[str, int, npt.NDArray[np.bool_] | None]]:
        """Where codes stand: ``(table, row, which of its entries)``, None for all."""
        plan = self.plan
        for number, (keys, registers) in enumerate(self._texts):
            for word in keys:
                yield f"index {number}", 2 + word, None
            rows = state[f"rows {number}"]
            for register in registers:
                yield f"rows {number}", register.word, (rows[register.nulls] >> register.bit) & 1 == 0
        waiting = state["waiting"]
        for at, item in enumerate(plan.states if waiting.shape[1] else ()):
            for output, dtype in enumerate(item.dtypes if item.deferred else ""):
                if dtype == "s":
                    word = self.output(output)
                    yield "waiting", word, (waiting[STATE] == at) & (waiting[word + 1] == 0)
        for word, dtype in enumerate(self._partition_dtypes()):
            if dtype == "string":
                yield "partitions", 1 + word, None

    def _partition_dtypes(self) -> list[str]:
        """Of the words that say in which partition an event is."""
        partition, schema = self.plan.partition, self.plan.query.schema
        columns = next((columns for columns in partition.columns if columns), ()) if partition is not None else ()
        return [schema.columns[column].dtype for column in columns]

    # ----------------------------------------------------------------------- events

    def positions(self, state: State) -> Iterator[Ints]:
        """Positions of the events that partial matches and waiting matches bind; -1 stands for none."""
        yield state["starts"][2]
        yield state["nodes"][1] & _POSITION
        yield from (state[f"rows {number}"][0] for number in range(len(self.plan.kept)))
        for number, own in enumerate(self.fixed):
            for binding, word in own.bindings.items():
                if not self._nodes[binding]:
                    yield state[f"rows {number}"][word]
        for binding, word in self.waiting_bindings():
            if not self._nodes[binding]:
                yield state["waiting"][word]

    @property
    def stores(self) -> int:
        """How many indexes there are, those of negations included."""
        return len(self._texts)

    def output(self, number: int) -> int:
        """The row of ``waiting`` with an output of its state; behind it its null flag."""
        return _BINDINGS + len(self._nodes) + 2 * number

    def waiting_bindings(self) -> Iterator[tuple[int, int]]:
        """The bindings of a waiting match, and their rows of ``waiting``."""
        return ((binding, _BINDINGS + binding) for binding in range(len(self._nodes)))

    def is_node(self, binding: int) -> bool:
        """Whether a binding is the number of a node, or of none; else it is a position."""
        return self._nodes[binding]

    def starts(self) -> Iterator[tuple[str, int]]:
        """Where the numbers of starts stand: table, row."""
        yield from ((f"rows {number}", 0) for number in range(len(self.fixed)))
        yield "waiting", START

    def nodes(self) -> Iterator[tuple[str, int]]:
        """Where the numbers of nodes stand: table, row."""
        for number, own in enumerate(self.fixed):
            yield from ((f"rows {number}", word) for binding, word in own.bindings.items() if self._nodes[binding])
        yield from (("waiting", word) for binding, word in self.waiting_bindings() if self._nodes[binding])

    # ----------------------------------------------------------------------- births

    def births(self) -> Iterator[tuple[str, int]]:
        """Where births stand: table, row."""
        yield "waiting", 2
        yield from ((f"rows {number}", own.birth) for number, own in enumerate(self.fixed) if own.birth >= 0)

    def made_at(self, state: State, table: str) -> Ints:
        """Position of the event that made each entry of ``rows N`` or ``waiting``: the last that it binds."""
        entries = state[table]
        row, bindings = START, {binding: _BINDINGS + binding for binding in range(len(self._nodes))}
        if table != "waiting":
            row, bindings = 0, self.fixed[int(table.split()[1])].bindings
        events = np.append(state["nodes"][1] & _POSITION, -1)  # a node's number -1 takes the last
        made: Ints = state["starts"][2][entries[row]]
        for binding, word in bindings.items():
            bound = events[entries[word]] if self._nodes[binding] else entries[word]
            made = np.maximum(made, bound)
        return made
