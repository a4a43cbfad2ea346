"""Cut the state of an engine into a base and partial states: the old host of a migration.

Data flow: the tables of a snapshot of the whole engine are divided. Rows of partial matches and waiting matches are
assigned to partial states (`owners`); what they need (starts, buckets, nodes of lists, events) is sent with the first
state that needs it (`query_entries`). All other tables, and the header, are the base.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh64_intdigest

from fastcep.engine import Engine
from fastcep.engine.state.container import pack, unpack
from fastcep.engine.state_transfer import CutState
from fastcep.errors import ValidationError
from fastcep.events.units import INT64_MAX
from fastcep.migration.partial_states.entries import Table, encode_entries
from fastcep.migration.partial_states.owners import Owners, chosen_way, owners_of
from fastcep.migration.partial_states.query_entries import Needed, QueryEntries
from fastcep.migration.partial_states.sizes import sizes_of
from fastcep.migration.partial_states.texts import layout_of, text_places
from fastcep.migration.partial_states.utilities import Utility, check_utility, utilities_of
from fastcep.migration.states import Ints, States

__all__ = ["EnginePartition", "digest_of", "partition"]

_NO_TEXTS = pa.array([], pa.string())


def partition(engine: Engine, by: str = "auto", utility: Utility = "auto", seed: int = 0) -> EnginePartition:
    """Cut the state of an engine into partial states, which can be sent to another host one by one.

    The engine does not change; it may continue while the states are sent.

    Parameters
    ----------
    engine
        The engine, between two calls. Its overload control wakes up if it sleeps.
    by
        The partial states:

        ``"partial match"``
            Each partial match. A complete match that only waits for time to pass is a state too.
        ``"key"``
            The partial matches of each key. Queries that have equal keys share a state.
        ``"key group"``
            The partial matches of each of the 64 key groups. The key of a state in `States` is its group.
        ``"window"``
            The partial matches of each explicit window. If all windows of a query share their partial matches, they
            belong to the latest window that was open when they began.
        ``"query"``
            All partial matches of a query.
        ``"auto"``
            By partial match; if a query uses the factorised store, by key; and if a query has no key, by query.
    utility
        Utility of the partial matches; those of the partial matches of a state are added:

        ``"auto"``
            As ``"shedder"`` if the engine has a shedder that knows it, otherwise ``"count"``.
        ``"shedder"``
            The column ``utility`` of `Engine.partial_matches`.
        ``"count"``
            1. In the factorised store, 1 for each event that it keeps.
        ``"size"``
            Of the state: its size to the power of 1.5.
        ``"random"``
            Of the state: drawn from 0 to 1 by `seed`.
        a function
            It gets the table of `Engine.partial_matches` with the number of the state of each partial match as the
            column ``state`` (int64), and returns a finite number, at least 0, for each row.

        A waiting match has the largest utility of a partial match of its query, 1 if there is none.
    seed
        Seed for ``"random"``.

    Raises
    ------
    ValidationError
        If the state of a query cannot be cut in this way, if the utility is invalid or unknown, or for the reasons of
        `Engine.snapshot`.

    Examples
    --------
    >>> import fastcep as fc
    >>> schema = fc.Schema({"A": {"k": "int64"}, "B": {"k": "int64"}}, time="ts", type="type", time_unit="ms")
    >>> query = fc.parse("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 1min", schema, name="q")
    >>> engine = fc.Engine(query, store="rows")
    >>> _ = engine.process({"type": ["A", "A", "A"], "ts": [1, 2, 3], "k": [7, 8, 7]})
    >>> len(partition(engine).states), partition(engine, by="key").states.utility.tolist()
    (3, [2.0, 1.0])
    """
    if not isinstance(engine, Engine):
        raise ValidationError(f"engine: found {type(engine).__name__}; expected an Engine")
    check_utility(utility)
    by = chosen_way(by, tuple(engine._stream.queries))
    return EnginePartition(engine._transfer.cut(), engine, by, utility, seed)


class EnginePartition:
    """The `PartialStates` of an engine at one event; made by `partition`."""

    kind = "engine"

    def __init__(self, cut: CutState, engine: Engine, by: str, utility: Utility, seed: int) -> None:
        self.operator = engine
        header, tables = unpack(cut.snapshot)
        events: dict[str, Any] = tables.get("events", {})
        self._position: int = header["order"]["arrived"] if "order" in header else header["position"]
        texts: Any = tables["texts"]["text"] if "texts" in tables else _NO_TEXTS
        self._texts = texts
        layouts = [layout_of(item) for item in cut.queries]
        states = [layout.from_tables(tables, f"{number} ") for number, layout in enumerate(layouts)]
        owning = owners_of(by, layouts, states, _Lookup(self._texts))
        self._queries = [QueryEntries(*parts) for parts in zip(layouts, states, owning.queries, strict=True)]
        self._events = Table(np.stack([_as_words(column) for column in events.values()]) if events else _no_words())
        self._event_positions = events.get("position", np.empty(0, np.int64))
        self._tables = {
            f"{number} {name}": table for number, query in enumerate(self._queries)
            for name, table in query.tables.items()
        } | {"events": self._events}  # fmt: skip
        self._numbers = {name: number for number, name in enumerate(self._tables)}
        base_places = []
        for name, column, mask in text_places(cut.queries, engine._stream.schema, tables):
            if name == "events":
                self._events.texts.append((list(events).index(column), mask))
            elif name not in self._tables:
                base_places.append((name, column, mask))
        self._count = len(owning.labels)
        self._query_numbers, self._query_offsets = _queries_by_state(owning.queries, self._count)
        self._base = self._pack_base(header, tables, base_places, list(events.items()))
        self._digest = digest_of(self._base)
        self._batches = 0
        lengths = np.asarray(pc.binary_length(self._texts), np.int64)
        sizes = sizes_of(
            self._queries, self._count, lengths, (self._event_numbers, self._events.sizes(lengths)),
            single=by == "partial match",
        )  # fmt: skip
        utilities = utilities_of(utility, seed, sizes, self._queries, cut.partial_matches)
        self._states = States(sizes, utilities, owning.labels)

    def _pack_base(
        self, header: dict[str, Any], tables: dict[str, Any], places: list[Any], events: list[tuple[str, Any]]
    ) -> bytes:
        """Return the base: a snapshot without the partial states, with the texts that it uses."""
        base = {name: dict(table) for name, table in tables.items() if name not in (*self._tables, "texts")}
        used = np.zeros(len(self._texts), np.bool_)
        for name, column, mask in places:
            numbers = base[name][column]
            used[numbers if mask is None else numbers[mask]] = True
        renumbered = np.cumsum(used) - 1
        for name, column, mask in places:
            numbers = base[name][column].copy()
            selected = slice(None) if mask is None else mask
            numbers[selected] = renumbered[numbers[selected]]
            base[name][column] = numbers
        if used.any():
            base["texts"] = {"text": self._texts.filter(pa.array(used))}
            base["text numbers"] = {"number": np.flatnonzero(used)}
        facts = {
            "count": self._count,
            "texts": len(self._texts),
            "tables": [[name, table.words.shape[1]] for name, table in self._tables.items()],
            "events": [[name, str(column.dtype)] for name, column in events],
        }
        return pack({**header, "partial_states": facts}, base)

    def _event_numbers(self, positions: Ints) -> Ints:
        """Return the number of the stored event at each position; -1: none is stored."""
        stored = self._event_positions
        if not len(stored):
            return np.full(len(positions), -1)
        numbers = np.minimum(np.searchsorted(stored, positions), len(stored) - 1)
        return np.where(stored[numbers] == positions, numbers, -1)

    @property
    def is_used(self) -> bool:
        """True after `encode`: the states cannot be sent to another host any more."""
        return self._batches > 0

    @property
    def states(self) -> States:
        """Sizes as sent, in bytes, and utilities of the partial states."""
        return self._states

    @property
    def position(self) -> int:
        """Number of events that the engine has received, including those that it holds back."""
        return self._position

    def base(self) -> bytes:
        """Return the part of the state that the new host needs in any case.

        It has the header of a snapshot, open windows, partitions, counts of matches, events kept for ``NEG``, held and
        late events, timed-out partial matches, and the state of the overload control.
        """
        return self._base

    def encode(self, numbers: Ints) -> bytes:
        """Return the states with these numbers (positions in `states`) as an Arrow IPC record batch.

        Data that an earlier call has returned is not repeated, so the new host needs the results of all calls, in
        order.

        Raises
        ------
        ValidationError
            If there is no state with such a number, or the states have too many words for one batch.
        """
        array = np.asarray(numbers)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise ValidationError(
                f"numbers: an array of {array.ndim} dimensions and type {array.dtype}; expected numbers of states"
            )
        selected = np.unique(array.astype(np.int64))
        if len(selected) and not 0 <= selected[0] <= selected[-1] < self._count:
            invalid = selected[0] if selected[0] < 0 else selected[-1]
            raise ValidationError(f"numbers: found the state {invalid}; expected 0 to {self._count - 1}")
        chunks = []
        positions = Needed()
        for number in self._queries_of(selected):
            query = self._queries[number]
            for name, entries, states in query.take(selected, positions):
                if len(entries):
                    table = query.tables[name]
                    chunks.append((self._numbers[f"{number} {name}"], table, entries, states))
        events = Needed()
        bound, states = positions.all()
        events.add(self._event_numbers(bound), states)
        entries, states = events.once()
        new = ~self._events.sent[entries]
        self._events.sent[entries] = True
        chunks.append((self._numbers["events"], self._events, entries[new], states[new]))
        try:
            batch = encode_entries((self._digest, self._batches), chunks, self._texts, len(selected))
        except ValidationError:
            for _, table, entries, _ in chunks:
                table.sent[entries] = False
            raise
        self._batches += 1
        return batch


    def _queries_of(self, states: Ints) -> list[int]:
        """Return the numbers of the queries with entries of some states, in ascending order."""
        first, end = self._query_offsets[states], self._query_offsets[states + 1]
        counts = end - first
        places = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        numbers: list[int] = np.unique(self._query_numbers[places]).tolist()
        return numbers


def _queries_by_state(owners: Sequence[Owners], count: int) -> tuple[Ints, Ints]:
    """Return the queries of each state one after the other, and where those of each state begin: int64[count + 1]."""
    found = [np.unique(np.concatenate([*of_query.rows, of_query.waiting])) for of_query in owners]
    states = np.concatenate([np.empty(0, np.int64), *found])
    queries = np.repeat(np.arange(len(found)), list(map(len, found)))
    order = np.argsort(states, kind="stable")
    return queries[order], np.searchsorted(states[order], np.arange(count + 1))


def digest_of(base: bytes | memoryview) -> int:
    """Return the digest by which batches name their base: an int64."""
    digest = xxh64_intdigest(base)
    return digest if digest <= INT64_MAX else digest - (1 << 64)


def _no_words() -> Ints:
    return np.empty((1, 0), np.int64)


def _as_words(column: Any) -> Ints:
    """Return the values of a column as int64; those of floats are their bits."""
    words: Ints = column.view(np.int64) if column.dtype == np.float64 else column.astype(np.int64)
    return words


class _Lookup:
    """The texts of a snapshot by their numbers."""

    def __init__(self, texts: Any) -> None:
        self._texts = texts.to_pylist()

    def lookup(self, code: int) -> str:
        """Return the text with a number."""
        return str(self._texts[code])
