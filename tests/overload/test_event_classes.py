"""Events that are not tried for a variable, by event class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.shedding.chaos import Always
from support.shedding.shed_runs import Q1, SCHEMA, engine, found, query

import fastcep as fc
from fastcep.datasets import ds1, ds2
from fastcep.query import ast
from fastcep.shedding import Classes, Detector, DropPlan, QueryView, Shedder

TENS = np.arange(10, dtype=np.uint8)
OF_V = {name: Classes((f"{name}.V",), (1,), TENS, 10) for name in "abc"}


class Withholds(Shedder):
    """Withholds events with given probabilities, by variable and class, and drops events of all types with another."""

    name = "withholds"

    def __init__(
        self, classes: Mapping[str, Classes], probabilities: Mapping[str, Sequence[float]], seed: int = 0,
        dropped: float = 0.0,
    ) -> None:  # fmt: skip
        self._classes, self._probabilities, self.seed, self._dropped = classes, probabilities, seed, dropped

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes]:
        return self._classes

    def detector(self, of: str) -> Detector:
        return Always()

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        plans = []
        for view in views:
            binds = np.zeros((len(view.plan.negated), view.event_classes))
            for variable, name in enumerate(found_names(view)):
                own = self._probabilities.get(name, ())
                binds[variable, : len(own)] = own
            plans.append(DropPlan(binds=binds, events=np.full(len(view.plan.type_variables), self._dropped)))
        return plans

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "seed": self.seed}


def found_names(view: QueryView) -> list[str]:
    from fastcep.query.patterns import pattern_variables

    return [variable.name for variable in pattern_variables(view.plan.query.pattern)]


def warm(live: fc.Engine, events: pa.Table) -> list[Any]:
    """Return the matches after the first decision, which is made after 32 events."""
    return found(live.process(events))


def without(events: pa.Table, type_: str, values: set[int], first: int = 32) -> pa.Table:
    """Return the events without those of a type with some values, from the first decision on."""
    kinds, own = events["type"].to_pylist(), events["V"].to_pylist()
    keep = [k < first or kind != type_ or v not in values for k, (kind, v) in enumerate(zip(kinds, own, strict=True))]
    return events.filter(pa.array(keep))


def values_of(events: pa.Table, rows: Sequence[Any]) -> list[Any]:
    times = events["ts"].to_pylist()
    return [tuple(times[position] for position in row if position is not None) for row in rows]


@pytest.mark.thorough
@pytest.mark.parametrize(("index", "store"), [("key", "rows"), ("full", "rows"), ("full", "factorised")])
@pytest.mark.parametrize(("variable", "kind"), [("a", "A"), ("b", "B"), ("c", "C")])
def test_a_class_that_is_withheld_is_as_if_it_had_not_come(variable: str, kind: str, index: str, store: str) -> None:
    events = ds1(events=3_000, seed=8)
    probabilities = {variable: [float(v in (3, 7)) for v in range(1, 11)]}
    live = engine(query(), Withholds(OF_V, probabilities), index=index, store=store)
    rows = warm(live, events)
    left = without(events, kind, {3, 7})
    plain = engine(query(), index=index, store=store)
    assert values_of(events, rows) == values_of(left, found(plain.process(left)))
    told = live.metrics()["shedding"]
    assert told["dropped_events"] == len(events) - len(left) == sum(told["queries"]["q1"]["withheld"][variable])
    assert [n > 0 for n in told["queries"]["q1"]["withheld"][variable]] == [v in (3, 7) for v in range(1, 12)]


def test_an_event_may_be_kept_for_another_variable() -> None:
    """Events A that are not tried as the first of a match can still be the second."""
    text = "PATTERN SEQ(A a, A b) WHERE a.ID = b.ID WITHIN 200us"
    events, own = ds1(events=3_000, seed=8), query(text)
    shedder = Withholds({"a": OF_V["a"]}, {"a": [1.0] * 5})
    rows = warm(engine(own, shedder), events)
    truth = found(engine(own).process(events))
    kinds = events["V"].to_pylist()
    assert rows == [row for row in truth if kinds[row[1]] > 5 or row[1] < 32]


def test_chances_are_drawn_by_position() -> None:
    """Two variables with the same probability drop the same events."""
    text = "PATTERN SEQ(A a, A b) WHERE a.ID = b.ID WITHIN 200us"
    events, own = ds1(events=3_000, seed=8), query(text)
    both = engine(own, Withholds({}, {"a": [0.4], "b": [0.4]}, 3))
    rows = warm(both, events)
    told = both.metrics()["shedding"]
    assert told["dropped_events"] == pytest.approx(0.4 * 750, rel=0.15)
    batches = engine(own, Withholds({}, {"a": [0.4], "b": [0.4]}, 3))
    parts = [found(batches.process(events.slice(k, 7))) for k in range(0, len(events), 7)]
    assert [row for part in parts for row in part] == rows


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_which_events_are_withheld_does_not_depend_on_which_are_dropped(seed: int) -> None:
    """A quarter of the A's is left, and the weights of the matches found add up to the number of all matches."""
    events = ds1(events=20_000, seed=8)
    live = engine(query(), Withholds({}, {"a": [0.5]}, seed, dropped=0.5))
    matches = len(live.process(events))
    kinds = np.array(events["type"].to_pylist())
    left = (kinds == "A").sum() - live.metrics()["shedding"]["queries"]["q1"]["dropped_events"]["A"]
    assert left == pytest.approx((kinds == "A").sum() / 4, rel=0.08)
    truth = len(engine(query()).process(events))
    assert 0 < matches < truth / 8
    assert live.metrics()["shedding"]["queries"]["q1"]["matches"]["expected"] == pytest.approx(truth, rel=0.15)


