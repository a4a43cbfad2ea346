"""Snapshots: an engine's state as bytes, whole or some key groups of it, and back (docs/reliability.md).

A snapshot holds what the engine stands at (position, time, held and late events), the queries as text, and the state of
each: tables of numbers (``dump`` says which), and the events that partial matches bind, as far as the engine keeps
events. There are no addresses, no pickles, no codes of string tables in it.

Data flow: matchers are dumped, cut by key group, their codes become numbers of one list of texts, and everything goes
into a container. Back: everything is read, checked and loaded into new matchers; in a merge they take the place of
the old ones when all of that has gone well, so that an engine is as before or has all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.engine.partitioned_matcher import Matching
from fastcep.engine.query_set import QuerySet
from fastcep.engine.reorder import Reorderer
from fastcep.engine.running_query import RunningQuery
from fastcep.engine.state.container import pack
from fastcep.engine.state.foreign_events import group_of_keys
from fastcep.engine.state.key_group_split import choose, groups_of, join
from fastcep.engine.state.keygroups import GROUPS
from fastcep.engine.state.stored_events import (
    check_bound,
    check_tables,
    columns_of,
    put_events,
    read_batches,
    text_columns,
)
from fastcep.engine.state.string_codes import Codes, Texts
from fastcep.engine.state.validation import Stand, check_columns, check_state
from fastcep.engine.state.word_layout import State, WordLayout
from fastcep.errors import MemoryLimitError, SnapshotError
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.plan import Plan
from fastcep.plan.plan import KeyPlan
from fastcep.stored import Misfit

__all__ = ["EngineParts", "extracted", "layout", "merged", "put", "snapshot"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Tables = Mapping[str, Mapping[str, Any]]
Held = tuple[WordLayout, State] | None  #: what a query holds; None for nothing, not even an open window

#: Of what a part leaves out, because it counts what the engine did and not what is in the groups.
_COUNTS = dict.fromkeys((
    "relevant", "rows_visited", "rows_created", "matches", "peak", "lost", "events", "arithmetic_nulls",
    "function_errors"), 0)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EngineParts:
    """An engine, as far as its state is concerned.

    Attributes
    ----------
    schema, queries, strings, order
        Its parts.
    stands
        What it stands at, for the header: ``position``, ``time``, ``sequence``.
    about
        What it is, for the header: its queries as text, options, and ``identity``.
    """

    schema: Schema
    queries: QuerySet
    strings: StringTable
    order: Reorderer | None
    stands: dict[str, Any]
    about: dict[str, Any]


# ------------------------------------------------------------------------ writing


@dataclass(slots=True)
class _Writer:
    """Tables of a snapshot on their way, and where texts stand in them."""

    texts: Texts
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add_state(self, prefix: str, words: WordLayout, state: State) -> None:
        for table, row, where in words.texts(state):
            self.texts.add(state[table][row], where)
        for name in words.shapes:
            if state[name].shape[1]:
                self.tables[prefix + name] = {str(row): values for row, values in enumerate(state[name])}

    def add_batches(self, name: str, schema: Schema, batches: Sequence[EventBatch]) -> None:
        if batches:
            rows = columns_of(EventBatch.concat(batches))
            self.add_events(name, schema, rows | {"batch": np.repeat(range(len(batches)), list(map(len, batches)))})

    def add_events(self, name: str, schema: Schema, rows: dict[str, Any]) -> None:
        for column, where in text_columns(schema, rows):
            self.texts.add(column, where)
        self.tables[name] = rows


def snapshot(here: EngineParts, groups: tuple[int, ...] | None) -> bytes:
    """Write an engine's state; ``groups``: of these key groups only, without counters and what waits to be taken."""
    if groups is not None:
        return _written(here, groups, [_part(here, held, _flags(groups)) for held in map(_held, here.queries)])
    return _written(here, None, [_held(item) for item in here.queries])


def extracted(here: EngineParts, groups: tuple[int, ...]) -> tuple[bytes, list[Matching]]:
    """Write the state of key groups; give it, and matchers that hold what the queries hold without it.

    Raises
    ------
    MemoryLimitError
        There is no room for the rest, because less than it may be held by now.
    """
    states = [_held(item) for item in here.queries]
    data = _written(here, groups, [_part(here, held, _flags(groups)) for held in states])
    rest = [_part(here, held, ~_flags(groups)) for held in states]
    return data, [
        item.matcher if held is None else _loaded(item, held[1], item.matcher.numbers)
        for item, held in zip(here.queries, rest, strict=True)
    ]


def _held(item: RunningQuery) -> Held:
    return None if item.matcher.is_empty else (WordLayout(item.plan, item.matcher), item.matcher.dump())


def _part(here: EngineParts, held: Held, wanted: Flags) -> Held:
    """What is in the key groups whose flag is set."""
    if held is None:
        return None
    words, state = held
    key = words.plan.key
    assert isinstance(key, KeyPlan)
    return words, choose(words, state, groups_of(words, state, key, group_of_keys(key.dtype, here.strings)), wanted)


