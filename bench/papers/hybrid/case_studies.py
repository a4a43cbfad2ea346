"""Fig. 15 and 16: bike trips and cluster monitoring, on real trips and on streams generated from fitted models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import fastcep as fc
from bench.papers.data import history_of
from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.hybrid.common import MEASURES, MICRO
from bench.papers.hybrid.findings_fig7_16 import bike_paths, task_life_cycles
from bench.papers.hybrid.streams import (
    CHAINS_SPEED_UP,
    CITIBIKE,
    SPEED_UP,
    bayarea,
    chains,
    citibike,
    cluster,
    hot_paths,
    tasks,
)
from bench.papers.strategies import BASELINES, CUTTING, OURS

__all__ = ["FIG15", "FIG16"]

STRATEGIES = (*BASELINES, *OURS)
BAYAREA, NEW_JERSEY = 163_170, 41_026  # trips of the second halves
RATES = ("120%", "150%", "200%")
#: A real trip takes few operations (33 to 35 at the percentile); each bound is slightly above a whole number of them.
BOUNDS = {
    "chains": ("80%", "60%", "40%", "20%"), "cluster": ("80%", "60%", "40%", "20%"),
    "bay1": ("82%", "60.7%", "39.5%", "21.3%"), "bay2": ("82%", "60.7%", "39.5%", "21.3%"),
    "citi1": ("80.1%", "60.1%", "40.1%", "20.1%"), "citi2": ("82%", "60.7%", "39.5%", "21.3%"),
}  # fmt: skip
#: The paper's stations, which exist in the Bay Area (in San Jose); in New Jersey the seventh to ninth by popularity.
ENDS = {"bay": (7, 8, 9), "citi": (3211, 3185, 3276)}
#: Options of the fit for the bike trips and for the cluster trace.
_BIKES: dict[str, Any] = {"slices": 3, "clusters": 15, "features": {"a": ["a[last].end"]}}
_TASKS: dict[str, Any] = {"slices": 3, "clusters": 30}


def case(
    name: str, title: str, query: Callable[[], fc.Query], events: Callable[[int], Any],
    history: Callable[[int], Any], size: int, **fields: Any,
) -> Part:  # fmt: skip
    """Return a part with bounds on the 99th percentile of the latency."""
    options = {"bounds": BOUNDS[name], "statistic": "p99", "cost_table": MICRO, "index": "key", "skip": 0.1}
    return Part(
        name, title, query, events, size, (*STRATEGIES, CUTTING), options, ("oracle",),
        **{"seeds": 1, "history": history, "model": _BIKES, **fields},
    )  # fmt: skip


def trips(place: str, least: int) -> Part:
    """Return a part over real trips, compressed in time, with a smallest length of the Kleene closure."""
    name, title, read, size = {
        "bay": ("bay", "Bay Area", bayarea, BAYAREA), "citi": ("citi", "Citi Bike", citibike, NEW_JERSEY),
    }[place]  # fmt: skip
    return case(
        f"{name}{least}", f"{title}, Kleene ≥ {least}", partial(hot_paths, least, ENDS[place], place == "citi"),
        partial(read, speed_up=SPEED_UP), partial(read, history=True, speed_up=SPEED_UP), size,
        required_path=CITIBIKE if place == "citi" else None,
    )  # fmt: skip


_RATES = Part(
    "rates", "Bay Area, rates", hot_paths, bayarea, BAYAREA, (*STRATEGIES, "pm-bl", "e-bl", "bl"),
    {"rates": RATES, "latency_bound": "3920us", "cost_table": MICRO, "index": "key"},
    ("oracle",), seeds=1, history=partial(bayarea, history=True), model=_BIKES,
    series=(("ri", "150%"), ("rs", "150%"), ("pm-bl", "200%")),
)  # fmt: skip
_CHAINS = case(
    "chains", "`bike_chains`, Kleene ≥ 5", partial(hot_paths, 5, (7, 8, 9), True), chains, history_of(chains), 300_000
)
_TRIPS = tuple(trips(place, least) for place in ("bay", "citi") for least in (1, 2))
_TITLES = {part.name: part.title.replace("`", "") for part in (_CHAINS, *_TRIPS)}


def over_bounds(name: str) -> tuple[Panel, ...]:
    """Return panels of recall and throughput over the bound."""
    bound = f"bound on the 99th percentile, % ({_TITLES.get(name, name)})"
    return tuple(
        Panel(name, "target", key, bound, MEASURES[key], falling=True, log=key == "speed")
        for key in ("recall", "speed")
    )


FIG15 = Figure(
    "hybrid", "fig15", "Fig. 15: bikes",
    "On Citi Bike (a month of New York), hot paths with Kleene ≥ 5: “our hybrid approach consistently yields the best "
    "recall, with the margin becoming larger for tighter latency bounds. At a 20% bound” on the 99th percentile it is "
    "11.4 times that of RI, 11 times SI, 3.9 times RS, 2.7 times SS; throughput is like that of RS and SS, below that "
    "of RI and SI.",
    "The published trips have almost no path of the paper's length. So the full query (Kleene ≥ 5, to the stations 7, "
    "8 and 9) runs over `bike_chains`, a stream generated from a model of the Bay Area's trips, where an hour holds "
    f"{CHAINS_SPEED_UP // 24} days. With Kleene ≥ 1 and ≥ 2 the query runs over the trips of 2014 themselves "
    f"(`bayarea_2014`), compressed in time {SPEED_UP} times, and over equally compressed trips of Citi Bike in New "
    "Jersey (four months, which do not ship with the package), to three popular stations. In `bike_chains` and Citi "
    "Bike the types of users are the event types. Models are fitted on the first half of the trips and evaluated on "
    "the second; for `bike_chains` they are fitted on another stream. Table `paper` with a microsecond per operation, "
    '`index="key"`, 3 slices, 15 clusters; the station where the last trip ended is a further feature of partial '
    "matches. `hybrid-cut` is hybrid with `cut=True`. "
    "*Rates*: trips of the Bay Area to any station arrive evenly at 120, 150 and 200 % of the maximum rate, under a "
    "bound of 3.92 ms on the latency including the time in the queue.",
    (_CHAINS, *_TRIPS, _RATES),
    (
        Picture("chains", "Recall and throughput over the bound, bike_chains", over_bounds("chains")),
        *(
            Picture(place, f"Recall and throughput over the bound, {title}",
                    (*over_bounds(f"{place}1"), *over_bounds(f"{place}2")))
            for place, title in (("bay", "Bay Area"), ("citi", "Citi Bike"))
        ),
        Picture(
            "rates", "Recall over the rate, and the event latency over the half year",
            (
                Panel("rates", "target", "recall", "rate, % of the maximum", "recall"),
                Panel("rates", "series", "latency", "trip", "event latency, ms (largest)", log=True),
            ),
        ),
    ),
    (
        *(Table(part.name, f"Recall by bound on the 99th percentile: {part.title}") for part in (_CHAINS, *_TRIPS)),
        Table("rates", "Recall by rate: Bay Area"),
    ),
    bike_paths,
)  # fmt: skip

FIG16 = Figure(
    "hybrid", "fig16", "Fig. 16: cluster monitoring",
    "On the Google trace hybrid shedding yields the best recall, “up to 4× better than with input-based shedding (RI, "
    "SI) and 1.5× better than with state-based shedding (RS, SS)”, at the throughput of the best baseline.",
    "The available part of the trace has no match of the seven steps. So the query runs over `task_lives`, a stream "
    "generated from a model of the trace, with more evictions and failures; models are fitted on another such stream. "
    'Table `paper` with a microsecond per operation, `index="key"`, 3 slices, 30 clusters. `hybrid-cut` is hybrid with '
    "`cut=True`.",
    (case("cluster", "`task_lives`", cluster, tasks, history_of(tasks), 200_000, model=_TASKS),),
    (Picture("cluster", "Recall and throughput over the bound on the 99th percentile", over_bounds("cluster")),),
    (Table("cluster", "Recall and relative throughput by bound on the 99th percentile", ("recall", "speed")),),
    task_life_cycles,
)  # fmt: skip
