"""Utilities of the partial states of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.engine.state.row_copies import home_marks
from fastcep.errors import ValidationError
from fastcep.migration.partial_states.query_entries import QueryEntries
from fastcep.migration.states import Floats, Ints

__all__ = ["NAMES", "Utility", "check_utility", "utilities_of"]

#: Name of a utility, or a function of the table of partial matches.
Utility = str | Callable[[pa.Table], npt.ArrayLike]
NAMES = ("auto", "shedder", "count", "size", "random")


def check_utility(utility: Utility) -> None:
    """Check a utility; `ValidationError` if it is neither a known name nor a function."""
    if not callable(utility) and utility not in NAMES:
        raise ValidationError(
            f"utility: found {utility!r}; expected one of {', '.join(map(repr, NAMES))}, or a function"
        )


def utilities_of(
    utility: Utility, seed: int, sizes: Ints, queries: Sequence[QueryEntries], tables: Sequence[pa.Table | None]
) -> Floats:
    """Return the utility of each partial state.

    Parameters
    ----------
    utility, seed
        As for `partition`.
    sizes
        Size of each state.
    queries
        The entries of each query.
    tables
        Table of the partial matches of each query, see `CutState`.

    Raises
    ------
    ValidationError
        If the utility is unknown, or the values of a function are invalid.
    """
    if utility == "size":
        return np.asarray(sizes, np.float64) ** 1.5
    if utility == "random":
        return np.random.default_rng(seed).random(len(sizes))
    counted = [_counted(query) for query in queries]
    values = _values(utility, counted, tables)
    total = np.zeros(len(sizes))
    for query, states, of_rows in zip(queries, counted, values, strict=True):
        np.add.at(total, states, of_rows)
        np.add.at(total, query.owners.waiting, of_rows.max() if len(of_rows) else 1.0)
    return total


def _counted(query: QueryEntries) -> Ints:
    """Return the state of each partial match, in the order of its table; of each event in the factorised store."""
    rows = query.owners.rows
    if not query.layout.plan.kept:
        marks = home_marks(query.state, query.layout)
        rows = [states[mark != 0] for states, mark in zip(rows, marks, strict=True)]
    return np.concatenate([np.empty(0, np.int64), *rows])


def _values(utility: Utility, counted: Sequence[Ints], tables: Sequence[pa.Table | None]) -> list[Floats]:
    """Return the utility of each partial match of each query."""
    ones = [np.ones(len(states)) for states in counted]
    if utility == "count":
        return ones
    known = [table["utility"] for table in tables if table is not None and not table["utility"].null_count]
    if utility == "auto" and (len(known) < len(tables) or not any(map(len, counted))):
        return ones
    if not callable(utility):
        if len(known) < len(tables):
            raise ValidationError(
                "utility: 'shedder' is unknown, because the engine has no shedder that knows the utility of all its "
                "partial matches; use 'count', another name, or a function"
            )
        return _split(
            _checked("the shedder", np.concatenate([np.asarray(values) for values in known]), counted), counted
        )
    numbered = [
        table.append_column("state", pa.array(states))
        for table, states in zip(tables, counted, strict=True)
        if table is not None
    ]
    if len(numbered) < len(tables):
        raise ValidationError(
            "utility: the factorised store has no table of partial matches for a function; create the engine with "
            "store='rows', or use 'count' or 'size'"
        )
    return _split(_checked("the function", utility(pa.concat_tables(numbered)), counted), counted)


def _checked(source: str, found: npt.ArrayLike, counted: Sequence[Ints]) -> Floats:
    """Check the utilities from a source; `ValidationError` if they are not one finite number, at least 0, per row."""
    count = sum(map(len, counted))
    expected = f"expected {count:,} finite numbers, at least 0: one for each partial match"
    try:
        values = np.asarray(found, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValidationError(f"utility: {source} returned {type(found).__name__} ({error}); {expected}") from None
    if values.shape != (count,):
        raise ValidationError(f"utility: {source} returned an array of the shape {values.shape}; {expected}")
    invalid = ~np.isfinite(values) | (values < 0)
    if invalid.any():
        row = int(np.argmax(invalid))
        raise ValidationError(f"utility: {source} returned {values[row]} for partial match {row}; {expected}")
    return values


def _split(values: Floats, counted: Sequence[Ints]) -> list[Floats]:
    return np.split(values, np.cumsum([len(states) for states in counted])[:-1])
