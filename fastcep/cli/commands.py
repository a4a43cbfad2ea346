"""The commands and their options. What they do is in the neighbours and is imported only when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fastcep.cli.common import (
    ClockCosts,
    Delimiter,
    Encoding,
    Events,
    Format,
    Functions,
    Index,
    Json,
    Master,
    QueryFile,
    QueryName,
    Sort,
    Spark,
    exit_codes,
    load_functions,
)

__all__ = ["app", "main"]

app = typer.Typer(
    help="Find patterns in streams of events.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
datasets_app = typer.Typer(help="Shipped data sets and generators.", no_args_is_help=True)
app.add_typer(datasets_app, name="datasets")
cache_app = typer.Typer(help="Compiled kernels on disk.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")


def _version(wanted: bool) -> None:
    if wanted:
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
        Path | None, typer.Option(metavar="FILE", help="Where rows go that cannot be taken, as JSON lines.")
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
        typer.Option(metavar="NAME", help="Of the output: parquet, arrow, csv or jsonl, for any ending."),
    ] = None,
    attributes: Annotated[
        bool, typer.Option("--attributes", help="Return the time and attributes of all matched events.")
    ] = False,
    json: Json = False,
    batch_rows: Annotated[int, typer.Option(min=1, help="Events handed to the engine at once.")] = 65_536,
    query: QueryName = None,
    limit_print: Annotated[int, typer.Option(metavar="N", min=0, help="Matches to print.")] = 10,
    functions: Functions = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="What the engine may hold, such as 1GiB; an error if it needs more."),
    ] = None,
    on_memory_limit: Annotated[
        str, typer.Option(metavar="raise|shed", help="With --shedder: drop partial matches instead of an error.")
    ] = "raise",
    latency_bound: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The latency that events may have, such as 500us.")
    ] = None,
    shedder: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Drops what is too much: hybrid, hyi, hys, ri, si, rs, ss, pm-bl, e-bl, bl."),
    ] = None,
    model: Annotated[
        list[Path] | None, typer.Option(metavar="FOLDER", help="Of fastcep fit, for the shedder; one for each query.")
    ] = None,
    detector: Annotated[
        str | None, typer.Option(metavar="NAME", help="Tells when it is: latency, queue, prediction, memory.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Of what the shedder draws; 0.")] = None,
    clock: Annotated[str, typer.Option(metavar="wall|virtual", help="On which latencies are measured.")] = "wall",
    cost_table: ClockCosts = "measured",
    index: Index = "full",
    allowed_lateness: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Put events in order that are at most this late, such as 5s.")
    ] = None,
    late: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write events that are later still: a file as for --output.")
    ] = None,
    idle_timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Standard input: do not hold back events when it is silent so long."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep there what it takes to go on after a crash, and go on from there."),
    ] = None,
    checkpoint_every: Annotated[
        str | None, typer.Option(metavar="DURATION", help="With --checkpoint: the time between two commits; 10s.")
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
    from fastcep.cli.run import run as carry_out
    from fastcep.cli.shedding import SheddingOptions
    from fastcep.cli.spark import spark_options

    carry_out(
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
            latency_bound, shedder, detector, seed, clock, cost_table, on_memory_limit, index, tuple(model or ())
        ),
        spark=spark_options(spark, master),
    )


@app.command()
@exit_codes()
def explain(
    file: QueryFile,
    query: QueryName = None,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="text (the default), json, mermaid, dot or svg."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="PATH", help="Write there; the ending tells the format: .svg, .json, …"),
    ] = None,
    functions: Functions = None,
) -> None:
    """Tell how the engine answers the queries of FILE.cep."""
    load_functions(functions)
    from fastcep.cli.explain import explain as carry_out

    carry_out(file, name=query, format=form, output=output)


@app.command()
@exit_codes()
def demo(
    json: Json = False,
    picture: Annotated[Path, typer.Option(metavar="PATH", help="Where the PNG goes.")] = Path("hot_paths.png"),
) -> None:
    """Find the hot paths in a year of real bike trips."""
    from fastcep.cli.demo import demo as carry_out

    carry_out(json=json, picture=picture)


@app.command()
@exit_codes()
def evaluate(
    file: QueryFile,
    source: Events,
    shedders: Annotated[str, typer.Option(metavar="NAMES", help="What is judged, such as ri,rs,oracle.")],
    bounds: Annotated[
        str | None, typer.Option(metavar="LIST", help="Shares of the latency without shedding, or times: 90%,500us.")
    ] = None,
    rates: Annotated[
        str | None, typer.Option(metavar="LIST", help="Shares of what is possible, or events/s; with --latency-bound.")
    ] = None,
    demands: Annotated[
        str | None, typer.Option(metavar="LIST", help="Shares of the work to save, without a bound: 10%,50%.")
    ] = None,
    latency_bound: Annotated[
        str | None, typer.Option(metavar="DURATION", help="With --rates: what is held, queueing included.")
    ] = None,
    statistic: Annotated[str, typer.Option(metavar="mean|p95|p99", help="What --bounds are on.")] = "mean",
    seeds: Annotated[int, typer.Option(metavar="N", help="Run with so many seeds: 0, 1, …")] = 1,
    clock: Annotated[str, typer.Option(metavar="virtual|wall", help="On which latencies are measured.")] = "virtual",
    cost_table: ClockCosts = "measured",
    index: Index = "full",
    detector: Annotated[
        str | None, typer.Option(metavar="NAME", help="Tells when it is too much; the shedder's usual one.")
    ] = None,
    history: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Events that models are fitted on; half of the input.")
    ] = None,
    model: Annotated[Path | None, typer.Option(metavar="FOLDER", help="A fitted model.")] = None,
    skip: Annotated[float, typer.Option(metavar="SHARE", help="Of the events, not judged at the beginning.")] = 0.02,
    repeats: Annotated[
        int | None, typer.Option(metavar="N", help="With --clock wall: how often each run is made; 3.")
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes that share the runs.")] = 1,
    json: Json = False,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report there, as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it there as a page with plots.")] = None,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    sort: Sort = False,
    query: QueryName = None,
    functions: Functions = None,
    spark: Spark = False,
    master: Master = None,
) -> None:
    """Judge shedders: run the queries with each of them, and compare with what there is to be found."""
    load_functions(functions)
    from fastcep.cli.evaluate import EvaluationOptions
    from fastcep.cli.evaluate import evaluate as carry_out
    from fastcep.cli.inputs import InputOptions
    from fastcep.cli.spark import spark_options

    options = EvaluationOptions(
        shedders, bounds, rates, demands, latency_bound, statistic, seeds, clock, cost_table, index, detector,
        history or (), model, skip, repeats,
    )  # fmt: skip
    inputs = InputOptions(format, delimiter, encoding, sort)
    sound = carry_out(
        file, source, options, inputs=inputs, name=query, functions=functions, jobs=jobs, json=json, output=output,
        page=html, spark=spark_options(spark, master),
    )  # fmt: skip
    if not sound:
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
        Path, typer.Option(metavar="FOLDER", help="The model's folder; of several queries, a folder in it for each.")
    ],
    kind: Annotated[str, typer.Option(metavar="NAME", help="For which shedder: hybrid.")] = "hybrid",
    slices: Annotated[int, typer.Option(metavar="N", help="Into how many the window is cut.")] = 4,
    clusters: Annotated[
        str, typer.Option(metavar="N|gap", help="Clusters of each state; gap: as many as there are.")
    ] = "10",
    cost_table: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="What operations cost: measured, paper, or of fastcep calibrate.")
    ] = "measured",
    index: Index = "full",
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of what is drawn.")] = 0,
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
    """Fit models of shedders on history."""
    load_functions(functions)
    from fastcep.cli.fit import FitOptions
    from fastcep.cli.fit import fit as carry_out
    from fastcep.cli.inputs import InputOptions
    from fastcep.cli.spark import spark_options

    carry_out(
        file, source, output, FitOptions(kind, slices, clusters, cost_table, index, seed),
        inputs=InputOptions(format, delimiter, encoding, sort), name=query, json=json,
        spark=spark_options(spark, master),
    )  # fmt: skip


@app.command()
@exit_codes()
def calibrate(
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the cost table there, as JSON; it takes the file's name.")
    ] = None,
    seconds: Annotated[float, typer.Option(metavar="S", help="How long to measure.")] = 10.0,
    json: Json = False,
) -> None:
    """Measure what the engine's operations cost here: the cost table of the virtual clock."""
    from fastcep.cli.calibrate import calibrate as carry_out

    carry_out(output=output, seconds=seconds, json=json)


@datasets_app.command("list")
@exit_codes()
def datasets_list() -> None:
    """Name the data sets."""
    from fastcep.cli.datasets import list_all

    list_all()


@datasets_app.command("show")
@exit_codes()
def datasets_show(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Print what a data set holds, where it comes from and its terms."""
    from fastcep.cli.datasets import show

    show(name)


@datasets_app.command("make")
@exit_codes()
def datasets_make(
    name: Annotated[str, typer.Argument(metavar="NAME")],
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
    """Show the folder of compiled kernels: how many, how large, compiled by what."""
    from fastcep.cli.cache import info

    info(json=json)


@cache_app.command("clear")
@exit_codes()
def cache_clear() -> None:
    """Remove all compiled kernels; they are made again when they are needed."""
    from fastcep.cli.cache import clear

    clear()


def main() -> None:
    """Entry point of the command ``fastcep``."""
    app()
