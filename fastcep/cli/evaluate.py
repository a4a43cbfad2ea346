"""``fastcep evaluate``: judge shedders on a stream, and tell which rows say nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from fastcep.cli.all_events import in_order, read_whole
from fastcep.cli.inputs import InputOptions
from fastcep.cli.outputs import check_apart, check_not_read
from fastcep.cli.run import load
from fastcep.errors import ValidationError
from fastcep.evaluation import Report
from fastcep.evaluation import evaluate as carry_out
from fastcep.io.write.target import check_target
from fastcep.overload.costs import NAMES

if TYPE_CHECKING:
    from fastcep.cli.spark import SparkOptions
    from fastcep.engine.runner import Runner
    from fastcep.option_types import Clock, Index, Statistic

__all__ = ["EvaluationOptions", "evaluate"]

#: Columns of standard output where that is no terminal: a table takes what it needs.
_WIDE = 200


@dataclass(frozen=True)
class EvaluationOptions:
    """What is judged and how, as text; see `fastcep.evaluate`. Lists are separated by commas."""

    shedders: str
    bounds: str | None = None
    rates: str | None = None
    demands: str | None = None
    latency_bound: str | None = None
    statistic: str = "mean"
    seeds: int = 1
    clock: str = "virtual"
    cost_table: str = "measured"
    index: str = "full"
    detector: str | None = None
    history: Sequence[str] = field(default=())
    model: Path | None = None
    skip: float = 0.02
    repeats: int | None = None


def evaluate(
    file: Path,
    sources: Sequence[str],
    options: EvaluationOptions,
    *,
    inputs: InputOptions | None = None,
    name: str | None = None,
    functions: Path | None = None,
    jobs: int = 1,
    json: bool = False,
    output: Path | None = None,
    page: Path | None = None,
    spark: SparkOptions | None = None,
) -> bool:
    """Judge, print and write the report.

    Parameters
    ----------
    file
        The ``.cep`` file.
    sources
        Paths of the events, one after the other; ``-`` is standard input.
    options
        What is judged, and how.
    inputs
        How events, and history, are read.
    name
        The only query to run, or None for all.
    functions
        The file of the user's functions, which has been loaded.
    jobs
        How many processes share the runs.
    json
        Print the report as one JSON object instead of a table.
    output, page
        Where it is written as JSON and as an HTML page.
    spark
        Let Spark carry out the runs; None: processes of this machine.

    Returns
    -------
    bool
        Whether every row says something about its strategy; those that do not are told on standard error.

    Raises
    ------
    FastcepError
        If the query, the events or an option are wrong. Nothing is written then.
    """
    if spark is not None and jobs > 1:
        raise ValidationError(f"--jobs {jobs} are processes here, and --spark has its own; leave one of them out")
    inputs = inputs or InputOptions()
    targets = {"--output": output, "--html": page}
    check_apart([*sources, *options.history], {option: path and str(path) for option, path in targets.items()})
    costs = None if options.cost_table in NAMES else Path(options.cost_table)
    check_not_read({"the query file": file, "--functions": functions, "--cost-table": costs}, targets)
    for path in filter(None, targets.values()):
        check_target(path)
    schema, queries = load(file, name)
    events = read_whole(inputs, sources, schema, "an evaluation")
    history = read_whole(inputs, options.history, schema, "a fit") if options.history else None
    with _progress() as progress, _runner(jobs, functions, spark) as runner, in_order():
        report = carry_out(
            queries, events,
            shedders=_listed(options.shedders) or [], bounds=_listed(options.bounds), rates=_rates(options.rates),
            demands=_listed(options.demands), statistic=cast("Statistic", options.statistic),
            latency_bound=options.latency_bound, seeds=options.seeds,
            clock=cast("Clock", options.clock), cost_table=options.cost_table,
            index=cast("Index", options.index),
            detector=_listed(options.detector), history=history, model=options.model, skip=options.skip,
            repeats=options.repeats, runner=runner, progress=progress,
            source=", ".join("standard input" if source == "-" else Path(source).name for source in sources),
        )  # fmt: skip
    if output is not None:
        report.to_json(output)
    if page is not None:
        report.to_html(page)
    _show(report, json)
    return _tell(report)


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


def _rates(text: str | None) -> list[str | float] | None:
    """Shares, and numbers of events per second."""
    return None if text is None else [_number(part) for part in _listed(text) or ()]


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


@contextmanager
def _runner(jobs: int, functions: Path | None, spark: SparkOptions | None) -> Iterator[Runner | None]:
    """What shares the runs, if there is to be something."""
    if spark is not None:
        from fastcep.cli.spark import session

        with session(spark) as running:
            from fastcep.spark import SparkRunner

            yield SparkRunner(running)
        return
    if jobs == 1:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from fastcep.cli.functions import load_functions

    begin = None if functions is None else partial(load_functions, functions)
    with ProcessPoolExecutor(jobs, get_context("spawn"), begin) as pool:
        yield pool


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("runs", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(report: Report, json: bool) -> None:
    if json:
        sys.stdout.write(report.to_json())
        return
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else _WIDE).print(report.table())


def _tell(report: Report) -> bool:
    """Name the rows that do not count on standard error, in red; whether there are none."""
    amiss = [row for row in report.rows if not row["counts"]]
    if amiss:
        from rich.console import Console
        from rich.text import Text

        console = Console(stderr=True, soft_wrap=True)
        for row in amiss:
            text = f"does not count: {row['shedder']} at {row['target']}, seed {row['seed']}: {row['why']}"
            console.print(Text(text, style="red"))
    return not amiss
