"""``fastcep demo``: the hot paths in a year of bike trips, with a picture of the engine's state over time."""

from __future__ import annotations

import json as json_module
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from fastcep import datasets
from fastcep.cli.run import load
from fastcep.cli.summary import Summary
from fastcep.engine import Engine
from fastcep.errors import ValidationError
from fastcep.report import draw_line, paths_table, save_line

if TYPE_CHECKING:
    from fastcep.query import Query

__all__ = ["demo", "hottest", "live_over_time"]

_QUERIES = Path(__file__).with_name("hot_paths_demo.cep")
_TIME_SLICE = 6 * 3600 * 10**9  # nanoseconds
_TOP = 10
_MOVED = "(moved by van)"


def hottest(matches: pa.Table, trips: pa.Table) -> list[tuple[int, list[str]]]:
    """Count the paths of the matches.

    Parameters
    ----------
    matches
        The matches of ``hot_paths_demo.cep``: columns starts (list<int64>), reached, onward, finish (int64).
    trips
        The trips, with columns start_terminal, start_station, end_terminal, end_station.

    Returns
    -------
    list
        (number of matches, station names in order), most frequent first, ties in the order of the names.
        If the last trip does not start where the previous one ended, ``"(moved by van)"`` is between the two stations.
    """
    names: dict[int, str] = {}
    for side in ("end", "start"):
        pairs = trips.group_by([f"{side}_terminal", f"{side}_station"], use_threads=False).aggregate([])
        names.update(
            zip(*(pairs.column(f"{side}_{field}").to_pylist() for field in ("terminal", "station")), strict=True)
        )
    columns = (matches.column(name).to_pylist() for name in ("starts", "reached", "onward", "finish"))
    counts: Counter[tuple[int | None, ...]] = Counter()
    for starts, reached, onward, finish in zip(*columns, strict=True):
        moved = () if onward == reached else (None, onward)
        counts[(*starts, reached, *moved, finish)] += 1
    paths = [
        (count, [_MOVED if terminal is None else names[terminal] for terminal in path])
        for path, count in counts.items()
    ]
    return sorted(paths, key=lambda entry: (-entry[0], entry[1]))


def live_over_time(
    query: Query, trips: pa.Table, times: NDArray[np.int64], step: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the live partial matches at the end of each time slice.

    Parameters
    ----------
    query
        The query to run.
    trips
        The events, n rows.
    times
        int64[n], their times in nanoseconds, ascending.
    step
        Length of a time slice in nanoseconds.

    Returns
    -------
    times, counts
        int64[k] each: the end of every time slice in nanoseconds, and the number of partial matches live then.
    """
    engine = Engine(query)
    ends = np.arange(times[0] // step * step + step, times[-1] + step + 1, step, dtype=np.int64)
    stops = np.searchsorted(times, ends)
    counts = np.zeros(len(ends), dtype=np.int64)
    start = 0
    for number, (end, stop) in enumerate(zip(ends.tolist(), stops.tolist(), strict=True)):
        if stop > start:
            engine.process(trips.slice(start, stop - start))
        engine.advance(end)
        counts[number] = engine.metrics()["live_partial_matches"]
        start = stop
    return ends, counts


def demo(*, json: bool = False, picture: Path = Path("hot_paths.png")) -> Summary:
    """Run the demo: print the hottest paths, totals, throughput and the state over time; write the picture.

    Parameters
    ----------
    json
        Print one JSON object instead: the keys of ``fastcep run --json``, ``hottest`` (rows ``{matches, path}``)
        and ``picture``.
    picture
        The PNG to write.

    Raises
    ------
    ValidationError
        If the folder of ``picture`` does not exist.
    """
    if not picture.parent.is_dir():
        raise ValidationError(
            f"cannot write '{picture}': the folder '{picture.parent}' does not exist; create it first"
        )
    _, (query,) = load(_QUERIES)
    trips = parquet.read_table(datasets.path("bayarea_2014"))
    times = trips.column("start_date").cast(pa.timestamp("ns")).to_numpy().view(np.int64)
    _log("Finding hot paths in a year of bike trips (Bay Area Bike Share 2014) …")

    engine = Engine(query)
    summary = Summary(matches_by_query={query.name: 0})
    start = perf_counter()
    matches = engine.process(trips)
    seconds = perf_counter() - start
    summary.add(engine, matches)
    summary.stop(seconds)
    paths = hottest(matches.to_arrow(), trips)

    _log("Running again in time slices, counting the live partial matches after each …")
    ends, counts = live_over_time(query, trips, times, _TIME_SLICE)
    title = "Live partial matches of the hot paths, every six hours, Bay Area 2014"
    save_line(picture, ends, counts, title=title, label="partial matches")

    if json:
        rows = [{"matches": count, "path": path} for count, path in paths[:_TOP]]
        print(json_module.dumps(asdict(summary) | {"hottest": rows, "picture": str(picture)}))
    else:
        _print(summary, paths, draw_line(ends, counts, title=title), picture)
    return summary


def _log(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


def _print(summary: Summary, paths: list[tuple[int, list[str]]], drawing: str, picture: Path) -> None:
    """Print the result as text."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text("\n" + _QUERIES.read_text(encoding="utf-8"), style="dim"), soft_wrap=True)
    console.print(paths_table(paths[:_TOP], f"The {_TOP} hottest of {len(paths):,} paths"))
    print(
        f"\n{summary.events:,} trips, {summary.matches:,} matches in {summary.seconds * 1000:.0f} ms: "
        f"{summary.events_per_second:,.0f} events/s; at most {summary.peak_partial_matches:,} live partial matches\n"
    )
    print(drawing)
    print(f"\nThe same as a picture: {picture}")
