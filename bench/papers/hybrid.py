"""The hybrid paper: Fig. 4 to 6 with the strategies that are there, a year of bike trips, and runs that fail loudly."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import fastcep as fc
from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.sayings import bikes, loud, ratios, under
from bench.queries import QUERIES, SCHEMA
from fastcep.datasets import ds1, path

__all__ = ["FIGURES", "LATER"]

INPUT, STATE = ("ri", "si"), ("rs", "ss")
BASELINES = (*INPUT, *STATE)
ALL = (*BASELINES, "pm-bl", "e-bl", "bl")
REFERENCES = ("oracle", "informed")
EVENTS = 300_000
#: 900, 800, ... 100 us of the paper's 1,033 us without shedding.
BOUNDS = ("87.1%", "77.4%", "67.8%", "58.1%", "48.4%", "38.7%", "29%", "19.4%", "9.7%")
#: Of shares of the work to be saved; what is drawn is what was shed for them.
DEMANDS = ("10%", "30%", "50%", "70%", "85%", "95%", "99%")
RATES = ("120%", "150%", "200%")
#: A microsecond per operation: with a nanosecond the year would come at more than an event per nanosecond.
MICRO = fc.CostTable("paper, in us", visited=1000, created=1000)
TRIPS = 326_339
HOT_PATHS = Path(__file__).parent.parent.parent / "examples" / "papers" / "hot_paths.cep"


@cache
def q1() -> fc.Query:
    """Q1, within 8 ms."""
    return fc.parse(QUERIES["Q1"], SCHEMA, name="q1")


@cache
def hot_paths() -> fc.Query:
    """Hot paths with at least one trip behind the last one, to any station."""
    text = HOT_PATHS.read_text(encoding="utf-8").replace(" AND b.end IN {7, 8, 9}", "")
    return fc.parse_document(text).queries[0]


def stream(events: int) -> pa.Table:
    """DS1 with V of C from 2 to 10."""
    return ds1(events, seed=7, c_values=(2, 10))


def trips(events: int) -> pa.Table:
    """The first trips of the Bay Area year."""
    return pq.read_table(path("bayarea_2014")).slice(0, events)


def on_ds1(name: str, size: int, **options: Any) -> Part:
    """Q1 over DS1, by the papers' count of operations (``paper``) or what they take (``measured``)."""
    index = "key" if name == "paper" else "full"
    return Part(
        name, f'table `{name}`, `index="{index}"`', q1, stream, size, BASELINES,
        {"cost_table": name, "index": index, **options}, REFERENCES,
    )  # fmt: skip


def bounds(name: str, statistic: str) -> Part:
    """Q1 under bounds; by ``measured`` fewer of them, and more events, as decisions cost time there and are rarer."""
    if name == "paper":
        return on_ds1(name, EVENTS, bounds=BOUNDS, statistic=statistic)
    return on_ds1(name, 2 * EVENTS, bounds=(*BOUNDS[:7:2], BOUNDS[7]), statistic=statistic, skip=0.3)


NAMES = {"mean": "mean latency", "p95": "95th percentile of the latency"}
SHORT = {"mean": "mean", "p95": "95th percentile"}
FOUR = {
    "recall": "recall",
    "speed": "relative throughput",
    "shed_event_ratio": "shed events, share",
    "shed_match_ratio": "shed partial matches, share",
}


def four(part: str, statistic: str) -> Picture:
    """Recall, throughput and both shed ratios over the bound."""
    bound = f"bound, % of the {SHORT[statistic]} without shedding"
    sheds = {"shed_event_ratio": (*INPUT, *REFERENCES), "shed_match_ratio": (*STATE, *REFERENCES)}
    panels = tuple(
        Panel(part, "target", key, bound, label, sheds.get(key, ()), falling=True, log=key == "speed")
        for key, label in FOUR.items()
    )
    caption = f"Recall, throughput, shed events and shed partial matches over the bound, table {part}"
    return Picture(part, caption, panels)


def under_bounds(name: str, title: str, statistic: str, statement: str) -> Figure:
    """Fig. 4 or 5."""
    return Figure(
        "hybrid", name, title, statement,
        "Q1 over DS1 with C.V from 2 to 10, a window of 8 ms (about 800 events); bounds on the "
        f"{NAMES[statistic]} are the paper's 900, 800, … 100 us as shares of its 1,033 us. With the table `measured` "
        "decisions take time, so there are few of them: there are more events, of which the first 30 % are not judged.",
        (bounds("paper", statistic), bounds("measured", statistic)),
        (four("paper", statistic), four("measured", statistic)),
        (
            Table("paper", 'Recall, table `paper`, `index="key"`'),
            Table("measured", 'Recall, table `measured`, `index="full"`'),
        ),
        partial(under, statistic=statistic),
    )  # fmt: skip


