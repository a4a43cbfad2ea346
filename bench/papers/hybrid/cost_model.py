"""Fig. 10, 11 and 13: parameters of the cost model: time slices, resource costs, clusters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from bench.papers.data import history_of
from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.hybrid.common import EVENTS, MEASURES, TABLES, recall_and_speed
from bench.papers.hybrid.findings_fig7_16 import clusters, resource_costs, time_slices
from bench.papers.hybrid.streams import q1, q3, q3_stream, stream
from bench.papers.strategies import BASELINES, COUNTING, HYBRID

__all__ = ["FIG10", "FIG11", "FIG13"]

STRATEGIES = (*BASELINES, HYBRID)


def part(name: str, strategies: tuple[str, ...] = STRATEGIES, **fields: Any) -> Part:
    """Return a part with one of the cost tables, by default Q1 over DS1.

    With the table ``measured`` there are more events, because decisions are rarer.
    """
    options = {"cost_table": name, "index": TABLES[name], **({"skip": 0.3} if name == "measured" else {})}
    merged: dict[str, Any] = {"query": q1, "events": stream, "history": history_of(stream), **fields}
    return Part(
        name, f'table `{name}`, `index="{TABLES[name]}"`', size=EVENTS * (2 if name == "measured" else 1),
        strategies=strategies, seeds=1, **{**merged, "options": {**options, **merged["options"]}},
    )  # fmt: skip


def models(option: str, values: tuple[int, ...], **options: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return a point for each value of an option of the fit."""
    return {str(value): {"model": {option: value, **options}} for value in values}


_SLICES = models("slices", (1, 2, 3, 4, 5, 6))
_TIGHT = {"bounds": "20%", "statistic": "p95"}
FIG10 = Figure(
    "hybrid", "fig10", "Fig. 10: time slices",
    "Q1 with a window of 2 ms and a 20 % bound on the 95th percentile: “the highest recall is obtained with ≥ 4 "
    "slices”, throughput falls with more; “with a throughput that is on par with RI and SI (one slice), our hybrid "
    "approach still yields 3.8× higher recall”.",
    "Q1 within 2 ms (about 200 events) over DS1 with C.V from 2 to 10; models with 1 to 6 slices. The baselines "
    "have no slices, so that their values are equal in all columns.",
    (
        part("paper", query=partial(q1, "2ms"), options=_TIGHT, points=_SLICES),
        part("measured", query=partial(q1, "2ms"), options=_TIGHT, points=_SLICES),
    ),
    (
        recall_and_speed("paper", "slices", "Recall and throughput over the number of slices, table paper"),
        recall_and_speed("measured", "slices", "Recall and throughput over the number of slices, table measured"),
    ),
    (
        Table("paper", "Recall and relative throughput, table `paper`; columns are slices", ("recall", "speed")),
        Table("measured", "Recall and relative throughput, table `measured`; columns are slices", ("recall", "speed")),
    ),
    time_slices,
)  # fmt: skip

_BOUNDS = ("80%", "60%", "40%", "20%")
_Q3: dict[str, Any] = {
    "query": q3, "events": q3_stream, "history": history_of(q3_stream),
    "options": {"bounds": _BOUNDS, "statistic": "mean"}, "model": {"clusters": 4},
}  # fmt: skip
_WITH_COUNTING = (*STRATEGIES, COUNTING)
FIG11 = Figure(
    "hybrid", "fig11", "Fig. 11: resource costs of partial matches",
    "For Q3 over DS2, where a partial match of A and B takes five times as long as one of A alone, with a bound on "
    "the mean latency, “our comprehensive cost model leads to higher recall, at a minor reduction in throughput” than "
    "without explicit resource costs.",
    "Q3 over DS2, 4 clusters. `hybrid-count` is hybrid whose model gives every partial match the same cost.",
    (part("paper", _WITH_COUNTING, **_Q3), part("measured", _WITH_COUNTING, **_Q3)),
    tuple(
        Picture(
            name, f"Recall and throughput over the bound on the mean, table {name}",
            tuple(
                Panel(name, "target", key, "bound, % of the mean without shedding", MEASURES[key], falling=True)
                for key in ("recall", "speed")
            ),
        )
        for name in TABLES
    ),
    tuple(Table(name, f"Recall and relative throughput, table `{name}`", ("recall", "speed")) for name in TABLES),
    resource_costs,
)  # fmt: skip

#: By default, a feature with few values has a class for each value, and clusters play no role.
_CLUSTERS = models("clusters", (2, 4, 6, 8, 10), per="cluster")
FIG13 = Figure(
    "hybrid", "fig13", "Fig. 13: clusters",
    "Under a 50 % bound on the mean latency “the observed recall is not very sensitive to the number of clusters. More "
    "clusters lead to higher recall score, but only until reaching a certain number (e.g., 8)”.",
    "Q1 over DS1 with C.V from 2 to 10; models with 2 to 10 clusters for each state, and a class for each cluster "
    "(`per=\"cluster\"`; by default each value of V would have its own class, and all models would be equal). The "
    "baselines have no clusters, so that their values are equal in all columns.",
    (
        part("paper", options={"bounds": "50%"}, points=_CLUSTERS),
        part("measured", options={"bounds": "50%"}, points=_CLUSTERS),
    ),
    (
        recall_and_speed("paper", "clusters", "Recall and throughput over the number of clusters, table paper"),
        recall_and_speed("measured", "clusters", "Recall and throughput over the number of clusters, table measured"),
    ),
    (
        Table("paper", "Recall, table `paper`; columns are clusters"),
        Table("measured", "Recall, table `measured`; columns are clusters"),
    ),
    clusters,
)  # fmt: skip
