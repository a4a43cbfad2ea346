"""Fig. 7 to 9: sensitivity to the variance of the selectivity, to the window, and to the length of the pattern."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from bench.papers.data import history_of
from bench.papers.figures import Figure, Part, Table
from bench.papers.hybrid.common import EVENTS, TABLES, recall_and_speed
from bench.papers.hybrid.findings_fig7_16 import hybrid_lead, pattern_lengths, selectivity_variance
from bench.papers.hybrid.streams import ds1_with_c_below, q1, q2, stream
from bench.papers.strategies import BASELINES, CUTTING, HYBRID

__all__ = ["FIG7", "FIG8", "FIG9"]

STRATEGIES = (*BASELINES, HYBRID)
BOUND = "50%"


def sweep(
    name: str, points: Mapping[str, Mapping[str, Any]], size: int = EVENTS, references: tuple[str, ...] = (),
    strategies: tuple[str, ...] = STRATEGIES,
) -> Part:  # fmt: skip
    """Return a part with several points under a bound of half of the 95th percentile.

    With the table ``measured`` there are more events, because decisions are rarer.
    """
    skip = {"skip": 0.3} if name == "measured" else {}
    return Part(
        name, f'table `{name}`, `index="{TABLES[name]}"`', q1, stream, size * (2 if name == "measured" else 1),
        strategies,
        {"bounds": BOUND, "statistic": "p95", "cost_table": name, "index": TABLES[name], **skip},
        references, seeds=1, history=history_of(stream), points=points,
    )  # fmt: skip


def tables(points: str) -> tuple[Table, ...]:
    """Return tables of recall and throughput with both cost tables."""
    return tuple(
        Table(name, f"Recall and relative throughput, table `{name}`; columns are {points}", ("recall", "speed"))
        for name in TABLES
    )


_VALUES = {
    str(x): {
        "events": partial(ds1_with_c_below, largest=x), "history": history_of(ds1_with_c_below, largest=x),
    }
    for x in range(2, 11)
}  # fmt: skip
FIG7 = Figure(
    "hybrid", "fig7", "Fig. 7: variance of the selectivity",
    "With C.V in [2, x] and a 50 % bound on the 95th percentile “the recall is not affected and hybrid shedding leads "
    "to the best results”; at x = 2 “the throughput is 120× higher than the baseline approaches”, for large x it "
    "“resembles the one of the baseline strategies”.",
    "Q1 over DS1 with C.V from 2 to x; models are fitted for each x.",
    (
        sweep("paper", _VALUES, references=("oracle",)),
        sweep("measured", {x: _VALUES[x] for x in ("2", "4", "6", "8", "10")}, references=("oracle",)),
    ),
    (
        recall_and_speed("paper", "x: C.V is 2 to x", "Recall and throughput over x, table paper", log=True),
        recall_and_speed("measured", "x: C.V is 2 to x", "Recall and throughput over x, table measured", log=True),
    ),
    tables("x"),
    selectivity_variance,
)  # fmt: skip

_WINDOWS = {str(ms): {"query": partial(q1, f"{ms}ms")} for ms in (1, 2, 4, 8, 16)}
FIG8 = Figure(
    "hybrid", "fig8", "Fig. 8: size of the window",
    "From 1 to 16 ms, with a 50 % bound on the 95th percentile, “our strategy consistently yields the highest recall, "
    "while with increasing window size, recall improves for all approaches”; “input-based baseline strategies achieve "
    "the best throughput”, and “with increasing window size, the differences become marginal”.",
    "Q1 over DS1 with C.V from 2 to 10, and windows of 1 to 16 ms (100 to 1,600 events).",
    (sweep("paper", _WINDOWS), sweep("measured", _WINDOWS, EVENTS // 2)),
    (
        recall_and_speed("paper", "window, ms", "Recall and throughput over the window, table paper"),
        recall_and_speed("measured", "window, ms", "Recall and throughput over the window, table measured"),
    ),
    tables("windows in ms"),
    hybrid_lead,
)  # fmt: skip

_LENGTHS = {str(3 + elements): {"query": partial(q2, elements)} for elements in range(1, 6)}
FIG9 = Figure(
    "hybrid", "fig9", "Fig. 9: length of the pattern",
    "With a Kleene closure for patterns of length 4 to 8 and a 50 % bound on the 95th percentile “recall remains "
    "stable with increasing pattern length, whereas throughput decreases drastically”, less so with hybrid shedding "
    "than with the others.",
    "Q2 over DS1 with C.V from 2 to 10 and exactly 1 to 5 elements of the Kleene closure. The paper's window of 1 ms "
    "has a few hundred matches of length 4 and none of length 8, so it is 8 ms here. `hybrid-cut` is hybrid with "
    "`cut=True`.",
    tuple(sweep(name, _LENGTHS, strategies=(*STRATEGIES, CUTTING)) for name in TABLES),
    (
        recall_and_speed("paper", "length of the pattern", "Recall and throughput over the length, table paper"),
        recall_and_speed("measured", "length of the pattern", "Recall and throughput over the length, table measured"),
    ),
    tables("lengths"),
    pattern_lengths,
)  # fmt: skip