def _written(here: EngineParts, groups: tuple[int, ...] | None, states: Sequence[Held]) -> bytes:
    """Write what the queries hold, and what belongs to the stream."""
    writer = _Writer(Texts(here.strings))
    bound: list[Ints] = []
    queries = []
    for number, (item, held) in enumerate(zip(here.queries, states, strict=True)):
        if held is not None:
            bound += held[0].positions(held[1])
        queries.append(_write_query(writer, f"{number} ", item, held, groups))
    header = {**here.about, **here.stands, "groups": _listed(here, groups), "queries": queries}
    if groups is None:
        header["foreign_events"] = here.queries.foreign_events
        if here.queries.control is not None:
            header["control"] = here.queries.control.state()
    ring = here.queries.ring
    if ring is not None and bound:
        flags = np.zeros(max(0, ring.tail - ring.head), np.bool_)
        for at in bound:
            flags[at[at >= ring.head] - ring.head] = True
        found = np.flatnonzero(flags) + ring.head
        if len(found):
            writer.add_events("events", here.schema, ring.rows(found))
    if here.order is not None:
        header["order"], waiting, late = here.order.parts()
        writer.add_batches("held", here.schema, waiting)
        writer.add_batches("late", here.schema, late if groups is None else [])
    texts = writer.texts.number()
    if texts is not None:
        writer.tables["texts"] = {"text": texts}
    return pack(header, writer.tables)


def _listed(here: EngineParts, groups: tuple[int, ...] | None) -> list[int] | None:
    """The groups that a snapshot has; None: all there are, or nobody knows."""
    owned = here.queries.owned
    if groups is None:
        return None if owned is None else sorted(owned)
    return list(groups)


def _write_query(
    writer: _Writer, prefix: str, item: RunningQuery, held: Held, groups: tuple[int, ...] | None
) -> dict[str, Any]:
    """Write what belongs to a query; give its part of the header."""
    # Under "shedding" there may be what a load shedder has learned of these groups; none does by group yet.
    facts: dict[str, Any] = {"since": item.since, "numbers": item.matcher.numbers, "shedding": None}
    if groups is not None:
        facts["numbers"] |= _COUNTS
    elif item.returns is not None:
        for counter in ("arithmetic_nulls", "function_errors"):
            facts["numbers"][counter] += getattr(item.returns, counter)
    if held is not None:
        writer.add_state(prefix, *held)
    if item.windows is not None:
        facts["slide"] = item.windows.slide
        facts["bounds"] = [small.numbers for small in item.windows.matchers]
        for number, small in enumerate(item.windows.matchers):
            writer.add_state(f"{prefix}{number} ", WordLayout(small.plan, small), small.dump())
    if item.timed is not None and groups is None:
        writer.tables |= {f"{prefix}timed {name}": columns for name, columns in item.timed.columns()}
    return facts


def _flags(groups: Sequence[int]) -> Flags:
    flags = np.zeros(GROUPS, np.bool_)
    flags[list(groups)] = True
    return flags


# ------------------------------------------------------------------------ reading


def merged(here: EngineParts, header: Mapping[str, Any], tables: Tables) -> list[Matching]:
    """Matchers that hold what the queries of an engine hold and the groups of a snapshot, whose events go to the ring.

    Raises
    ------
    SnapshotError
        The snapshot does not fit together. Nothing has changed.
    MemoryLimitError
        There is no room for it.
    """
    codes = _codes(here, tables)
    bound: list[Ints] = []
    matchers = []
    for number, (item, facts) in enumerate(zip(here.queries, header["queries"], strict=True)):
        matcher = item.matcher
        numbers, others = matcher.numbers, facts["numbers"]
        prefix = f"{number} "
        tells = any(name.startswith((prefix + "index ", prefix + "waiting", prefix + "part")) for name in tables)
        if tells or others["blind"] > numbers["blind"]:
            words = WordLayout(item.plan, matcher)
            stand = Stand(prefix, header["position"], others, _classes(here, number))
            part, state = _read_state(tables, words, codes, stand), matcher.dump()
            bound += words.positions(part)
            if not np.array_equal(state["windows"][:3], part["windows"][:3]):
                raise SnapshotError("the snapshot has other windows open than the engine; take it again")
            state, births = join(words, state, part)
            numbers["blind"] = max(numbers["blind"], others["blind"])
            numbers["next_birth"] = max(numbers["next_birth"], others["next_birth"], births)
            matcher = _loaded(item, state, numbers)
        matchers.append(matcher)
    _put_events(here, tables, codes, header["position"], bound)
    return matchers


