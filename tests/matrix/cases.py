"""Cases of the matrix: one or two queries, a stream, and a way of running; and their comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from reference.matcher import Event
from strategies.patterns import Draw
from strategies.streams import schemas, streams

from fastcep.query import ast
from matrix.clauses import clauses_of
from matrix.execute import Outcome, execute
from matrix.instances import parallel_outcome
from matrix.queries import Drawn, most, whole_queries, with_joins, with_keys
from matrix.refusals import ONE_QUERY
from matrix.runs import TRIALS, Run, runs
from matrix.slices import sliced_outcome
from matrix.tally import Tally


@dataclass(frozen=True)
class Case:
    """Queries over one schema, a stream, the way of running it, and its division into slices (None: no slices).

    Attributes
    ----------
    runs
        True if the whole stream is run as well.
    """

    drawn: tuple[Drawn, ...]
    events: tuple[Event, ...]
    run: Run
    cut: str | None
    edges: tuple[int, ...]
    wanted: int
    runs: bool = True

    @property
    def queries(self) -> list[ast.Query]:
        return [item.query for item in self.drawn]

    def __repr__(self) -> str:
        from support.harness import describe

        texts = "\n".join(describe(query, self.events) for query in self.queries)
        return f"Case({texts}\n{self.run}, cut {self.cut} at {self.edges} into {self.wanted})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


#: Focus of a case: paths in which a clause has an effect only together with certain others. With the number of cases
#: beside any focus, which is higher where a case takes less time.
FOCUSES = {"stores": 10, "slices": 8, "keys": 6, "state": 5}


@st.composite
def cases(draw: Draw, focus: str | None = None) -> Case:
    """Draw any case, or one with a focus.

    ``stores``: the factorised store, also on trial, and queries that may use it. ``keys``: threads, key groups and
    several engines, and queries that can be divided by a key, or nearly. ``slices``: streams that are divided into
    slices, nothing else. ``state``: snapshots or partial states that are restored after every batch, and partial
    matches in several indexes.
    """
    schema = draw(schemas((3, 4, 5)) if focus == "state" else schemas())
    cuts = ["time", "key", "instances"]
    cut = draw(st.sampled_from(cuts if focus == "slices" else [None, None, None, None, *cuts]))
    several = focus is None and draw(st.sampled_from([False, False, False, True]))
    themes = {"stores": ("stores",), "keys": ("keys", "keys", "keys", "policies", "windows", "operators"),
              "state": ("alternatives", "alternatives", "operators", "joins", "windows")}  # fmt: skip
    add = with_keys if focus == "keys" or (focus == "slices" and cut == "key") else None
    add = with_joins if focus == "state" else add
    names, about = ("q", "r")[: 1 + several], themes.get(focus or "", ())
    drawn = tuple(draw(whole_queries(schema, name, about, add)) for name in names)
    queries = [item.query for item in drawn]
    few = draw(st.sampled_from([False, False, False, True] if focus is None else [True, True, False]))
    events = draw(streams(schema, most(queries), few))
    run = Run() if focus == "slices" else draw(runs(schema, events))
    if focus == "slices" and cut == "instances":
        sizes = draw(st.sampled_from([(1,), (2,), (3, 1), (4, 0, 3)]))
        run = replace(run, sizes=sizes, choices=draw(st.integers(0, 999)))
    elif focus == "stores":
        trial = draw(st.sampled_from([*[None] * len(TRIALS), *TRIALS]))
        store = "factorised" if trial is None else "auto"
        run = replace(run, store=store, trial=trial, index="full", timed_out=False, shedder=None, threads=1)
    elif focus == "keys":
        threads, move = draw(st.sampled_from([(2, "stay"), (3, "stay"), (1, "key groups"), (1, "several engines")]))
        sizes = draw(st.sampled_from([(2,), (3, 1)]))
        run = replace(run, threads=threads, move=move, at_once=True, shedder=None, sizes=sizes)
    elif focus == "state":
        move, sizes = draw(st.sampled_from(["snapshot", "partial states"])), draw(st.sampled_from([(1,), (2,), (3, 1)]))
        run = replace(run, move=move, at_once=True, sizes=sizes)
    if focus in ("stores", "keys", "state"):
        cut = None
    first, last = (events[0].time, events[-1].time) if events else (0, 0)
    latest = last if cut == "time" else last + 2  # a survey finds no time after the last event
    edges = tuple(sorted(draw(st.lists(st.integers(first - 1, latest), max_size=5)))) if cut else ()
    return Case(drawn, tuple(events), run, cut, edges, draw(st.integers(1, 4)) if cut else 1, focus != "slices")


def check(case: Case, tally: Tally, kernels: bool = False) -> Outcome:
    """Run a case, compare it with the reference matcher, and count the combinations in it."""
    outcome = execute(case.queries, case.run, kernels) if case.runs else Outcome(case.run)
    if case.cut == "instances":
        parallel_outcome(case.queries, case.events, case.run.sizes, case.wanted, outcome)
    elif case.cut is not None and len(case.queries) > 1:
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
