"""``fc.evaluate``: one run without shedding, then one run per strategy, target and seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from fastcep.engine.queries import Buildable, built_queries
from fastcep.engine.runner import Runner
from fastcep.errors import ValidationError
from fastcep.evaluation.document import document_of
from fastcep.evaluation.judging import Cell, Comparison, cells_of, judge, targets_of, truth_of
from fastcep.evaluation.options import setting_of
from fastcep.evaluation.outcome import Outcome
from fastcep.evaluation.protocols import Reference, ShedderFactory, ShedderFit
from fastcep.evaluation.report import Report
from fastcep.evaluation.setting import Setting
from fastcep.evaluation.shared_trial import shared
from fastcep.evaluation.strategies import Strategy, strategies_of
from fastcep.evaluation.stream import Stream
from fastcep.evaluation.targets import parse_targets
from fastcep.option_types import Clock, Index, Statistic
from fastcep.overload.costs import CostTable
from fastcep.overload.protocols import Detector, Shedder
from fastcep.query import ast

__all__ = ["evaluate"]

Judged = str | Shedder | ShedderFactory | ShedderFit | Reference
TargetSpec = str | float | timedelta


def evaluate(
    queries: ast.Query | Buildable | Sequence[ast.Query | Buildable],
    events: Any,
    *,
    shedders: Judged | Sequence[Judged],
    bounds: TargetSpec | Sequence[TargetSpec] | None = None,
    rates: TargetSpec | Sequence[TargetSpec] | None = None,
    demands: str | Sequence[str] | None = None,
    statistic: Statistic = "mean",
    latency_bound: str | timedelta | float | None = None,
    seeds: int | Sequence[int] = 1,
    clock: Clock = "virtual",
    cost_table: CostTable | str | PathLike[str] = "measured",
    index: Index = "full",
    detector: str | Detector | Sequence[str | Detector] | None = None,
    history: Any = None,
    model: str | PathLike[str] | None = None,
    skip: float = 0.02,
    repeats: int | None = None,
    runner: Runner | None = None,
    progress: Callable[[int, int], None] | None = None,
    source: str | None = None,
) -> Report:
    """Compare load shedding strategies with a run without shedding.

    A first run without shedding finds the true matches (the *truth*); targets given as shares are relative to its
    latency or throughput. Then there is one run for each strategy, target and seed. All engines use ``store="rows"``,
    even where another store would be faster, because costs differ between stores.

    Memory holds the events as one Arrow table, 8 bytes per true match, and 16 bytes of latencies per event; nothing
    else grows with the stream.

    Parameters
    ----------
    queries
        As for `Engine`.
    events
        Input of `Engine.process`, in order.
    shedders
        Strategies to evaluate: names (``"ri"``), functions that return a shedder for a seed, shedders (with the single
        seed they already have), objects whose ``fit(queries, history)`` returns such a function, and references, see
        `fastcep.evaluation.protocols`.
    bounds
        Bounds on the processing latency: ``"50%"`` of the latency without shedding, ``"500us"``, or nanoseconds. Give
        exactly one of ``bounds``, ``rates`` and ``demands``.
    rates
        Arrival rates: ``"120%"`` of the maximum throughput without shedding, or a number of events per second. They
        need ``latency_bound``.
    demands
        Shares of the work to save, such as ``"30%"``, at every decision and without a latency bound.
    statistic
        Statistic of the processing latency that ``bounds`` limit: ``mean``, ``p95`` or ``p99``.
    latency_bound
        With ``rates``: bound on the event latency, queueing included.
    seeds
        Number of seeds (0, 1, …), or a list of seeds.
    clock, cost_table, index
        Options of the engines.
    detector
        Name of a detector, a detector, or several; None: the default detector of the shedder.
    history
        Events to fit models on. None: models are fitted on the first half of the events, and all strategies are
        evaluated on the second half; if nothing needs fitting, on all events.
    model
        Folder with a fitted model, for the shedders that need one.
    skip
        Share of the events at the start whose latencies are excluded as warm-up.
    repeats
        On the wall clock, number of repetitions of each run (3); rows have medians and the spread.
    runner
        Runner of the runs, such as a ``ProcessPoolExecutor`` or a `fastcep.spark.SparkRunner`. None: one after the
        other in this process. On the wall clock, parallel runs disturb each other.
    progress
        Function that receives the number of finished runs and their total.
    source
        Name of the stream, for the report.

    Returns
    -------
    Report
        Rows and details. On the virtual clock, the report is the same for the same input on every machine.

    Raises
    ------
    ValidationError
        If an option is wrong, or if there are no events or no matches.
    FastcepError
        If queries or events are wrong, or a strategy cannot be used.
    """
    built = tuple(built_queries(queries, False))
    setting = setting_of(
        bounds=bounds, rates=rates, demands=demands, statistic=statistic, latency_bound=latency_bound, seeds=seeds,
        clock=clock, cost_table=cost_table, index=index, detector=detector, skip=skip, repeats=repeats,
    )  # fmt: skip
    specs = parse_targets(setting.mode, {"bounds": bounds, "rates": rates, "demands": demands}[setting.mode])
    strategies = strategies_of(shedders, setting.seeds, None if model is None else fspath(model))
    _check_clock(strategies, setting.clock)
    stream, fitted_on, strategies = _fitted(built, events, strategies, history, setting)
    strategies = tuple(strategy.prepared(built, stream, setting) for strategy in strategies)
    _check_queries(built, strategies, setting)
    truth = truth_of(built, stream, setting)
    targets, fastest = targets_of(specs, truth, built, stream, setting)
    trial = Comparison(built, stream, setting, truth, targets, stream.bindable(built), strategies)
    cells = cells_of(trial)
    outcomes = _outcomes(trial, cells, runner, progress)
    return Report(
        document_of(
            trial, cells, outcomes,
            source=None if source is None else Path(source).name, fitted_on=fitted_on, maximum_rate=fastest,
            machine=_machine(runner) if setting.clock == "wall" else None,
        )
    )  # fmt: skip


def _fitted(
    queries: tuple[ast.Query, ...], events: Any, strategies: tuple[Strategy, ...], history: Any, setting: Setting
) -> tuple[Stream, int, tuple[Strategy, ...]]:
    """Fit the strategies that need it; return the events to evaluate, the size of the history, and the strategies."""
    schema, needs_fit = queries[0].schema, any(strategy.fit is not None for strategy in strategies)
    stream = Stream.of(events, schema)
    if history is not None and not needs_fit:
        raise ValidationError("history=…: none of the shedders is fitted; omit it")
    if not needs_fit:
        return stream, 0, strategies
    if history is None:
        past, stream = stream.halves(schema)
    else:
        past = Stream.of(history, schema, "history")
    return stream, len(past), tuple(strategy.fitted(queries, past.table, setting) for strategy in strategies)


def _outcomes(
    trial: Comparison, cells: Sequence[Cell], runner: Runner | None, progress: Callable[[int, int], None] | None
) -> list[Outcome]:
    def collect(results: Iterable[Outcome]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for outcome in results:
            outcomes.append(outcome)
            if progress is not None:
                progress(len(outcomes), len(cells))
        return outcomes

    if progress is not None:
        progress(0, len(cells))
    if runner is None:
        return collect(judge(trial, cell) for cell in cells)
    with shared(trial, runner) as remote:
        return collect(runner.map(remote, cells))


def _check_clock(strategies: Sequence[Strategy], clock: str) -> None:
    for strategy in strategies:
        if strategy.direct is not None and clock != "virtual":
            raise ValidationError(
                f"clock={clock!r}: {strategy.name!r} counts operations and measures no time; use clock='virtual', or "
                "omit it"
            )


def _check_queries(queries: Sequence[ast.Query], strategies: Sequence[Strategy], setting: Setting) -> None:
    """Let the shedders reject queries before any run."""
    for strategy in strategies:
        check = getattr(strategy.direct, "check", None)
        if check is not None:
            check(queries)
        if strategy.factory is not None:
            shedder = strategy.shedder(setting.seeds[0])
            if setting.mode != "demands":
                setting.detectors_for(shedder)  # as an engine does first: a check may depend on it
            for query in queries:
                shedder.check(query)


def _machine(runner: Runner | None) -> dict[str, Any]:
    import platform

    import numpy as np

    from fastcep.arrivals.calibration import machine

    note = {} if runner is None else {"note": "parallel runs of the runner disturb each other's times"}
    return {**machine(), "python": platform.python_version(), "numpy": np.__version__, **note}