def put(here: EngineParts, header: Mapping[str, Any], tables: Tables) -> None:
    """Give an engine that is new the state of a snapshot; one that this fails for is not used.

    Raises
    ------
    SnapshotError, MemoryLimitError
        As by `merged`.
    """
    codes = _codes(here, tables)
    bound: list[Ints] = []
    position = header["position"]
    for number, (item, facts) in enumerate(zip(here.queries, header["queries"], strict=True)):
        words = WordLayout(item.plan, item.matcher)
        prefix = f"{number} "
        stand = Stand(prefix, position, facts["numbers"], _classes(here, number))
        state = _read_state(tables, words, codes, stand)
        bound += words.positions(state)
        _load(item.name, item.matcher, state, facts["numbers"])
        item.since = facts["since"]
        if item.windows is not None:
            item.windows.slide = facts["slide"]
            for place, (small, numbers) in enumerate(zip(item.windows.matchers, facts["bounds"], strict=True)):
                own = WordLayout(small.plan, small)
                stand = Stand(f"{prefix}{place} ", position, numbers, 1)
                _load(item.name, small, _read_state(tables, own, codes, stand), numbers)
        if item.timed is not None:
            name = f"{prefix}timed "
            own_tables = {key.removeprefix(name): table for key, table in tables.items() if key.startswith(name)}
            item.timed.put(own_tables, name)
    here.queries.foreign_events = header.get("foreign_events", 0)
    if here.queries.ring is not None:
        here.queries.ring.begin(position)
    _put_events(here, tables, codes, position, bound)
    if here.order is not None and "order" not in header:
        raise Misfit("order", "nothing", "a value, as allowed_lateness is given")
    if here.order is not None:
        held, late = (list(read_batches(here.schema, name, tables.get(name), codes)) for name in ("held", "late"))
        here.order.put(header["order"], held, late, header["time"])


def _loaded(item: RunningQuery, state: State, numbers: dict[str, int]) -> Matching:
    """A matcher for a query that holds a state."""
    matcher = item.fresh()
    matcher.set_limit(item.matcher.limit)
    _load(item.name, matcher, state, numbers)
    return matcher


def _load(name: str, matcher: Matching, state: State, numbers: dict[str, int]) -> None:
    try:
        matcher.load(state, numbers)
    except ValueError as error:
        raise Misfit(f"query {name!r}", str(error), "arrays as an engine writes them") from None
    except MemoryError:
        if not matcher.refused:
            raise
        raise MemoryLimitError(
            f"query {name!r}: its state needs more than its share of memory_limit, {matcher.limit:,} bytes; nothing "
            "of it was taken",
            "Raise the limit, or move fewer key groups",
        ) from None


def _codes(here: EngineParts, tables: Tables) -> Codes:
    """Refuse tables that belong to nothing; give the texts codes."""
    known = {"events", "held", "late", "texts"} if here.order is not None else {"events", "texts"}
    for number, item in enumerate(here.queries):
        known |= {f"{number} {name}" for name in WordLayout(item.plan, item.matcher).shapes}
        for place, small in enumerate([] if item.windows is None else item.windows.matchers):
            known |= {f"{number} {place} {name}" for name in WordLayout(small.plan, small).shapes}
        known |= {f"{number} timed {name}" for name in ([] if item.timed is None else item.timed.tables)}
    check_tables(tables, known)
    return Codes(here.strings, tables.get("texts"))


def _classes(here: EngineParts, number: int) -> int:
    """How many classes of partial matches a query has; 256 if nobody tells them apart."""
    control = here.queries.control
    return 256 if control is None else control.queries[number].shedding.stride


def _read_state(tables: Tables, words: WordLayout, codes: Codes, stand: Stand) -> State:
    """The tables of a matcher's state, each as one array again, and checked."""
    state: State = {}
    for name, rows in words.shapes.items():
        columns = tables.get(stand.name + name)
        state[name] = np.empty((rows, 0), np.int64)
        if columns is not None:
            check_columns(stand.name + name, columns, {str(row): np.int64 for row in range(rows)})
            state[name] = np.stack([columns[str(row)] for row in range(rows)])
    check_state(words, state, stand)
    for table, row, where in words.texts(state):
        codes.put(state[table][row], where, f"table {stand.name + table!r}")
    return state


def _put_events(here: EngineParts, tables: Tables, codes: Codes, position: int, bound: Sequence[Ints]) -> None:
    if here.queries.ring is not None:
        check_bound(bound, tables.get("events"), here.queries.ring, position)
        put_events(here.queries.ring, here.schema, tables.get("events"), codes, position)


def layout(plans: Sequence[Plan]) -> str:
    """How plans lay out their state: two that agree in it read each other's."""
    return repr([
        [
            [(item.key_texts, item.state) for item in plan.indexes],
            [(state.bindings, state.dtypes, state.register_texts, state.needs_birth) for state in plan.states],
            [(item.key_texts, item.by_time, [plan.columns[column].text for column in item.registers])
             for item in plan.negations],
            None if plan.windows is None else [plan.windows.isolated, layout(plan.windows.plans)],
            *([[(item.member, item.key_texts, item.register_texts) for item in plan.kept]] if plan.kept else []),
        ]
        for plan in plans
    ])  # fmt: skip
