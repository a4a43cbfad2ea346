"""Run an engine (or the reference matcher) on a query and a stream written on one line.

A stream reads ``A1(ID=1,V=2)@0 B(ID=1)@5 A@5``: the type, optionally its sequence number (checked), its attributes
(omitted ones are null), and its time in nanoseconds or as a duration (without one: its position). Values are numbers,
``nan``, ``inf``, ``true``, ``false``, ``null`` and strings in single quotes.
"""

from __future__ import annotations

import itertools
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from reference import matcher as naive
from reference.matcher import Binding, Event, Match, Value

from fastcep.events import Schema, parse_duration
from fastcep.query import ast, traversal
from fastcep.query.patterns import positive_variables

if TYPE_CHECKING:
    import fastcep

TIME = pa.timestamp("ns", "UTC")
ARROW_TYPES = {
    "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string(), "timestamp": TIME,
}  # fmt: skip
NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
EVENT = re.compile(r"\s*(?P<name>\w+)(?:\((?P<values>(?:'[^']*'|[^')])*)\))?(?:@(?P<time>-?\w+))?(?=\s|$)")
PAIR = re.compile(r"\s*(?P<name>\w+)\s*=\s*(?P<value>'[^']*'|[^,']+?)\s*(?:,|$)")
# A Row is a complete result: bindings (and window_id for explicit windows), RETURN values and the detection time (ns).
Data = dict[str, Any]  # column -> Arrow array
Row = tuple[dict[str, Binding], dict[str, Any], int]


# ---------------------------------------------------------------------- streams


def stream(schema: Schema, line: str) -> list[Event]:
    """Parse a stream from one line; `ValueError` names the part that is invalid."""
    events: list[Event] = []
    offset = 0
    line = line.rstrip()
    while offset < len(line):
        found = EVENT.match(line, offset)
        if found is None:
            raise ValueError(f"cannot read an event at {line[offset:]!r}; write Type(attr=value,…)@time")
        name, sequence = event_name(schema, found["name"])
        seq = len(events) if sequence is None else sequence
        if sequence is not None and schema.sequence is None and sequence != len(events):
            raise ValueError(f"{found['name']} is event number {len(events)} of the stream")
        time = len(events) if found["time"] is None else read_time(found["time"])
        events.append(Event(name, time, seq, read_values(schema, name, found["values"] or "")))
        offset = found.end()
    return events


def event_name(schema: Schema, word: str) -> tuple[str, int | None]:
    """Split ``A12`` into type and sequence number."""
    if word in schema.type_names:
        return word, None
    name = word.rstrip("0123456789")
    if name not in schema.type_names or name == word:
        raise ValueError(f"{word} is none of the types {', '.join(schema.type_names)}")
    return name, int(word[len(name) :])


def read_time(text: str) -> int:
    """Return the nanoseconds of ``5`` or ``5ms``."""
    return int(text) if text.lstrip("-").isdigit() else parse_duration(text)


def read_values(schema: Schema, type_name: str, text: str) -> dict[str, Value]:
    """Parse the attributes of one event; omitted ones are null."""
    dtypes = schema.attributes(type_name)
    values: dict[str, Value] = dict.fromkeys(dtypes)
    offset = 0
    while offset < len(text):
        found = PAIR.match(text, offset)
        if found is None or found["name"] not in dtypes:
            raise ValueError(f"cannot read {text[offset:]!r}; {type_name} has {dict(dtypes)}")
        values[found["name"]] = read_value(found["value"], dtypes[found["name"]])
        offset = found.end()
    return values


def read_value(text: str, dtype: str) -> Value:
    """Parse one value of the declared dtype."""
    if text == "null":
        return None
    if dtype == "string":
        return text.strip("'")
    if dtype == "bool":
        return {"true": True, "false": False}[text.lower()]
    return int(text) if dtype in ("int64", "timestamp") else float(text)


def line(events: Sequence[Event]) -> str:
    """Write the stream on one line; ``stream`` reads it back."""

    def show(value: Value) -> str:
        if value is None:
            return "null"
        if isinstance(value, bool):
            return str(value).lower()
        return f"'{value}'" if isinstance(value, str) else repr(value)

    def one(event: Event) -> str:
        values = ",".join(f"{name}={show(value)}" for name, value in event.values.items() if value is not None)
        return f"{event.type}{event.seq}{f'({values})' if values else ''}@{event.time}"

    return " ".join(map(one, events))


