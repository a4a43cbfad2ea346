"""Any query, run in any way, gives the results of the reference matcher: matches, order, times, RETURN, late rows."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator

import pytest
from hypothesis import event, given, settings
from matrix.cases import FOCUSES, Case, cases, check
from matrix.clauses import CLAUSES, WINDOWS
from matrix.draws import independent
from matrix.page import PAGE
from matrix.refusals import NEVER, refusal_of
from matrix.runs import PATHS, Run
from matrix.tally import Tally

import fastcep as fc
from fastcep.errors import ParseError
from fastcep.query import ast

EXAMPLES = settings().max_examples


@pytest.mark.thorough
@pytest.mark.property
@pytest.mark.parametrize(("focus", "times"), FOCUSES.items())
def test_focus(focus: str, times: int) -> None:
    @independent(times * EXAMPLES)
    @given(cases(focus))
    def agree(case: Case) -> None:
        check(case, Tally())

    agree()


@independent(6 * EXAMPLES)
@given(cases())
def test_bytecode(case: Case) -> None:
    outcome = check(case, Tally())
    event(f"matches: {'none' if not outcome.matches else '1 to 9' if outcome.matches < 10 else '10 or more'}")


@pytest.mark.property
@pytest.mark.usefixtures("kernels")
def test_kernels() -> None:
    @independent(EXAMPLES // 10)
    @given(cases())
    def agree(case: Case) -> None:
        check(case, Tally(), kernels=True)

    agree()


# ------------------------------------------------------- what the matrix must know


def test_every_clause_of_a_query_is_drawn() -> None:
    """A new field of a query, pattern, window or expression needs a row, or a reason here."""
    drawn = {"pattern", "window", "where", "partition", "returns", "strategy", "select", "consume", "limit",
             "after_match", "skip_to", "weight"}  # fmt: skip
    no_clause = {"span", "name", "schema", "text"}
    assert {field.name for field in dataclasses.fields(ast.Query)} == drawn | no_clause
    assert subclasses(ast.Pattern) == {
        "Variable", "Negation", "Sequence", "Conjunction", "Disjunction", "AnyOf", "Group", "Until",
        "Aperiodic", "Periodic",
    }  # fmt: skip
    assert subclasses(ast.Window) == {"TimeWindow", "CountWindow", "Unbounded", "ExplicitWindow"}
    assert {*ast.STRATEGIES, *(f"SELECT {name}" for name in ast.SELECTIONS)} <= set(CLAUSES)
    assert ast.CONSUMPTIONS == ("zero", "consumed")
    assert {name.upper() for name in ast.AFTER_MATCH[1:]} <= set(CLAUSES)
    assert set(WINDOWS) <= set(CLAUSES)


@pytest.mark.parametrize(
    ("pattern", "clauses"),
    [("SEQ(NEG A n, PERIODIC(A a, 2ns, B b))", "WITHIN 9ns"), ("SEQ(PERIODIC(A a, 2ns, B b), NEG A n)", "WITHIN 9ns"),
     ("PERIODIC(SEQ(NEG A n, A a), 2ns, B b)", "WITHIN 9ns"), ("PERIODIC(SEQ(A a, NEG A n), 2ns, B b)", "WITHIN 9ns"),
     ("PERIODIC(SEQ(A a, NEG A n FOR 2ns), 2ns, B b)", "WITHIN 9ns"),
     ("PERIODIC(A a, 2ns, B b)", "WINDOW OPEN ON A w CLOSE AFTER 9ns LIMIT 1 PER WINDOW")],
)  # fmt: skip
def test_what_is_never_drawn_is_refused(pattern: str, clauses: str) -> None:
    with pytest.raises(ParseError) as caught:
        fc.parse(f"PATTERN {pattern} {clauses}", fc.Schema({"A": {"k": "int64"}, "B": {"k": "int64"}}, type="type"))
    assert refusal_of(str(caught.value), NEVER) is not None


def test_every_option_of_an_engine_is_drawn() -> None:
    """A new option needs a column, or a reason here."""
    drawn = {"store", "index", "threads", "timed_out", "attributes", "memory_limit", "allowed_lateness", "shedder",
             "clock", "latency_bound"}  # fmt: skip
    limits = {"late_limit", "timed_out_limit", "on_memory_limit"}  # other tests check the behaviour beyond these limits
    measuring = {"idle_timeout", "detector", "cost_table", "model"}  # no effect where nothing is idle or shed
    assert set(inspect.signature(fc.Engine).parameters) == {"queries", *drawn, *limits, *measuring}
    assert {field.name for field in dataclasses.fields(Run)} >= drawn - {"allowed_lateness", "clock", "latency_bound"}


def test_the_page_has_every_row_and_column() -> None:
    """After a change: ``PYTHONPATH=.:tests python -m matrix --write``."""
    paths, clauses = re.findall(r"^\| \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert cells(paths) == list(PATHS)
    assert cells(clauses) == list(CLAUSES)


def cells(row: str) -> list[str]:
    return [cell.strip("`").replace("\\|", "|") for cell in re.split(r" \| ", row)]


def subclasses(base: type) -> set[str]:
    def below(kind: type) -> Iterator[type]:
        for own in kind.__subclasses__():
            yield own
            yield from below(own)

    return {kind.__name__ for kind in below(base)}
