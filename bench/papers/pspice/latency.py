"""Fig. 7: the event latency stays below its bound, on the virtual and on the wall clock."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from bench.papers.data import SEED
from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.pspice.cases import BOUND, CASES, EVERY, PREDICTION, part_of
from bench.papers.pspice.findings import bound_kept, bound_kept_on_the_wall
from bench.papers.pspice.streams import quotes
from bench.papers.strategies import PSPICE
from bench.unseen.wall import Repeated
from fastcep.shedding import PredictedLatency

__all__ = ["FIG7", "WALL"]

RATES = ("120%", "140%")
_SERIES = tuple((PSPICE, rate) for rate in RATES)
#: On the wall clock an event takes less than a microsecond, so that a bound of 1 s would hold millions of events.
_WALL_BOUND, _WALL_EVENTS, _WALL_PERIOD = "200ms", 12_000_000, 500_000
_LATENCY = "event latency, ms"
_STATEMENT = (
    "For Q2 at 120 and 140 % of the maximum rate, “pSPICE always maintains the given latency bound which is 1 second "
    "in this experiment, regardless of the event rate.”"
)


def many_quotes(events: int, seed: int = SEED) -> pa.Table:
    """Repeat generated quotes, with the columns that the query reads."""
    period = quotes(min(events, _WALL_PERIOD), seed).select(["type", "number", "ts"])
    return pa.Table.from_batches(Repeated(period, "ts", events)).combine_chunks()


def _virtual(name: str, case: str, title: str, **options: object) -> Part:
    return part_of(
        CASES[case],
        CASES[case].middle_query,
        (PSPICE, "pm-bl"),
        name=name,
        title=title,
        series=_SERIES,
        options={**EVERY, "rates": RATES, **options},
    )


_PARTS = tuple(
    _virtual(f"{name}{suffix}", f"q2{suffix}", f"{title}, detector `{name}`", detector=detector)
    for suffix, title in (("", "generated"), ("_real", "real"))
    for name, detector in (("prediction", PREDICTION), ("queue", EVERY["detector"]))
)
FIG7 = Figure(
    "pspice", "fig7", "Fig. 7: event latency", _STATEMENT,
    "Q2 on the virtual clock, with both detectors.",
    _PARTS,
    (
        Picture(
            "latency", "Largest event latency in each part of the stream",
            tuple(
                Panel(part.name, "series", "latency", f"event ({part.title.replace('`', '')})", f"{_LATENCY} (largest)")
                for part in _PARTS
            ),
        ),
    ),
    tuple(
        Table(part.name, f"Events later than the bound, and mean latency as a share of it: {part.title}",
              ("share_over_bound", "used"))
        for part in _PARTS
    ),
    bound_kept,
)  # fmt: skip


def _wall(name: str, detector: object) -> Part:
    """Return a part on the wall clock, with the costs of this machine."""
    options = {
        "rates": RATES, "latency_bound": _WALL_BOUND, "clock": "wall", "detector": detector, "skip": 0.4, "repeats": 3,
    }  # fmt: skip
    return replace(
        _virtual(name, "q2", f"detector `{name}`"), events=many_quotes, size=_WALL_EVENTS, seeds=1, queue=0,
        strategies=(PSPICE,), options=options, history=CASES["q2"].history,
    )  # fmt: skip


_WALL_PARTS = (_wall("prediction", PredictedLatency(buffer="16ms")), _wall("queue", "queue"))
WALL = Figure(
    "pspice", "wall", "Fig. 7 on the wall clock", _STATEMENT,
    "Q2 over generated quotes that arrive in real time. An event takes less than a microsecond, so the bound is "
    f"{_WALL_BOUND.replace('ms', ' ms')} instead of {BOUND.replace('s', ' s')}; both detectors have the share of it "
    "that they have elsewhere. The first 40 % of the events, in which the queue fills, are not judged. Each run is "
    "repeated three times; values are medians. These runs need a machine that is otherwise idle: "
    "`python -m bench.papers.pspice wall` runs them alone.",
    _WALL_PARTS,
    (
        Picture(
            "latency", "Largest event latency in each part of the stream, wall clock",
            tuple(
                Panel(part.name, "series", "latency", f"event ({part.name})", f"{_LATENCY} (largest)")
                for part in _WALL_PARTS
            ),
        ),
    ),
    tuple(
        Table(part.name, f"Late events, mean latency as a share of the bound, and time for decisions: {part.title}",
              ("share_over_bound", "used", "overhead"))
        for part in _WALL_PARTS
    ),
    bound_kept_on_the_wall,
    runs_alone=True,
)  # fmt: skip
