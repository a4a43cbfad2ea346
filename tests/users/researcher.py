"""Researcher: compares load shedders on a stream of a paper, and writes one.

The query pairs two values whose sum is the third. A pair of large values never finds its third event, so the shedder of
this script refuses such pairs first. It is compared with random shedding and with a model that is fitted on history.

Each comment ``docs/PAGE#SECTION`` is a look-up: the section where the call on that line was found.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.shedding import Classes, DropPlan, Shedder, SmoothedLatency

schema = fc.Schema(  # docs/evaluation.md
    {name: {"ID": "int64", "V": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us"
)
query = fc.parse("PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V WITHIN 8ms", schema, name="q1")
events = ds1(events=30_000, seed=7)  # docs/evaluation.md


class LargePairsFirst(Shedder):  # docs/custom_shedders.md#a-shedder-in-15-lines
    """Refuse the births of pairs with a large sum first."""

    name = "large-pairs"
    drops_matches = True  # docs/custom_shedders.md#methods-and-attributes

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def detector(self, of: str) -> SmoothedLatency:
        """Return the detector of overload."""
        return SmoothedLatency()  # docs/custom_shedders.md#a-shedder-in-15-lines

    def classes(self, query: fc.Query) -> dict[str, Classes]:  # docs/custom_shedders.md#methods-and-attributes
        """Return the classes of pairs: 0 for the sum 2, … 18 for the sum 20."""
        return {"b": Classes(("a.V + b.V",), (2,), np.arange(19, dtype=np.uint8))}  # docs/evaluation.md#strategies

    def decide(self, demand: float, before: float, views: Sequence[Any]) -> list[DropPlan]:
        """Refuse pairs from the largest sum down."""
        plans = []
        for view in views:
            births = np.zeros((len(view.plan.states), view.classes))  # docs/custom_shedders.md#drop-plan
            births[1, :19] = np.clip(19 * demand - np.arange(18, -1, -1), 0, 1)
            plans.append(DropPlan(births=births))
        return plans

    def spec(self) -> dict[str, Any]:
        """Return name and options."""
        return {"name": self.name, "seed": self.seed}


report = fc.evaluate(  # docs/custom_shedders.md#evaluation
    query, events, shedders=["ri", "rs", "hybrid", LargePairsFirst], bounds=["80%", "50%"],
    cost_table="paper", index="key", skip=0.1,
).check()  # fmt: skip
print(report)
table = report.to_pandas()  # docs/evaluation.md#the-report
recall = table.pivot(index="target", columns="shedder", values="recall")
print(recall)
report.to_html("report.html")  # docs/evaluation.md

assert table["held"].all()
assert (recall["large-pairs"] > recall["rs"]).all()
