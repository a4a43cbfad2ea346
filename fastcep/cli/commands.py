"""The commands and their options. Each command imports its implementation, a sibling module, only when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fastcep.cli import completion
from fastcep.cli.common import (
    ClockCosts,
    DataSet,
    Delimiter,
    Encoding,
    Events,
    ExplainFormat,
    Format,
    Functions,
    Index,
    Json,
    Kind,
    Literal,
    Master,
    QueryFile,
    QueryName,
    QueueShare,
    Shedder,
    Shedders,
    Sort,
    Spark,
    exit_codes,
    load_functions,
)
from fastcep.cli.migrate_commands import migrate_app
from fastcep.cli.usage import Commands

__all__ = ["app", "main"]

app = typer.Typer(
    cls=Commands,
    help="Find patterns in streams of events.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
datasets_app = typer.Typer(help="Shipped data sets and generators.", no_args_is_help=True)
app.add_typer(datasets_app, name="datasets")
cache_app = typer.Typer(help="Compiled kernels on disk.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")
app.add_typer(migrate_app, name="migrate")


def _version(print_version: bool) -> None:
    if print_version:
        from importlib.metadata import version

        typer.echo(f"fastcep {version('fastcep')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Find patterns in streams of events."""


@app.command()
@exit_codes()
def run(
    file: QueryFile,
    source: Events,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    sort: Sort = False,
    bad_rows: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write rows that cannot be read there, as JSON lines.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="PATH|-",
            help="Write all matches: .parquet, .arrow, .arrows, .csv, .jsonl; - is standard output.",
        ),
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Output format, whatever the ending: parquet, arrow, csv or jsonl."),
    ] = None,
    attributes: Annotated[
        bool, typer.Option("--attributes", help="Return the time and attributes of all matched events.")
    ] = False,
    json: Json = False,
    batch_rows: Annotated[int, typer.Option(min=1, help="Events per batch.")] = 65_536,
    query: QueryName = None,
    limit_print: Annotated[int, typer.Option(metavar="N", min=0, help="Matches to print.")] = 10,
    functions: Functions = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory limit of the engine, such as 1GiB; it is an error to exceed it."),
    ] = None,
    on_memory_limit: Annotated[
        str, typer.Option(metavar="raise|shed", help="shed: drop partial matches instead of an error.")
    ] = "raise",
    latency_bound: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Bound on the latency of an event, such as 500us.")
    ] = None,
    shedder: Shedder = None,
    model: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="Model of the shedder, from fastcep fit; one for each query."),
    ] = None,
    detector: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Detector of overload: latency, queue, prediction, memory.",
            autocompletion=completion.detectors,
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Random seed of the shedder; 0.")] = None,
    f: QueueShare = None,
    literal: Literal = False,
    clock: Annotated[str, typer.Option(metavar="wall|virtual", help="Clock that measures latencies.")] = "wall",
    cost_table: ClockCosts = "measured",
    index: Index = "full",
    allowed_lateness: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Sort events that are at most this late, such as 5s.")
    ] = None,
    late: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write late events there; formats as for --output.")
    ] = None,
    idle_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Release held events after standard input was idle for this long. Without --allowed-lateness, 0s are "
            "allowed: an event older than the latest one is late, and no error.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Commit the state of the run there, and resume from it."),
    ] = None,
    checkpoint_every: Annotated[
        str | None, typer.Option(metavar="DURATION", help="With --checkpoint: time between two commits; 10s.")
    ] = None,
    instances: Annotated[
        str | None,
        typer.Option(metavar="N|auto", help="Match in N processes; auto: as many as --buffer-limit needs."),
    ] = None,
    buffer_limit: Annotated[
        int | None, typer.Option(metavar="N", help="With --instances auto: number of events that may wait.")
    ] = None,
    probability: Annotated[
        float | None, typer.Option(metavar="P", help="With --buffer-limit: probability that it holds; 0.95.")
    ] = None,
    spark: Spark = False,
    master: Master = None,
) -> None:
    """Run the queries of FILE.cep over files or standard input."""
    load_functions(functions)
    from fastcep.cli.durable.options import checkpoint_options
    from fastcep.cli.inputs import InputOptions
    from fastcep.cli.late import Lateness
    from fastcep.cli.outputs import OutputOptions
    from fastcep.cli.parallel_options import parallel_options
    from fastcep.cli.run import run as run_command
    from fastcep.cli.shedding import ShedderOptions, SheddingOptions
    from fastcep.cli.spark import spark_options

    run_command(
        file,
        source,
        inputs=InputOptions(format, delimiter, encoding, sort, bad_rows),
        outputs=OutputOptions(output, output_format),
        lateness=Lateness(allowed_lateness, late, idle_timeout),
        memory_limit=memory_limit,
        attributes=attributes,
        json=json,
        batch_rows=batch_rows,
        name=query,
        limit_print=limit_print,
        functions=functions,
        checkpoint=checkpoint_options(checkpoint, checkpoint_every),
        shedding=SheddingOptions(
            latency_bound, shedder, detector, seed, clock, cost_table, on_memory_limit, index, tuple(model or ()),
            ShedderOptions(f, literal),
        ),
        spark=spark_options(spark, master),
        instances=parallel_options(instances, buffer_limit, probability),
    )


