"""Cases of the matrix: one or two queries, a stream, and a way of running; and how they are judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from naive import Event
from pattern_strategies import Draw
from stream_strategies import schemas, streams

from fastcep.query import ast
from matrix.clauses import clauses_of
from matrix.execute import Outcome, execute
from matrix.queries import Drawn, most, whole_queries
from matrix.refusals import ONE_QUERY
from matrix.runs import Run, runs
from matrix.slices import sliced_outcome
from matrix.tally import Tally


@dataclass(frozen=True)
class Case:
    """Queries over one schema, a stream, how it is run, and how it is cut into slices (None: it is not)."""

    drawn: tuple[Drawn, ...]
    events: tuple[Event, ...]
    run: Run
    cut: str | None
    edges: tuple[int, ...]
    wanted: int

    @property
    def queries(self) -> list[ast.Query]:
        return [item.query for item in self.drawn]

    def __repr__(self) -> str:
        from harness import describe

        texts = "\n".join(describe(query, self.events) for query in self.queries)
        return f"Case({texts}\n{self.run}, cut {self.cut} at {self.edges} into {self.wanted})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@st.composite
def cases(draw: Draw) -> Case:
    """Any case."""
    schema = draw(schemas())
    names = ["q", "r"] if draw(st.sampled_from([False, False, False, True])) else ["q"]
    drawn = tuple(draw(whole_queries(schema, name)) for name in names)
    queries = [item.query for item in drawn]
    events = draw(streams(schema, most(queries)))
    run = draw(runs(schema, events))
    cut = draw(st.sampled_from([None, None, None, "time", "key"]))
    first, last = (events[0].time, events[-1].time) if events else (0, 0)
    latest = last if cut == "time" else last + 2  # a survey finds no time after the last event
    edges = tuple(sorted(draw(st.lists(st.integers(first - 1, latest), max_size=5)))) if cut else ()
    return Case(drawn, tuple(events), run, cut, edges, draw(st.integers(1, 4)) if cut else 1)


def check(case: Case, tally: Tally, kernels: bool = False) -> Outcome:
    """Run a case, compare with the reference matcher, and count what was drawn together."""
    outcome = execute(case.queries, case.run, kernels)
    if case.cut is not None and len(case.queries) > 1:
        outcome.refused.append(ONE_QUERY)
    elif case.cut is not None:
        sliced_outcome(case.queries[0], case.events, case.cut, case.edges, case.wanted, outcome)
    tally.matches += outcome.matches
    for item in case.drawn:
        clauses = clauses_of(item.query, case.events, several=len(case.drawn) > 1)
        trial = outcome.trials.get(item.query.name)
        tally.note(clauses, outcome.paths if trial is None else {*outcome.paths, trial})
        for query, refusal in item.refused:
            tally.refuse(clauses_of(query, case.events), refusal)
        for refusal in outcome.refused:
            tally.refuse(clauses | outcome.paths, refusal)
    return outcome
