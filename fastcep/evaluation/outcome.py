"""Outcome of one run for one target: the numbers in a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastcep.engine.results.match_identity import count_found
from fastcep.evaluation.latencies import over_time, skipped, statistic_of, total
from fastcep.evaluation.measure import Measured
from fastcep.evaluation.targets import Target
from fastcep.evaluation.trial import Trial

__all__ = ["Outcome", "outcome_of"]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run. Times are in ns; latencies are processing latencies, or event latencies if a rate is set.

    Attributes
    ----------
    found, right
        Number of matches found, and number of true ones among them.
    mean, p95, p99
        Statistics of the latencies after the warm-up.
    processing, overhead
        Time that the engine spent on events, and on shedding decisions.
    share_over
        Share of the events after the warm-up with a latency above the bound; None without a bound.
    shed_events, shed_matches
        Number of dropped events, and of dropped or rejected partial matches. The latter includes each time that the
        work limit of an event skipped a partial match.
    withheld
        Number of times that an event was not tried for a variable, dropped or not.
    while_shedding
        Mean latency of the events, also those of the warm-up, between decisions that shed load; 0 if none did. None for
        references, which make no decisions.
    bindable, births
        Number of events that some variable could bind, and of partial matches created or rejected; the totals for
        ratios. 0 events: there is no ratio.
    estimated_recall
        Recall that the shedder estimates.
    demanded
        Whether the detector ever demanded shedding.
    line
        Latency over time: numbers of events, and latencies.
    shed_by
        For each query: ``events`` by type (``seen``, ``dropped``), ``partial_matches`` by variable (``born``,
        ``refused``, ``dropped``, each by class).
    """

    found: int
    right: int
    mean: float
    p95: float
    p99: float
    processing: float
    overhead: float
    share_over: float | None
    shed_events: int
    shed_matches: int
    bindable: int
    births: int
    withheld: int = 0
    while_shedding: float | None = None
    estimated_recall: float | None = None
    demanded: bool = True
    line: tuple[list[int], list[float]] = ([], [])
    shed_by: dict[str, Any] = field(default_factory=dict)

    @property
    def fired(self) -> bool:
        """True if anything was shed."""
        return self.shed_events + self.shed_matches + self.withheld > 0

    def latency(self, statistic: str) -> float:
        """Return a statistic of the latencies."""
        return {"mean": self.mean, "p95": self.p95, "p99": self.p99}[statistic]


def outcome_of(trial: Trial, target: Target, run: Measured) -> Outcome:
    """Return the outcome of a run of an engine with a shedder."""
    setting, shedding = trial.setting, run.metrics["shedding"]
    latencies = run.processing if target.rate is None else run.event
    judged_kind = shedding["processing_latency" if target.rate is None else "event_latency"]
    judged = latencies[skipped(len(latencies), setting.skip) :]
    share_over = run.share_over
    if share_over is None and target.bound is not None:
        share_over = float((judged > target.bound).mean()) if len(judged) else 0.0
    in_windows = shedding["dropped_in_windows"] + shedding["dropped_windows"]
    by_query = {name: _shed_by(of_query, trial.bindable[name]) for name, of_query in shedding["queries"].items()}
    return Outcome(
        found=len(run.identities),
        right=count_found(run.identities, trial.truth.identities),
        mean=statistic_of(judged, "mean"), p95=statistic_of(judged, "p95"), p99=statistic_of(judged, "p99"),
        while_shedding=judged_kind["mean_while_shedding"],
        processing=total(run.processing), overhead=float(shedding["overhead"]),
        share_over=share_over,
        shed_events=shedding["dropped_events"] + in_windows,
        shed_matches=shedding["dropped_partial_matches"] + shedding["passed_over"],
        bindable=0 if in_windows else sum(sum(counts.values()) for counts in trial.bindable.values()),
        births=_births(by_query) + shedding["passed_over"],
        withheld=sum(
            sum(counts) for of_query in shedding["queries"].values() for counts in of_query["withheld"].values()
        ),
        estimated_recall=shedding["estimated_recall"],
        demanded=shedding["episodes"] > 0,
        line=over_time(latencies, setting.statistic if target.rate is None else "max"),
        shed_by=by_query,
    )  # fmt: skip


def _shed_by(shedding: dict[str, Any], bindable: dict[str, int]) -> dict[str, Any]:
    dropped = shedding["dropped_events"]
    return {
        "events": {name: {"seen": count, "dropped": dropped[name]} for name, count in bindable.items()},
        "partial_matches": shedding["partial_matches"],
    }


def _births(by_query: dict[str, Any]) -> int:
    return sum(
        sum(counts["born"]) + sum(counts["refused"])
        for query in by_query.values() for counts in query["partial_matches"].values()
    )  # fmt: skip
