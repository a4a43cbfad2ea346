"""Rows of a report: outcomes as ratios, and whether they count."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from fastcep.evaluation.judging import Comparison
from fastcep.evaluation.outcome import Outcome
from fastcep.evaluation.targets import MAX_SHARE_OVER, Target

__all__ = ["MIN_MATCHES", "row_of", "wins_of"]

#: Minimum number of true matches for recall and precision; with fewer, a single match would change them visibly.
MIN_MATCHES = 1_000

#: Values of a row that are medians over repeated runs, with their spread.
_SPREAD = (
    "recall", "precision", "mean_latency", "p95_latency", "p99_latency", "mean_latency_while_shedding",
    "share_over_bound", "throughput",
    "shed_event_ratio", "shed_match_ratio", "overhead", "estimated_recall",
)  # fmt: skip
_COUNTS = ("shed_events", "shed_matches")


def row_of(trial: Comparison, strategy: str, target: Target, seed: int, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the row of a strategy, a target and a seed, from one or several runs.

    For several runs it has medians, and ``spread`` with the minimum and maximum of each value.
    """
    each = [_numbers(trial, outcome) for outcome in outcomes]
    values = each[0] if len(each) == 1 else {key: _median([one[key] for one in each], key) for key in each[0]}
    fired = all(outcome.fired for outcome in outcomes)
    held = _held(trial, target, values)
    why = _why(trial, target, values, held, fired, any(outcome.demanded for outcome in outcomes))
    row = {
        "shedder": strategy, "target": target.label, "bound": target.bound, "rate": target.rate,
        "demand": target.demand, "seed": seed, **values,
        "held": held, "fired": fired, "counts": not why, "why": why,
    }  # fmt: skip
    if trial.setting.clock == "wall":
        row["spread"] = {key: _spread([one[key] for one in each]) for key in _SPREAD}
    return row


def wins_of(trial: Comparison, rows: Sequence[dict[str, Any]]) -> dict[str, str | None]:
    """Return for each target the strategy with the best mean recall over seeds; the first one of equals.

    Strategies with rows that do not count, and references, are excluded. With demands there is no winner, because
    strategies save different amounts of work.
    """
    wins: dict[str, str | None] = {}
    for target in trial.targets:
        best, winner = -1.0, None
        for strategy in trial.strategies:
            candidates = [row for row in rows if row["shedder"] == strategy.name and row["target"] == target.label]
            recalls = [row["recall"] for row in candidates if row["counts"] and row["recall"] is not None]
            if target.demand is not None or strategy.reference or len(recalls) < len(candidates):
                continue
            recall = sum(recalls) / len(recalls)
            if recall > best:
                best, winner = recall, strategy.name
        wins[target.label] = winner
    return wins


def _numbers(trial: Comparison, outcome: Outcome) -> dict[str, Any]:
    truth = len(trial.truth.identities)
    enough = truth >= MIN_MATCHES
    busy = outcome.processing + outcome.overhead
    return {
        "recall": outcome.right / truth if enough else None,
        "precision": outcome.right / outcome.found if enough and outcome.found else None,
        "mean_latency": outcome.mean, "p95_latency": outcome.p95, "p99_latency": outcome.p99,
        "mean_latency_while_shedding": outcome.while_shedding,
        "share_over_bound": outcome.share_over,
        "throughput": len(trial.stream) / busy * 1e9 if busy else None,
        "shed_events": outcome.shed_events, "shed_matches": outcome.shed_matches,
        "shed_event_ratio": outcome.shed_events / outcome.bindable if outcome.bindable else None,
        "shed_match_ratio": outcome.shed_matches / outcome.births if outcome.births else 0.0,
        "overhead": outcome.overhead / busy if busy else 0.0,
        "estimated_recall": outcome.estimated_recall,
    }  # fmt: skip


def _median(values: Sequence[Any], key: str) -> Any:
    present = [value for value in values if value is not None]
    if not present:
        return None
    return round(median(present)) if key in _COUNTS else float(median(present))


def _spread(values: Sequence[Any]) -> list[Any] | None:
    present = [value for value in values if value is not None]
    return [min(present), max(present)] if present else None


def _held(trial: Comparison, target: Target, values: dict[str, Any]) -> bool | None:
    if target.demand is not None:
        return None
    if target.rate is not None:
        return bool(values["share_over_bound"] <= MAX_SHARE_OVER)
    return bool(values[f"{trial.setting.statistic}_latency"] <= target.bound)


def _why(
    trial: Comparison, target: Target, values: dict[str, Any], held: bool | None, fired: bool, demanded: bool
) -> str:  # fmt: skip
    """Return the reason that a row does not count; empty if it counts."""
    if target.demand is not None:
        return "" if fired else "nothing was shed"
    if target.rate is not None:
        measured = f"{100 * values['share_over_bound']:.4g} % of the events were later than the bound"
    else:
        share = values[f"{trial.setting.statistic}_latency"] / target.bound
        measured = f"{trial.setting.statistic} latency {_near_one(share)} of the bound"
    reasons = [] if held else [f"bound not held: {measured}"]
    if not fired and demanded:
        reasons.append("nothing was shed, although the detector fired")
    elif not fired:
        reasons.append(f"detector never fired: {measured}")
    return "; ".join(reasons)


def _near_one(share: float) -> str:
    """Format a share with a few digits, enough of them to show whether it is above 1."""
    for digits in (4, 6, 9):
        text = f"{share:.{digits}g}"
        if (float(text) > 1) == (share > 1):
            return text
    return repr(share)