def batches(schema: Schema, events: Sequence[Event], sizes: Sequence[int] | None = None) -> Iterator[Data]:
    """Divide a stream into batches of these sizes (the last size repeats; None: one batch)."""
    for part in cut(events, [max(1, len(events))] if sizes is None else sizes):
        yield batch(schema, part)


def cut(events: Sequence[Event], sizes: Sequence[int]) -> Iterator[Sequence[Event]]:
    """Do the same with a list of events."""
    assert sizes[-1] > 0, "the last batch size is repeated, so it must be positive"
    start = 0
    for size in itertools.chain(sizes, itertools.repeat(sizes[-1])):
        if start >= len(events):
            return
        yield events[start : start + size]
        start += size


def batch(schema: Schema, events: Sequence[Event]) -> Data:
    """Return the columns of one batch, nulls as Arrow nulls."""
    data: Data = {
        str(schema.time): pa.array([clock(schema, event.time) for event in events], pa.int64()),
    }
    if schema.type is not None:
        codes = schema.codes
        cells = [event.type if codes is None else codes[event.type] for event in events]
        data[str(schema.type)] = pa.array(cells, pa.string() if codes is None else pa.int64())
    if schema.sequence is not None:
        data[str(schema.sequence)] = pa.array([event.seq for event in events], pa.int64())
    for number, column in enumerate(schema.columns):
        source_of = {
            (kind, name) for kind in schema.type_names for name in schema.attributes(kind)
            if schema.column_of(kind, name) == number
        }  # fmt: skip
        values = [
            next((event.values.get(name) for kind, name in source_of if kind == event.type), None) for event in events
        ]
        data[str(column.source)] = pa.array(values, ARROW_TYPES[column.dtype])
    return data


def clock(schema: Schema, nanoseconds: int) -> int:
    """Return a time in the schema's unit."""
    ticks, rest = divmod(nanoseconds, NANOSECONDS[schema.time_unit])
    if rest:
        raise ValueError(f"{nanoseconds} ns is no whole number of {schema.time_unit}")
    return ticks


# ---------------------------------------------------------------------- running


class Clock:
    """A wall clock that a test advances."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def as_query(query: str | ast.Query, schema: Schema | None) -> ast.Query:
    """Parse a text; return a query as it is."""
    from fastcep.query import parse

    return query if isinstance(query, ast.Query) else parse(query, schema)


def as_events(schema: Schema, events: str | Sequence[Event]) -> list[Event]:
    """Parse a line; return a list as it is."""
    return stream(schema, events) if isinstance(events, str) else list(events)


def make_engine(query: ast.Query) -> fastcep.Engine:
    """Make an engine for one query, without the warning about an unbounded window."""
    import fastcep

    with warnings.catch_warnings():
        if isinstance(query.window, ast.Unbounded):
            warnings.simplefilter("ignore")
        return fastcep.Engine(query)


def matches(
    query: str | ast.Query,
    schema: Schema | None,
    events: str | Sequence[Event],
    batch_sizes: Sequence[int] | None = None,
) -> list[dict[str, Binding]]:
    """Return bindings of the engine's matches, in the order reported, over batches of these sizes (None: one batch)."""
    return [bindings for bindings, _, _ in rows(query, schema, events, batch_sizes)]


def expected(query: str | ast.Query, schema: Schema | None, events: str | Sequence[Event]) -> list[dict[str, Binding]]:
    """Return bindings of the reference matcher, in the defined order."""
    query = as_query(query, schema)
    found = naive.find_matches(query, as_events(query.schema, events))
    return [placed(match.window_id, match.bindings) for match in found]


def rows(
    query: str | ast.Query,
    schema: Schema | None,
    events: str | Sequence[Event],
    batch_sizes: Sequence[int] | None = None,
) -> list[Row]:
    """Return complete results of the engine, over batches; at the end the stream is flushed."""
    query = as_query(query, schema)
    engine = make_engine(query)
    found: list[Row] = []
    for data in batches(query.schema, as_events(query.schema, events), batch_sizes):
        found += table_rows(query, engine.process(data).to_arrow())
    return found + table_rows(query, engine.flush().to_arrow())


