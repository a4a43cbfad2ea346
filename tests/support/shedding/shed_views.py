"""Query views for shedders without an engine: plans with counters chosen by a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

import fastcep as fc
from fastcep._core.matcher.shedding_controls import Shedding
from fastcep.overload.protocols import QueryView
from fastcep.plan import Plan, make_plan

SCHEMA = fc.Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us")
Q1 = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 8ms"
TYPED = ("seen", "dropped_events", "tried", "yielded")


class Counters:
    """Fake of `Shedding`."""

    def __init__(self, plan: Plan, counted: Mapping[str, Any], classes: int) -> None:
        self.plan, self.stride, self.given = plan, classes, counted

    def flows(self) -> tuple[Any, ...]:
        """Return no children."""
        return np.empty(0, np.uint64), np.empty(0), np.empty(0), 0.0, np.empty(0)

    def counted(self) -> dict[str, Any]:
        """Return counters by type, 0 by default; ``born`` and others have one number per state, for class 0."""
        types, states = len(self.plan.type_variables), len(self.plan.states)
        counters = {name: np.array(self.given.get(name, [0] * types), np.int64) for name in TYPED}
        for name in ("born", "refused", "dropped"):
            cells = np.zeros((states, self.stride), np.int64)
            values = np.array(self.given.get(name, np.zeros((states, 1))), np.int64).reshape(states, -1)
            cells[:, : values.shape[1]] = values
            counters[name] = cells
        return counters


def view(text: str = Q1, classes: int = 1, slices: int = 1, weight: float = 1.0, **counted: Any) -> QueryView:
    """Return a view of a query with these counters."""
    plan = make_plan(replace(fc.parse(text, SCHEMA, name="q"), weight=weight), store="rows")
    return QueryView(plan, cast(Shedding, Counters(plan, counted, classes)), slices)