@app.command()
@exit_codes()
def explain(
    file: QueryFile,
    query: QueryName = None,
    form: ExplainFormat = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="PATH", help="Write to this file; its ending sets the format: .svg, .json, …"),
    ] = None,
    functions: Functions = None,
) -> None:
    """Explain how the engine evaluates the queries of FILE.cep."""
    load_functions(functions)
    from fastcep.cli.explain import explain as explain_command

    explain_command(file, name=query, format=form, output=output)


@app.command()
@exit_codes()
def demo(
    json: Json = False,
    picture: Annotated[Path, typer.Option(metavar="PATH", help="PNG file to write.")] = Path("hot_paths.png"),
) -> None:
    """Find the hot paths in a year of real bike trips."""
    from fastcep.cli.demo import demo as demo_command

    demo_command(json=json, picture=picture)


@app.command()
@exit_codes()
def evaluate(
    file: QueryFile,
    source: Events,
    shedders: Shedders,
    bounds: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Latency bounds: shares of the unshed latency, or times: 90%,500us."),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Arrival rates: shares of the maximum, or events/s; with --latency-bound."),
    ] = None,
    demands: Annotated[
        str | None, typer.Option(metavar="LIST", help="Shares of the work to save, without a latency bound: 10%,50%.")
    ] = None,
    latency_bound: Annotated[
        str | None, typer.Option(metavar="DURATION", help="With --rates: bound on the latency, queueing included.")
    ] = None,
    statistic: Annotated[str, typer.Option(metavar="mean|p95|p99", help="Statistic that --bounds limit.")] = "mean",
    seeds: Annotated[int, typer.Option(metavar="N", help="Number of seeds to run with: 0, 1, …")] = 1,
    clock: Annotated[str, typer.Option(metavar="virtual|wall", help="Clock that measures latencies.")] = "virtual",
    cost_table: ClockCosts = "measured",
    index: Index = "full",
    detector: Annotated[
        str | None, typer.Option(metavar="NAME", help="Detector of overload; by default the usual one of the shedder.")
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Events to fit models on; by default the first half of the input."),
    ] = None,
    model: Annotated[Path | None, typer.Option(metavar="FOLDER", help="A fitted model.")] = None,
    f: QueueShare = None,
    literal: Literal = False,
    skip: Annotated[float, typer.Option(metavar="SHARE", help="Share of the events to skip as warm-up.")] = 0.02,
    repeats: Annotated[
        int | None, typer.Option(metavar="N", help="With --clock wall: number of repetitions of each run; 3.")
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes that share the runs.")] = 1,
    json: Json = False,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as a page with plots.")] = None,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    sort: Sort = False,
    query: QueryName = None,
    functions: Functions = None,
    spark: Spark = False,
    master: Master = None,
) -> None:
    """Evaluate shedders: run the queries with each of them, and compare with the matches without shedding."""
    load_functions(functions)
    from fastcep.cli.evaluate import EvaluationOptions
    from fastcep.cli.evaluate import evaluate as evaluate_command
    from fastcep.cli.inputs import InputOptions
    from fastcep.cli.shedding import ShedderOptions
    from fastcep.cli.spark import spark_options

    options = EvaluationOptions(
        shedders, bounds, rates, demands, latency_bound, statistic, seeds, clock, cost_table, index, detector,
        history or (), model, skip, repeats, ShedderOptions(f, literal),
    )  # fmt: skip
    inputs = InputOptions(format, delimiter, encoding, sort)
    all_count = evaluate_command(
        file, source, options, inputs=inputs, name=query, functions=functions, jobs=jobs, json=json, output=output,
        page=html, spark=spark_options(spark, master),
    )  # fmt: skip
    if not all_count:
        raise typer.Exit(1)


