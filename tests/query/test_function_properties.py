"""The engine equals the reference matcher on random queries that call user-defined functions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from reference.user_functions import own_registry, sample
from strategies import queries as strategies
from strategies.patterns import Draw, patterns
from strategies.queries import Case, Expressions
from support import harness

from fastcep.query import ast, parse, to_text
from fastcep.query.patterns import pattern_variables
from fastcep.query.user_functions.registry import Function


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[dict[str, Function]]:
    with own_registry():
        yield sample()


class Calls(Expressions):
    """Draws expressions in which any number can be a call."""

    def number(self, depth: int) -> ast.Expr:
        """Draw a numeric expression, usually a call."""
        if depth <= 0 or self.pick(False, True):
            return super().number(depth)
        kind = self.pick("distance", "ratio", "cell")
        if kind == "cell":
            size = self.reference("int64") if self.pick(True, False) else ast.Literal(self.pick(2, 1, 0, 3))
            return self.own("cell", self.number(depth - 1), size or ast.Literal(1))
        other = self.number(depth - 1) if self.pick(True, False) else self.constant()
        return self.own(kind, self.number(depth - 1), other)

    def own(self, name: str, *arguments: ast.Expr) -> ast.Expr:
        """Draw a call of a registered function."""
        return ast.UserCall(sample()[name].signature, arguments)

    def condition(self, depth: int = 2) -> ast.Expr:
        """Draw a condition with a call."""
        kind = self.pick("compare", "key", "odd", "or", "not")
        if kind == "key":
            left, right = self.two("k")
            size = ast.Literal(self.pick(1, 2))
            return ast.Binary("=", self.own("cell", left, size), self.own("cell", right, size))
        if kind == "odd":
            flag = self.reference("bool") or ast.Literal(True)
            return self.own("odd", self.reference("int64") or ast.Literal(1), flag)
        if kind == "or" and depth > 0:
            return ast.Binary("OR", self.condition(depth - 1), super().condition(0))
        if kind == "not" and depth > 0:
            return ast.Unary("NOT", self.condition(depth - 1))
        return ast.Binary(self.pick(*strategies.COMPARISONS), self.number(2), self.number(1))


@st.composite
def cases(draw: Draw) -> Case:
    """Draw a query with calls in WHERE and RETURN, a stream and its batches."""
    schema = draw(strategies.schemas())
    pattern = draw(patterns(schema))
    make = Calls(draw, schema, pattern_variables(pattern))
    where: ast.Expr = make.condition()
    for _ in range(make.pick(0, 1)):
        where = ast.Binary("AND", where, make.condition(1))
    plain = Calls(draw, schema, pattern_variables(pattern), relative=False)
    items = tuple(ast.ReturnItem(plain.number(2), f"r{number}") for number in range(make.pick(0, 1, 2)))
    query = ast.Query("query", pattern, draw(strategies.windows()), where, (), items, schema=schema)
    return draw(strategies.with_stream(query))


@given(cases())
def test_engine_equals_reference(case: Case) -> None:
    for sizes in (None, case.batch_sizes):
        rows = harness.rows(case.query, None, case.events, sizes)
        event(f"matches: {'some' if rows else 'none'}")
        harness.assert_same(case.query, case.events, rows, f"batches of {sizes}")


@given(cases())
def test_text_reads_back(case: Case) -> None:
    assert to_text(parse(case.text, case.query.schema)) == case.text
