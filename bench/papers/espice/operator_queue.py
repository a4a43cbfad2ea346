"""Fig. 7 on the operator of the paper: a queue of events that take the same time in each of their windows.

The queue is simulated. Its demand comes from the queue detector and the control of fastcep, which decide every eighth
of a window, as in an engine. Dropping a share of the events of the windows saves this share of the work, at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import fastcep as fc
from bench.papers.espice.cases import BOUND, QUEUE, SKIP, TABLE, Case
from bench.papers.results import measured_part
from bench.papers.strategies import ESPICE
from fastcep.evaluation.targets import parse_bound
from fastcep.overload.demand import DemandControl
from fastcep.overload.latency import LatencyMonitor
from fastcep.overload.load import Load
from fastcep.overload.offered_load import OfferedLoad
from fastcep.overload.protocols import Detector
from fastcep.plan import make_plan
from fastcep.shedding.counts.piece import Spans, piece_of

__all__ = ["latencies_in_queue", "open_windows", "queue_of_operator"]

_DECISIONS = 8  #: in a window
_POINTS = 120  #: of the latency over time
_VALUES = "share_over_bound", "mean_latency", "mean_latency_while_shedding"

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def open_windows(query: fc.Query, table: pa.Table) -> tuple[Floats, float]:
    """Return the number of windows that are open at each event, and the mean number of events in a window."""
    spans = Spans.of(piece_of("open_windows", query, table, None, 0), make_plan(query))
    changes = np.zeros(len(table) + 1)
    np.add.at(changes, spans.opens, 1.0)
    np.add.at(changes, spans.lasts + 1, -1.0)
    return changes.cumsum()[:-1], float((spans.lasts - spans.opens + 1).mean())


def latencies_in_queue(
    services: Floats, rate: float, bound: float, detector: Detector, every: int, decision: float
) -> tuple[Floats, Flags]:
    """Simulate a queue whose work is reduced by the demand of a detector.

    Parameters
    ----------
    services
        Time of each event without shedding in ns: float64[events].
    rate
        Events that arrive per ns, evenly.
    bound
        Latency bound in ns.
    detector
        Detector of the queue.
    every
        Number of events between two decisions.
    decision
        Cost of a decision in ns.

    Returns
    -------
    tuple
        Event latency of each event in ns, and whether load was shed at it.
    """
    control, offered = DemandControl([detector], LatencyMonitor(1, 1, bound)), OfferedLoad(bound)
    latencies, sheds = np.zeros(len(services)), np.zeros(len(services), bool)
    now = spent = last_arrival = 0.0
    for number, service in enumerate(services.tolist()):
        arrival = number / rate
        now = max(now, arrival)
        waited, taken = now - arrival, service * (1 - control.demand)
        now += taken
        spent += taken
        latencies[number], sheds[number] = now - arrival, control.demand > 0
        if (number + 1) % every == 0:
            offered.add(every, arrival - last_arrival, spent, 0.0, control.demand)
            load = Load(
                bound, recent=spent / every, busy=(spent + decision) / every, waited=waited, events=every,
                queue=max(0, int(now * rate) - number), arrivals=offered.rate, saved=control.demand, at_once=True,
                service=offered.service, growth=offered.growth, latest=offered.latest,
            )  # fmt: skip
            control.update(load, 0.0, _DECISIONS)
            now, spent, last_arrival = now + decision, 0.0, arrival
    return latencies, sheds


def queue_of_operator(case: Case, rates: Sequence[str], f: float, events: int, seeds: int) -> dict[str, Any]:
    """Simulate the queue of a query at several arrival rates, and return the result of a part.

    Nothing is random, so there is one row for each rate, whatever ``seeds`` is.

    Parameters
    ----------
    case
        Query and stream, with its middle size and the selection ``first``.
    rates
        Arrival rates, such as ``120%`` of that at which events take all of the time.
    f
        Share of the bound for which events may wait before load is shed.
    events, seeds
        Numbers of events and of seeds.
    """
    bound, query = parse_bound("latency_bound", BOUND), case.query(case.middle, "first")
    table, engine = case.events(events), fc.Engine(query)
    windows, size = open_windows(query, table)
    services, first = windows / windows.mean() * bound / QUEUE, int(SKIP * events)
    rows, series = [], []
    for rate in rates:
        latencies, sheds = latencies_in_queue(
            services, float(rate.rstrip("%")) / 100 * QUEUE / bound, bound, fc.shedding.QueueLength(f=f),
            max(1, round(size / _DECISIONS)), TABLE.decision,
        )  # fmt: skip
        judged, while_shedding = latencies[first:], latencies[first:][sheds[first:]]
        mean_while_shedding = float(while_shedding.mean()) if len(while_shedding) else None
        values = float((judged > bound).mean()), float(judged.mean()), mean_while_shedding
        names = {"shedder": ESPICE, "target": rate, "seed": 0}
        rows.append({**names, "why": "", **dict(zip(_VALUES, values, strict=True))})
        parts = np.array_split(np.arange(events), min(_POINTS, events))
        series.append({
            **names, "x": [int(part.mean()) for part in parts], "bound": bound, "largest": float(latencies.max()),
            "latency": [round(float(latencies[part].max())) for part in parts],
        })  # fmt: skip
    matches = len(engine.process(table)) + len(engine.flush())
    result = measured_part(rows, events, matches, mode="rates", cost_table="paper")
    return {**result, "series": series, "setting": {**result["setting"], "latency_bound": bound}}
