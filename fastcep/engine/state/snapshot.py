"""Write the state of an engine, or of some of its key groups, to a snapshot, and read it back (docs/reliability.md).

A snapshot has the engine's place in the stream (position, time, held and late events), the queries as text, the state
of each query as tables of numbers (see ``dump``), and the events that partial matches bind, if the engine keeps events.
It has no addresses, no pickles and no codes of string tables.

Writing: dump the matchers, select key groups, replace codes by numbers of one list of texts, and pack everything into a
container. Reading: unpack and check everything, and load it into new matchers. A merge replaces the old matchers only
if all of that succeeds, so an engine has either its old state or the complete new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.engine.partitioned_matcher import AnyMatcher
from fastcep.engine.query_set import QuerySet
from fastcep.engine.reorder import Reorderer
from fastcep.engine.running_query import RunningQuery
from fastcep.engine.state.container import pack
from fastcep.engine.state.foreign_events import group_of_keys
from fastcep.engine.state.key_group_split import groups_of, join_states, select_groups
from fastcep.engine.state.keygroups import GROUPS
from fastcep.engine.state.selection import drop_unused
from fastcep.engine.state.stored_events import (
    check_bound,
    check_tables,
    columns_of,
    put_events,
    read_batches,
    text_columns,
)
from fastcep.engine.state.string_codes import Codes, Texts
from fastcep.engine.state.validation import MatcherContext, check_columns, check_state
from fastcep.engine.state.word_layout import State, WordLayout
from fastcep.errors import MemoryLimitError, SnapshotError
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.plan import Plan
from fastcep.plan.earlier import stored_texts
from fastcep.plan.plan import KeyPlan
from fastcep.stored import Misfit

__all__ = ["EngineParts", "extract_groups", "merge_groups", "plan_layout", "restore_state", "write_snapshot"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Tables = Mapping[str, Mapping[str, Any]]
QueryState = tuple[WordLayout, State] | None  #: dumped state of a query; None: it is empty, without open windows

#: Counters that a snapshot of key groups sets to 0: they count the work of the engine, not the content of the groups.
_COUNTS = dict.fromkeys((
    "relevant", "rows_visited", "rows_created", "matches", "peak", "lost", "events", "arithmetic_nulls",
    "function_errors"), 0)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EngineParts:
    """The parts of an engine that have state.

    Attributes
    ----------
    schema, queries, strings
        Schema, queries and string table of the engine.
    reorder
        Holds events back; None if the input must be in order.
    progress
        Place in the stream, for the header: ``position``, ``time``, ``sequence``.
    description
        Description of the engine, for the header: its queries as text, options, and ``identity``.
    """

    schema: Schema
    queries: QuerySet
    strings: StringTable
    reorder: Reorderer | None
    progress: dict[str, Any]
    description: dict[str, Any]


# ------------------------------------------------------------------------ writing


@dataclass(slots=True)
class _Writer:
    """Collects the tables of a snapshot, and the places of texts in them."""

    texts: Texts
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add_state(self, prefix: str, layout: WordLayout, state: State) -> None:
        for table, row, mask in layout.texts(state):
            self.texts.add(state[table][row], mask)
        self.tables |= layout.to_tables(state, prefix)

    def add_batches(self, name: str, schema: Schema, batches: Sequence[EventBatch]) -> None:
        if batches:
            rows = columns_of(EventBatch.concat(batches))
            self.add_events(name, schema, rows | {"batch": np.repeat(range(len(batches)), list(map(len, batches)))})

    def add_events(self, name: str, schema: Schema, rows: dict[str, Any], others: Sequence[int] = ()) -> None:
        for column, mask in text_columns(schema, rows, others):
            self.texts.add(rows[column], mask)
        self.tables[name] = rows


def write_snapshot(engine: EngineParts, groups: tuple[int, ...] | None) -> bytes:
    """Write an engine's state.

    Parameters
    ----------
    engine
        The engine.
    groups
        Only these key groups, without counters, late events and timed-out partial matches; None: everything.
    """
    if groups is None:
        return _write(engine, None, [_dump(item) for item in engine.queries])
    return _write(engine, groups, [_select(engine, _dump(item), _flags(groups)) for item in engine.queries])


def extract_groups(engine: EngineParts, groups: tuple[int, ...]) -> tuple[bytes, list[AnyMatcher]]:
    """Write the state of key groups.

    Returns
    -------
    data, matchers
        The snapshot, and for each query a matcher with the state of the other groups.

    Raises
    ------
    MemoryLimitError
        The state of the other groups does not fit, because the share of the query has become smaller.
    """
    states = [_dump(item) for item in engine.queries]
    data = _write(engine, groups, [_select(engine, state, _flags(groups)) for state in states])
    remaining = [_select(engine, state, ~_flags(groups)) for state in states]
    return data, [
        item.matcher if state is None else _make_matcher(item, state[1], item.matcher.numbers)
        for item, state in zip(engine.queries, remaining, strict=True)
    ]


def _dump(item: RunningQuery) -> QueryState:
    if item.matcher.is_empty:
        return None
    layout = WordLayout(item.plan, item.matcher)
    return layout, drop_unused(layout, item.matcher.dump())


def _select(engine: EngineParts, query_state: QueryState, selected: Flags) -> QueryState:
    """Return the part of a state in the key groups whose flag is set."""
    if query_state is None:
        return None
    layout, state = query_state
    key = layout.plan.key
    assert isinstance(key, KeyPlan)
    groups = groups_of(layout, state, key, group_of_keys(key.dtype, engine.strings))
    return layout, select_groups(layout, state, groups, selected)


def _write(engine: EngineParts, groups: tuple[int, ...] | None, states: Sequence[QueryState]) -> bytes:
    """Write the state of the queries and of the stream."""
    writer = _Writer(Texts(engine.strings))
    bound: list[Ints] = []
    queries = []
    for number, (item, state) in enumerate(zip(engine.queries, states, strict=True)):
        if state is not None:
            bound += state[0].positions(state[1])
        queries.append(_write_query(writer, f"{number} ", item, state, groups))
    owned = _header_groups(engine, groups)
    header = {**engine.description, **engine.progress, "groups": owned, "queries": queries}
    if groups is None:
        header["foreign_events"] = engine.queries.foreign_events
        if engine.queries.control is not None:
            header["control"] = engine.queries.control.state()
    ring = engine.queries.ring
    if ring is not None and bound:
        flags = np.zeros(max(0, ring.tail - ring.head), np.bool_)
        for positions in bound:
            flags[positions[positions >= ring.head] - ring.head] = True
        stored = np.flatnonzero(flags) + ring.head
        if len(stored):
            rows = _renamed(ring.rows(stored), {own: number for number, own in _numbers(engine).items()})
            others = stored_texts(engine.schema, [item.query for item in engine.queries])
            writer.add_events("events", engine.schema, rows, others)
    writer.tables |= engine.queries.earlier.to_tables(writer.texts, None if owned is None else _flags(owned))
    if engine.reorder is not None:
        header["order"], held, late = engine.reorder.parts()
        writer.add_batches("held", engine.schema, held)
        writer.add_batches("late", engine.schema, late if groups is None else [])
    texts = writer.texts.number()
    if texts is not None:
        writer.tables["texts"] = {"text": texts}
    return pack(header, writer.tables)


def _header_groups(engine: EngineParts, groups: tuple[int, ...] | None) -> list[int] | None:
    """Return the groups of a snapshot, for the header; None: the state of a whole engine with all groups."""
    owned = engine.queries.owned
    if groups is None:
        return None if owned is None else sorted(owned)
    return list(groups)


def _write_query(
    writer: _Writer, prefix: str, item: RunningQuery, state: QueryState, groups: tuple[int, ...] | None
) -> dict[str, Any]:
    """Write the tables of a query; return its part of the header."""
    # The field "shedding" is for what a load shedder has learned about these groups; no shedder learns by group yet.
    facts: dict[str, Any] = {"since": item.since, "numbers": item.matcher.numbers, "shedding": None}
    if groups is not None:
        facts["numbers"] |= _COUNTS
    elif item.returns is not None:
        for counter in ("arithmetic_nulls", "function_errors"):
            facts["numbers"][counter] += getattr(item.returns, counter)
    if state is not None:
        writer.add_state(prefix, *state)
    if item.windows is not None:
        facts["slide"] = item.windows.slide
        facts["bounds"] = [matcher.numbers for matcher in item.windows.matchers]
        for number, matcher in enumerate(item.windows.matchers):
            writer.add_state(f"{prefix}{number} ", WordLayout(matcher.plan, matcher), matcher.dump())
    if item.timed_out is not None and groups is None:
        writer.tables |= {f"{prefix}timed {name}": columns for name, columns in item.timed_out.columns()}
    return facts


def _flags(groups: Sequence[int]) -> Flags:
    flags = np.zeros(GROUPS, np.bool_)
    flags[list(groups)] = True
    return flags


# ------------------------------------------------------------------------ reading


def merge_groups(engine: EngineParts, header: Mapping[str, Any], tables: Tables) -> list[AnyMatcher]:
    """Make matchers with the state of an engine's queries and the groups of a snapshot; put its events into the ring.

    Raises
    ------
    SnapshotError
        The snapshot is inconsistent. Nothing has changed.
    MemoryLimitError
        The state needs more memory than the limit allows.
    """
    codes = _make_codes(engine, tables)
    bound: list[Ints] = []
    matchers = []
    for number, (item, facts) in enumerate(zip(engine.queries, header["queries"], strict=True)):
        matcher = item.matcher
        numbers, stored_numbers = matcher.numbers, facts["numbers"]
        prefix = f"{number} "
        has_state = any(name.startswith((prefix + "index ", prefix + "waiting", prefix + "part")) for name in tables)
        if has_state or stored_numbers["blind"] > numbers["blind"]:
            layout = WordLayout(item.plan, matcher)
            context = MatcherContext(prefix, header["position"], stored_numbers, _count_classes(engine, number))
            stored_state, state = _read_state(tables, layout, codes, context), matcher.dump()
            bound += layout.positions(stored_state)
            if not np.array_equal(state["windows"][:3], stored_state["windows"][:3]):
                raise SnapshotError("the snapshot has other open windows than the engine; take it again")
            state, births = join_states(layout, state, stored_state)
            numbers["blind"] = max(numbers["blind"], stored_numbers["blind"])
            numbers["next_birth"] = max(numbers["next_birth"], stored_numbers["next_birth"], births)
            matcher = _make_matcher(item, state, numbers)
        matchers.append(matcher)
    _put_events(engine, tables, codes, header["position"], bound)
    engine.queries.earlier.put(tables, codes)
    return matchers


def restore_state(engine: EngineParts, header: Mapping[str, Any], tables: Tables) -> None:
    """Load the state of a snapshot into a new engine; after an error the engine must not be used.

    Raises
    ------
    SnapshotError, MemoryLimitError
        As `merge_groups`.
    """
    codes = _make_codes(engine, tables)
    bound: list[Ints] = []
    position = header["position"]
    for number, (item, facts) in enumerate(zip(engine.queries, header["queries"], strict=True)):
        layout = WordLayout(item.plan, item.matcher)
        prefix = f"{number} "
        context = MatcherContext(prefix, position, facts["numbers"], _count_classes(engine, number))
        state = _read_state(tables, layout, codes, context)
        bound += layout.positions(state)
        _load(item.name, item.matcher, state, facts["numbers"])
        item.since = facts["since"]
        if item.windows is not None:
            item.windows.slide = facts["slide"]
            for place, (matcher, numbers) in enumerate(zip(item.windows.matchers, facts["bounds"], strict=True)):
                layout = WordLayout(matcher.plan, matcher)
                context = MatcherContext(f"{prefix}{place} ", position, numbers, 1)
                _load(item.name, matcher, _read_state(tables, layout, codes, context), numbers)
        if item.timed_out is not None:
            start = f"{prefix}timed "
            stored = {name.removeprefix(start): table for name, table in tables.items() if name.startswith(start)}
            item.timed_out.put(stored, start)
    engine.queries.earlier.put(tables, codes)
    engine.queries.foreign_events = header.get("foreign_events", 0)
    if engine.queries.ring is not None:
        engine.queries.ring.begin(position)
    _put_events(engine, tables, codes, position, bound)
    if engine.reorder is not None and "order" not in header:
        raise Misfit("order", "nothing", "a value, because allowed_lateness is set")
    if engine.reorder is not None:
        held, late = (list(read_batches(engine.schema, name, tables.get(name), codes)) for name in ("held", "late"))
        engine.reorder.put(header["order"], held, late, header["time"])


def _make_matcher(item: RunningQuery, state: State, numbers: dict[str, int]) -> AnyMatcher:
    """Make a matcher for a query, and load a state into it."""
    matcher = item.new_matcher()
    matcher.set_limit(item.matcher.limit)
    _load(item.name, matcher, state, numbers)
    return matcher


def _load(name: str, matcher: AnyMatcher, state: State, numbers: dict[str, int]) -> None:
    try:
        matcher.load(state, numbers)
    except ValueError as error:
        raise Misfit(f"query {name!r}", str(error), "arrays as an engine writes them") from None
    except MemoryError:
        if not matcher.refused:
            raise
        raise MemoryLimitError(
            f"query {name!r}: its state needs more than its share of memory_limit, {matcher.limit:,} bytes; none of it "
            "was loaded",
            "Raise the limit, or move fewer key groups",
        ) from None


def _make_codes(engine: EngineParts, tables: Tables) -> Codes:
    """Check that the snapshot has no unknown tables, and map its texts to codes."""
    names = {"events", "held", "late", "texts"} if engine.reorder is not None else {"events", "texts"}
    for number, item in enumerate(engine.queries):
        names |= {f"{number} {name}" for name in WordLayout(item.plan, item.matcher).shapes}
        for place, matcher in enumerate([] if item.windows is None else item.windows.matchers):
            names |= {f"{number} {place} {name}" for name in WordLayout(matcher.plan, matcher).shapes}
        names |= {f"{number} timed {name}" for name in ([] if item.timed_out is None else item.timed_out.tables)}
    check_tables(tables, names | engine.queries.earlier.tables)
    return Codes(engine.strings, tables.get("texts"))


def _count_classes(engine: EngineParts, number: int) -> int:
    """Return the number of classes of a query's partial matches; 256 if the engine has no overload control."""
    control = engine.queries.control
    return 256 if control is None else control.queries[number].shedding.stride


