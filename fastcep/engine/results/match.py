"""Single matches as Python objects, read from the columns of a result.

A result holds its matches by column. Iterating reads some at a time, so that a large result does not become objects all
at once; a result of few matches, such as that of ``send``, is read without NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep._core.matches.output import Output
from fastcep.engine.results.query_matches import QueryMatches, ReceivedMatches, VariableColumn
from fastcep.events.types import TIMESTAMP
from fastcep.query import ast
from fastcep.query.patterns import positive_variables
from fastcep.query.printer import expression_text

__all__ = ["Attributes", "Event", "Match", "MatchReader", "attribute_columns", "only_match"]

_CHUNK = 1_024  #: matches that are read at a time
#: For each variable, the columns of its attributes.
Attributes = Mapping[str, Mapping[str, str]]
_Column = Callable[[int, int], Sequence[Any]]  #: returns the values of some matches: from, to


class Record(Mapping[str, Any]):
    """A mapping whose values can also be read as attributes.

    A value whose name is that of a method of mappings, such as ``items``, can only be read with ``record["items"]``.
    """

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name in ("_values", "_attributes"):  # while it is unpickled
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            kind, names = type(self).__name__, ", ".join(map(repr, self._values))
            raise AttributeError(f"the {kind.lower()} has no {name!r}; there is {names}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in self._values if name.isidentifier())})

    def __getstate__(self) -> dict[str, Any]:
        return self._values

    def __setstate__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self._shown())
        return f"{type(self).__name__}({values})"

    def _shown(self) -> Iterator[tuple[str, Any]]:
        return ((name, _shown(value)) for name, value in self._values.items())


def _shown(value: Any) -> Any:
    """Return a value for `repr`: times are texts."""
    if isinstance(value, list):
        return [_shown(entry) for entry in value]
    return str(value) if isinstance(value, np.datetime64) else value


class Event(Record):
    """An event of a match with the attributes that the query returns: ``event.price`` or ``event["price"]``.

    ``seq`` is its sequence number.
    """

    __slots__ = ()


class Match(Record):
    """A match, as a mapping of the columns of `Matches.to_arrow` to values, without the columns of other queries.

    - ``query`` (str), ``window_id`` (int; None without explicit windows) and ``detected_at`` (``numpy.datetime64[ns]``
      in UTC).
    - ``match["a"]``: the sequence number of the event that variable ``a`` binds. None if it binds none; a list for a
      Kleene variable.
    - The columns of RETURN; times are ``numpy.datetime64[ns]`` in UTC.

    As attributes, ``match.a`` is the same, but an `Event` (or a list of them) if the query returns attributes of ``a``
    under their own names, as ``RETURN a.price``, ``RETURN b[].price`` and ``Engine(query, attributes=True)`` do:
    ``match.a.price``.
    """

    __slots__ = ("_attributes",)

    def __init__(self, values: dict[str, Any], attributes: Attributes = MappingProxyType({})) -> None:
        super().__init__(values)
        self._attributes = attributes

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if value is None or (columns := self._attributes.get(name)) is None:
            return value
        values = {attribute: self._values[column] for attribute, column in columns.items()}
        if not isinstance(value, list):
            return Event({"seq": value, **values})
        rows = zip(value, *values.values(), strict=True)
        return [None if row[0] is None else Event(dict(zip(("seq", *values), row, strict=True))) for row in rows]

    def __getstate__(self) -> Any:
        return self._values, {name: dict(columns) for name, columns in self._attributes.items()}

    def __setstate__(self, state: Any) -> None:
        self._values, self._attributes = state

    def _shown(self) -> Iterator[tuple[str, Any]]:
        return (pair for pair in super()._shown() if pair != ("window_id", None))


def attribute_columns(query: ast.Query) -> dict[str, dict[str, str]]:
    """Return the columns that have attributes of bound events under their own names, by variable and attribute.

    These are the columns of `with_attributes`, and those of RETURN without AS.
    """
    kinds = {
        variable.key: ast.AttributeList if variable.repeated else ast.Attribute
        for variable in positive_variables(query.pattern)
    }
    columns: dict[str, dict[str, str]] = {}
    for item in query.returns:
        node = item.expression
        if not isinstance(node, (ast.Attribute, ast.AttributeList)) or node.name == "seq":
            continue
        if type(node) is not kinds.get((node.variable, node.inner)) or getattr(node, "index", None) is not None:
            continue
        variable = node.qualified_name
        if item.name in (f"{variable}.{node.name}", expression_text(node)):
            columns.setdefault(variable, {}).setdefault(node.name, item.name)
    return columns


class MatchReader:
    """Reads the matches of one query.

    Parameters
    ----------
    part
        The matches.
    variables
        Result of `variable_columns` for the query.
    """

    __slots__ = ("_columns", "_count", "_query", "_times", "_windows")

    def __init__(self, part: QueryMatches | Output, variables: Sequence[VariableColumn]) -> None:
        self._count, self._query = part.n, part.query.name
        self._windows: Any
        self._columns: list[tuple[str, _Column]] = []
        if isinstance(part, ReceivedMatches):
            arrays = part.columns()
            windows = arrays.pop("window_id")
            self._windows = None if windows.null_count else windows.to_numpy()
            del arrays["detected_at"]
            self._times = _repeated(part.times, part.counts)
            self._columns += [(name, _arrow_column(array)) for name, array in arrays.items()]
            return
        returned: Mapping[str, Any] = {}
        if isinstance(part, Output):
            few = part.n <= _CHUNK
            values, lengths, _, times, counts, self._windows = part.to_lists() if few else part.arrays()
        else:
            values, lengths, times, counts = part.bindings.values, part.bindings.lengths, part.times, part.counts
            self._windows, returned = part.windows, part.returned
        self._times = _repeated(times, counts)
        for name, number, _, _ in variables:
            of_matches = lengths[number]
            column = _column(values[number]) if of_matches is None else _list_column(values[number], of_matches)
            self._columns.append((name, column))
        self._columns += [(name, _arrow_column(column)) for name, column in returned.items()]

    def between(self, first: int, end: int) -> Iterator[dict[str, Any]]:
        """Yield the values by column of the matches ``first`` to ``end - 1``."""
        for begin in range(first, min(end, self._count), _CHUNK):
            to = min(begin + _CHUNK, end, self._count)
            columns = [column(begin, to) for _, column in self._columns]
            windows = None if self._windows is None else _listed(self._windows[begin:to])
            for place, time in enumerate(_listed(self._times[begin:to])):
                row = {
                    "query": self._query,
                    "window_id": None if windows is None else windows[place],
                    "detected_at": np.datetime64(time, "ns"),
                }
                for (name, _), column in zip(self._columns, columns, strict=True):
                    row[name] = column[place]
                yield row


def only_match(part: Output, variables: Sequence[VariableColumn]) -> dict[str, Any]:
    """Return the values of the only match of a part by column: what `MatchReader` returns, in less time."""
    values, lengths, _, times, _, windows = part.to_lists()
    row = {
        "query": part.query.name,
        "window_id": None if windows is None else windows[0],
        "detected_at": np.datetime64(times[0], "ns"),
    }
    for name, number, _, _ in variables:
        of_match: Any = values[number]
        if lengths[number] is None:
            event = of_match[0]
            row[name] = event if event >= 0 else None
        else:
            row[name] = [event if event >= 0 else None for event in of_match]
    return row


def _listed(values: Any) -> list[Any]:
    return values if isinstance(values, list) else values.tolist()


def _repeated(times: Any, counts: Any) -> Any:
    if isinstance(times, list):
        return [time for time, count in zip(times, counts, strict=True) for _ in range(count)]
    return np.repeat(times, counts)


def _bound(values: Any) -> list[Any]:
    """Return sequence numbers as a list, None for -1: no event."""
    listed = _listed(values)
    return [None if value < 0 else value for value in listed] if min(listed, default=0) < 0 else listed


def _column(values: Any) -> _Column:
    return lambda first, end: _bound(values[first:end])


def _list_column(values: Any, lengths: Any) -> _Column:
    offsets: Any = [0, *accumulate(lengths)] if isinstance(lengths, list) else np.append(0, np.cumsum(lengths))

    def read(first: int, end: int) -> Sequence[Any]:
        bounds = _listed(offsets[first : end + 1])
        begin = bounds[0]
        elements = _bound(values[begin : bounds[-1]])
        return [elements[at - begin : to - begin] for at, to in pairwise(bounds)]

    return read


def _arrow_column(values: Any) -> _Column:
    kind = values.type
    if kind == TIMESTAMP:
        numbers = values.cast(pa.int64())
        return lambda first, end: _times(numbers.slice(first, end - first).to_pylist())
    if kind == pa.large_list(TIMESTAMP):
        lists = values.cast(pa.large_list(pa.int64()))
        return lambda first, end: [entry and _times(entry) for entry in lists.slice(first, end - first).to_pylist()]
    return lambda first, end: values.slice(first, end - first).to_pylist()


def _times(values: Sequence[int | None]) -> list[np.datetime64 | None]:
    return [None if value is None else np.datetime64(value, "ns") for value in values]
