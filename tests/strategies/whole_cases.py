"""Cases of one query with any clauses, as the matrix draws them, for tests of what the matrix does not compare."""

from __future__ import annotations

from hypothesis import strategies as st
from matrix.queries import whole_queries

from fastcep.errors import ValidationError
from fastcep.plan import make_plan
from fastcep.query import ast
from strategies.patterns import Draw
from strategies.queries import Case, with_stream
from strategies.streams import schemas


@st.composite
def query_cases(draw: Draw, *themes: str) -> Case:
    """Draw a query with one of these themes (default: any), a stream and batch sizes."""
    schema = draw(schemas())
    case: Case = draw(with_stream(draw(whole_queries(schema, themes=themes)).query))
    return case


def is_planned(query: ast.Query, timed_out: bool = False) -> bool:
    """Return True if the plan knows in time whether the negated events of its groups have come."""
    try:
        make_plan(query, timed_out)
    except ValidationError:
        return False
    return True