def rows_by_send(query: str | ast.Query, schema: Schema | None, events: str | Sequence[Event]) -> list[Row]:
    """Return complete results of the engine; events are sent one by one."""
    query = as_query(query, schema)
    engine = make_engine(query)
    found: list[Row] = []
    for event in as_events(query.schema, events):
        found += table_rows(query, send(engine, query.schema, event).to_arrow())
    return found + table_rows(query, engine.flush().to_arrow())


def send(engine: fastcep.Engine, schema: Schema, event: Event) -> Any:
    """Send one event."""
    builtin = {str(schema.time): clock(schema, event.time)}
    if schema.sequence is not None:
        builtin[str(schema.sequence)] = event.seq
    attributes: dict[str, Any] = {name: event.values.get(name) for name in schema.attributes(event.type)}
    return engine.send(event.type, **builtin, **attributes)


def table_rows(query: ast.Query, table: pa.Table) -> list[Row]:
    """Return the rows of a table of matches; check its columns and the query's name."""
    variables = [variable.name for variable in positive_variables(query.pattern)]
    returns = [item.name for item in query.returns]
    assert table.column_names == ["query", "window_id", "detected_at", *variables, *returns], table.column_names
    assert set(table["query"].to_pylist()) <= {query.name}
    if isinstance(query.window, ast.ExplicitWindow):
        variables = ["window_id", *variables]
    else:
        assert table["window_id"].null_count == len(table), "window_id is null without explicit windows"
    times: list[Any] = table["detected_at"].cast(pa.int64()).to_pylist()
    check_types(query, table)
    columns = [without_times(table[name]).to_pylist() for name in [*variables, *returns]]
    found: list[Row] = []
    for number, time in enumerate(times):
        cells = [column[number] for column in columns]
        bindings: dict[str, Any] = dict(zip(variables, cells[: len(variables)], strict=True))
        found.append((bindings, dict(zip(returns, cells[len(variables) :], strict=True)), time))
    return found


def check_types(query: ast.Query, table: pa.Table) -> None:
    """Check the types of the RETURN columns."""
    from fastcep.query.types import type_of

    for item in query.returns:
        kind = {**ARROW_TYPES, "null": pa.int64()}[type_of(item.expression, query)]
        wanted = pa.large_list(kind) if isinstance(item.expression, ast.AttributeList) else kind
        found = table.schema.field(item.name).type
        text = str(found).replace("dictionary<values=string, indices=int32, ordered=0>", "string")
        assert text == str(wanted), f"{item.name} is {found}, expected {wanted}"


def without_times(column: Any) -> Any:
    """Return a column of matches with int64 nanoseconds for times."""
    if column.type == TIME:
        return column.cast(pa.int64())
    return column.cast(pa.large_list(pa.int64())) if column.type == pa.large_list(TIME) else column


def expected_rows(query: ast.Query, events: Sequence[Event], end: int | None = None) -> list[Row]:
    """Return the rows of the reference matcher that ``rows`` must equal; ``end`` as for `find_matches`."""
    return [as_row(query, events, match) for match in naive.find_matches(query, events, end=end)]


def as_row(query: ast.Query, events: Sequence[Event], match: Match) -> Row:
    """Return a match of the reference matcher as a row."""
    return placed(match.window_id, match.bindings), naive.return_values(query, match, events), match.detected_at


def placed(window_id: int | None, bindings: dict[str, Binding]) -> dict[str, Binding]:
    """Return the bindings, with the window's id for an explicit window."""
    return bindings if window_id is None else {"window_id": window_id, **bindings}


