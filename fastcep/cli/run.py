"""``fastcep run``: stream events from files through the engine, in batches."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fastcep._core.matcher.signals import Signals
from fastcep.cli.display import Display, display
from fastcep.cli.inputs import InputOptions, feed
from fastcep.cli.interruption import terminable
from fastcep.cli.job import Job
from fastcep.cli.late import Lateness
from fastcep.cli.outputs import OutputOptions, check_apart, check_not_read
from fastcep.cli.shedding import SheddingOptions
from fastcep.cli.sink import LateEvents, Sink
from fastcep.cli.summary import Summary
from fastcep.engine import Engine
from fastcep.errors import ValidationError
from fastcep.io import MatchWriter
from fastcep.io.formats import of_name
from fastcep.query import parse_document

if TYPE_CHECKING:
    from fastcep.cli.durable.options import CheckpointOptions
    from fastcep.cli.spark import SparkOptions
    from fastcep.events import Schema
    from fastcep.parallel import Adaptation
    from fastcep.query import Query

__all__ = ["load", "run"]


def load(file: Path, name: str | None = None) -> tuple[Schema, list[Query]]:
    """Read the schema and the queries of a ``.cep`` file.

    Parameters
    ----------
    file
        UTF-8 text.
    name
        Name of the only query to keep, None for all.

    Raises
    ------
    ParseError
        If the text is wrong.
    ValidationError
        If the file is a file of events, is not UTF-8, has no query, or has no query called ``name``.
    """
    if of_name(file.name) is not None:
        raise ValidationError(
            f"'{file}' looks like a file of events, expected a .cep file with the queries; "
            f"write it first, and the events after it: FILE.cep --input {file}"
        )
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValidationError(f"'{file}' is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    document = parse_document(text, str(file))
    queries = [query for query in document.queries if name is None or query.name == name]
    if not queries and name is not None:
        from difflib import get_close_matches

        names = [query.name for query in document.queries]
        similar = get_close_matches(name, names, 1)
        hint = f"did you mean '{similar[0]}'?" if similar else f"it has {', '.join(names) or 'none'}"
        raise ValidationError(f"'{file}' has no query '{name}'; {hint}")
    if not queries:
        raise ValidationError(f"'{file}' has no query; add one: QUERY name PATTERN SEQ(…) WITHIN …")
    return document.schema, queries


def run(
    file: Path,
    sources: Sequence[str],
    *,
    inputs: InputOptions | None = None,
    outputs: OutputOptions | None = None,
    lateness: Lateness | None = None,
    memory_limit: str | None = None,
    attributes: bool = False,
    json: bool = False,
    batch_rows: int = 65_536,
    name: str | None = None,
    limit_print: int = 10,
    functions: Path | None = None,
    checkpoint: CheckpointOptions | None = None,
    shedding: SheddingOptions | None = None,
    spark: SparkOptions | None = None,
    instances: int | Adaptation | None = None,
) -> Summary:
    """Run the queries of ``file`` over ``sources`` and print the first matches and a summary.

    Parameters
    ----------
    file
        The ``.cep`` file.
    sources
        Paths of the events, in order; ``-`` is standard input.
    inputs
        Options for reading the events; None for the defaults.
    outputs
        Where all matches are written; if to standard output, nothing else is printed there.
    lateness
        Handling of events out of order; by default the input must be in order.
    memory_limit
        Memory limit of the engine, such as ``"1GiB"``.
    attributes
        Return the time and the attributes of all matched events.
    json
        Print the summary as one JSON object and no matches.
    batch_rows
        Number of rows per batch.
    name
        Name of the only query to run, None for all.
    limit_print
        Maximum number of matches to print; they are printed as soon as they are found.
    functions
        File of the user's functions, already loaded.
    checkpoint
        Folder in which this run is committed and from which it resumes; None: no checkpoints.
    shedding
        Options for load shedding; None: no shedding.
    spark
        Options for matching on Spark; None: do not use Spark.
    instances
        Number of processes that match, or the way in which it follows the load; None: use an engine in this process.

    Raises
    ------
    FastcepError
        If the queries, the input or the output are wrong. Matches found before the error are written.
    """
    inputs, outputs, lateness = inputs or InputOptions(), outputs or OutputOptions(), lateness or Lateness()
    if outputs.piped and json:
        raise ValidationError("--json and --output - both use standard output; write the matches to a file")
    targets = {"--output": outputs.path, "--late": lateness.output, "--bad-rows": inputs.bad_rows}
    check_apart(sources, targets)
    check_not_read({"the query file": file, "--functions": functions}, targets)
    if checkpoint is not None:
        checkpoint.check(sources, targets)
    shedding = shedding or SheddingOptions()
    if spark is not None:
        _check_one_engine("--spark", lateness, shedding, checkpoint)
    if instances is not None:
        _check_one_engine("--instances", lateness, shedding, checkpoint)
        _refuse({"--spark": spark, "--memory-limit": memory_limit, "--functions": functions}, "--instances")
    schema, queries = load(file, name)
    options = {
        "attributes": attributes, "memory_limit": memory_limit, **lateness.options(sources, inputs.sort, batch_rows),
        **shedding.engine(),
    }  # fmt: skip
    job = Job(schema, queries, sources, inputs, outputs, lateness, options, batch_rows, functions, shedding)
    ended: BaseException | None = None
    with display(0 if json or outputs.piped else limit_print) as view, terminable():
        if instances is not None:
            from fastcep.cli.parallel_run import run_in_parallel

            summary, ended = run_in_parallel(job, instances, attributes, view)
            if isinstance(ended, KeyboardInterrupt):
                view.message(f"interrupted after {summary.events:,} events")
        elif spark is not None:
            from fastcep.cli.spark_run import run_on_spark

            summary = run_on_spark(job, spark, attributes, view)
        elif checkpoint is None:
            summary = _run_without_checkpoint(job, view, json)
        else:
            from fastcep.cli.durable.runner import run_durably

            summary = run_durably(job, checkpoint, view)
    if ended is None or isinstance(ended, KeyboardInterrupt):
        _print_summary(job, summary, json)
    if ended is not None:
        raise ended
    return summary


def _print_summary(job: Job, summary: Summary, json: bool) -> None:
    job.lateness.report(summary.late)
    if json:
        print(summary.as_json())
    else:
        summary.show(job.inputs.bad_rows, sys.stderr if job.outputs.piped else sys.stdout)


def _check_one_engine(
    other: str, lateness: Lateness, shedding: SheddingOptions, checkpoint: CheckpointOptions | None
) -> None:
    """Reject options that need one engine for the complete stream, if ``other`` divides it."""
    defaults, settings = SheddingOptions().settings(), shedding.settings()
    _refuse({
        "--checkpoint": checkpoint, "--allowed-lateness": lateness.allowed, "--late": lateness.output,
        "--idle-timeout": lateness.idle,
        **{option: value for option, value in settings.items() if value != defaults[option] and option != "--index"},
    }, other)  # fmt: skip


def _refuse(options: Mapping[str, Any], other: str) -> None:
    """Reject options that another option does not support.

    Parameters
    ----------
    options
        Value of each option; None or False if it is not given.
    other
        The other option.

    Raises
    ------
    ValidationError
        If an option is given; the message names the first one.
    """
    for option, value in options.items():
        if value is not None and value is not False:
            raise ValidationError(f"{option} cannot be used with {other}; omit one of them")


def _run_without_checkpoint(job: Job, view: Display, json: bool) -> Summary:
    """Run a job from beginning to end.

    An interrupt ends the run as an input error does: the output is a complete file with the matches of the events
    processed until then.
    """
    engine = Engine(job.queries, **job.engine)
    summary = job.summary()
    with ExitStack() as stack:
        writer = job.outputs.open()
        if writer is not None:
            stack.enter_context(writer)
        path = job.lateness.output
        late = LateEvents(engine, None if path is None else stack.enter_context(MatchWriter(path)))
        sink = Sink(engine, summary, writer, late, view)
        start = perf_counter()
        source = stack.enter_context(job.open(job.lateness.live(lambda: sink.take(engine.poll()))))
        signals, matches, interrupted = Signals(), None, None
        try:
            for matches in feed(engine, source):
                with signals:  # no interrupt inside a write
                    summary.bad_rows = source.bad_rows
                    sink.take(matches)
                    matches = None
        except KeyboardInterrupt as error:
            interrupted = error
            with signals:
                if matches is not None:
                    sink.take(matches)
                with suppress(ValidationError):  # already flushed
                    sink.take(engine.flush(complete=False))
        summary.stop(perf_counter() - start)
    if interrupted is not None:
        view.message(f"interrupted after {summary.events:,} events")
        _print_summary(job, summary, json)
        raise interrupted
    return summary
