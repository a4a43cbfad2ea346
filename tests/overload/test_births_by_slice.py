"""Refused births by slice of the window, and partial matches dropped by age, checked match by match."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from reference.attribution import slice_of
from support.shedding.drop_plans import SCHEMA, Quiet, controlled, drawn, made, stream
from support.shedding.shed_runs import found

import fastcep as fc
from fastcep.plan import Plan
from fastcep.query.patterns import pattern_variables
from fastcep.shedding import Classes, DropPlan

TEXTS = {
    "keys": "SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID",
    "predicates": "SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.V <= b.V AND b.V + a.V >= c.V",
    "neither": "SEQ(A a, B b, C c)",
    "several indexes": "SEQ(A a, B+ b[], C c) WHERE a.ID = b[i].ID AND c.V = a.V",
    "Kleene at the end": "SEQ(A a, B+ b[]) WHERE a.ID = b[i].ID",
    "two types": "SEQ(A a, (A|B) b, (B|C) c, C d) WHERE a.ID = b.ID AND b.V = c.V",
}
WINDOWS = ("120ns", "12 EVENTS", "1 EVENTS", "0ns")


def parsed(text: str, window: str) -> fc.Query:
    return fc.parse(f"PATTERN {text} WITHIN {window}", SCHEMA, name="q1")


def states_of(plan: Plan, variables: list[int]) -> list[int]:
    """Return the states of the partial matches of a match, by the variables that it binds in turn."""
    state, found = -1, []
    for variable in variables:
        targets = {edge.target for edge in plan.edges if (edge.source, edge.variable) == (state, variable)}
        (state,) = targets
        found.append(state)
    return found


class Rule:
    """Predicts the matches found, from probabilities by state, class and slice that never decrease with the slice."""

    def __init__(self, engine: fc.Engine, events: pa.Table, seed: int, of_v: bool = False) -> None:
        self.plan, self.seed, self.of_v = controlled(engine).plan, seed, of_v
        self.times, self.values = events["ts"].to_numpy(), events["V"].to_numpy()

    def finds(self, match: tuple[Any, ...], table_at: Any) -> bool:
        cells = [cell if isinstance(cell, tuple) else (cell,) for cell in match[1:]]
        bound = sorted((at, variable) for variable, cell in enumerate(cells) for at in cell)
        events, states = [at for at, _ in bound], states_of(self.plan, [variable for _, variable in bound])
        pairs = zip(events, events[1:], states, strict=False)
        return all(self.is_extended(events[0], last, then, state, table_at(then)) for last, then, state in pairs)

    def is_extended(self, first: int, last: int, then: int, state: int, table: Any) -> bool:
        """Return whether a partial match of a state survives until an event extends it."""
        number = int(self.values[last]) if self.of_v else 0
        slices = table.shape[2]
        at = slice_of(self.plan.query.window, self.times, first, then, slices)
        return bool(drawn(self.seed, first, last) >= table[state, number, at])


def in_batches(engine: fc.Engine, events: pa.Table, size: int, shedder: Any, cut: int | None = None) -> Any:
    """Return the matches and the engine, which is restored from a snapshot before batch number ``cut``."""
    rows: list[Any] = []
    for number, at in enumerate(range(0, len(events), size)):
        if number == cut:
            engine = fc.Engine.restore(engine.snapshot(), shedder=shedder)
        rows += found(engine.process(events.slice(at, size)))
        own = controlled(engine)
        assert own.shedding.count_rows(3).sum() == own.matcher.live - own.matcher.waiting
    return rows, engine


@st.composite
def tables(draw: Any, states: int, classes: int) -> Any:
    """Draw drop probabilities that grow with the slice."""
    slices = draw(st.integers(1, 4))
    probabilities = st.sampled_from([0.0, 0.0, 0.25, 0.6, 1.0])
    drawn_ = [draw(probabilities) for _ in range(states * classes * slices)]
    return np.sort(np.array(drawn_).reshape(states, classes, slices), axis=2)


@given(
    st.data(), st.sampled_from(sorted(TEXTS)), st.sampled_from(WINDOWS), st.sampled_from(["full", "key"]),
    st.booleans(), st.integers(0, 9), st.sampled_from([1, 7, 60]), st.integers(0, 8),
)  # fmt: skip
def test_exactly_the_matches_that_the_chances_leave(
    data: st.DataObject, text: str, window: str, index: str, of_v: bool, seed: int, size: int, cut: int
) -> None:
    """A match is found if none of its partial matches is dropped at birth or in the slice in which it is extended."""
    own, events = parsed(TEXTS[text], window), stream(60, seed)
    names = [variable.name for variable in pattern_variables(own.pattern)]
    last = {name: f"{name}[last].V" if "+ b[]" in TEXTS[text] and name == "b" else f"{name}.V" for name in names}
    classes = {name: Classes((last[name],), (0,), np.arange(3, dtype=np.uint8)) for name in names if of_v}
    truth = found(made(own, Quiet(), index=index).process(events))

    def shedder() -> Quiet:
        return Quiet(classes, seed=seed)

    engine = made(own, shedder(), index=index)
    plan = controlled(engine).plan
    table = data.draw(tables(len(plan.states), controlled(engine).shedding.stride))
    controlled(engine).apply(DropPlan(births=table), 0)
    rule = Rule(engine, events, seed, of_v)
    rows, engine = in_batches(engine, events, size, shedder(), cut)
    left = [match for match in truth if rule.finds(match, lambda at: table)]
    event(f"{len(left) > 0}, {len(left) < len(truth)}")
    assert rows == left
    for name in ("refused", "dropped"):
        assert controlled(engine).shedding.counted()[name].sum() >= 0


@pytest.mark.thorough
@pytest.mark.parametrize("text", sorted(TEXTS))
@pytest.mark.parametrize("window", ["160ns", "16 EVENTS"])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_those_of_an_age_fall(text: str, window: str, cut: int) -> None:
    """With probability 1 from a slice on, exactly the matches that do not wait so long are found."""
    own, events = parsed(TEXTS[text], window), stream(1_000, 5)
    engine = made(own, Quiet())
    rule, states = Rule(engine, events, 0), len(controlled(engine).plan.states)
    truth = found(made(own, Quiet()).process(events))
    table = np.zeros((states, 1, 4))
    table[:, :, cut:] = 1
    controlled(engine).apply(DropPlan(births=table), 0)
    rows = found(engine.process(events))
    assert rows == [match for match in truth if rule.finds(match, lambda at: table)]
    assert 0 < len(rows) < len(truth)
    counted = controlled(engine).shedding.counted()
    assert counted["dropped"].sum() > 0
    assert engine.metrics()["rows_visited"] < made_of(own, events)["rows_visited"]


def made_of(own: fc.Query, events: pa.Table) -> Any:
    engine = made(own, Quiet())
    engine.process(events)
    return engine.metrics()


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 60, 400])
@pytest.mark.parametrize("index", ["full", "key"])
@pytest.mark.parametrize("close", ["320ns", "30 EVENTS"])
def test_explicit_windows_that_are_isolated(close: str, index: str, size: int) -> None:
    """In each window, partial matches are dropped by the age of the window."""
    text, events = f"PATTERN {TEXTS['keys']} WINDOW OPEN ON D o CLOSE AFTER {close}", stream(400, 5)
    own, shedder = fc.parse(text, SCHEMA, name="q1"), Quiet(seed=2)
    shedder.in_windows = True
    engine = made(own, shedder, index=index)
    plan = controlled(engine).plan
    assert plan.windows is not None and plan.windows.isolated
    table = np.sort(np.random.default_rng(3).choice([0.0, 0.3, 0.7, 1.0], (len(plan.states), 1, 3)), axis=2)
    table[:, :, 0] = 0
    controlled(engine).apply(DropPlan(births=table), 0)
    rows: list[Any] = []
    for at in range(0, len(events), size):
        rows += found(engine.process(events.slice(at, size)))
    times = events["ts"].to_numpy()
    truth = found(made(own, Quiet(), index=index).process(events))

    def is_extended(window: int, first: int, last: int, then: int, state: int) -> bool:
        span = int(close.split()[0].removesuffix("ns"))
        age = times[then] - times[window] if "ns" in close else then - window  # named by the event that opens it
        return bool(drawn(2, first, last) >= table[state, 0, min(2, age * 3 // span)])

    states = states_of(plan, [0, 1, 2])
    left = [
        (window, a, b, c) for window, a, b, c in truth
        if is_extended(window, a, a, b, states[0]) and is_extended(window, a, b, c, states[1])
    ]  # fmt: skip
    assert sorted(rows) == sorted(left) and 0 < len(left) < len(truth)


def test_a_fall_is_counted_once_and_paid_for_once() -> None:
    """Two of three A are in the second half of the window at B: they are dropped without a visit and do not return."""
    own = parsed("SEQ(A a, B b)", "100ns")
    events = pa.table({
        "type": ["A", "A", "A", "B", "B"], "ID": [0] * 5, "V": [0] * 5, "x": [0.0] * 5, "ts": [0, 10, 50, 60, 61],
    })  # fmt: skip
    table = fc.CostTable("falls", visited=1, purged=100)
    engine = made(own, Quiet(), cost_table=table)
    controlled(engine).apply(DropPlan(births=np.array([[[0.0, 1.0]]] * len(controlled(engine).plan.states))), 0)
    visits, rows, costs = [], [], []
    engine.listen(lambda processing, _: costs.extend(processing.tolist()))
    for at in range(5):
        rows += found(engine.process(events.slice(at, 1)))
        visits.append(engine.metrics()["rows_visited"])
    assert rows == [(None, 2, 3), (None, 2, 4)]
    assert visits == [0, 0, 0, 1, 2] and costs == [0, 0, 0, 201, 1]
    assert controlled(engine).shedding.totals == (0, 0, 2, 0)
    assert controlled(engine).shedding.counted()["dropped"].sum() == 2
    assert engine.metrics()["live_partial_matches"] == 1


@pytest.mark.sample(6)
@pytest.mark.parametrize("text", sorted(TEXTS))
@pytest.mark.parametrize(("low", "high"), [(0.0, 0.4), (0.3, 0.7), (0.5, 1.0)])
def test_steady_drops_are_of_those_whose_birth_would_be_refused(text: str, low: float, high: float) -> None:
    own, events, half = parsed(TEXTS[text], "200ns"), stream(400, 6), 200
    truth = found(made(own, Quiet()).process(events))
    engine = made(own, Quiet(seed=3))
    rule, states = Rule(engine, events, 3), len(controlled(engine).plan.states)
    before, after = (np.full((states, 1, 1), probability) for probability in (low, high))
    controlled(engine).apply(DropPlan(births=before), 0)
    rows = found(engine.process(events.slice(0, half)))
    stay = engine.metrics()["live_partial_matches"]
    controlled(engine).apply(DropPlan(births=after, drops=after, steady=True), 17)
    left = engine.metrics()["live_partial_matches"]
    assert left < stay and left == pytest.approx(stay * (1 - high) / (1 - low), abs=3 * np.sqrt(stay) + 1)
    controlled(engine).apply(DropPlan(births=after, drops=after, steady=True), 18)
    assert engine.metrics()["live_partial_matches"] == left  # all that would be dropped are gone
    rows += found(engine.process(events.slice(half)))
    assert rows == [match for match in truth if rule.finds(match, lambda at: before if at < half else after)]


def test_drops_that_are_not_steady_are_drawn_anew() -> None:
    own, events = parsed(TEXTS["keys"], "2us"), stream(400, 6)
    engine = made(own, Quiet(seed=3))
    probabilities = np.full((len(controlled(engine).plan.states), 1, 1), 0.3)
    controlled(engine).apply(DropPlan(births=probabilities), 0)
    engine.process(events)
    counts = [engine.metrics()["live_partial_matches"]]
    for salt in (5, 5, 6):
        controlled(engine).apply(DropPlan(births=probabilities, drops=probabilities), salt)
        counts.append(engine.metrics()["live_partial_matches"])
    assert counts[1] == pytest.approx(0.7 * counts[0], rel=0.1)
    assert counts[2] == counts[1] and counts[3] == pytest.approx(0.7 * counts[2], rel=0.1)


def test_slices_may_be_as_many_as_there_is_room_for() -> None:
    engine = made(parsed(TEXTS["keys"], "2us"), Quiet())
    states = len(controlled(engine).plan.states)
    controlled(engine).apply(DropPlan(births=np.zeros((states, 1, 64))), 0)
    with pytest.raises(ValueError, match="65 slices of a window, expected 1 to 64"):
        controlled(engine).apply(DropPlan(births=np.zeros((states, 1, 65))), 0)
