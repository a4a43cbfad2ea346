"""``fastcep evaluate``: compare shedders on a stream, and report the rows that do not count."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fastcep.cli.all_events import read_all, sort_hint
from fastcep.cli.inputs import InputOptions
from fastcep.cli.outputs import check_apart, check_not_read
from fastcep.cli.run import load
from fastcep.cli.shedding import ShedderOptions, has_option
from fastcep.errors import ValidationError
from fastcep.evaluation import Report
from fastcep.evaluation import evaluate as run_evaluation
from fastcep.evaluation.strategies import NamedFactory, label_of
from fastcep.io.write.target import check_target
from fastcep.overload.costs import NAMES
from fastcep.shedding.names import SHEDDERS

if TYPE_CHECKING:
    import pyarrow as pa

    from fastcep.cli.spark import SparkOptions
    from fastcep.engine.runner import Runner
    from fastcep.evaluation import ShedderFactory
    from fastcep.option_types import Clock, Index, Statistic
    from fastcep.overload.costs import CostTable
    from fastcep.query import ast

__all__ = ["EvaluationOptions", "evaluate"]

#: Width of tables in characters if standard output is not a terminal.
_WIDTH = 200


@dataclass(frozen=True)
class EvaluationOptions:
    """Options of an evaluation, as text; see `fastcep.evaluate`. Lists are separated by commas."""

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
    own: ShedderOptions = field(default_factory=ShedderOptions)


@dataclass(frozen=True)
class FitWithOptions:
    """Shedder of a name that is fitted, and then gets options.

    Attributes
    ----------
    name
        Name of the shedder.
    options
        Pairs of a name and a value.
    """

    name: str
    options: tuple[tuple[str, Any], ...]

    @property
    def label(self) -> str:
        """Label of the shedder in reports."""
        return label_of(SHEDDERS[self.name])

    def fit(
        self, queries: Sequence[ast.Query], history: pa.Table, *, cost_table: CostTable, index: Index
    ) -> ShedderFactory:
        """Fit models on history; return a factory of shedders with the options."""
        factory = SHEDDERS[self.name].fit(queries, history, cost_table=cost_table, index=index)
        return partial(factory, **dict(self.options))


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
    """Evaluate shedders, and print and write the report.

    Parameters
    ----------
    file
        The ``.cep`` file.
    sources
        Paths of the events, in order; ``-`` is standard input.
    options
        Shedders to evaluate, targets and settings.
    inputs
        Options for reading events and history.
    name
        Name of the only query to run, None for all.
    functions
        File of the user's functions, already loaded here; worker processes load it too.
    jobs
        Number of processes that share the runs.
    json
        Print the report as one JSON object instead of a table.
    output, page
        Files for the report as JSON and as an HTML page; None writes none.
    spark
        Options for running on Spark; None: run on this machine.

    Returns
    -------
    bool
        Whether every row counts; rows that do not are listed on standard error.

    Raises
    ------
    FastcepError
        If a query, the events or an option is wrong. No file is written then.
    """
    if spark is not None and jobs > 1:
        raise ValidationError(f"--jobs {jobs} starts local processes, and --spark has its own; omit one of them")
    inputs = inputs or InputOptions()
    targets = {"--output": output, "--html": page}
    check_apart([*sources, *options.history], {option: path and str(path) for option, path in targets.items()})
    cost_file = None if options.cost_table in NAMES else Path(options.cost_table)
    check_not_read({"the query file": file, "--functions": functions, "--cost-table": cost_file}, targets)
    for path in filter(None, targets.values()):
        check_target(path)
    shedders = _with_options(_split(options.shedders) or [], options.own, options.model)
    others = [item for item in shedders if isinstance(item, str)]
    # A factory has its model already; `evaluate` rejects a model that no shedder takes.
    is_used = len(others) < len(shedders) and not any(has_option(name, "model") for name in others)
    model = None if is_used else options.model
    schema, queries = load(file, name)
    events = read_all(inputs, sources, schema, "an evaluation")
    history = read_all(inputs, options.history, schema, "a fit") if options.history else None
    with _progress() as progress, _runner(jobs, functions, spark) as runner, sort_hint():
        report = run_evaluation(
            queries, events,
            shedders=shedders, bounds=_split(options.bounds), rates=_rates(options.rates),
            demands=_split(options.demands), statistic=cast("Statistic", options.statistic),
            latency_bound=options.latency_bound, seeds=options.seeds,
            clock=cast("Clock", options.clock), cost_table=options.cost_table,
            index=cast("Index", options.index),
            detector=_split(options.detector), history=history, model=model, skip=options.skip,
            repeats=options.repeats, runner=runner, progress=progress,
            source=", ".join("standard input" if source == "-" else Path(source).name for source in sources),
        )  # fmt: skip
    if output is not None:
        report.to_json(output)
    if page is not None:
        report.to_html(page)
    _print_report(report, json)
    return _report_excluded(report)


def _with_options(shedders: Sequence[str], options: ShedderOptions, model: Path | None) -> list[Any]:
    """Return strategies for `fastcep.evaluate`: names, and objects for the shedders that have the given options.

    Parameters
    ----------
    shedders
        Names of shedders and references.
    options
        Options that only some shedders have.
    model
        Folder of a model for the shedders that need one; None: they are fitted.

    Raises
    ------
    ValidationError
        If none of the shedders has an option.
    """
    given = options.given()
    for name in given:
        if not any(has_option(spelling, name) for spelling in shedders):
            raise ValidationError(
                f"--{name}: none of the shedders {', '.join(shedders)} has such an option; leave it out, or add espice "
                "to --shedders"
            )
    strategies: list[Any] = []
    for spelling in shedders:
        own = tuple((name, value) for name, value in given.items() if has_option(spelling, name))
        if not own:
            strategies.append(spelling)
        elif model is None and hasattr(SHEDDERS[spelling], "fit"):
            strategies.append(FitWithOptions(spelling, own))
        else:
            needed = (("model", str(model)),) if model is not None and has_option(spelling, "model") else ()
            strategies.append(NamedFactory(spelling, (*needed, *own)))
    return strategies


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


def _rates(text: str | None) -> list[str | float] | None:
    """Split a list of rates: shares stay texts, numbers of events per second become floats."""
    return None if text is None else [_number(part) for part in _split(text) or ()]


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


@contextmanager
def _runner(jobs: int, functions: Path | None, spark: SparkOptions | None) -> Iterator[Runner | None]:
    """Yield the runner that distributes the runs, None to run them in this process."""
    if spark is not None:
        from fastcep.cli.spark import session

        with session(spark) as spark_session:
            from fastcep.spark import SparkRunner

            yield SparkRunner(spark_session)
        return
    if jobs == 1:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from fastcep.cli.functions import load_functions

    initializer = None if functions is None else partial(load_functions, functions)
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer) as pool:
        yield pool


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar on standard error if it is a terminal; yield the function that updates it, or None."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("runs", total=None)
        yield lambda finished, total: bar.update(task, completed=finished, total=total)


def _print_report(report: Report, json: bool) -> None:
    if json:
        sys.stdout.write(report.to_json())
        return
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    console.print(report.table(console.width))


def _report_excluded(report: Report) -> bool:
    """List the rows that do not count on standard error, in red; return True if there are none."""
    excluded = [row for row in report.rows if not row["counts"]]
    if excluded:
        from rich.console import Console
        from rich.text import Text

        console = Console(stderr=True, soft_wrap=True)
        for row in excluded:
            text = f"does not count: {row['shedder']} at {row['target']}, seed {row['seed']}: {row['why']}"
            console.print(Text(text, style="red"))
    return not excluded
