"""Invalid options of a fit, and missing libraries, raise errors before anything is observed."""

from __future__ import annotations

from typing import Any

import pytest
from support.shedding.shed_runs import query

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.shedding import by_name


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"slices": 0}, "slices=0; expected a whole number, at least 1"),
        ({"slices": 65}, "slices=65; expected at most 64"),
        ({"kind": "hybird"}, "there is no model of that kind"),
        ({"per": "node"}, "expected 'value', 'leaf' or 'cluster'"),
        ({"percentile": 101}, "expected a number from 0 to 100"),
    ],
)
def test_wrong_options(option: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        fc.fit(query(), ds1(2_000, seed=1), cost_table="paper", index="key", **option)


def test_who_needs_a_model_is_told_where_it_comes_from() -> None:
    with pytest.raises(fc.ValidationError, match=r"'hybrid' needs model; fit a model with fastcep\.fit\(\)"):
        by_name("hybrid")