def _read_state(tables: Tables, layout: WordLayout, codes: Codes, context: MatcherContext) -> State:
    """Read and check the tables of a matcher's state, each as one array."""
    for name, rows in layout.shapes.items():
        columns = tables.get(context.prefix + name)
        if columns is not None:
            check_columns(context.prefix + name, columns, {str(row): np.int64 for row in range(rows)})
    state = layout.from_tables(tables, context.prefix)
    check_state(layout, state, context)
    for table, row, mask in layout.texts(state):
        codes.put(state[table][row], mask, f"table {context.prefix + table!r}")
    return state


def _put_events(engine: EngineParts, tables: Tables, codes: Codes, position: int, bound: Sequence[Ints]) -> None:
    if engine.queries.ring is not None:
        rows = tables.get("events")
        rows = None if rows is None else _renamed(rows, _numbers(engine))
        check_bound(bound, rows, engine.queries.ring, position)
        others = engine.queries.earlier.columns.texts
        put_events(engine.queries.ring, engine.schema, rows, codes, position, others)


def _numbers(engine: EngineParts) -> dict[int, int]:
    return engine.queries.earlier.columns.stored_numbers(item.query for item in engine.queries)


def _renamed(rows: Mapping[str, Any], numbers: Mapping[int, int]) -> dict[str, Any]:
    """Give the columns of attributes of earlier events, ``c3`` and ``n3`` …, other numbers."""
    names = {f"{letter}{old}": f"{letter}{new}" for old, new in numbers.items() for letter in "cn"}
    return {names.get(name, name): column for name, column in rows.items()}


def plan_layout(plans: Sequence[Plan]) -> str:
    """Describe the layout of the state of plans: engines with the same description can exchange state."""
    return repr([
        [
            [(item.key_texts, item.state) for item in plan.indexes],
            [(state.bindings, state.dtypes, state.register_texts, state.needs_birth) for state in plan.states],
            [(item.key_texts, item.by_time, [plan.columns[column].text for column in item.registers])
             for item in plan.negations],
            None if plan.windows is None else [plan.windows.isolated, plan_layout(plan.windows.plans)],
            *([[(item.variable, item.key_texts, item.register_texts) for item in plan.kept]] if plan.kept else []),
        ]
        for plan in plans
    ])  # fmt: skip
