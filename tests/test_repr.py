"""How public objects are shown at a prompt, and what they list for completion."""

from __future__ import annotations

import pyarrow as pa

import fastcep as fc
from fastcep.parallel import ParallelEngine

SCHEMA = fc.Schema({"A": {"price": "float64"}, "B": {"items": "int64"}}, type="type")
TEXT = "QUERY q\nPATTERN SEQ(A a, NEG B n, B b)\nWHERE a.price > 1.0\nWITHIN 1s"
QUERY = fc.parse(TEXT, SCHEMA)


def test_queries() -> None:
    assert repr(QUERY) == "Query('QUERY q PATTERN SEQ(A a, NEG B n, B b) WHERE a.price > 1.0 WITHIN 1s')"
    builder = fc.seq(SCHEMA.A("a"), SCHEMA.B("b"))
    assert repr(builder) == "Builder('QUERY query PATTERN SEQ(A a, B b) …')"
    assert repr(builder.within("1s")) == "Builder('QUERY query PATTERN SEQ(A a, B b) WITHIN 1s')"


def test_engines() -> None:
    data = {"type": ["A", "B"], "ts": [1, 2], "price": [1.5, None], "items": [None, 1]}
    engine = fc.Engine([QUERY, fc.parse("PATTERN SEQ(A a) WITHIN 1s", SCHEMA, name="r")])
    assert repr(engine) == "Engine('q', 'r': 0 events)"
    assert repr(engine.process(data)) == "Matches(q: 1, r: 1)" and repr(engine) == "Engine('q', 'r': 2 events)"
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
