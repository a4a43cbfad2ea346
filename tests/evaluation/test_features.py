"""Features of partial matches and events, from the conditions that are still open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.shedding.shed_runs import SCHEMA

import fastcep as fc
from fastcep.evaluation.features import Values, event_features, features
from fastcep.plan import make_plan

PAPERS = Path(__file__).parents[2] / "examples" / "papers"
DS1 = {"V": Values(1, 10)}
DS2 = {"x": Values(0, 4, integral=False), "y": Values(0, 4, integral=False), "v": Values(2, 5)}
MEAN = "(avg(sqrt(a.x ^ 2 + a.y ^ 2), sqrt(b.x ^ 2 + b.y ^ 2))) * 8"


def paper(number: int) -> fc.Query:
    return fc.parse_file(PAPERS / f"hybrid_q{number}.cep").queries[0]


def texts(classes: dict[str, fc.shedding.Classes]) -> dict[str, tuple[str, ...]]:
    return {name: own.features for name, own in classes.items()}


def test_of_the_papers_queries() -> None:
    assert texts(features(paper(1), DS1)) == {"a": ("a.V",), "b": ("a.V + b.V",)}
    assert texts(event_features(paper(1), DS1)) == {name: (f"{name}.V",) for name in "abc"}
    assert texts(features(paper(2), DS1)) == {"a": ("a.V",), "b": ("a.V",), "c": ("a.V + c.V",)}
    assert texts(event_features(paper(2), DS1))["b"] == ("b[last].V",)
    assert texts(features(paper(3), DS2)) == {"a": ("(a.x) * 2", "(a.y) * 2"), "b": ("b.v", MEAN), "c": ("b.v",)}
    assert texts(features(paper(4), DS1)) == texts(event_features(paper(4), DS1)) == {}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_plans_take_them(number: int) -> None:
    query, values = paper(number), DS2 if number == 3 else DS1
    of_matches, of_events = features(query, values), event_features(query, values)
    plan = make_plan(query, classes=texts(of_matches), event_classes=texts(of_events))
    assert any(state.features for state in plan.states) and any(plan.event_features)
    for classes in (*of_matches.values(), *of_events.values()):
        assert classes.table.size <= 255 and classes.other == classes.table.size
        assert sorted(classes.table.reshape(-1).tolist()) == list(range(classes.table.size))


def test_tables_hold_all_values() -> None:
    classes = features(paper(1), DS1)
    assert [(one.low, one.table.shape) for one in classes.values()] == [((1,), (10,)), ((2,), (19,))]
    mean = features(paper(3), DS2)["b"]
    assert mean.low == (2, 0) and mean.table.shape == (4, 1 + int(8 * np.sqrt(32)))


def test_keys_are_no_features_unless_other_conditions_use_them() -> None:
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.V = b.V WITHIN 1ms", SCHEMA)
    assert not features(query, DS1)
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.V = b.V AND a.V > b.ID WITHIN 1ms", SCHEMA)
    assert texts(features(query, DS1)) == {"a": ("a.V",)}


def test_what_is_too_much_is_left_out() -> None:
    sums = " AND ".join(f"a.V + {n} < b.V" for n in range(40))
    query = fc.parse(f"PATTERN SEQ(A a, B b) WHERE a.ID * 7 < b.V AND {sums} WITHIN 1ms", SCHEMA)
    classes = features(query, DS1 | {"ID": Values(1, 100)})["a"]
    assert classes.table.size <= 255 and classes.features
