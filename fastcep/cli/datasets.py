"""``fastcep datasets``: list, describe and generate data sets."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fastcep import datasets
from fastcep.errors import ValidationError

__all__ = ["list_all", "make", "show"]


def list_all() -> None:
    """Print one line for each data set."""
    table = Table("name", "events", "contents", "terms", title="Data sets", title_justify="left")
    for entry in datasets.list_datasets():
        events = "generated" if entry.rows is None else f"{entry.rows:,}"
        table.add_row(entry.name, events, Text(entry.title), Text(entry.terms))
    Console().print(table)


def show(name: str) -> None:
    """Print columns, credit and terms of the data set ``name``; ValidationError if it does not exist."""
    entry = datasets.show(name)
    print(f"{entry.name}: {entry.title}")
    if entry.shipped:
        print(f"file:    {datasets.path(name)}")
    else:
        print(f"make:    fastcep datasets make {name} --output {name}.parquet")
    print(f"events:  {'as many as you ask for' if entry.rows is None else f'{entry.rows:,}'}")
    print(f"credit:  {entry.credit}\nterms:   {entry.terms}")
    if entry.notes:
        print(f"notes:   {entry.notes}")
    print("columns:")
    width = max(len(column) for column, _ in entry.columns)
    for column, description in entry.columns:
        print(f"  {column:<{width}}  {description}")


def make(name: str, output: Path, *, events: int, seed: int, header: bool) -> None:
    """Write ``events`` events of the generated data set ``name`` to ``output`` (.csv or .parquet).

    Raises
    ------
    ValidationError
        If the data set is unknown or not generated, or ``output`` has another ending, or its folder does not exist.
    """
    if not output.parent.is_dir():
        raise ValidationError(f"cannot write '{output}': the folder '{output.parent}' does not exist; create it first")
    path = datasets.make(name, output, events, seed, header=header)
    print(f"wrote {events:,} events to {path}", file=sys.stderr)
