"""Long chains of operations work everywhere; nesting that is too deep raises an error of the library."""

from __future__ import annotations

import copy
import pickle

import pytest

import fastcep as fc
from fastcep.errors import ParseError, ValidationError
from fastcep.query import ast, traversal
from fastcep.query.plain_schema import columns_read

pytestmark = pytest.mark.thorough

SCHEMA = fc.Schema({"A": {"v": "int64", "x": "float64", "s": "string"}, "B": {"v": "int64"}}, time="ts", type="type")
LONG = 10_000
CHAINS = {
    "and": " AND ".join(f"a.v != {number}" for number in range(LONG)),
    "or": " OR ".join(f"a.v = {3 * number}" for number in range(LONG)),
    "or of two variables": " OR ".join(f"a.v = b.v + {3 * number}" for number in range(LONG)),
    "sum": "a.v" + " + b.v - 1" * (LONG // 2) + f" > {LONG}",
    "product": "a.x" + " * 1.0" * LONG + " > 0.5",
}


def query(condition: str) -> str:
    return f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 5s"


@pytest.mark.parametrize("name", CHAINS)
def test_chains_as_text_and_copies(name: str) -> None:
    parsed = fc.parse(query(CHAINS[name]), SCHEMA, name="q")
    again = fc.parse(fc.to_text(parsed), SCHEMA)
    assert again == parsed
    assert hash(again.where) == hash(parsed.where)
    assert pickle.loads(pickle.dumps(parsed)) == parsed
    assert copy.deepcopy(parsed) == parsed
    assert repr(again.where) == repr(parsed.where)
    other = fc.parse(query(f"{CHAINS[name]} AND a.v = -5"), SCHEMA, name="q")
    assert other != parsed


#: A chain, and the values (a.v, b.v) for which it holds if a.x is 1.
HOLDS = {
    "and": lambda a, b: not 0 <= a < LONG,
    "or": lambda a, b: a % 3 == 0 and 0 <= a < 3 * LONG,
    "or of two variables": lambda a, b: (a - b) % 3 == 0 and 0 <= a - b < 3 * LONG,
    "sum": lambda a, b: a + (LONG // 2) * (b - 1) > LONG,
    "product": lambda a, b: True,
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_run(name: str) -> None:
    parsed = fc.parse(query(CHAINS[name]), SCHEMA, name="q")
    engine = fc.Engine(parsed)
    for form in ("text", "json", "mermaid", "dot", "svg"):
        assert engine.explain(form)
    firsts, seconds = [-1, 0, 7, 9, LONG, 3 * LONG], [0, 3, 4]
    values = [*firsts, *seconds]
    events = {
        "type": ["A"] * len(firsts) + ["B"] * len(seconds), "v": values, "x": [1.0] * len(values),
        "s": [None] * len(values), "ts": list(range(len(values))),
    }  # fmt: skip
    restored = fc.Engine.restore(engine.snapshot(), parsed)
    for each in (engine, restored):
        rows = each.process(events).to_arrow().select(["a", "b"]).to_pylist()
        pairs = sorted((values[row["a"]], values[row["b"]]) for row in rows)
        assert pairs == sorted((a, b) for a in firsts for b in seconds if HOLDS[name](a, b))


def test_a_condition_of_thousands_of_operations_stays_with_the_interpreter(kernels: object) -> None:
    engine = fc.Engine(fc.parse(query(CHAINS["or"]), SCHEMA))
    state = engine.metrics()["kernels"]
    assert state["failed"] > 0
    assert "operations, more than 300" in state["reason"]


def test_null_in_a_long_chain() -> None:
    """NULL OR TRUE is true and NULL OR FALSE is no match, also with NOT."""
    some = " OR ".join(f"a.v = {number}" for number in range(LONG))
    for condition, expected in ((f"a.x > 0 OR {some}", [0]), (f"NOT (a.x > 0 OR {some})", [])):
        engine = fc.Engine(fc.parse(f"PATTERN SEQ(A a) WHERE {condition} WITHIN 5s", SCHEMA))
        events = {"type": ["A"] * 3, "v": [5, -1, None], "x": [None, None, -1.0], "s": [None] * 3, "ts": [1, 2, 3]}
        assert engine.process(events).to_arrow()["a"].to_pylist() == expected


DEEP = 20_000
NESTED = {
    "parentheses": "(" * DEEP + "a.v = 1" + ")" * DEEP,
    "NOT": "NOT " * DEEP + "a.v = 1",
    "minus": "-(" * DEEP + "a.v" + ")" * DEEP + " = 1",
    "functions": "abs(" * DEEP + "a.v" + ")" * DEEP + " = 1",
    "right operands": "a.v = 1 OR (" * DEEP + "a.v = 1" + ")" * DEEP,
    "powers": "2" + " ^ 1" * DEEP + " = a.x",
}


@pytest.mark.parametrize("name", NESTED)
def test_too_deep_an_expression(name: str) -> None:
    with pytest.raises(ParseError, match="expression is nested deeper than 100 levels") as caught:
        fc.parse(query(NESTED[name]), SCHEMA)
    assert caught.value.line == 1
    assert caught.value.column is not None and caught.value.column > len("PATTERN SEQ(A a, B b) WHERE ")
    assert len(str(caught.value)) < 500


def test_too_deep_a_pattern() -> None:
    pattern = "SEQ(A a, " * DEEP + "B b" + ")" * DEEP
    with pytest.raises(ParseError, match="pattern is nested deeper than 100 levels"):
        fc.parse(f"PATTERN {pattern} WITHIN 5s", SCHEMA)


def test_too_deep_in_a_document() -> None:
    text = f"EVENT A (v int64) QUERY q PATTERN SEQ(A a) WHERE {NESTED['NOT']} WITHIN 1s"
    with pytest.raises(ParseError, match="expression is nested deeper than 100 levels"):
        fc.parse_document(text)


def test_levels_that_are_allowed() -> None:
    n = 90
    for condition in ("(" * n + "a.v = 1" + ")" * n, "NOT " * n + "a.v = 1", "abs(" * n + "a.v" + ")" * n + " = 1"):
        parsed = fc.parse(query(condition), SCHEMA, name="q")
        assert fc.parse(fc.to_text(parsed), SCHEMA) == parsed
        fc.Engine(parsed).explain()


def test_deep_trees_of_the_builder() -> None:
    long: ast.Expr = ast.Literal(True)
    deep: ast.Expr = ast.Literal(True)
    for _ in range(LONG):
        long = ast.Binary("OR", long, ast.Literal(False))
        deep = ast.Unary("NOT", deep)
    assert traversal.nesting(long) == 2
    assert traversal.nesting(deep) == LONG + 1


def test_the_longest_patterns() -> None:
    chain = ", ".join(f"{'AB'[number % 2]} v{number}" for number in range(64))
    parts = ", ".join(f"A p{number}" for number in range(10))
    null: list[None] = [None] * 64
    events = {"type": [*"AB"] * 32, "v": null, "x": null, "s": null, "ts": list(range(64))}
    for pattern, expected in ((f"SEQ({chain})", 1), (f"AND({parts})", 0), (f"OR({chain})", 64 * 32)):
        parsed = fc.parse(f"PATTERN {pattern} WITHIN 1s STRATEGY strict_contiguity", SCHEMA, name="q")
        assert fc.parse(fc.to_text(parsed), SCHEMA) == parsed
        engine = fc.Engine(parsed)
        assert engine.explain()
        assert fc.Engine.restore(engine.snapshot(), parsed).process(events).to_arrow().num_rows == expected


def test_texts_are_cut_in_errors() -> None:
    name = "x" * 5_000
    for condition in (f"a.{name} = 1", f"a.v = '{name}'", f"a.v = '{'word ' * 1000}'", f"{name}.v = 1"):
        with pytest.raises(ParseError) as caught:
            fc.parse(query(condition), SCHEMA)
        assert len(str(caught.value)) < 1_000, str(caught.value)
        assert "^" in str(caught.value)
    message = str(ValidationError(f"found {'y' * 5_000!r}, and {'some words ' * 500!r}, the query's name"))
    assert message.startswith("found '" + "y" * 79 + "… (5,002 characters), and 'some words")
    assert "… (5,502 characters), the query's name" in message
    path = "/" + "folder/" * 40
    assert path in str(ValidationError(f"{path}: no such file"))


def test_the_columns_that_it_reads() -> None:
    schema = fc.Schema({"A": {"x": "int64", "y": "int64"}}, time="ts")
    where = " OR ".join(f"a.x < b.x - {number}" for number in range(5_000))
    query = fc.parse(f"PATTERN SEQ(A a, A b) WHERE {where} WITHIN 9ns", schema)
    assert columns_read(query) == {schema.column_of("A", "x")}
