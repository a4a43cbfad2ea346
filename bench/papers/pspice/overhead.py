"""Fig. 9: the time that decisions take, and the time to build a model."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import Any

from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.pspice.cases import CASES, EVERY, QUEUE, part_of
from bench.papers.pspice.findings import overheads
from bench.papers.pspice.streams import q1, quotes
from bench.papers.results import measured_part
from bench.papers.strategies import PSPICE
from fastcep.shedding.counts import transition_counts
from fastcep.shedding.pspice.fit import model_of_counts

__all__ = ["FIG9", "QUOTED_SYMBOLS"]

WINDOWS = (3_500, 4_500, 5_000, 5_500, 6_000, 10_000)
MODEL_WINDOWS = (6_000, 10_000, 16_000, 18_000, 24_000, 32_000)
#: Number of symbols. With the 500 of the paper, only 2 to 5 partial matches of the generated quotes are live, so if
#: 2,000 events take 1 s, a single visit takes 16 ms, and the bound is missed whatever is dropped.
QUOTED_SYMBOLS = 100
_REPEATS = 5


def build_times(events: int, seeds: int) -> dict[str, Any]:
    """Measure the time to compute a model from transition counts, and return it as the result of a part.

    Parameters
    ----------
    events
        Number of events that are counted.
    seeds
        Number of streams.
    """
    rows: list[dict[str, Any]] = []
    truths: dict[str, dict[str, int]] = {}
    for window in MODEL_WINDOWS:
        query = q1(window)
        for seed in range(seeds):
            counts = transition_counts(query, quotes(events, seed, QUOTED_SYMBOLS), cost_table=EVERY["cost_table"])
            seconds = [_seconds(partial(model_of_counts, query, counts, None)) for _ in range(_REPEATS)]
            measured = {"seconds": round(median(seconds), 6), "why": ""}
            rows.append({"shedder": PSPICE, "target": f"{window}", "seed": seed, **measured})
            matches = counts["observations"].to_numpy()[counts["target_name"].to_numpy(zero_copy_only=False) == "match"]
            truths.setdefault(f"{window}", {"matches": int(matches.sum())})
    first = next(iter(truths.values()))["matches"]
    return measured_part(rows, events, first, cost_table=EVERY["cost_table"].name) | {"truths": truths}


def _seconds(function: Any) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


_DECISIONS = part_of(
    CASES["q1"],
    partial(q1, WINDOWS[0]),
    (PSPICE, "pm-bl", "e-bl"),
    name="decisions",
    title="decisions",
    size=200_000,
    events=partial(quotes, symbols=QUOTED_SYMBOLS),
    history=partial(quotes, seed=8, symbols=QUOTED_SYMBOLS),
    points={f"{window}": {"query": partial(q1, window)} for window in WINDOWS},
)
_BUILD = Part(
    "build",
    "building the model",
    partial(q1, MODEL_WINDOWS[0]),
    partial(quotes, symbols=QUOTED_SYMBOLS),
    100_000,
    (PSPICE,),
    {"rates": "120%"},
    history=partial(quotes, seed=8, symbols=QUOTED_SYMBOLS),
    points={f"{window}": {} for window in MODEL_WINDOWS},
    measure=build_times,
)
FIG9 = Figure(
    "pspice",
    "fig9",
    "Fig. 9: overhead",
    "For Q1 “the overhead of pSPICE is 1% in case the window size is 3.5K”, and 0.7 % at 10K, “slightly” above that "
    "of PM-BL; that of E-BL is 3 % at 3.5K and 10 % at 10K. Building the model takes 1 s for windows of 6K events and "
    "2.4 s for 32K.",
    f"Q1 over generated quotes of {QUOTED_SYMBOLS} symbols, with the windows of the paper, at 120 % of the maximum "
    f"rate. *Decisions*: their time as a share of the busy time, where {QUEUE:,} events take 1 s and each decision "
    "takes the same 30 us, whichever shedder decides; dropping partial matches is free. So this is the number of "
    "decisions times a constant. *Building the model*: the time on the wall clock from the transition counts to the "
    "tables of the model, the median of five.",
    (_DECISIONS, _BUILD),
    (
        Picture(
            "overhead",
            "Overhead of decisions, and time to build a model, over the window",
            (
                Panel("decisions", "target", "overhead", "events in a window", "overhead, share"),
                Panel("build", "target", "seconds", "events in a window", "time to build, s"),
            ),
        ),
    ),
    (
        Table("decisions", "Overhead of decisions; columns are windows", ("overhead",)),
        Table("build", "Time to build the model, s; columns are windows", ("seconds",)),
    ),
    overheads,
    runs_alone=True,
)
