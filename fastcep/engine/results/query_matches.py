"""The matches of one query in one engine call, by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.matches.output import Output
from fastcep._core.memory.vectors import repeated
from fastcep.engine.results.returns import Bindings
from fastcep.events.convert import all_null, from_lengths, from_numpy, from_texts
from fastcep.events.types import TIMESTAMP
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables

__all__ = [
    "QueryMatches", "ReceivedMatches", "VariableColumn", "one_array", "read", "received_matches", "variable_columns",
]  # fmt: skip

Ints = npt.NDArray[np.int64]

#: Number of matches up to which the column of the query's name is a slice of an array that is kept.
_FEW = 256


class VariableColumn(NamedTuple):
    """The column of a variable in matches of a query.

    Attributes
    ----------
    name
        Name of the column.
    number
        Number of the variable in the pattern.
    is_list, is_optional
        Whether the variable binds a list, and whether a match can leave it unbound.
    """

    name: str
    number: int
    is_list: bool
    is_optional: bool


def variable_columns(query: ast.Query) -> tuple[VariableColumn, ...]:
    """Return the columns of a query's variables, in order."""
    return tuple(
        VariableColumn(variable.name, number, variable.declaration.repeated, variable.optional)
        for number, variable in enumerate(pattern_variables(query.pattern))
        if not variable.negated
    )


@dataclass(frozen=True, slots=True)
class QueryMatches:
    """Matches of one query, grouped by the event that completed them.

    Attributes
    ----------
    query
        The query.
    bindings
        The bound events of each match, by sequence number.
    detected
        int64, arrival position of each completing event; -1 for matches that a time decided, without an event.
    counts
        int64, number of matches for each entry of `detected`.
    times
        int64 ns, time of each entry of `detected`.
    returned
        RETURN columns by name.
    windows
        int64, the window of each match; None if the query has no explicit windows.
    partial
        True for partial matches, which may leave any variable unbound.
    """

    query: ast.Query
    bindings: Bindings
    detected: Ints
    counts: Ints
    times: Ints
    returned: Mapping[str, Any] = field(default_factory=dict)
    windows: Ints | None = None
    partial: bool = False

    @property
    def n(self) -> int:
        """Number of matches."""
        return self.bindings.n

    def table(self, variables: Sequence[VariableColumn] | None = None) -> pa.Table:
        """Return all columns as a table; ``variables`` as for `columns`."""
        return pa.table({"query": _repeated_name(self.query.name, self.bindings.n)} | self.columns(variables))

    def columns(self, variables: Sequence[VariableColumn] | None = None) -> dict[str, Any]:
        """Return Arrow arrays by column name, without the column of the query's name.

        Parameters
        ----------
        variables
            `variable_columns` of the query, if the caller has computed them for several calls.
        """
        times = repeated(self.times, self.counts)
        out: dict[str, Any] = {
            "window_id": all_null(times) if self.windows is None else from_numpy(self.windows),
            "detected_at": from_numpy(times, TIMESTAMP),
        }
        for name, number, is_list, is_optional in variable_columns(self.query) if variables is None else variables:
            values, lengths = self.bindings.values[number], self.bindings.lengths[number]
            absent = values < 0 if (is_optional or self.partial) and not is_list else None
            bound = from_numpy(values, nulls=absent)
            out[name] = bound if lengths is None else from_lengths(lengths, bound)
        out.update(self.returned)
        return out


@dataclass(frozen=True)
class ReceivedMatches(QueryMatches):
    """Matches of a query whose columns another engine has made; `bindings` has only their number.

    Attributes
    ----------
    received
        The columns, as `QueryMatches.columns` returns them.
    """

    received: pa.Table = field(default_factory=lambda: pa.table({}))

    def columns(self, variables: Sequence[VariableColumn] | None = None) -> dict[str, Any]:
        """Return Arrow arrays by column name, without the column of the query's name."""
        return {name: one_array(self.received[name]) for name in self.received.column_names}


def _repeated_name(name: str, n: int) -> Any:
    """Return a dictionary array with the name of a query, n times."""
    if n <= _FEW:
        return _few_names(name).slice(0, n)
    codes = from_numpy(np.zeros(n, np.int8), pa.int8())
    return pa.DictionaryArray.from_arrays(codes, from_texts([name]), safe=False)  # the codes need no check


@lru_cache(maxsize=1000)
def _few_names(name: str) -> Any:
    """Return a dictionary array with the name of a query, to slice: that takes a sixth of the time of a new array."""
    return pa.DictionaryArray.from_arrays(from_numpy(np.zeros(_FEW, np.int8), pa.int8()), from_texts([name]))


def received_matches(query: ast.Query, columns: pa.Table, detected: Ints, times: Ints) -> ReceivedMatches:
    """Return the matches of a query from its columns, and from the completing event and the time of each match."""
    ones = np.ones(len(columns), np.int64)
    return ReceivedMatches(query, Bindings(len(columns), [], []), detected, ones, times, received=columns)


def one_array(column: Any) -> Any:
    """Return a chunked array as one array, with one dictionary."""
    return column.unify_dictionaries().combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def read(part: QueryMatches | Output) -> QueryMatches:
    """Convert compiled output to columns, for a query without ``RETURN`` whose sequence numbers are the positions."""
    if isinstance(part, QueryMatches):
        return part
    values, lengths, detected, times, counts, windows = part.arrays()
    return QueryMatches(part.query, Bindings(part.n, values, lengths), detected, counts, times, {}, windows)
