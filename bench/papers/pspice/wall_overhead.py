"""Fig. 9 on the wall clock: the share of the time that decisions take."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import fastcep as fc
from bench.papers.data import HISTORY, HISTORY_SEED, SEED
from bench.papers.figures import Figure, Part, Table
from bench.papers.pspice.findings import overheads_on_the_wall
from bench.papers.pspice.overhead import QUOTED_SYMBOLS
from bench.papers.pspice.streams import q1, quotes
from bench.papers.strategies import PSPICE
from bench.unseen.wall import Repeated
from fastcep.engine import Matches
from fastcep.evaluation.setting import UNREACHABLE_BOUND
from fastcep.overload.episodes import without_warnings

__all__ = ["FIG9_WALL", "decision_times"]

WINDOWS = (3_500, 10_000)
EVENTS, _PERIOD = 12_000_000, 300_000
#: Events from which the maximum rate is measured.
_RATE_EVENTS = 1_500_000
_RATE, _BOUND = 1.2, "200ms"
#: Share of the events at the start in which the queue fills, and share of the others that may be late.
_SKIP, _LATE = 0.4, 0.001
#: Capacity of the input queue: more events than can wait within the bound.
_CAPACITY = 1 << 20


class _Load:
    """Time that an engine has worked, and the part of it that decisions took, since the warm-up."""

    def __init__(self, engine: fc.Engine, skipped: float) -> None:
        self._engine, self._skipped = engine, skipped
        self._events, self._working = 0, 0.0
        self._before: tuple[float, float] | None = None
        engine.listen(self._add)

    def _add(self, processing: Any, event: Any) -> None:
        self._events += len(processing)
        self._working += float(np.sum(processing))

    def look(self, matches: Matches) -> None:
        """Take note of the end of the warm-up."""
        if self._before is None and self._events >= self._skipped:
            self._before = self._totals()

    @property
    def overhead(self) -> float:
        """Share of the busy time that decisions took."""
        before = self._before or (0.0, 0.0)
        working, deciding = (now - then for now, then in zip(self._totals(), before, strict=True))
        return deciding / (working + deciding) if deciding else 0.0

    def _totals(self) -> tuple[float, float]:
        return self._working, float(self._engine.metrics()["shedding"]["overhead"])


def decision_times(window: int, events: int, seeds: int) -> dict[str, Any]:
    """Measure the share of the busy time that decisions take, and return it as the result of a part.

    Parameters
    ----------
    window
        Number of events in a window of Q1.
    events, seeds
        Numbers of events and of streams.
    """
    query, label = q1(window), f"{window}"
    model = fc.fit(query, quotes(min(events, HISTORY), HISTORY_SEED, QUOTED_SYMBOLS), kind=PSPICE)
    rows, found = [], 0
    for seed in range(seeds):
        period = quotes(min(events, _PERIOD), SEED + 100 * seed, QUOTED_SYMBOLS)
        found = len(fc.Engine(query).process(period))
        overhead, longest, late = _run(query, model, Repeated(period, "ts", events))
        why = f"bound not held: {late:.2%} of the events were late" if late > _LATE else ""
        values = {"overhead": round(overhead, 6), "seconds": round(longest / 1e9, 6), "share_over_bound": late}
        rows.append({"shedder": PSPICE, "target": label, "seed": seed, **values, "why": why})
    return {
        "events": events,
        "truth": {"matches": found},
        "rows": rows,
        "series": [],
        "check": "",
        "setting": {
            "mode": "rates",
            "targets": [label],
            "strategies": [{"name": PSPICE, "label": PSPICE, "reference": False}],
            "seeds": list(range(seeds)),
            "cost_table": "measured",
        },
    }


def _run(query: fc.Query, model: fc.Model, stream: Repeated) -> tuple[float, float, float]:
    """Return the share of decisions, the time in ns of the longest one, and the share of late events."""

    def engine(**options: Any) -> fc.Engine:
        return fc.Engine(query, clock="wall", store="rows", **options)

    short = Repeated(stream.table, "ts", min(stream.events, _RATE_EVENTS))
    maximum = fc.maximum_rate(lambda: engine(latency_bound=UNREACHABLE_BOUND, shedder=None), short, "wall")
    shedding = engine(
        latency_bound=_BOUND, detector=fc.shedding.QueueLength(), shedder=fc.shedding.PSpice(model)
    )  # fmt: skip
    load = _Load(shedding, _SKIP * stream.events)
    with without_warnings():
        shedding.compile()
        replayed = fc.replay(
            shedding, stream, _RATE * maximum, skip=_SKIP, collect=load.look, capacity=_CAPACITY, must_shed=False
        )
    longest = float(shedding.metrics()["shedding"]["decision_time"]["max"])
    return load.overhead, longest, float(replayed.share_over_bound or 0.0)


_PART = Part(
    "wall",
    "decisions",
    partial(q1, WINDOWS[0]),
    partial(quotes, symbols=QUOTED_SYMBOLS),
    EVENTS,
    (PSPICE,),
    {"rates": f"{_RATE:.0%}"},
    history=partial(quotes, seed=HISTORY_SEED, symbols=QUOTED_SYMBOLS),
    points={f"{window}": {"measure": partial(decision_times, window)} for window in WINDOWS},
)
FIG9_WALL = Figure(
    "pspice",
    "fig9_wall",
    "Fig. 9 on the wall clock",
    "For Q1 “the overhead of pSPICE is 1% in case the window size is 3.5K”, and 0.7 % at 10K.",
    f"Q1 as in Fig. 9, over {_PERIOD:,} quotes that are repeated and arrive in real time at {_RATE:.0%} of the maximum "
    f"rate, with the detector `queue` and a bound of {_BOUND.replace('ms', ' ms')}. *Overhead*: the time for decisions "
    f"as a share of the busy time, after the first {_SKIP:.0%} of the events, in which the queue fills and the drop "
    "order is computed for the first time. A decision measures the load, learns, chooses what to drop, and visits live "
    "partial matches if it drops some; that the matcher looks up what to refuse is not part of it, nor is the "
    "recording of events for a new model. By default decisions take [up to 2 % of the time](shedding.md#overview) in "
    "windows as short as these. The matches are those of one repetition. These runs need a machine that is "
    "otherwise idle: `python -m bench.papers.pspice fig9_wall` runs them alone.",
    (_PART,),
    (),
    (
        Table(
            "wall",
            "Overhead of decisions, and time of the longest one in s; columns are windows",
            ("overhead", "seconds"),
        ),
    ),
    overheads_on_the_wall,
    runs_alone=True,
)
