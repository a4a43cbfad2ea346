"""``fc.evaluate``: the truth, then every strategy for every target with every seed."""

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
from fastcep.evaluation.targets import wanted
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
    """Judge strategies of load shedding by what they find of what there is to be found.

    The events are run through an engine without shedding; what it finds is the *truth*, how long it takes is what
    shares are of. Then they are run once for each strategy, target and seed. All engines have ``store="rows"``, also
    where another one would be faster: with another store operations would cost something else.

    The events are held in memory as one Arrow table, and so are 8 bytes per true match, and per event 16 bytes of
    latencies; nothing else grows with the stream.

    Parameters
    ----------
    queries
        As for `Engine`.
    events
        What `Engine.process` takes, in order.
    shedders
        What is judged: spellings (``"ri"``), functions that make a shedder for a seed, shedders (for one seed, their
        own), objects with ``fit(queries, history)`` that gives such a function, and references, see
        `fastcep.evaluation.protocols`.
    bounds
        On the processing latency: ``"50%"`` of what it is without shedding, ``"500us"``, or nanoseconds. Exactly one
        of ``bounds``, ``rates`` and ``demands`` is given.
    rates
        At which events arrive: ``"120%"`` of what is possible without shedding, or a number of events per second;
        ``latency_bound`` is to hold then, for the event latency, queueing included.
    demands
        Shares of the work to be saved, ``"30%"``, at every decision and without any bound.
    statistic
        Of the processing latency that bounds are on: ``mean``, ``p95`` or ``p99``.
    latency_bound
        With rates.
    seeds
        How many (0, 1, …), or which.
    clock, cost_table, index
        Of the engines.
    detector
        A spelling, or a detector, or several; None: the shedder's usual one.
    history
        What models are fitted on. None: on the first half of the events, and then all strategies are judged on the
        second one; on all events if nothing is to be fitted.
    model
        A folder with a fitted model, for those shedders that take one.
    skip
        Share of the events, at the beginning, whose latencies are not judged.
    repeats
        On the wall clock, how often each run is made (3): a row has medians, and the spread beside them.
    runner
        What carries out the runs, such as a ``ProcessPoolExecutor`` or a `fastcep.spark.SparkRunner`; None: one after
        the other, here. On the wall clock runs beside each other disturb each other.
    progress
        Called with how many runs are done, and how many there are.
    source
        Name of the stream, for the report.

    Returns
    -------
    Report
        The rows and all beside; on the virtual clock the same for the same input, on every machine.

    Raises
    ------
    ValidationError
        If an option is wrong, if there are no events, or nothing is to be found in them.
    FastcepError
        If queries or events are wrong, or a strategy cannot be used.
    """
    built = tuple(built_queries(queries, False))
    setting = setting_of(
        bounds=bounds, rates=rates, demands=demands, statistic=statistic, latency_bound=latency_bound, seeds=seeds,
        clock=clock, cost_table=cost_table, index=index, detector=detector, skip=skip, repeats=repeats,
    )  # fmt: skip
    goals = wanted(setting.mode, {"bounds": bounds, "rates": rates, "demands": demands}[setting.mode])
    strategies = strategies_of(shedders, setting.seeds, None if model is None else fspath(model))
    _check_clock(strategies, setting.clock)
    stream, fitted_on, strategies = _fitted(built, events, strategies, history, setting)
    strategies = tuple(strategy.knowing(built, stream, setting) for strategy in strategies)
    _check_queries(built, strategies, setting.seeds)
    truth = truth_of(built, stream, setting)
    targets, fastest = targets_of(goals, truth, built, stream, setting)
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
    """Fit what has to be, and give the events to judge it on, with how many others it was fitted on."""
    schema, fits = queries[0].schema, any(strategy.fits is not None for strategy in strategies)
    stream = Stream.of(events, schema)
    if history is not None and not fits:
        raise ValidationError("history=…: none of the shedders is fitted; leave it out")
    if not fits:
        return stream, 0, strategies
    if history is None:
        past, stream = stream.halves(schema)
    else:
        past = Stream.of(history, schema, "history")
    return stream, len(past), tuple(strategy.fitted(queries, past.table, setting) for strategy in strategies)


def _outcomes(
    trial: Comparison, cells: Sequence[Cell], runner: Runner | None, progress: Callable[[int, int], None] | None
) -> list[Outcome]:
    def told(results: Iterable[Outcome]) -> list[Outcome]:
        found: list[Outcome] = []
        for outcome in results:
            found.append(outcome)
            if progress is not None:
                progress(len(found), len(cells))
        return found

    if progress is not None:
        progress(0, len(cells))
    if runner is None:
        return told(judge(trial, cell) for cell in cells)
    with shared(trial, runner) as remote:
        return told(runner.map(remote, cells))


def _check_clock(strategies: Sequence[Strategy], clock: str) -> None:
    for strategy in strategies:
        if strategy.tells is not None and clock != "virtual":
            raise ValidationError(
                f"clock={clock!r}: {strategy.name!r} counts operations, and has no time of its own; use "
                "clock='virtual', or leave it out"
            )


def _check_queries(queries: Sequence[ast.Query], strategies: Sequence[Strategy], seeds: Sequence[int]) -> None:
    """Let the shedders refuse a query before anything runs."""
    for strategy in strategies:
        check = getattr(strategy.tells, "check", None)
        if check is not None:
            check(queries)
        if strategy.makes is not None:
            shedder = strategy.shedder(seeds[0])
            for query in queries:
                shedder.check(query)


def _machine(runner: Runner | None) -> dict[str, Any]:
    import platform

    import numpy as np

    from fastcep.arrivals.calibration import machine

    note = {} if runner is None else {"note": "runs beside each other, by a runner, disturb each other's times"}
    return {**machine(), "python": platform.python_version(), "numpy": np.__version__, **note}
