"""Build an engine from a base and the partial states that have arrived: the new host of a migration.

The entries that have arrived keep their old numbers until `EngineAssembly.build` numbers them anew. The result is a
snapshot, which `Engine.restore` checks as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.engine import Engine
from fastcep.engine.running_query import RunningQuery
from fastcep.engine.state.container import pack, unpack
from fastcep.engine.state.row_copies import home_marks
from fastcep.engine.state.selection import new_numbers, renumber
from fastcep.engine.state.word_layout import START, State, WordLayout
from fastcep.engine.stored_engine import read_snapshot, report_misfits
from fastcep.errors import SnapshotError, ValidationError
from fastcep.events.convert import from_texts
from fastcep.migration.partial_states.engine_partition import digest_of
from fastcep.migration.partial_states.entries import Received, Table, read_batch
from fastcep.migration.partial_states.query_entries import moved_tables
from fastcep.migration.partial_states.texts import event_places, layout_of, text_places
from fastcep.migration.states import Ints
from fastcep.stored import COUNT, TEXT, Misfit, listed, record, sequence, whole

__all__ = ["EngineAssembly"]

Flags = npt.NDArray[np.bool_]

_MOST = 2**32 - 1  # numbers of entries and states have 32 bits
_FACTS = record({
    "count": whole(0, _MOST),
    "texts": COUNT,
    "tables": listed(sequence(TEXT, whole(0, _MOST))),
    "events": listed(sequence(TEXT, TEXT)),
})  # fmt: skip
_REMEDY = "Send the migration again from the beginning"
_OPTIONS = frozenset({"queries", "clock", "memory_limit", "threads", "shedder", "model", "detector"})


class EngineAssembly:
    """Collects the partial states of an engine, and builds the engine; the `Assembly` of the kind ``"engine"``.

    Parameters
    ----------
    base
        Result of `EnginePartition.base`.
    options
        Options of `Engine.restore`: ``queries``, ``clock``, ``memory_limit``, ``threads``, ``shedder``, ``model``,
        ``detector``.

    Raises
    ------
    SnapshotError
        If no engine can be built from the base: it is damaged or of another version, or the queries, functions or
        options do not fit.
    ValidationError, MemoryLimitError
        As `Engine.restore`.
    """

    def __init__(self, base: bytes | memoryview, options: Mapping[str, Any] | None = None) -> None:
        unknown = sorted(set(options or {}) - _OPTIONS)
        if unknown:
            raise ValidationError(
                f"options: found {unknown[0]!r}; expected options of Engine.restore: {', '.join(sorted(_OPTIONS))}"
            )
        self._digest = digest_of(base)
        header, base_tables = unpack(base, "base of a migration")
        try:
            facts = header.pop("partial_states", None)
            _FACTS(facts, "partial_states")
        except Misfit as misfit:
            raise SnapshotError(f"the base of a migration does not fit: {misfit}. {_REMEDY}") from None
        self._header = header
        self._base: dict[str, Any] = dict(base_tables)
        self._base_texts: Ints = self._base.pop("text numbers", {}).get("number", np.empty(0, np.int64))
        read_snapshot(pack(header, {}))  # checks the header
        self._engine: Engine | None = Engine._planned_like(header, **(options or {}))
        self._queries: tuple[RunningQuery, ...] = tuple(self._engine._stream.queries)
        self._schema = self._engine._stream.schema
        self._layouts = [layout_of(item) for item in self._queries]
        self._count: int = facts["count"]
        self._text_count: int = facts["texts"]
        self._event_columns: dict[str, str] = dict(facts["events"])
        self._check_tables([(name, size) for name, size in facts["tables"]])
        self._batches = 0
        self._texts: dict[int, str] = {}  # that have arrived, by number
        if len(self._base_texts):
            with report_misfits():
                texts: list[str] = self._base["texts"]["text"].to_pylist()
                self._texts = dict(zip(self._base_texts.tolist(), texts, strict=True))

    def _check_tables(self, sizes: list[tuple[str, int]]) -> None:
        """Check the list of tables, and make an empty table of each."""
        expected = [f"{n} {name}" for n, layout in enumerate(self._layouts) for name in moved_tables(layout)]
        if [name for name, _ in sizes] != [*expected, "events"]:
            raise SnapshotError(f"the base of a migration has other tables than its queries. {_REMEDY}")
        self._names = [name for name, _ in sizes]
        self._arrived: dict[str, Flags] = {name: np.zeros(size, np.bool_) for name, size in sizes}
        self._parts: dict[str, list[tuple[Ints, Ints]]] = {name: [] for name, _ in sizes}
        self._widths = {"events": max(1, len(self._event_columns))}
        for number, layout in enumerate(self._layouts):
            self._widths |= {f"{number} {name}": layout.shapes[name] for name in moved_tables(layout)}

    # ------------------------------------------------------------------------- add

    def add(self, batch: bytes | memoryview) -> Ints:
        """Add a result of `EnginePartition.encode`; return the numbers of its states.

        Raises
        ------
        SnapshotError
            If the data is not such a result, or not the next one for this base. The assembly has not changed.
        """
        received = read_batch(batch, self._digest, self._batches)
        if len(received.states) and int(received.states.max()) >= self._count:
            raise SnapshotError(
                f"found the state {int(received.states.max())}; the base has {self._count:,} states. {_REMEDY}"
            )
        parts: dict[str, tuple[Ints, Ints]] = {}
        texts: dict[int, str] = {}
        rows_seen = 0
        for number, name in enumerate(self._names):
            rows = np.flatnonzero(received.tables == number)
            if len(rows):
                parts[name] = self._checked(name, received, rows, texts)
                rows_seen += len(rows)
        if rows_seen != len(received.tables):
            raise SnapshotError(f"found entries of an unknown table. {_REMEDY}")
        for name, (entries, words) in parts.items():
            self._arrived[name][entries] = True
            self._parts[name].append((entries, words))
        self._texts |= texts
        self._batches += 1
        return np.unique(received.states)

    def _checked(self, name: str, received: Received, rows: Ints, texts: dict[int, str]) -> tuple[Ints, Ints]:
        """Return the numbers and words of the entries of a table; add their texts to ``texts``."""
        arrived, width = self._arrived[name], self._widths[name]
        entries = received.entries[rows]
        if int(entries.max()) >= len(arrived) or len(np.unique(entries)) < len(entries):
            raise SnapshotError(f"table {name!r}: found entries twice, or more than the base announces. {_REMEDY}")
        if arrived[entries].any():
            raise SnapshotError(f"table {name!r}: entry {int(entries[arrived[entries]][0])} came before. {_REMEDY}")
        if (received.starts[rows + 1] - received.starts[rows] != width).any():
            raise SnapshotError(f"table {name!r}: found an entry that has not {width} words. {_REMEDY}")
        words = received.table(rows, width)
        table = Table(words, self._text_rows(name, words))
        numbers, counts = table.text_numbers(np.arange(len(rows)))
        if (received.text_starts[rows + 1] - received.text_starts[rows] != counts).any():
            raise SnapshotError(f"table {name!r}: found an entry with too few or too many texts. {_REMEDY}")
        for text_number, text in zip(numbers.tolist(), received.texts_of(rows).to_pylist(), strict=True):
            known = texts.setdefault(text_number, self._texts.get(text_number, text))
            if known != text or not 0 <= text_number < self._text_count:
                raise SnapshotError(f"table {name!r}: found another text with the number {text_number}. {_REMEDY}")
        return entries, words

    def _text_rows(self, name: str, words: Ints) -> list[tuple[int, Flags | None]]:
        """Return the rows of a table that have numbers of texts, with the mask of their entries."""
        if name == "events":
            columns = list(self._event_columns)
            places = event_places(self._queries, self._schema, self._event_table(words))
            return [(columns.index(column), mask) for column, mask in places]
        number, _, own_name = name.partition(" ")
        layout = self._layouts[int(number)]
        empty = layout.from_tables({}, "")
        return [
            (row, mask) for table_name, row, mask in layout.texts(empty | {own_name: words}) if table_name == own_name
        ]

    # ----------------------------------------------------------------------- build

    def build(self) -> Engine:
        """Return the engine with the states that have arrived. It can be called once.

        Raises
        ------
        SnapshotError
            If an entry that a state needs has not arrived, or the state does not fit together.
        MemoryLimitError
            If the state needs more memory than the limit allows.
        ValidationError
            If it was called before.
        """
        stored = read_snapshot(self.snapshot())
        if self._engine is None:
            raise ValidationError("this assembly has built its engine; start another assembly for another engine")
        engine, self._engine = self._engine, None
        engine._transfer.resume(stored)
        return engine

    def snapshot(self) -> bytes:
        """Return a snapshot with the states that have arrived.

        Raises
        ------
        SnapshotError
            If an entry that a state needs has not arrived.
        """
        tables: dict[str, Any] = {
            name: {column: np.array(values) if isinstance(values, np.ndarray) else values for column, values in
                   table.items()}
            for name, table in self._base.items() if name != "texts"
        }  # fmt: skip
        with report_misfits():
            self._add_arrived(tables)
        return pack(self._header, tables)

    def _add_arrived(self, tables: dict[str, Any]) -> None:
        """Add what has arrived to the tables of the base, and number the texts anew."""
        for name, column, mask in text_places(self._queries, self._schema, tables):
            selected = slice(None) if mask is None else mask
            tables[name][column][selected] = self._base_texts[tables[name][column][selected]]
        for number, layout in enumerate(self._layouts):
            tables |= layout.to_tables(self._state(layout, f"{number} ", tables), f"{number} ")
        events, _ = self._joined("events")
        if events.shape[1]:
            tables["events"] = self._event_table(events)
        numbers = np.array(sorted(self._texts), np.int64)
        for name, column, mask in text_places(self._queries, self._schema, tables):
            values = tables[name][column]
            selected = slice(None) if mask is None else mask
            values[selected] = np.searchsorted(numbers, values[selected])
        if len(numbers):
            tables["texts"] = {"text": from_texts([self._texts[number] for number in numbers.tolist()])}

    def _joined(self, name: str) -> tuple[Ints, Ints]:
        """Return the words of the entries of a table that have arrived, by ascending number, and the numbers."""
        parts = self._parts[name]
        if not parts:
            return np.empty((self._widths[name], 0), np.int64), np.empty(0, np.int64)
        entries = np.concatenate([entries for entries, _ in parts])
        order = np.argsort(entries)
        return np.concatenate([words for _, words in parts], axis=1)[:, order], entries[order]

    def _event_table(self, words: Ints) -> dict[str, Any]:
        """Return the columns of events."""
        return {
            name: row.view(np.float64) if dtype == "float64" else row.astype(dtype)
            for (name, dtype), row in zip(self._event_columns.items(), words, strict=True)
        }

    def _state(self, layout: WordLayout, prefix: str, tables: dict[str, Any]) -> State:
        """Return the state of a query, with new numbers; some of its tables are in the base."""
        state = layout.from_tables(tables, prefix)
        entries: dict[str, Ints] = {}
        for name in moved_tables(layout):
            state[name], entries[name] = self._joined(prefix + name)
        for name, places in (("starts", [("nodes", 0), *layout.starts()]), ("nodes", [("nodes", 2), *layout.nodes()])):
            arrived = np.append(self._arrived[prefix + name], name == "nodes")  # -1, no node, is always there
            for table, row in places:
                numbers = state[table][row]
                valid = (numbers >= -1) & (numbers < len(arrived) - 1)
                if not valid.all() or not arrived[numbers].all():
                    raise SnapshotError(f"table {prefix + table!r}: an entry of {name!r} is missing. {_REMEDY}")
        renumber(
            layout, state, new_numbers(self._arrived[prefix + "starts"]), new_numbers(self._arrived[prefix + "nodes"])
        )
        for number in range(len(layout.plan.kept) or len(layout.fixed)):
            heads = state[f"index {number}"]
            buckets = np.searchsorted(heads[1], entries[f"rows {number}"], "right") - 1
            heads[1] = np.bincount(buckets[buckets >= 0], minlength=heads.shape[1])
        if not layout.plan.kept:  # loading counts the events of the factorised store
            state["starts"][3] = _count_partial_matches(layout, state)
        return state


def _count_partial_matches(layout: WordLayout, state: State) -> Ints:
    """Return the number of partial matches and waiting matches of each start."""
    counts = np.bincount(state["waiting"][START], minlength=state["starts"].shape[1])
    for number, marks in enumerate(home_marks(state, layout)):
        counts += np.bincount(state[f"rows {number}"][0][marks != 0], minlength=len(counts))
    return counts
