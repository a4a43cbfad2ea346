"""Matches: what the engine found in one call, in the defined order, exported as Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.vectors import repeated
from fastcep.engine.returns import Bindings
from fastcep.errors import ValidationError
from fastcep.events.convert import all_null, from_lengths, from_numpy, from_texts
from fastcep.query import ast
from fastcep.query.patterns import leaves_of

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class QueryMatches:
    """Matches of one query: ``bindings`` hold sequence numbers; ``detected`` and ``times`` are one per detecting event.

    Attributes
    ----------
    counts
        int64, matches per detecting event.
    detected
        int64, arrival position of each detecting event; -1 for a decision at a time, without an event.
    times
        int64 ns, their time.
    returned
        RETURN columns by name.
    windows
        int64, the window of each match; None if the query has no explicit windows.
    """

    query: ast.Query
    bindings: Bindings
    detected: Ints
    counts: Ints
    times: Ints
    returned: Mapping[str, Any] = field(default_factory=dict)
    windows: Ints | None = None

    def columns(self) -> dict[str, Any]:
        """Arrow arrays by column name."""
        n = self.bindings.n
        times = repeated(self.times, self.counts)
        out: dict[str, Any] = {
            "query": pa.DictionaryArray.from_arrays(
                from_numpy(np.zeros(n, np.int8), pa.int8()), from_texts([self.query.name])
            ),
            "window_id": all_null(times) if self.windows is None else from_numpy(self.windows),
            "detected_at": from_numpy(times, pa.timestamp("ns", "UTC")),
        }
        for number, leaf in enumerate(leaves_of(self.query.pattern)):
            if leaf.negated:
                continue
            values, lengths = self.bindings.values[number], self.bindings.lengths[number]
            absent = values < 0 if leaf.optional and not leaf.member.repeated else None
            bound = from_numpy(values, nulls=absent)
            out[leaf.name] = bound if lengths is None else from_lengths(lengths, bound)
        out.update(self.returned)
        return out


class Matches:
    """The matches of one engine call.

    They come by the time they are detected (at one time those of an event, by event, before those that waited for it),
    then query (in the order given to the engine), then birth order. Nothing is copied until :meth:`to_arrow`.
    """

    def __init__(self, parts: Sequence[QueryMatches]) -> None:
        self.parts = tuple(parts)

    def __len__(self) -> int:
        return sum(part.bindings.n for part in self.parts)

    def __repr__(self) -> str:
        return f"Matches({', '.join(f'{name}: {count:,}' for name, count in self.counts().items())})"

    def counts(self) -> dict[str, int]:
        """Number of matches by query name."""
        return {part.query.name: part.bindings.n for part in self.parts}

    def query(self, name: str) -> Matches:
        """The matches of one query.

        Raises
        ------
        ValidationError
            If the engine has no query of this name.
        """
        for part in self.parts:
            if part.query.name == name:
                return Matches([part])
        raise ValidationError(f"no query named {name!r}; the engine runs {', '.join(map(repr, self.counts()))}")

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table.

        Columns: ``query`` (dictionary), ``window_id`` (int64, null without explicit windows), ``detected_at``
        (timestamp[ns, UTC]), one per variable (int64 sequence number, null when absent; large_list<int64> for a Kleene
        variable, and for ``g.a`` of a group with one entry per round), then the RETURN columns. With several queries a
        column that a query does not have is null.

        Raises
        ------
        ValidationError
            If a column has one type in one query and another in the next; ``query(name).to_arrow()`` works then.
        """
        if len(self.parts) == 1:
            return pa.table(self.parts[0].columns())
        self._check_columns()
        tables = [pa.table(part.columns()).cast(_plain(part)) for part in self.parts]
        whole = pa.concat_tables(tables, promote_options="default")
        detected, times = (
            np.concatenate([np.repeat(values, part.counts) for part, values in zip(self.parts, each, strict=True)])
            for each in ([part.detected for part in self.parts], [part.times for part in self.parts])
        )
        # What was decided at a time comes behind the matches of the events at that time.
        return whole.take(from_numpy(np.lexsort((detected, detected < 0, times))))

    def _check_columns(self) -> None:
        seen: dict[str, tuple[Any, str]] = {}
        for part in self.parts:
            for column, values in part.columns().items():
                kind, owner = seen.setdefault(column, (values.type, part.query.name))
                if values.type != kind:
                    raise ValidationError(
                        f"column {column!r} is {kind} in query {owner!r} and {values.type} in query "
                        f"{part.query.name!r}; rename the variable or the RETURN column in one of them, or take one "
                        "query at a time: matches.query(name), or --query NAME"
                    )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export as an Arrow stream (PyCapsule interface)."""
        table: Any = self.to_arrow()
        return table.__arrow_c_stream__(requested_schema)


def _plain(part: QueryMatches) -> pa.Schema:
    """The table's schema with the query's name as a plain string, which can be concatenated."""
    schema = pa.table(part.columns()).schema
    return schema.set(0, pa.field("query", pa.string()))