FIG6 = Figure(
    "hybrid", "fig6", "Fig. 6: recall at fixed ratios",
    "Input-based shedding by the cost model “yields better recall with slightly worse throughput compared to random "
    "(RI) and selectivity-based (SI) input shedding”; “when discarding 50% of the partial matches, our approach keeps "
    "100% recall, whereas the baseline strategies drop to 30%”.",
    "Q1 over DS1 as above and no bound: every decision saves the same share of the work, from 10 to 99 %. Drawn is "
    "over what was shed for it: of the events (a, b), of the births of partial matches (c, d).",
    (on_ds1("paper", EVENTS, demands=DEMANDS),),
    (
        Picture(
            "paper", "Recall and throughput over the shares of events and of partial matches that were shed",
            tuple(
                Panel("paper", x, y, f"{letter}) {label}", FOUR[y], only=(*who, *REFERENCES), log=y == "speed")
                for letter, x, who, y, label in (
                    ("a", "shed_event_ratio", INPUT, "recall", "shed events, share"),
                    ("b", "shed_event_ratio", INPUT, "speed", "shed events, share"),
                    ("c", "shed_match_ratio", STATE, "recall", "shed partial matches, share"),
                    ("d", "shed_match_ratio", STATE, "speed", "shed partial matches, share"),
                )
            ),
        ),
    ),
    (
        Table(
            "paper", "Shed events, shed partial matches, recall; columns are shares of the work to be saved",
            ("shed_event_ratio", "shed_match_ratio", "recall"), ("30%", "50%", "70%", "95%"),
        ),
    ),
    ratios,
)  # fmt: skip

BIKES = Figure(
    "hybrid", "bikes", "Bay Area: a year of trips, compressed in time",
    "On Citi Bike, with a 20 % bound on the 99th percentile, the recall of hybrid shedding is 11.4 times that of RI, "
    "11 times SI, 3.9 times RS, 2.7 times SS (Fig. 15a).",
    "All trips of 2014 (`bayarea_2014`); hot paths to any station with at least one trip before the last, as longer "
    "ones are too few for ratios (Citi Bike does not ship with the package). Table `paper`, a microsecond per "
    'operation, `index="key"`. First the trips arrive evenly at 120, 150 and 200 % of what is possible, and each is to '
    "be done within the time of 2,000 (3.92 ms), its time in the queue included. Then there are bounds on the 99th "
    "percentile of the processing latency, which is 8 operations.",
    (
        Part(
            "rates", "rates", hot_paths, trips, TRIPS, ALL,
            {"rates": RATES, "latency_bound": "3920us", "cost_table": MICRO, "index": "key"},
            ("oracle",), seeds=1, series=(("ri", "150%"), ("rs", "150%"), ("pm-bl", "200%")),
        ),
        Part(
            "bounds", "bounds", hot_paths, trips, TRIPS, ALL,
            {"bounds": ("75%", "62.5%", "50%", "25%"), "statistic": "p99", "cost_table": MICRO, "index": "key"},
            ("oracle",), seeds=1,
        ),
    ),
    (
        Picture(
            "year", "Recall over the rate and over the bound, and the event latency over the year",
            (
                Panel("rates", "target", "recall", "rate, % of what is possible", "recall"),
                Panel("bounds", "target", "recall", "bound on the 99th percentile, %", "recall", falling=True),
                Panel("rates", "series", "latency", "trip", "event latency, ms (largest)", log=True),
            ),
            columns=3,
        ),
    ),
    (Table("rates", "Recall by rate"), Table("bounds", "Recall by bound on the 99th percentile")),
    bikes,
)  # fmt: skip

LOUD = Figure(
    "hybrid", "loud", "Runs that say nothing, and say so",
    "None: no figure shows a run in which nothing was shed, or whose bound was missed.",
    "Q1 over DS1 as above. *Never fired*: a bound of three times the mean latency, table `paper`. *Not held*: table "
    '`measured`, `index="key"`, events at 200 % of what is possible and a bound of 0.3 ms on the event latency, where '
    "a decision alone takes 30 us.",
    (
        Part(
            "never_fired", "never fired", q1, stream, EVENTS, BASELINES,
            {"bounds": "300%", "cost_table": "paper", "index": "key"},
            seeds=1, series=(("ri", "300%"),), tells=True,
        ),
        Part(
            "not_held", "not held", q1, stream, EVENTS, ("pm-bl", "ri", "rs"),
            {"rates": "200%", "latency_bound": "300us", "cost_table": "measured", "index": "key"},
            seeds=1, series=(("pm-bl", "200%"), ("ri", "200%"), ("rs", "200%")), tells=True,
        ),
    ),
    (
        Picture(
            "latency", "Latency over time: far below its bound, and above it",
            (
                Panel("never_fired", "series", "latency", "event", "processing latency, ns (mean)"),
                Panel("not_held", "series", "latency", "event", "event latency, ms (largest)", log=True),
            ),
        ),
    ),
    (),
    loud,
)  # fmt: skip

FIGURES = (
    under_bounds(
        "fig4", "Fig. 4: bounds on the mean latency", "mean",
        "“With tighter latency bounds, recall quickly degrades with the baseline strategies, whereas our approach "
        "keeps 100% recall for a 900 µs – 500 µs latency bound” (1,033 us without shedding). “State-based strategies "
        "yield generally better recall, whereas input-based techniques yield higher throughput.”",
    ),
    under_bounds(
        "fig5", "Fig. 5: bounds on the 95th percentile", "p95",
        "“A repetition of the experiments with the bound being the 95th percentile latency confirmed the above "
        "trends”; the shed ratios of the hybrid strategy turn at 700 us instead of 500 us.",
    ),
    FIG6,
    BIKES,
    LOUD,
)  # fmt: skip

#: What is not here yet, and why.
LATER = (
    "Fig. 7 to 16 (variance of the selectivity, windows, Kleene lengths, time slices, resource costs, adaptivity, "
    "clusters, negation, Citi Bike and the Google cluster) and the paper's own lines in Fig. 4 to 6 need the hybrid "
    "shedder, which is not there yet."
)
