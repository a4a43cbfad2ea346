"""Plans are immutable values: equal if they are made again or pickled and unpickled."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies.whole_cases import is_planned, query_cases
from support.doc_tables.explained import CASES

from fastcep.plan import Plan, make_plan
from fastcep.query import ast

QUERIES: list[ast.Query] = [query for queries in CASES.values() for query in queries]


def assert_value(query: ast.Query) -> None:
    plan = make_plan(query)
    other = pickle.loads(pickle.dumps(plan))
    assert other == plan == make_plan(query) == copy.deepcopy(plan)
    assert repr(other) == repr(plan)
    assert pickle.dumps(other) == pickle.dumps(pickle.loads(pickle.dumps(other)))
    assert isinstance(hash(other.key), int)


@pytest.mark.parametrize("name", CASES)
def test_pickled(name: str) -> None:
    for query in CASES[name]:
        assert_value(query)


@given(st.data())
def test_pickled_with_any_policies(data: st.DataObject) -> None:
    case = data.draw(query_cases(), "case")
    assume(is_planned(case.query))
    assert_value(case.query)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Plan)])
def test_frozen(name: str) -> None:
    plan = make_plan(QUERIES[0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(plan, name, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(plan, name)


def test_parts_are_frozen() -> None:
    for query in QUERIES:
        plan = make_plan(query)
        for part in (*plan.columns, *plan.indexes, *plan.edges, *plan.states, *plan.negations, plan.key, plan.windows):
            if dataclasses.is_dataclass(part):
                assert type(part).__dataclass_params__.frozen  # type: ignore[attr-defined]
