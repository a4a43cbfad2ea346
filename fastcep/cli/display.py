"""Output of a run in progress: the first matches and, on a terminal, a progress line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from fastcep.cli.summary import Summary

__all__ = ["Display", "display"]


class Display:
    """Printer of the first matches, messages and progress.

    Parameters
    ----------
    limit
        Maximum number of matches to print.
    progress
        Updates the progress line; None: no progress line.
    errors
        Console on standard error if it is a terminal, otherwise None.
    """

    def __init__(self, limit: int, progress: _Progress | None = None, errors: Console | None = None) -> None:
        self._remaining, self._first = limit, True
        self._progress, self._errors = progress, errors
        # matches that share the terminal with the progress line must go through its console
        self._console = errors if sys.stdout.isatty() else None
        self._start, self._earlier_events = perf_counter(), 0

    def begin(self, events: int) -> None:
        """Set the number of events that earlier runs processed; the rate does not count them."""
        self._earlier_events = events

    def wants(self, matches: int) -> bool:
        """Return whether `print` would print any of this number of matches."""
        return self._remaining > 0 and matches > 0

    def print(self, rows: pa.Table) -> None:
        """Print matches up to the limit."""
        from rich.console import Console as RichConsole

        from fastcep.report import matches_table

        rows = rows.slice(0, self._remaining)
        (self._console or RichConsole()).print(matches_table(rows, "First matches" if self._first else None))
        sys.stdout.flush()
        self._remaining -= len(rows)
        self._first = False

    def message(self, text: str) -> None:
        """Print a message on standard error."""
        if self._errors is not None:
            self._errors.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr)

    def update(self, summary: Summary) -> None:
        """Update the progress line."""
        if self._progress is not None:
            seconds = perf_counter() - self._start
            self._progress(summary, (summary.events - self._earlier_events) / seconds if seconds > 0 else 0.0)


@contextmanager
def display(limit: int) -> Iterator[Display]:
    """Make a display, with a progress line if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield Display(limit)
        return
    from rich.console import Console

    errors = Console(stderr=True)
    with _progress(errors) as progress:
        yield Display(limit, progress, errors)


class _Progress(Protocol):
    def __call__(self, summary: Summary, rate: float) -> None: ...


@contextmanager
def _progress(console: Console) -> Iterator[_Progress]:
    """Show a progress line on ``console``; yield the function that updates it."""
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

        def update(summary: Summary, rate: float) -> None:
            text = f"{summary.events:,} events  {summary.matches:,} matches  {rate:,.0f} events/s"
            bar.update(task, description=text)

        yield update
