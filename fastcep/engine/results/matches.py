"""The matches of one engine call, in a defined order, exported as Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.matches.output import Output
from fastcep.engine.results.html import matches_table
from fastcep.engine.results.match import (
    Attributes,
    Match,
    MatchReader,
    attribute_columns,
    only_match,
)
from fastcep.engine.results.query_matches import QueryMatches, VariableColumn, read, variable_columns
from fastcep.engine.results.returns import Bindings
from fastcep.errors import ValidationError
from fastcep.events.convert import all_null, from_numpy, from_texts
from fastcep.events.schema import suggestion
from fastcep.events.types import TIMESTAMP
from fastcep.extras import load
from fastcep.query import ast

__all__ = ["Layout", "Matches", "no_query"]

Ints = npt.NDArray[np.int64]


def no_query(name: object, names: Iterable[str]) -> str:
    """Return the error message for a name that none of the queries called ``names`` has."""
    names = list(names)
    hint = suggestion(name, names) if names else ", which has none now"
    return f"no query named {name!r} in the engine{hint}"


def _joined(parts: Sequence[QueryMatches | Output]) -> QueryMatches | Output:
    """Concatenate the matches of a query from several calls."""
    nonempty = [part for part in parts if part.n]
    if len(nonempty) < 2:
        return nonempty[0] if nonempty else parts[-1]
    columns = [read(part) for part in nonempty]
    first, join = columns[0], np.concatenate
    values = [join([part.bindings.values[number] for part in columns]) for number in range(len(first.bindings.values))]
    lengths: list[Ints | None] = [
        None if sizes is None else join([_present(part.bindings.lengths[number]) for part in columns])
        for number, sizes in enumerate(first.bindings.lengths)
    ]
    detected, counts, times = (
        join([getattr(part, name) for part in columns]) for name in ("detected", "counts", "times")
    )
    windows = None if first.windows is None else join([_present(part.windows) for part in columns])
    returned = {
        name: pa.chunked_array([part.returned[name] for part in columns]).unify_dictionaries().combine_chunks()
        for name in first.returned
    }
    bindings = Bindings(sum(part.n for part in columns), values, lengths)
    return QueryMatches(first.query, bindings, detected, counts, times, returned, windows, first.partial)


def _present(values: Ints | None) -> Ints:
    assert values is not None
    return values


class _Columns(NamedTuple):
    """The columns of the variables of a query, and those of their attributes."""

    query: ast.Query
    variables: tuple[VariableColumn, ...]
    attributes: Attributes


class _Order(NamedTuple):
    """The matches of several queries in order.

    Attributes
    ----------
    rows
        int64[n], row of each match in the concatenated matches of all queries that have any.
    owners
        int64[n], number of its query, among those that have matches.
    places
        int64[n], number of the match among those of its query.
    """

    rows: Ints
    owners: Ints
    places: Ints


class Layout:
    """The columns of a table with the matches of several queries; computed once for all calls.

    Parameters
    ----------
    parts
        Matches of each query, in order; there may be none.
    """

    def __init__(self, parts: Sequence[QueryMatches | Output]) -> None:
        self._parts = tuple(parts)
        self._empty: pa.Table | None = None
        #: By the identity of the query; the entry keeps it alive.
        self._columns: dict[int, _Columns] = {}

    def columns(self, query: ast.Query) -> _Columns:
        """Return the columns of the variables of one of the queries, and those of their attributes."""
        entry = self._columns.get(id(query))
        if entry is None:
            entry = self._columns[id(query)] = _Columns(query, variable_columns(query), attribute_columns(query))
        return entry

    @property
    def empty(self) -> pa.Table:
        """The table without rows; `ValidationError` if two queries have a column of one name with different types."""
        if self._empty is None:
            no_rows = np.empty(0, np.int64)
            times = from_numpy(no_rows, TIMESTAMP)
            columns: dict[str, Any] = {"query": from_texts([]), "window_id": all_null(no_rows), "detected_at": times}
            owners: dict[str, str] = {}
            for part in self._parts:
                self._add_columns(read(part), columns, owners)
            self._empty = pa.table(columns)
        return self._empty

    @staticmethod
    def _add_columns(part: QueryMatches, columns: dict[str, Any], owners: dict[str, str]) -> None:
        """Add the columns of a query; a column that another query has too must have the same type."""
        for column, values in part.columns().items():
            kind, owner = (
                columns.setdefault(column, values.slice(0, 0)).type,
                owners.setdefault(column, part.query.name),
            )
            if values.type != kind:
                raise ValidationError(
                    f"column {column!r} is {kind} in query {owner!r} and {values.type} in query "
                    f"{part.query.name!r}; rename the variable or the RETURN column in one of them, or take one "
                    "query at a time: matches.query(name), engine.timed_out(name), or --query NAME"
                )


class Matches:
    """The matches of one engine call.

    They are ordered by the time of their detection, then query (in the order of the engine's queries), then birth
    order. At equal times, matches that an event completes come first, event by event, then matches that waited for this
    time. Nothing is copied until :meth:`to_arrow`.
    """

    def __init__(self, parts: Sequence[QueryMatches | Output], layout: Layout | None = None) -> None:
        self._parts = parts
        self._layout = Layout(parts) if layout is None else layout
        self._readers: list[tuple[_Columns, MatchReader]] | None = None
        self._order: _Order | None = None

    @staticmethod
    def joined(calls: Sequence[Matches]) -> Matches:
        """Concatenate the matches of several calls of one engine, in the order of its queries in the last call."""
        if len(calls) == 1:
            return calls[0]
        by_query: dict[int, list[QueryMatches | Output]] = {id(part.query): [] for part in calls[-1]._parts}
        for part in (part for matches in calls for part in matches._parts):
            by_query.setdefault(id(part.query), []).append(part)
        parts = [_joined(of_query) for of_query in by_query.values()]
        current = len(calls[-1]._parts)  # parts after these are of queries that have been removed from the engine
        removed = [part for part in parts[current:] if part.n]
        return Matches([*parts[:current], *removed], None if removed else calls[-1]._layout)

    def __len__(self) -> int:
        return sum([part.n for part in self._parts])

    def __repr__(self) -> str:
        return f"Matches({', '.join(f'{name}: {count:,}' for name, count in self.counts().items())})"

    def counts(self) -> dict[str, int]:
        """Number of matches by query name."""
        counts: dict[str, int] = {}
        for part in self._parts:  # two of a name: a call that a signal ended replaced a query by one of the same name
            counts[part.query.name] = counts.get(part.query.name, 0) + part.n
        return counts

    def query(self, name: str) -> Matches:
        """Return the matches of one query.

        Raises
        ------
        ValidationError
            If the engine has no query of this name.
        """
        parts = [part for part in self._parts if part.query.name == name]
        if not parts:
            raise ValidationError(no_query(name, self.counts()))
        return Matches(parts)

    def __iter__(self) -> Iterator[Match]:
        """Yield the matches, in order."""
        return (Match(values, columns.attributes) for columns, values in self._rows())

    def __reduce__(self) -> NoReturn:
        """Raise `TypeError`: matches cannot be pickled or copied."""
        raise TypeError("matches cannot be pickled or copied; convert them: to_arrow() or to_dicts()")

    @overload
    def __getitem__(self, index: int) -> Match: ...

    @overload
    def __getitem__(self, index: slice) -> list[Match]: ...

    def __getitem__(self, index: int | slice) -> Match | list[Match]:
        """Return a match, or the list of matches of a slice.

        Raises
        ------
        IndexError
            If there is no match with this number.
        TypeError
            If the index is neither an int nor a slice.
        """
        if isinstance(index, slice):
            places = range(len(self))[index]
            if places.step == 1:
                return [Match(values, columns.attributes) for columns, values in self._rows(places.start, places.stop)]
            return [self._match(place) for place in places]
        if not hasattr(index, "__index__"):
            raise TypeError(
                f"found index {index!r}, expected an int or a slice of numbers; matches.query(name) returns the "
                "matches of one query"
            )
        try:
            place = range(len(self))[index]
        except IndexError:
            count = len(self)
            expected = f"expected an index from {-count} to {count - 1}" if count else "there are no matches"
            raise IndexError(f"match {index} of {count}; {expected}") from None
        return self._match(place)

    def _match(self, place: int) -> Match:
        columns, values = next(self._rows(place, place + 1))
        return Match(values, columns.attributes)

    def _rows(self, first: int = 0, end: int | None = None) -> Iterator[tuple[_Columns, dict[str, Any]]]:
        """Yield the columns of the query and the values of each match."""
        end = len(self) if end is None else end
        if len(self._parts) == 1 and self._parts[0].n == 1 and isinstance(part := self._parts[0], Output):
            if first < end:
                columns = self._layout.columns(part.query)
                yield columns, only_match(part, columns.variables)
            return
        readers = self._read()
        if len(readers) < 2:
            for columns, reader in readers:
                for values in reader.between(first, end):
                    yield columns, values
            return
        order = self._ordered()
        owners = order.owners[first:end]
        queries, starts = np.unique(owners, return_index=True)
        rows: dict[int, tuple[_Columns, Iterator[dict[str, Any]]]] = {}
        for number, start in zip(queries.tolist(), starts.tolist(), strict=True):
            columns, reader = readers[number]
            begin = int(order.places[first + start])
            rows[number] = columns, reader.between(begin, begin + len(owners))
        for number in owners.tolist():
            columns, values_of_query = rows[number]
            yield columns, next(values_of_query)

    def _read(self) -> list[tuple[_Columns, MatchReader]]:
        """Return the readers of the queries that have matches, with the columns of each query."""
        if self._readers is None:
            parts = [(part, self._layout.columns(part.query)) for part in self._parts if part.n]
            self._readers = [(columns, MatchReader(part, columns.variables)) for part, columns in parts]
        return self._readers

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each match as a dict of its columns, see `Match`."""
        return [values for _, values in self._rows()]

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame of `to_arrow`; `ValidationError` if pandas is not installed."""
        load("pandas", "Matches.to_pandas()", None)
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return a polars DataFrame of `to_arrow`; `ValidationError` if polars is not installed."""
        return load("polars", "Matches.to_polars()", None).DataFrame(self.to_arrow())

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table.

        Columns: ``query`` (dictionary), ``window_id`` (int64, null without explicit windows), ``detected_at``
        (timestamp[ns, UTC]), one per variable (int64 sequence number, null when absent; large_list<int64> for a Kleene
        variable, and for ``g.a`` of a group with one entry per round), then the RETURN columns. With several queries a
        column that a query does not have is null.

        Raises
        ------
        ValidationError
            If a column has different types in two queries; ``query(name).to_arrow()`` works then.
        """
        if len(self._parts) == 1:
            part = read(self._parts[0])
            return part.table(self._layout.columns(part.query).variables)
        empty, parts = self._layout.empty, [read(part) for part in self._parts if part.n]
        if not parts:
            return empty
        tables = [pa.table(part.columns(self._layout.columns(part.query).variables)) for part in parts]
        table = pa.concat_tables([empty.remove_column(0), *tables], promote_options="default")
        owner = np.zeros(len(table), np.int64)
        if len(parts) > 1:
            order = self._ordered()
            owner, table = order.owners, table.combine_chunks().take(from_numpy(order.rows))
        names = from_texts([part.query.name for part in parts])
        return table.add_column(0, empty.field(0), names.take(from_numpy(owner)))

    def _ordered(self) -> _Order:
        """Return the order of the matches of all queries; computed once. Queries without matches do not count."""
        if self._order is None:
            parts = [read(part) for part in self._parts if part.n]
            sizes = np.array([part.bindings.n for part in parts], np.int64)
            detected = np.concatenate([np.repeat(part.detected, part.counts) for part in parts])
            times = np.concatenate([np.repeat(part.times, part.counts) for part in parts])
            # Matches that a time decides come after those that events of that time complete.
            rows = np.lexsort((detected, detected < 0, times))
            owners = np.repeat(np.arange(len(parts)), sizes)[rows]
            self._order = _Order(rows, owners, rows - (np.cumsum(sizes) - sizes)[owners])
        return self._order

    def _repr_html_(self) -> str:
        """Return a table of the first matches, for notebooks."""
        return matches_table(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export as an Arrow stream (PyCapsule interface)."""
        table: Any = self.to_arrow()
        return table.__arrow_c_stream__(requested_schema)
