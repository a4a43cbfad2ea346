"""Catalogue of the shipped and generated data sets, with their terms of use."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fastcep.datasets.derived import PASSES, POSITIONS, QUOTES
from fastcep.datasets.generate import DS1_SCHEMA, DS2_SCHEMA, ds1_batches, ds2_batches, write_csv
from fastcep.datasets.synthetic_bikes import BIKES, bike_chains_batches
from fastcep.datasets.synthetic_market import market_batches
from fastcep.datasets.synthetic_soccer import soccer_batches
from fastcep.datasets.synthetic_tasks import TASKS, task_lives_batches
from fastcep.datasets.synthetic_traffic import traffic_batches
from fastcep.errors import ValidationError

__all__ = ["Dataset", "list_datasets", "make", "path", "show"]

FILES = Path(__file__).parent / "files"


@dataclass(frozen=True)
class Dataset:
    """An entry of the catalogue.

    Attributes
    ----------
    name
        Name for `show`, `path` and `make`.
    title
        Description in one line.
    rows
        Number of rows; None for a generated stream of any length.
    columns
        Pairs of column name and description (type, unit, nulls).
    credit, terms
        Authors of the data, and terms of use.
    shipped
        True for a file of the package (see `path`), False for a generated stream (see `make`).
    notes
        Remarks on the use of the data.
    """

    name: str
    title: str
    rows: int | None
    columns: tuple[tuple[str, str], ...]
    credit: str
    terms: str
    shipped: bool
    notes: str = ""


_CATALOGUE = (
    Dataset(
        name="bayarea_2014",
        title="Bay Area Bike Share: all trips of 2014",
        rows=326_339,
        columns=(
            ("start_date", "timestamp[ms], no zone, minute resolution, ascending"),
            ("start_terminal", "int16, number of the station where the trip starts"),
            ("end_terminal", "int16, number of the station where it ends"),
            ("bike_id", "int32, 687 bikes"),
            ("start_station", "dictionary of string, name of the start station"),
            ("end_station", "dictionary of string, name of the end station"),
        ),
        credit="Bay Area Bike Share; packaged by Arunkumar Srinivasan (bikeshare14)",
        terms="CC0 1.0",
        shipped=True,
        notes="Many trips start in the same minute. The times look like UTC, not local. 70 terminals have 74 names.",
    ),
    Dataset(
        name="google_2011",
        title="Google cluster trace of 2011: 84 minutes of task events",
        rows=172_825,
        columns=(
            ("time", "int64, microseconds since 600 s before the trace, ascending"),
            ("job", "int64, job ID"),
            ("task", "int64, index of the task in its job"),
            ("machine", "int64, machine ID; null if the event has none (62,105 rows)"),
            ("kind", "int8: 0 submit, 1 schedule, 2 evict, 3 fail, 4 finish, 5 kill"),
        ),
        credit="Charles Reiss, John Wilkes; Google.",
        terms="CC BY 4.0",
        shipped=True,
        notes="One of 500 parts, without the snapshot at time 0.",
    ),
    Dataset(
        name="ds1",
        title="Synthetic stream DS1 of the papers",
        rows=None,
        columns=(
            ("type", "string, A to D, uniform"),
            ("ID", "int64, 1 to 10, uniform"),
            ("V", "int64, 1 to 10, uniform"),
            ("ts", "int64, microseconds, strictly ascending, mean gap 10"),
        ),
        credit="fastcep",
        terms="none needed: generated",
        shipped=False,
        notes="The C limit was measured on seed 7 with 1,000,000 events.",
    ),
    Dataset(
        name="ds2",
        title="Synthetic stream DS2 of the papers",
        rows=None,
        columns=(
            ("type", "string, A to D, uniform"),
            ("ID", "int64, 1 to 10, uniform"),
            ("x", "float64, (0, 2] with probability 0.33, (2, 4] with 0.67; null for C and D"),
            ("y", "as x"),
            ("v", "int64; B: 2 (0.33) or 5 (0.67); C: 3 or 5; D: 5 (0.33) or 2 (0.67); null for A"),
            ("ts", "int64, microseconds, strictly ascending, mean gap 10"),
        ),
        credit="fastcep",
        terms="none needed: generated",
        shipped=False,
    ),
    Dataset(
        name="market",
        title="Synthetic market: 500 symbols, of which 5 lead and the others follow",
        rows=None,
        columns=(
            ("type", "string: RE rising quote, FE falling, QE neither"),
            ("number", "int64, number of the symbol: 0 to 499; 0 to 4 lead"),
            ("symbol", "string, S000 to S499"),
            ("price", "float64, whole cents"),
            ("change", "float64, difference from the previous quote"),
            ("ts", "int64, milliseconds, strictly ascending; each symbol once a minute"),
        ),
        credit="fastcep",
        terms="none needed: generated",
        shipped=False,
        notes="Replaces the papers' quotes of 500 symbols, which are not public.",
    ),
    Dataset(
        name="soccer",
        title="Synthetic soccer match: two teams and a ball, once a second",
        rows=None,
        columns=(
            ("type", "string: STR striker with the ball, DF defender within 3 m of a striker, PO other position"),
            ("player", "int64: 0 is the ball, 1 to 11 and 12 to 22 are the teams; 11 and 22 are the strikers"),
            ("striker", "int64, striker of the other team; null for the ball"),
            ("distance", "float64, metres to that striker; null for the ball"),
            ("x", "float64, metres along the field"),
            ("y", "float64, metres across the field"),
            ("ts", "int64, milliseconds, strictly ascending; 23 a second"),
        ),
        credit="fastcep",
        terms="none needed: generated",
        shipped=False,
        notes="Replaces positions of a full match; the public ones cover only one team, without a ball.",
    ),
    Dataset(
        name="traffic",
        title="Synthetic traffic through a no-passing zone, with vehicles that overtake",
        rows=None,
        columns=(
            ("type", "string: Pos1 at the start of the zone, Pos2 at its end"),
            ("vehicle", "int64, numbered in order of arrival"),
            ("ts", "int64, milliseconds, ascending; 5 vehicles a second arrive"),
        ),
        credit="fastcep",
        terms="none needed: generated",
        shipped=False,
        notes="15 km at 60 km/h; one vehicle in ten drives at 60 to 72 km/h.",
    ),
    Dataset(
        name="bike_chains",
        title="Synthetic bike trips, fitted to those of the Bay Area, 120 times as fast",
        rows=None,
        columns=(
            ("start_date", "timestamp[ms], no zone, ascending, from 2014"),
            ("start_terminal", "int16, number of the station where the trip starts, as in bayarea_2014"),
            ("end_terminal", "int16, number of the station where it ends"),
            ("bike_id", "int32, 1 to 687"),
            ("user", "string: Subscriber or Customer"),
        ),
        credit="fastcep",
        terms="none needed: generated",
        shipped=False,
        notes="An hour of the stream is five days of real time, so that bikes make chains of six trips within an hour.",
    ),
    Dataset(
        name="task_lives",
        title="Synthetic life cycles of tasks, fitted to the Google trace, with more evictions",
        rows=None,
        columns=(
            ("time", "int64, microseconds from 0, ascending"),
            ("job", "int64, from 0"),
            ("task", "int64, index in its job, from 0"),
            ("machine", "int64, 0 to 10,543; null for submit events"),
            ("kind", "int8: 0 submit, 1 schedule, 2 evict, 3 fail, 4 finish, 5 kill"),
            ("priority", "int8: 0 or 2; only tasks of priority 0 are evicted"),
        ),
        credit="fastcep",
        terms="none needed: generated",
        shipped=False,
        notes="Half of the jobs have priority 0; one in ten of their tasks fails when scheduled. The trace has fewer.",
    ),
)

_GENERATORS: dict[str, tuple[pa.Schema, Callable[[int, int], Iterator[pa.RecordBatch]]]] = {
    "ds1": (DS1_SCHEMA, ds1_batches),
    "ds2": (DS2_SCHEMA, ds2_batches),
    "market": (QUOTES, market_batches),
    "soccer": (POSITIONS, soccer_batches),
    "traffic": (PASSES, traffic_batches),
    "bike_chains": (BIKES, bike_chains_batches),
    "task_lives": (TASKS, task_lives_batches),
}


def list_datasets() -> tuple[Dataset, ...]:
    """Return all entries of the catalogue, shipped ones first."""
    return _CATALOGUE


def show(name: str) -> Dataset:
    """Return one entry of the catalogue.

    Parameters
    ----------
    name
        Name of a data set.

    Returns
    -------
    Dataset
        Its columns, credit and terms.

    Raises
    ------
    ValidationError
        If the data set does not exist.
    """
    for entry in _CATALOGUE:
        if entry.name == name:
            return entry
    names = [entry.name for entry in _CATALOGUE]
    close = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValidationError(f"unknown data set {name!r}: expected one of {', '.join(names)}{hint}")


def path(name: str) -> Path:
    """Return the Parquet file of a shipped data set.

    Parameters
    ----------
    name
        Name of a shipped data set.

    Returns
    -------
    pathlib.Path
        The file inside the installed package.

    Raises
    ------
    ValidationError
        If the data set does not exist, or is generated.
    """
    if not show(name).shipped:
        raise ValidationError(f"data set {name!r} is generated and has no file: write one with make({name!r}, out)")
    return FILES / f"{name}.parquet"


def make(name: str, out: str | PathLike[str], events: int = 1_000_000, seed: int = 7, *, header: bool = False) -> Path:
    """Write a generated data set to a file, in bounded memory.

    Parameters
    ----------
    name
        Name of a generated data set, such as ``ds1`` or ``market``.
    out
        Path of the file. Its ending, ``.csv`` or ``.parquet``, sets the format.
    events
        Number of events, at least 1.
    seed
        Seed of the random numbers.
    header
        CSV only: write a first line with the column names.

    Returns
    -------
    pathlib.Path
        Path of the file.

    Raises
    ------
    ValidationError
        If the data set does not exist or is shipped, the ending is invalid, or ``events`` is below 1.
    """
    if show(name).shipped:
        raise ValidationError(f"data set {name!r} ships with fastcep and is not generated: read path({name!r})")
    target = Path(out)
    if target.suffix not in (".csv", ".parquet"):
        raise ValidationError(f"cannot write {str(out)!r}: expected a name that ends in .csv or .parquet")
    schema, generator = _GENERATORS[name]
    batches = generator(events, seed)
    if target.suffix == ".csv":
        write_csv(batches, schema, target, header=header)
    else:
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
    return target
