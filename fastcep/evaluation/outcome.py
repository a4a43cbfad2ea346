"""What comes out of one run for one target: the numbers that a report is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastcep.evaluation.identity import found_in
from fastcep.evaluation.latencies import over_time, skipped, statistic_of, total
from fastcep.evaluation.measure import Measured
from fastcep.evaluation.targets import Target
from fastcep.evaluation.trial import Trial

__all__ = ["Outcome", "outcome_of"]


@dataclass(frozen=True)
class Outcome:
    """What came out. Times are ns; latencies are processing latencies, or with a rate event latencies.

    Attributes
    ----------
    found, right
        How many matches were found, and how many of them are true.
    mean, p95, p99
        Of the latencies behind the events to skip.
    processing, overhead
        How long the engine was busy with events, and with decisions.
    share_over
        Of the events behind those to skip, the share whose latency was above the bound; None without one.
    shed_events, shed_matches
        How many events, and partial matches born or to be born, were dropped; with these, how many times an event was
        cut off before a partial match.
    withheld
        How many times an event was not tried for a variable, dropped or not.
    bindable, births
        Of how many events (that some variable could bind), and births of partial matches. 0 events: no share is told.
    estimated_recall
        As the shedder expects.
    demanded
        Whether the detector ever demanded anything.
    line
        Latency over time: numbers of events, and latencies.
    shed_by
        By query: ``events`` by type (``seen``, ``dropped``), ``partial_matches`` by variable (``born``, ``refused``,
        ``dropped``, by class).
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
    estimated_recall: float | None = None
    demanded: bool = True
    line: tuple[list[int], list[float]] = ([], [])
    shed_by: dict[str, Any] = field(default_factory=dict)

    @property
    def fired(self) -> bool:
        """Whether anything was shed."""
        return self.shed_events + self.shed_matches + self.withheld > 0

    def latency(self, statistic: str) -> float:
        """A statistic of the latencies."""
        return {"mean": self.mean, "p95": self.p95, "p99": self.p99}[statistic]


def outcome_of(trial: Trial, target: Target, run: Measured) -> Outcome:
    """Sum up a run of an engine with a shedder."""
    setting, told = trial.setting, run.metrics["shedding"]
    latencies = run.processing if target.rate is None else run.event
    judged = latencies[skipped(len(latencies), setting.skip) :]
    share_over = run.share_over
    if share_over is None and target.bound is not None:
        share_over = float((judged > target.bound).mean()) if len(judged) else 0.0
    in_windows = told["dropped_in_windows"]
    by_query = {name: _shed_by(own, trial.bindable[name]) for name, own in told["queries"].items()}
    return Outcome(
        found=len(run.identities),
        right=found_in(run.identities, trial.truth.identities),
        mean=statistic_of(judged, "mean"), p95=statistic_of(judged, "p95"), p99=statistic_of(judged, "p99"),
        processing=total(run.processing), overhead=float(told["overhead"]),
        share_over=share_over,
        shed_events=told["dropped_events"] + in_windows,
        shed_matches=told["dropped_partial_matches"] + told["passed_over"],
        bindable=0 if in_windows else sum(sum(counts.values()) for counts in trial.bindable.values()),
        births=_births(by_query) + told["passed_over"],
        withheld=sum(sum(counts) for own in told["queries"].values() for counts in own["withheld"].values()),
        estimated_recall=told["estimated_recall"],
        demanded=told["episodes"] > 0,
        line=over_time(latencies, setting.statistic if target.rate is None else "max"),
        shed_by=by_query,
    )  # fmt: skip


def _shed_by(told: dict[str, Any], bindable: dict[str, int]) -> dict[str, Any]:
    dropped = told["dropped_events"]
    return {
        "events": {name: {"seen": count, "dropped": dropped[name]} for name, count in bindable.items()},
        "partial_matches": told["partial_matches"],
    }


def _births(by_query: dict[str, Any]) -> int:
    return sum(
        sum(own["born"]) + sum(own["refused"])
        for query in by_query.values() for own in query["partial_matches"].values()
    )  # fmt: skip