def assert_in_time(query: ast.Query, events: Sequence[Event], batch_sizes: Sequence[int]) -> None:
    """Check after each batch that all decided matches are reported: none waits, and none comes too early."""
    engine = make_engine(query)
    wanted = naive.find_matches(query, events)
    found: list[Row] = []
    seen: list[Event] = []
    for data, part in zip(batches(query.schema, events, batch_sizes), cut(events, batch_sizes), strict=True):
        seen += part
        found += table_rows(query, engine.process(data).to_arrow())
        decided = [match for match in wanted if seen and is_decided(match, seen[-1])]
        rows_so_far = [as_row(query, seen, match) for match in decided]
        assert_rows(query, seen, found, rows_so_far, f"after {len(seen)} of {len(events)} events")
    found += table_rows(query, engine.flush().to_arrow())
    assert_same(query, events, found, f"batches of {batch_sizes} and a flush")


def is_decided(match: Match, last: Event) -> bool:
    """Return True if a match must have been reported when ``last`` is the last event so far, in stream order."""
    return match.detected_at < last.time if match.deferred else match.last <= last.seq


# -------------------------------------------------------------------- comparing


def same_value(one: Any, other: Any, tolerance: float = 0.0) -> bool:
    """Compare values: NaN equals NaN, lists by element; types (bool, int, float, str, None) must agree too."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same_value(a, b, tolerance) for a, b in zip(one, other, strict=True))
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or one == other or math.isclose(one, other, rel_tol=tolerance)
    return bool(one == other)


def transcendental(node: ast.Expr) -> bool:
    """Return True if the last digits of the value may differ between mathematics libraries."""
    return any(
        (isinstance(part, ast.Call) and part.function in ("exp", "log"))
        or (isinstance(part, ast.Binary) and part.operator == "^")
        for part in traversal.walk(node)
    )


def assert_same(query: ast.Query, events: Sequence[Event], found: list[Row], how: str) -> None:
    """Fail with the query, the stream and both results unless ``found`` is the result of the reference matcher."""
    assert_rows(query, events, found, expected_rows(query, events), how)


def assert_rows(query: ast.Query, events: Sequence[Event], found: list[Row], wanted: list[Row], how: str) -> None:
    """Fail with a report unless ``found`` equals ``wanted``."""
    tolerance = {item.name: 1e-12 if transcendental(item.expression) else 0.0 for item in query.returns}

    def same(one: Row, other: Row) -> bool:
        return (
            one[0] == other[0]
            and one[2] == other[2]
            and all(same_value(one[1][name], other[1][name], slack) for name, slack in tolerance.items())
        )

    if len(found) == len(wanted) and all(map(same, found, wanted)):
        return
    raise AssertionError(report(query, events, found, wanted, how))


def describe(query: ast.Query, events: Sequence[Event]) -> str:
    """Return schema, query and stream, ready to paste into a test."""
    from fastcep.query import to_text

    schema = query.schema
    types = {name: dict(schema.attributes(name)) for name in schema.type_names}
    options = f", time={schema.time!r}, type={schema.type!r}"
    for name in ("sequence", "codes", "sources"):
        given = getattr(schema, name)
        if given:
            options += f", {name}={dict(given) if isinstance(given, Mapping) else given!r}"
    return f"schema:  Schema({types!r}{options})\nquery:   {to_text(query).strip()}\nstream:  {line(events)}"


def report(query: ast.Query, events: Sequence[Event], found: list[Row], wanted: list[Row], how: str) -> str:
    """Describe a difference in readable form."""
    # The time distinguishes matches of PERIODIC.
    timed = isinstance(query.pattern, ast.Periodic)
    keys = [[f"{row[0]}{f' at {row[2]}' if timed else ''}" for row in side] for side in (found, wanted)]
    missing = [key for key in keys[1] if key not in keys[0]]
    surplus = [key for key in keys[0] if key not in keys[1]]
    twice = len(set(keys[0])) < len(keys[0])
    differ = [(one, other) for one, other in zip(found, wanted, strict=False) if repr(one) != repr(other)]
    lines = [
        f"the engine ({how}) found {len(found)} matches, the reference {len(wanted)}",
        describe(query, events),
        f"missing: {missing[:8]}",
        f"surplus: {surplus[:8]}{' (and some matches twice)' if twice else ''}",
    ]
    if not missing and not surplus and differ:
        lines.append(f"first difference (bindings, RETURN, time): found {differ[0][0]}, wanted {differ[0][1]}")
    return "\n".join(lines)
