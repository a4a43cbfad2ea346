"""Every operator in every other: the engine agrees with the reference matcher, and invalid pairs are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import queries as strategies
from strategies.patterns import INNER, OUTER, refusal
from support import harness
from support.doc_tables import operators as operator_table

from fastcep.errors import ParseError
from fastcep.events import Schema
from fastcep.query import parse

PAIRS = [(outer, inner) for outer in OUTER for inner in INNER]
ALLOWED = [pair for pair in PAIRS if refusal(*pair) is None]
REFUSED = [pair for pair in PAIRS if refusal(*pair) is not None]
SCHEMA = Schema({name: {"k": "int64"} for name in "ABCD"}, time="ts", type="type")
few = settings(max_examples=max(1, settings().max_examples // 20))


@pytest.mark.parametrize(("outer", "inner"), ALLOWED)
@few
@given(st.data())
def test_pair(outer: str, inner: str, data: st.DataObject) -> None:
    """In order, for any batch boundaries: all decided matches are reported after each batch."""
    case = data.draw(strategies.operator_cases(outer, inner), "case")
    harness.assert_in_time(case.query, case.events, case.batch_sizes)


@pytest.mark.parametrize(("outer", "inner"), ALLOWED)
def test_example_of_an_allowed_pair(outer: str, inner: str) -> None:
    parse(operator_table.example(outer, inner), SCHEMA)


@pytest.mark.parametrize(("outer", "inner"), REFUSED)
def test_refused_pair(outer: str, inner: str) -> None:
    """The error names the operator that does not fit."""
    with pytest.raises(ParseError) as caught:
        parse(operator_table.example(outer, inner), SCHEMA)
    words = operator_table.ERRORS[refusal(outer, inner) or ""]
    assert any(word in str(caught.value) for word in words), str(caught.value)


def test_the_page_has_the_table() -> None:
    assert Path(operator_table.PAGE).read_text(encoding="utf-8") == operator_table.page()
