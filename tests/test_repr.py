"""The text that a prompt shows for public objects, and the names that they offer for completion."""

from __future__ import annotations

import pyarrow as pa

import fastcep as fc
from fastcep.parallel import ParallelEngine
from fastcep.query import i

SCHEMA = fc.Schema({"A": {"price": "float64"}, "B": {"items": "int64"}}, type="type")
TEXT = "QUERY q\nPATTERN SEQ(A a, NEG B n, B b)\nWHERE a.price > 1.0\nWITHIN 1s"
QUERY = fc.parse(TEXT, SCHEMA)


def test_queries() -> None:
    assert repr(QUERY) == "Query('QUERY q PATTERN SEQ(A a, NEG B n, B b) WHERE a.price > 1.0 WITHIN 1s')"
    builder = fc.seq(SCHEMA.A("a"), SCHEMA.B("b"))
    assert repr(builder) == "Builder('QUERY query PATTERN SEQ(A a, B b) …')"
    assert repr(builder.within("1s")) == "Builder('QUERY query PATTERN SEQ(A a, B b) WITHIN 1s')"


def test_spaces_in_literals_are_kept() -> None:
    schema = fc.Schema({"A": {"s": "string", "x\ny": "int64"}})
    where = """a.s = 'two  spaces,\n\ttab, it''s'\n AND   a.s != 'x' AND a."x\ny" > 1"""
    query = fc.parse(f"PATTERN SEQ(A a) WHERE {where} WITHIN 1s", schema)
    shown = where.replace("\n AND   ", " AND ")
    text = f"QUERY query PATTERN SEQ(A a) WHERE {shown} WITHIN 1s"
    assert repr(query) == f"Query({text!r})" and "\n" not in repr(query)
    builder = fc.seq(schema.A("a")).within("1s").where(schema.A("a").s == "two\nlines")
    assert repr(builder) == """Builder("QUERY query PATTERN SEQ(A a) WHERE a.s = 'two\\nlines' WITHIN 1s")"""


def test_variables() -> None:
    a = SCHEMA.A("a")
    assert [repr(one) for one in (a, a.optional(), a.plus(), a.times(2, 4).consecutive(), a.negated())] == [
        "<A a>", "<A? a>", "<A+ a[]>", "<A{2,4} a[] CONSECUTIVE>", "<NEG A a>",
    ]  # fmt: skip
    elements = a.plus()[i + 1], a.star().last, a.plus()[0]
    assert [repr(one) for one in elements] == ["<a[i+1]>", "<a[last]>", "<a[0]>"]
    assert repr(a.several()) == "<A a[]>" and repr(a.plus().last.price) == "<a[last].price>"
    group = fc.group("g", fc.seq(a, SCHEMA.B("b"))).plus()
    assert repr(group) == "<(SEQ(A a, B b))+ g[]>" and repr(group.last) == "<g[last]>"
    assert repr(group.last.a) == "<g[last].a>" and repr(group.a) == "<A a in g>"
    assert repr(fc.group("g", fc.seq(a)).optional().a) == "<g.a>"


def test_engines() -> None:
    data = {"type": ["A", "B"], "ts": [1, 2], "price": [1.5, None], "items": [None, 1]}
    engine = fc.Engine([QUERY, fc.parse("PATTERN SEQ(A a) WITHIN 1s", SCHEMA, name="r")])
    assert repr(engine) == "Engine('q', 'r': 0 events)"
    assert repr(engine.process(data)) == "Matches(q: 1, r: 1)" and repr(engine) == "Engine('q', 'r': 2 events)"
    engine.remove("q"), engine.remove("r")
    assert repr(engine) == "Engine(no queries: 2 events)"
    with ParallelEngine(QUERY, workers="threads", instances=1) as parallel:
        parallel.process(pa.table(data))
        assert repr(parallel) == "ParallelEngine('q': 2 events)"


def test_models() -> None:
    assert repr(fc.Model("hybrid", QUERY, parts={"t": pa.table({"x": [1]})})) == "Model('hybrid' of query 'q')"


def test_completion() -> None:
    assert {"A", "B", "type_names"} <= set(dir(SCHEMA))
    variable = SCHEMA.A("a")
    assert {"price", "time", "plus"} <= set(dir(variable)) and "items" not in dir(variable)
    assert {"items", "time"} <= set(dir(SCHEMA.B("b").plus().last))
    attributes = {"plus": "int64", "unit price": "int64", "seen": "int64"}
    schema = fc.Schema({"A": attributes, "columns": {}, "B 2": {}}, type="type")
    match = fc.Engine(fc.parse("PATTERN SEQ(A a) WITHIN 1s", schema), attributes=True).send("A", ts=1)[0]
    for shown in (schema, schema.A("a"), schema.A("a").plus()[0], match, match.a):
        names = shown.__dir__()
        assert len(names) == len(set(names)) and all(name.isidentifier() for name in names)
    assert "seen" in dir(schema.A("a")) and "seen" in dir(match.a) and "unit price" not in dir(match.a)
