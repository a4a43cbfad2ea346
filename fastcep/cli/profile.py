"""``fastcep profile``: measure the service time of queries at different arrival rates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fastcep.cli.all_events import read_all, sort_hint
from fastcep.cli.inputs import InputOptions
from fastcep.cli.run import load
from fastcep.errors import ValidationError
from fastcep.io.write.target import check_target
from fastcep.parallel import Profile, measure_profile
from fastcep.parallel.queueing.distributions import show_time

__all__ = ["profile"]


def profile(
    file: Path,
    sources: Sequence[str],
    *,
    rates: str | None = None,
    seconds: float = 2.0,
    output: Path | None = None,
    inputs: InputOptions | None = None,
    name: str | None = None,
    json: bool = False,
) -> Profile:
    """Measure a profile, print it and write it to a file.

    Parameters
    ----------
    file, sources
        The ``.cep`` file, and the paths of the events.
    rates
        Arrival rates in events/s, separated by commas; None: relative to that of the events.
    seconds
        Time to measure at each rate.
    output
        JSON file to write; None: write no file.
    inputs
        Options for reading events.
    name
        Name of the only query, None for all.
    json
        Print the JSON of the file instead of a table.

    Raises
    ------
    FastcepError
        If a query, the events or an option is wrong, or the file cannot be written.
    """
    wanted = None if rates is None else _rates(rates)
    if output is not None:
        check_target(output)
    schema, queries = load(file, name)
    events = read_all(inputs or InputOptions(), sources, schema, "a profile")
    with sort_hint():
        measured = measure_profile(queries, events, wanted, seconds=seconds)
    if output is not None:
        measured.save(output)
    if json:
        print(measured.as_json())
        return measured
    table = Table(title="Time for an event")
    for column in ("events/s", "mean", "median", "99 %", "measured"):
        table.add_column(column, justify="right")
    for point in measured.points:
        times = (show_time(of) for of in (point.mean, point.median, point.p99))
        table.add_row(f"{point.rate:,.6g}", *times, f"{point.samples:,}")
    Console().print(table)
    if output is not None:
        print(f"written to {output}")
    return measured


def _rates(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        message = f"--rates {text}: expected numbers of events per second with commas, such as 100,1000"
        raise ValidationError(message) from None
