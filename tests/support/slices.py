"""Run slices in this process as Spark runs them in executors: the events of each slice, and the joint result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from reference.matcher import Event

import fastcep as fc
from fastcep.plan import make_plan
from fastcep.plan.plan import KeyPlan
from fastcep.query import ast
from fastcep.query.plain_schema import NUMBER, TIME, TYPE, columns_read, plain_query
from fastcep.spark.columns import HEADER, SLICE
from fastcep.spark.slice_task import ORDER, Detection, match_schema
from fastcep.spark.slicing.assignment import SliceAssignment
from fastcep.spark.slicing.cutter import key_cut
from fastcep.spark.slicing.facts import header_of
from fastcep.spark.slicing.slices import Slice, TimeCut
from support import harness

Route = Callable[[Event], tuple[int, int]]  #: the first of an event's slices, and the time slices in one of them


def by_time(event: Event) -> tuple[int, int]:
    return 0, 1


def by_key(
    query: ast.Query, events: Sequence[Event], slice_count: int, parts: Sequence[int]
) -> tuple[SliceAssignment, Route]:
    """Divide by key, with each value as a group; groups that are too large are divided by time."""
    plan = make_plan(query)
    assert isinstance(plan.key, KeyPlan)
    columns = list(plan.key.columns)
    if plan.partition is not None:
        for kind, own in enumerate(plan.partition.columns):
            if own and columns[kind] < 0:
                columns[kind] = own[0]
    schema, groups, sizes = query.schema, {}, []

    def group(event: Event) -> int:
        at = columns[schema.type_id(event.type)]
        name = next((name for name in schema.attributes(event.type) if schema.column_of(event.type, name) == at), None)
        value = None if name is None else event.values[name]
        return groups.setdefault(repr(value if not isinstance(value, float) else value + 0.0), len(groups))

    for event in events:
        at = group(event)
        sizes += [0] * (at + 1 - len(sizes))
        sizes[at] += 1
    from fastcep.plan.slicing import Context, slicing_of

    context = slicing_of(plan).time
    cut = key_cut(sizes or [0], slice_count, parts, context if isinstance(context, Context) else None)

    def route(event: Event) -> tuple[int, int]:
        return cut.groups[group(event)], cut.steps[group(event)]

    return cut, route


def counts(events: Sequence[Event], cut: TimeCut) -> list[int]:
    """Return the number of events between the edges of a cut."""
    found = [0] * (len(cut.edges) + 1)
    for event in events:
        found[sum(edge <= event.time for edge in cut.edges)] += 1
    return found


def detected(
    query: ast.Query,
    events: Sequence[Event],
    cut: SliceAssignment,
    route: Route = by_time,
    *,
    numbered: bool = False,
    rows: int = 3,
) -> pa.Table:
    """What all slices find, each by itself, sorted by the order that matches come with."""
    query_there = plain_query(query, columns_read(query))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        local = fc.Engine(query_there).flush().to_arrow().schema
        task = Detection((query_there,), match_schema(fc.Engine(query_there), exact=True), numbered)
        # All slices are in one partition, one after the other.
        sent = [
            batch
            for number, one in enumerate(cut.slices)
            for batch in with_header(one, pieces(query, events_of(number, events, cut, route), number, numbered, rows))
        ]
        batches = list(task(sent))
    table = pa.Table.from_batches(batches, task.schema).sort_by(ORDER)
    times = [order["detected"] for order in table[ORDER].to_pylist()]
    assert times == table["detected_at"].to_pylist()
    return pa.table({name: table[name].cast(local.field(name).type) for name in local.names})


def with_header(one: Slice, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Add the header of a slice, as a row before the first one; slices without events come without a header."""
    if not batches:
        return []
    first = batches[0]
    row = {field.name: pa.array([None], field.type) for field in first.schema} | {
        SLICE: first.column(SLICE).slice(0, 1)
    }
    head = pa.RecordBatch.from_pydict(row).append_column(HEADER, pa.array([header_of(one)]))
    rest = [batch.append_column(HEADER, pa.nulls(batch.num_rows, pa.string())) for batch in batches]
    return pa.Table.from_batches([head, rest[0]]).combine_chunks().to_batches() + rest[1:]


def events_of(number: int, events: Sequence[Event], cut: SliceAssignment, route: Route) -> list[Event]:
    """Return the events that Spark sends to a slice."""
    found = []
    for event in events:
        first, step = route(event)
        begins, ends = (cut.time.begins, cut.time.ends) if cut.time is not None else ([], [])
        low = first + sum(end <= event.time for end in ends) // step
        high = first + sum(begin <= event.time for begin in begins) // step
        if low <= number <= high:
            found.append(event)
    return found


def pieces(query: ast.Query, events: Sequence[Event], number: int, numbered: bool, rows: int) -> list[pa.RecordBatch]:
    """Return the batches of a slice, with the columns that Spark passes."""
    schema = query.schema
    out = []
    for at in range(0, len(events), rows):
        part = events[at : at + rows]
        columns: dict[str, Any] = {TIME: pa.array([event.time for event in part], pa.int64())}
        if schema.type is not None:
            columns[TYPE] = pa.array([schema.type_id(event.type) for event in part], pa.int32())
        if numbered:
            columns[NUMBER] = pa.array([event.seq for event in part], pa.int64())
        for place, column in enumerate(schema.columns):
            values = [_value(schema, event, place) for event in part]
            kind = pa.int64() if column.dtype == "timestamp" else harness.ARROW_TYPES[column.dtype]
            columns[f"c{place}"] = pa.array(values, kind)
        columns[SLICE] = pa.array([number] * len(part), pa.int32())
        out.append(pa.RecordBatch.from_pydict(columns))
    return out


def _value(schema: fc.Schema, event: Event, place: int) -> Any:
    for name in schema.attributes(event.type):
        if schema.column_of(event.type, name) == place:
            return event.values[name]
    return None
