"""The runs of an evaluation: each strategy for each target, and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastcep.arrivals.max_throughput import maximum_rate
from fastcep.arrivals.rate import Rate
from fastcep.errors import FastcepError, ValidationError
from fastcep.evaluation.latencies import over_time, skipped, statistic_of, total
from fastcep.evaluation.measure import measure
from fastcep.evaluation.outcome import Outcome, outcome_of
from fastcep.evaluation.setting import Setting
from fastcep.evaluation.strategies import Strategy
from fastcep.evaluation.stream import Stream
from fastcep.evaluation.targets import Target, TargetSpec
from fastcep.evaluation.trial import Trial, Truth
from fastcep.query import ast

__all__ = ["Cell", "Comparison", "cells_of", "judge", "targets_of", "truth_of"]


@dataclass(frozen=True)
class Comparison(Trial):
    """Trial with several ``strategies``."""

    strategies: tuple[Strategy, ...]


@dataclass(frozen=True)
class Cell:
    """One run: index of the strategy, index of the target, seed, number of the repetition."""

    strategy: int
    target: int
    seed: int
    repeat: int = 0


def cells_of(trial: Comparison) -> list[Cell]:
    """Return all runs in the order of a report's rows: by target, strategy, seed, repetition."""
    setting = trial.setting
    return [
        Cell(strategy, target, seed, repeat)
        for target in range(len(trial.targets)) for strategy in range(len(trial.strategies))
        for seed in setting.seeds for repeat in range(setting.repeats)
    ]  # fmt: skip


def judge(trial: Comparison, cell: Cell) -> Outcome:
    """Run a strategy for a target; on the virtual clock the same cell gives the same outcome, wherever it runs."""
    strategy, target = trial.strategies[cell.strategy], trial.targets[cell.target]
    try:
        if strategy.direct is not None:
            return strategy.direct.outcome(trial, target, cell.seed)
        engine = trial.setting.shedding(trial.queries, strategy.shedder(cell.seed), target)
        run = measure(engine, trial.queries, trial.stream, rate=target.rate, skip=trial.setting.skip)
    except FastcepError as error:
        error.add_note(f"shedder {strategy.name!r}, target {target.label}, seed {cell.seed}")
        raise
    return outcome_of(trial, target, run)


def truth_of(queries: Sequence[ast.Query], stream: Stream, setting: Setting) -> Truth:
    """Run without shedding, and return the truth; of several runs, the one with the median latency."""
    truths = [_truth(queries, stream, setting) for _ in range(setting.repeats)]
    truth = sorted(truths, key=lambda one: one.latency(setting.statistic))[len(truths) // 2]
    if not len(truth.identities):
        names = " and ".join(repr(query.name) for query in queries)
        raise ValidationError(
            f"events: {names} found no match in {len(stream):,} events without shedding, so recall is undefined; "
            "give more events, or another query"
        )
    if skipped(len(stream), setting.skip) >= len(stream):
        raise ValidationError(
            f"skip={setting.skip:g} leaves none of {len(stream):,} events to evaluate; give a smaller share, or more "
            "events"
        )
    return truth


def _truth(queries: Sequence[ast.Query], stream: Stream, setting: Setting) -> Truth:
    run = measure(setting.plain(queries), queries, stream)
    judged, busy = run.processing[skipped(len(run.processing), setting.skip) :], total(run.processing)
    if not busy:
        raise ValidationError(
            f"events: {len(stream):,} events cost nothing according to cost_table={setting.costs.name!r}; give another "
            "table, or more events"
        )
    return Truth(
        run.identities,
        mean=statistic_of(judged, "mean"), p95=statistic_of(judged, "p95"), p99=statistic_of(judged, "p99"),
        throughput=len(stream) / busy * 1e9,
        line=over_time(run.processing, setting.statistic),
        created=run.metrics["rows_created"],
    )  # fmt: skip


def targets_of(
    specs: Sequence[TargetSpec], truth: Truth, queries: Sequence[ast.Query], stream: Stream, setting: Setting
) -> tuple[tuple[Target, ...], float | None]:
    """Resolve target specifications to numbers; also return the maximum rate if rates vary, otherwise None.

    Raises
    ------
    ValidationError
        If no shedding can hold a bound, or events cannot arrive at a rate.
    """
    if setting.mode == "demands":
        return tuple(Target(spec.label, demand=spec.resolve(1.0)) for spec in specs), None
    if setting.mode == "bounds":
        unshed = truth.latency(setting.statistic)
        targets = tuple(Target(spec.label, bound=spec.resolve(unshed)) for spec in specs)
        for target in targets:
            _check_bound(target, setting)
        return targets, None
    fastest = truth.throughput
    if setting.clock == "wall":
        fastest = maximum_rate(lambda: setting.plain(queries), list(stream.blocks()), "wall")
    bound = setting.latency_bound
    targets = tuple(Target(spec.label, bound=bound, rate=spec.resolve(fastest)) for spec in specs)
    for target in targets:
        _check_rate(target, fastest)
    return targets, fastest


def _check_bound(target: Target, setting: Setting) -> None:
    least = setting.costs.event
    assert target.bound is not None
    if not target.bound or target.bound < least:
        raise ValidationError(
            f"bounds={target.label!r}: {target.bound:.6g} ns is below the cost of dropping an event, {least:.4g} ns in "
            f"the cost table {setting.costs.name!r}, so no shedding can hold it; give a larger bound"
        )


def _check_rate(target: Target, fastest: float) -> None:
    assert target.rate is not None
    try:
        Rate.constant(target.rate)
    except ValidationError as error:
        raise ValidationError(
            f"rates={target.label!r}: {error}; without shedding the engine reaches {fastest:,.0f} events/s, so give a "
            "lower rate, or a cost_table with larger costs"
        ) from None