@pytest.mark.thorough
def test_reals_are_classified_by_their_whole_part() -> None:
    schema = fc.Schema(
        {"A": {"ID": "int64", "x": "float64"}, "B": {"ID": "int64", "x": "float64"}}, time="ts", type="type",
        time_unit="us", other_types="ignore",
    )  # fmt: skip
    own = fc.parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms", schema, name="q1")
    events = ds2(events=3_000, seed=8).select(["type", "ID", "x", "ts"])
    classes = {"a": Classes(("a.x * 2",), (0,), np.arange(9, dtype=np.uint8), 9)}
    rows = warm(engine(own, Withholds(classes, {"a": [0, 0, 0, 1]})), events)
    x = events["x"].to_pylist()
    truth = found(engine(own).process(events))
    gone = [row for row in truth if row not in set(rows)]
    assert gone and all(int(2 * x[_row(events, row[1])]) == 3 for row in gone)
    assert all(int(2 * x[_row(events, row[1])]) != 3 for row in rows if row[1] > 40)


def _row(events: pa.Table, sequence: int) -> int:
    """Return the row of the event with a number; events of other types have none."""
    return int(np.flatnonzero(np.isin(events["type"].to_pylist(), ["A", "B"]))[sequence])


def test_null_is_of_the_other_class() -> None:
    schema = fc.Schema({"A": {"V": "int64"}, "B": {"V": "int64"}}, time="ts", type="type", time_unit="us")
    own = fc.parse("PATTERN SEQ(A a, B b) WITHIN 1ms", schema, name="q1")
    values = [None if k % 3 == 0 else k % 10 for k in range(300)]
    events = pa.table({"type": ["A", "B"] * 150, "V": values, "ts": list(range(0, 3000, 10))})
    shedder = Withholds({"a": Classes(("a.V",), (0,), TENS, 10)}, {"a": [0.0] * 10 + [1.0]})
    rows = warm(engine(own, shedder), events)
    assert {values[row[1]] is None for row in rows if row[1] >= 32} == {False}


def test_a_snapshot_goes_on_with_what_is_withheld() -> None:
    events = ds1(events=3_000, seed=8)

    def make() -> Withholds:
        return Withholds(OF_V, {"c": [0.5] * 10}, 4)

    whole = engine(query(), make())
    truth = found(whole.process(events))
    live = engine(query(), make())
    rows = found(live.process(events.slice(0, 1_111)))
    again = fc.Engine.restore(live.snapshot(), shedder=make())
    rows += found(again.process(events.slice(1_111)))
    assert rows == truth
    assert again.metrics()["shedding"]["queries"] == whole.metrics()["shedding"]["queries"]


@pytest.mark.parametrize(
    ("classes", "words"),
    [({"a": Classes(("a.V + b.V",), (0,), TENS)}, "must depend only on the event a"),
     ({"x": Classes(("x.V",), (0,), TENS)}, "no such variable in query")],
)  # fmt: skip
def test_bad_classes(classes: Mapping[str, Classes], words: str) -> None:
    with pytest.raises(fc.ValidationError, match=words):
        engine(fc.parse(Q1, SCHEMA), Withholds(classes, {}))


def test_elements_of_a_repeated_variable() -> None:
    own = query("PATTERN SEQ(A a, B+ b[], C c) WHERE [ID] WITHIN 500us")
    events, last = ds1(events=1_500, seed=8), {"b": Classes(("b[last].V",), (1,), TENS, 10)}
    rows = warm(engine(own, Withholds(last, {"b": [1.0] * 5})), events)
    left = events.filter(pa.array([
        k < 32 or kind != "B" or v > 5
        for k, (kind, v) in enumerate(zip(events["type"].to_pylist(), events["V"].to_pylist(), strict=True))
    ]))  # fmt: skip
    plain = found(engine(own).process(left))
    assert len(rows) == len(plain) > 100