@app.command()
@exit_codes()
def fit(
    file: QueryFile,
    source: Annotated[
        list[str],
        typer.Option("--input", metavar="PATH|-", help="History: file, folder, pattern, - for standard input."),
    ],
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the model; for several queries, a subfolder for each.")
    ],
    kind: Kind = "hybrid",
    slices: Annotated[int | None, typer.Option(metavar="N", help="Age slices of the window (hybrid: 4).")] = None,
    clusters: Annotated[
        str | None,
        typer.Option(metavar="N|gap", help="Clusters of each state; gap: by the gap statistic (hybrid: 10)."),
    ] = None,
    bin: Annotated[
        int | None, typer.Option(metavar="N", help="Events per row of the tables (pspice: window / 256, espice: / 64).")
    ] = None,
    cost_table: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE", help="Cost of operations: measured (default), paper, or a file of fastcep calibrate."
        ),
    ] = None,
    index: Index | None = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Random seed (hybrid: 0).")] = None,
    exclude: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Attributes that classes never depend on: identifiers; with commas."),
    ] = None,
    validate: Annotated[
        bool | None, typer.Option(help="Validate the features on the last part of the history; not with --spark.")
    ] = None,
    equal_costs: Annotated[
        bool, typer.Option("--equal-costs", help="espice: all events of a window cost the same, as in the paper.")
    ] = False,
    json: Json = False,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    sort: Sort = False,
    query: QueryName = None,
    functions: Functions = None,
    spark: Spark = False,
    master: Master = None,
) -> None:
    """Fit the models of shedders on history."""
    load_functions(functions)
    from fastcep.cli.fit import FitOptions
    from fastcep.cli.fit import fit as fit_command
    from fastcep.cli.inputs import InputOptions
    from fastcep.cli.spark import spark_options

    fit_command(
        file, source, output,
        FitOptions(kind, slices, clusters, bin, cost_table, index, seed, exclude, validate, equal_costs or None),
        inputs=InputOptions(format, delimiter, encoding, sort), name=query, json=json,
        spark=spark_options(spark, master),
    )  # fmt: skip


@app.command()
@exit_codes()
def calibrate(
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the cost table as JSON; the name of the file is its name."),
    ] = None,
    seconds: Annotated[float, typer.Option(metavar="S", help="Duration of the measurement in seconds.")] = 10.0,
    json: Json = False,
) -> None:
    """Measure the cost of the engine's operations on this machine: a cost table for the virtual clock."""
    from fastcep.cli.calibrate import calibrate as calibrate_command

    calibrate_command(output=output, seconds=seconds, json=json)


@app.command()
@exit_codes()
def profile(
    file: QueryFile,
    source: Events,
    rates: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Arrival rates in events/s: 100,1000; default: relative to the input."),
    ] = None,
    seconds: Annotated[float, typer.Option(metavar="S", help="Time to measure at each rate.")] = 2.0,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the profile as JSON.")] = None,
    json: Json = False,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    sort: Sort = False,
    query: QueryName = None,
    functions: Functions = None,
) -> None:
    """Measure how long the queries of FILE.cep take for an event, at different arrival rates."""
    load_functions(functions)
    from fastcep.cli.inputs import InputOptions
    from fastcep.cli.profile import profile as profile_command

    profile_command(
        file, source, rates=rates, seconds=seconds, output=output,
        inputs=InputOptions(format, delimiter, encoding, sort), name=query, json=json,
    )  # fmt: skip


@app.command()
@exit_codes()
def degree(
    arrival: Annotated[
        str, typer.Option(metavar="DISTRIBUTION", help="Time between events, such as exponential:100ms, samples:FILE.")
    ],
    buffer_limit: Annotated[
        int, typer.Option(metavar="N", help="Number of events that may wait or be processed at a time.")
    ],
    probability: Annotated[float, typer.Option(metavar="P", help="Probability that the limit holds.")],
    service: Annotated[
        str | None,
        typer.Option(metavar="DISTRIBUTION", help="Time for an event, in the same forms, such as deterministic:2ms."),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead of --service: times by rate, from fastcep profile.", exists=True),
    ] = None,
    most: Annotated[int | None, typer.Option(metavar="N", help="Largest number of instances; 1,000.")] = None,
    json: Json = False,
) -> None:
    """Compute how many instances keep a queue below a limit, given how events arrive and how long they take."""
    from fastcep.cli.degree import degree as degree_command

    degree_command(
        arrival, service, profile, buffer_limit=buffer_limit, probability=probability, most=most, json=json
    )


@datasets_app.command("list")
@exit_codes()
def datasets_list() -> None:
    """List the data sets."""
    from fastcep.cli.datasets import list_all

    list_all()


@datasets_app.command("show")
@exit_codes()
def datasets_show(name: DataSet) -> None:
    """Print the columns, the source and the terms of a data set."""
    from fastcep.cli.datasets import show

    show(name)


@datasets_app.command("make")
@exit_codes()
def datasets_make(
    name: DataSet,
    output: Annotated[Path, typer.Option(metavar="PATH", help="The CSV or Parquet file to write.")],
    events: Annotated[int, typer.Option(min=1, help="Number of events.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 7,
    header: Annotated[bool, typer.Option("--header/--no-header", help="CSV: a first line of column names.")] = False,
) -> None:
    """Generate a data set; the same seed gives the same bytes."""
    from fastcep.cli.datasets import make

    make(name, output, events=events, seed=seed, header=header)


@cache_app.command("info")
@exit_codes()
def cache_info(json: Json = False) -> None:
    """Show the folder of compiled kernels: their number, size and versions."""
    from fastcep.cli.cache import info

    info(json=json)


@cache_app.command("clear")
@exit_codes()
def cache_clear() -> None:
    """Remove all compiled kernels; they are compiled again when needed."""
    from fastcep.cli.cache import clear

    clear()


def main() -> None:
    """Entry point of the command ``fastcep``."""
    app()
