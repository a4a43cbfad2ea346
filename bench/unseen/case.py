"""A stream with its queries: what one evaluation runs on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

import fastcep as fc
from bench.unseen.repeated import Repeated

__all__ = ["Case"]


@dataclass(frozen=True)
class Case:
    """Stream with its queries.

    Attributes
    ----------
    name
        Unique name.
    document
        Text of a ``.cep`` file: the schema, and one or several queries.
    table
        Events in time order. The first half is the history, the second half is measured.
    notes
        Properties of a random stream, for the report.
    plays
        Number of times that the second half is played, one after the other.
    """

    name: str
    document: str
    table: pa.Table
    notes: tuple[str, ...] = ()
    plays: int = 1

    @cached_property
    def queries(self) -> tuple[fc.Query, ...]:
        """Parsed queries."""
        return tuple(fc.parse_document(self.document).queries)

    @property
    def history(self) -> pa.Table:
        """First half of the events."""
        return self.table.slice(0, len(self.table) // 2).combine_chunks()

    @property
    def measured(self) -> pa.Table:
        """Second half of the events, as often as it is played: each play begins where the one before it ends."""
        once = self.table.slice(len(self.table) // 2)
        if self.plays == 1:
            return once.combine_chunks()
        repeated = Repeated(once, str(self.queries[0].schema.time), self.plays * len(once))
        return pa.Table.from_batches(list(repeated)).combine_chunks()
