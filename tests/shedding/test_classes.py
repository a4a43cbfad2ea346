"""Shedder that refuses partial matches by class."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from support.shedding.shed_views import Q1, SCHEMA, view

import fastcep as fc
from fastcep.errors import ModelError, ValidationError
from fastcep.shedding import Classes, FixedClasses

TABLE = np.array([0, 1, 1, 2], np.uint8)
PAIRS = {"b": Classes(("a.V + b.V",), (2,), TABLE)}
REFUSE = {"b": [0.0, 1.0, 0.25]}


def test_births_are_refused_whenever_anything_is_demanded() -> None:
    shedder = FixedClasses(PAIRS, REFUSE)
    now = view(
        classes=3,
        born=np.array([[8, 0, 0], [4, 2, 2], [0, 0, 0]]),
        refused=np.array([[0, 0, 0], [0, 2, 0], [0, 0, 0]]),
    )
    (drop_plan,) = shedder.decide(0.01, 0.0, [now])
    assert drop_plan.births is not None and drop_plan.births.tolist() == [[0, 0, 0], [0, 1, 0.25], [0, 0, 0]]
    assert drop_plan.drops is None and drop_plan.events is None
    assert drop_plan.kept == pytest.approx((4 + 0 + 1.5) / 10)
    assert shedder.decide(0.9, 0.01, [now])[0].births.tolist() == drop_plan.births.tolist()  # type: ignore[union-attr]
    assert shedder.decide(0.0, 0.9, [now])[0].births is None


def test_a_variable_without_classes_has_one_chance() -> None:
    (drop_plan,) = FixedClasses({}, {"a": [0.5]}).decide(0.5, 0.0, [view()])
    assert drop_plan.births is not None and drop_plan.births.tolist() == [[0.5], [0], [0]]
    assert drop_plan.kept == 0.5


def test_another_query_or_schema_is_refused() -> None:
    query = fc.parse(Q1, SCHEMA, name="q1")
    shedder = FixedClasses(PAIRS, REFUSE, query=query)
    shedder.check(query)
    with pytest.raises(ModelError, match="for query 'q1', not for 'q1'"):
        shedder.check(fc.parse(Q1.replace("8ms", "9ms"), SCHEMA, name="q1"))
    other = fc.Schema(
        {name: {"ID": "int64", "V": "float64"} for name in "ABCD"}, time="ts", type="type", time_unit="us"
    )
    with pytest.raises(ModelError, match=r"schema differs: A\.V is float64, expected int64"):
        shedder.check(fc.parse(Q1, other, name="q1"))
    with pytest.raises(ModelError, match="'x', which query 'q1' does not bind"):
        FixedClasses({}, {"x": [0.5]}).check(query)
    assert issubclass(ModelError, fc.FastcepError)


@pytest.mark.parametrize(
    ("classes", "refuse", "message"),
    [
        (PAIRS, {"b": [0.5]}, r"refuse\['b'\] has 1 probabilities, expected 3"),
        (PAIRS, {"b": [0.5, 2.0, 0.5]}, r"refuse\['b'\]=2.0; expected a probability from 0 to 1"),
        ({}, {"a": [0.5, 0.5]}, "expected 1, one per class"),
        ({"b": Classes(("a.V",), (2, 3), TABLE)}, {}, "1 features, 2 smallest values and a table of 1 dimensions"),
        ({"b": Classes(("a.V",), (2,), TABLE.astype(np.int64))}, {}, "int64, expected uint8"),  # type: ignore[arg-type]
    ],
)
def test_what_does_not_fit_is_refused(classes: Any, refuse: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FixedClasses(classes, refuse)


def test_its_spec_is_json() -> None:
    spec = FixedClasses(PAIRS, REFUSE, 7, fc.parse(Q1, SCHEMA, name="q1")).spec()
    assert json.loads(json.dumps(spec)) == spec
    assert spec["classes"]["b"] == {"features": ["a.V + b.V"], "low": [2], "table": [0, 1, 1, 2], "other": 0}
    assert spec["query"].startswith("QUERY q1\n")
    assert (spec["name"], spec["seed"], spec["refuse"]) == ("classes", 7, {"b": [0.0, 1.0, 0.25]})
