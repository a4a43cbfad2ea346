"""``fastcep run``: stream events from a file through the engine, in chunks."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, TextIO

from fastcep.cli.inputs import InputOptions, feed
from fastcep.cli.late import LateEvents, Lateness
from fastcep.cli.outputs import OutputOptions, check_apart
from fastcep.engine import Engine
from fastcep.errors import ValidationError
from fastcep.io import MatchWriter
from fastcep.query import parse_document

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from fastcep.engine import Matches
    from fastcep.events import Schema
    from fastcep.query import Query

__all__ = ["Summary", "load", "run"]


@dataclass
class Summary:
    """What a run did: the object that ``--json`` prints.

    ``seconds`` is the time from opening the input to the last match, reading and writing included;
    ``memory_bytes`` is the largest amount the engine's state held at the end of a chunk.
    """

    events: int = 0
    matches: int = 0
    matches_by_query: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    events_per_second: float = 0.0
    peak_partial_matches: int = 0
    memory_bytes: int = 0
    late: int = 0
    bad_rows: int = 0
    shed_events: int = 0
    shed_matches: int = 0
    estimated_recall: float = 1.0

    def add(self, engine: Engine, matches: Matches) -> None:
        """Count what one call of the engine gave."""
        self.matches += len(matches)
        for name, count in matches.counts().items():
            self.matches_by_query[name] = self.matches_by_query.get(name, 0) + count
        metrics = engine.metrics()
        self.events = int(metrics["events"])
        self.late = int(metrics["late_events"])
        self.peak_partial_matches = int(metrics["peak_partial_matches"])
        self.memory_bytes = max(self.memory_bytes, int(metrics["memory_bytes"]))

    def stop(self, seconds: float) -> None:
        """Set the time, in seconds, and the throughput."""
        self.seconds = round(seconds, 6)
        self.events_per_second = round(self.events / seconds, 1) if seconds > 0 else 0.0

    def as_json(self) -> str:
        """The summary as one line of JSON."""
        return json_module.dumps(asdict(self))


def load(file: Path, name: str | None = None) -> tuple[Schema, list[Query]]:
    """Read the schema and the queries of a ``.cep`` file.

    Parameters
    ----------
    file
        UTF-8 text.
    name
        The only query to keep, or None for all.

    Raises
    ------
    ParseError
        If the text is wrong.
    ValidationError
        If the file is not UTF-8, has no query, or none called ``name``.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValidationError(f"'{file}' is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    document = parse_document(text, str(file))
    queries = [query for query in document.queries if name is None or query.name == name]
    if not queries and name is not None:
        from difflib import get_close_matches

        names = [query.name for query in document.queries]
        near = get_close_matches(name, names, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(names) or 'none'}"
        raise ValidationError(f"'{file}' has no query '{name}'; {hint}")
    if not queries:
        raise ValidationError(f"'{file}' has no query; add one: QUERY name PATTERN SEQ(…) WITHIN …")
    return document.schema, queries


class _Progress(Protocol):
    def __call__(self, summary: Summary, seconds: float) -> None: ...


@contextmanager
def _progress(console: Console) -> Iterator[_Progress]:
    """Show a moving line of counts on ``console``; yield the function that updates it."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(),
        BarColumn(20),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with bar:
        task = bar.add_task("reading", total=None)

        def update(summary: Summary, seconds: float) -> None:
            rate = summary.events / seconds if seconds > 0 else 0.0
            text = f"{summary.events:,} events  {summary.matches:,} matches  {rate:,.0f} events/s"
            bar.update(task, description=text)

        yield update


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
) -> Summary:
    """Run the queries of ``file`` over ``sources`` and print the first matches and a summary.

    Parameters
    ----------
    file
        The ``.cep`` file.
    sources
        Paths of the events, one after the other; ``-`` is standard input.
    inputs
        How they are read; None for the defaults.
    outputs
        Where all matches are written to; with standard output nothing else goes there.
    lateness
        What to do about events out of order; by default the input must be in order.
    memory_limit
        How much the engine may hold, such as ``"1GiB"``.
    attributes
        Return the time and the attributes of all matched events.
    json
        Print the summary as one JSON object and no matches.
    batch_rows
        Rows handed to the engine at once.
    name
        The only query to run, or None for all.
    limit_print
        How many matches to print; they are printed as soon as they are found.

    Raises
    ------
    FastcepError
        If the queries, the input or the output are wrong. Matches found before are written.
    """
    inputs, outputs, lateness = inputs or InputOptions(), outputs or OutputOptions(), lateness or Lateness()
    if outputs.piped and json:
        raise ValidationError("--json and --output - both want standard output; write the matches to a file")
    check_apart(sources, {"--output": outputs.path, "--late": lateness.output, "--bad-rows": inputs.bad_rows})
    schema, queries = load(file, name)
    options = lateness.options(sources, inputs.sort, batch_rows)
    engine = Engine(queries, attributes=attributes, memory_limit=memory_limit, **options)
    summary = Summary(matches_by_query={query.name: 0 for query in queries})
    printed = limit_print if json or outputs.piped else 0
    with ExitStack() as stack:
        writer = outputs.open()
        if writer is not None:
            stack.enter_context(writer)
        late_writer = stack.enter_context(MatchWriter(lateness.output)) if lateness.output is not None else None
        late = LateEvents(engine, late_writer)
        progress: _Progress | None = None
        out: Console | None = None
        if sys.stderr.isatty():
            from rich.console import Console

            errors = Console(stderr=True)
            progress = stack.enter_context(_progress(errors))
            out = errors if sys.stdout.isatty() else None  # on one terminal both go through the bar

        def take(matches: Matches) -> None:
            nonlocal printed
            summary.add(engine, matches)
            late.collect()
            show = printed < limit_print and len(matches) > 0
            if show or writer is not None:
                table = matches.to_arrow()
                if writer is not None:
                    writer.write(table)
                if show:
                    printed += _print(table.slice(0, limit_print - printed), first=printed == 0, console=out)
            if progress is not None:
                progress(summary, perf_counter() - start)

        start = perf_counter()
        live = lateness.live(lambda: take(engine.poll()))
        opened = inputs.open(sources, schema, batch_rows, ordered=lateness.allowed is None, live=live)
        source = stack.enter_context(opened)
        for matches in feed(engine, source):
            summary.bad_rows = source.bad_rows
            take(matches)
        summary.stop(perf_counter() - start)
    late.report()
    if json:
        print(summary.as_json())
    else:
        _print_summary(summary, inputs.bad_rows, sys.stderr if outputs.piped else sys.stdout)
    return summary


def _print(rows: pa.Table, *, first: bool, console: Console | None) -> int:
    """Print matches and return how many."""
    from rich.console import Console as RichConsole

    from fastcep.report import matches_table

    (console or RichConsole()).print(matches_table(rows, "First matches" if first else None))
    sys.stdout.flush()
    return len(rows)


def _print_summary(summary: Summary, bad_rows: Path | None, file: TextIO) -> None:
    """Print the totals for people."""
    if len(summary.matches_by_query) > 1:
        for name, count in summary.matches_by_query.items():
            print(f"{name}: {count:,} matches", file=file)
    print(
        f"{summary.events:,} events, {summary.matches:,} matches in {summary.seconds:.3f} s "
        f"({summary.events_per_second:,.0f} events/s), at most {summary.peak_partial_matches:,} live partial matches",
        file=file,
    )
    if summary.bad_rows:
        print(f"{summary.bad_rows:,} bad rows in {bad_rows}", file=file)
