"""Load of the engine at a decision, and what detectors make of it."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["DetectorReading", "Load"]


@dataclass(slots=True)
class Load:
    """Measurements of the engine at a decision. Times are in ns.

    Attributes
    ----------
    bound
        Latency bound; 0 for none.
    smoothed
        Detector's statistic of the processing latency over the most recent events.
    recent
        Mean processing latency of the events since the last decision.
    busy
        Time that the engine is busy per event, with the cost of the last decision.
    service, other
        Time of matching an event without shedding (median), and least time of other work for it; 0 while unknown.
    growth
        Expected excess of the present ``service`` over the median; 0 if it does not rise.
    latest
        Smaller ``service`` of the last two intervals between decisions, so that one interruption does not count.
    waited, queue
        Time that the last event waited in the queue, and number of events in it.
    arrivals
        Arrival rate in events per ns, as a median over several decisions; 0 if unknown.
    partial_matches, events
        Number of live partial matches, and of events since the last decision.
    memory, memory_limit
        Bytes held, and their limit.
    over, saved
        Share of the events since the last decision that took longer than the bound, and of the work that was to be
        saved, by the demand and the backlog limit.
    queries
        Number of queries of the engine.
    shedding, cut, limit_suspended, at_once, on_wall_clock
        Whether the demand is above 0; the work of single events is limited; that limit is suspended
        (`DropPlan.work_limit`); demands take effect at once, because the shedder drops only from isolated windows
        (`Shedder.in_windows`); times are those of the wall clock.
    """

    bound: float
    smoothed: float = 0.0
    recent: float = 0.0
    busy: float = 0.0
    waited: float = 0.0
    queue: int = 0
    arrivals: float = 0.0
    partial_matches: int = 0
    memory: int = 0
    memory_limit: int = 0
    events: int = 0
    saved: float = 0.0
    shedding: bool = False
    over: float = 0.0
    cut: bool = False
    limit_suspended: bool = False
    queries: int = 1
    service: float = 0.0
    other: float = 0.0
    growth: float = 0.0
    latest: float = 0.0
    at_once: bool = False
    on_wall_clock: bool = False


@dataclass(slots=True)
class DetectorReading:
    """Reading of a detector.

    Attributes
    ----------
    excess
        Distance of the load above (negative: below) its set point, as a share of the set point.
    utilisation
        Arrival rate divided by the throughput without shedding; 0 if the rate is unknown. None without a queue.
    amount
        Demand, if the detector knows it; None: the controller determines it.
    of_present
        Whether `amount` is a share of the present state, to be dropped now. Otherwise it is a share of the work.
    why
        Readable text: what exceeds its limit.
    """

    excess: float
    utilisation: float | None = None
    amount: float | None = None
    of_present: bool = True
    why: str = field(default="")
