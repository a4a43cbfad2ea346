"""``with_attributes``: RETURN columns for the time and attributes of all matched events."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import queries as strategies
from support import harness

import fastcep as fc
from fastcep.query import ast, to_text
from fastcep.query.patterns import positive_variables

SCHEMA = fc.Schema(
    {"A": {"v": "int64", "s": "string"}, "B": {"v": "int64", "f": "float64", "s": "int64"}},
    time="ts",
    type="type",
    sources={"B": {"s": "b_s"}},
)


def query(text: str) -> fc.Query:
    return fc.parse(text, SCHEMA)


def columns(base_query: fc.Query) -> list[str]:
    return [item.name for item in fc.with_attributes(base_query).returns]


def test_every_variable_has_its_time_and_attributes() -> None:
    base_query = query("PATTERN SEQ(A a, B* b[], (A|B)? c) WITHIN 1h RETURN a.v + 1 AS next")
    assert to_text(fc.with_attributes(base_query)).splitlines()[-1] == (
        'RETURN a.time, a.v, a.s, b[].time AS "b.time", b[].v AS "b.v", b[].f AS "b.f", b[].s AS "b.s", '
        "c.time, c.v, a.v + 1 AS next"
    )


def plain(table: pa.Table) -> list[dict[str, object]]:
    """Return the rows, with nanoseconds for times."""
    return pa.table({name: harness.without_times(table[name]) for name in table.column_names}).to_pylist()


def test_engine_gives_them() -> None:
    engine = fc.Engine(query("PATTERN SEQ(A a, B* b[], (A|B)? c) WITHIN 1h"), attributes=True)
    table = engine.send("A", ts=5, v=7, s="x").to_arrow()
    assert table.column_names[3:] == ["a", "b", "c", "a.time", "a.v", "a.s", "b.time", "b.v", "b.f", "b.s",
                                      "c.time", "c.v"]  # fmt: skip
    assert table.schema.field("a.time").type == table.schema.field("c.time").type == harness.TIME
    assert plain(table.slice(0, 1))[0] | {"detected_at": None} == {
        "query": "query", "window_id": None, "detected_at": None, "a": 0, "b": [], "c": None,
        "a.time": 5, "a.v": 7, "a.s": "x", "b.time": [], "b.v": [], "b.f": [], "b.s": [], "c.time": None, "c.v": None,
    }  # fmt: skip
    table = engine.send("B", ts=6, v=8, f=0.5).to_arrow()
    rows = [{name: row[name] for name in ("b", "c", "b.time", "b.f", "b.s", "c.v")} for row in plain(table)]
    assert {"b": [1], "c": None, "b.time": [6], "b.f": [0.5], "b.s": [None], "c.v": None} in rows
    assert {"b": [], "c": 1, "b.time": [], "b.f": [], "b.s": [], "c.v": 8} in rows


def test_what_return_has_already_is_not_repeated() -> None:
    base_query = query('PATTERN SEQ(A a, B+ b[]) WITHIN 1h RETURN a.v, b[].f AS "b.f", a.s AS word')
    assert columns(base_query) == ["a.time", "a.v", "a.s", "b.time", "b.v", "b.f", "b.s", "word"]
    twice = fc.with_attributes(fc.with_attributes(base_query))
    assert twice == fc.with_attributes(base_query)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'PATTERN SEQ(A a) WITHIN 1h RETURN a.v + 1 AS "a.v"',
            "query 'query': the RETURN column 'a.v' has the name of an attribute's column but another meaning; rename",
        ),
        (
            'PATTERN SEQ(A a, B "a.time") WITHIN 1h',
            "query 'query', with the attributes of all events: the output column 'a.time' has the name of a variable",
        ),
    ],
)
def test_names_that_clash(text: str, message: str) -> None:
    with pytest.raises(fc.ValidationError) as caught:
        fc.Engine(query(text), attributes=True)
    assert message in str(caught.value)


def test_two_attributes_of_one_name() -> None:
    schema = fc.Schema({"A": {"b.c": "int64"}, "B": {"c": "int64"}}, type="type")
    base_query = fc.parse('PATTERN SEQ(A a, B "a.b") WITHIN 1h', schema)
    with pytest.raises(fc.ValidationError, match=r"two attributes would be called 'a\.b\.c'; rename a variable"):
        fc.with_attributes(base_query)


def test_many_matches_in_one_result_have_no_attributes() -> None:
    query = fc.parse("EVENT A () QUERY q PATTERN SEQ(A a) WITHIN 1h SELECT cumulative")
    message = "query 'q', with the attributes of all events: RETURN describes a single"
    with pytest.raises(fc.ValidationError, match=message):
        fc.with_attributes(query)


def test_columns_that_disagree_between_queries_say_what_to_do() -> None:
    two = [
        fc.parse("PATTERN SEQ(A x) WITHIN 1h", SCHEMA, name="one"),
        fc.parse("PATTERN SEQ(B x) WITHIN 1h", SCHEMA, name="two"),
    ]
    matches = fc.Engine(two, attributes=True).send("A", ts=1, s="x")
    with pytest.raises(fc.ValidationError, match=r"column 'x\.s' is string in query 'one' and int64 in query 'two'; r"):
        matches.to_arrow()
    assert matches.query("one").to_arrow()["x.s"].to_pylist() == ["x"]


@given(strategies.cases(), st.booleans())
def test_equal_to_the_reference(case: strategies.Case, keep: bool) -> None:
    """The engine's columns equal those of the reference matcher for the same RETURN."""
    plain = case.query if keep else ast.Query(
        case.query.name, case.query.pattern, case.query.window, case.query.where, case.query.partition,
        schema=case.query.schema,
    )  # fmt: skip
    extended = fc.with_attributes(plain)
    assert fc.parse(to_text(extended), extended.schema) == extended
    rows = harness.rows(extended, None, case.events, case.batch_sizes)
    harness.assert_same(extended, case.events, rows, "attributes")
    for (bindings, returned, _), event_of in ((row, {event.seq: event for event in case.events}) for row in rows):
        for variable in positive_variables(extended.pattern):
            bound = bindings[variable.name]
            numbers = bound if isinstance(bound, list) else [bound]
            times = [None if number is None else event_of[number].time for number in numbers]
            expected = times if variable.repeated else times[0]
            assert returned[f"{variable.name}.time"] == expected
