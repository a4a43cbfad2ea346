"""Find windows that an event closes later than a user has promised, for runs of slices of a stream.

A slice has the events of one longest window before it. A window that is longer could begin before the slice.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from fastcep._core.memory.vectors import repeated
from fastcep.engine.results.query_matches import QueryMatches
from fastcep.errors import ValidationError
from fastcep.events import format_duration
from fastcep.option_checks import duration_option
from fastcep.query import ast

__all__ = ["check_longest", "longest_windows"]


def longest_windows(query: ast.Query, longest_window: str | timedelta | None) -> tuple[int | None, ast.Query | None]:
    """Return the maximum length of a query's windows in ns, and a query that finds longer ones; None without a maximum.

    Raises
    ------
    ValidationError
        If there is a maximum, and events do not open and close the windows.
    """
    if longest_window is None:
        return None, None
    limit = duration_option("longest_window", longest_window)
    longer = _longer_windows(query, limit)
    if longer is None:
        raise ValidationError(
            f"longest_window={longest_window!r}: query {query.name!r} has no windows that open and close on events "
            "(OPEN ON … CLOSE ON …); omit it"
        )
    return limit, longer


def _longer_windows(query: ast.Query, nanoseconds: int) -> ast.Query | None:
    """Return a query that finds windows longer than a time; None if events do not open and close the windows."""
    window = query.window
    if not isinstance(window, ast.ExplicitWindow) or not window.opening.types or not window.closing.types:
        return None
    opening, closing = window.opening, window.closing
    wheres = [where for where in (opening.where, closing.where) if where is not None]
    where = ast.Binary("AND", *wheres) if len(wheres) == 2 else next(iter(wheres), None)
    pattern = ast.Sequence((ast.Variable(opening.types, opening.variable or "o"),
                            ast.Negation(closing.types, closing.variable or "c")))  # fmt: skip
    return ast.Query(f"{query.name} longest", pattern, ast.TimeWindow(nanoseconds), where, schema=query.schema)


def check_longest(longer: QueryMatches, until: int, origin: str) -> None:
    """Check the matches of a query of `longest_windows`.

    Parameters
    ----------
    longer
        Its matches: windows that were not closed in time.
    until
        Time in ns at which the slice ends. Windows that reach their maximum length then do no harm: a slice that begins
        one window earlier has all of their events.
    origin
        Name of the input, for the message.

    Raises
    ------
    ValidationError
        If there is such a window.
    """
    times = repeated(longer.times, longer.counts)
    exceeded = np.flatnonzero(times < until)
    if len(exceeded):
        assert isinstance(longer.query.window, ast.TimeWindow)
        allowed = format_duration(longer.query.window.nanoseconds)
        raise ValidationError(
            f"{origin}: the window that event {longer.bindings.values[0][exceeded[0]]} opens is not closed within "
            f"longest_window={allowed!r}; increase it"
        )
