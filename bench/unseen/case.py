"""A stream with its queries: what one evaluation runs on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

import fastcep as fc

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
    """

    name: str
    document: str
    table: pa.Table
    notes: tuple[str, ...] = ()

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
        """Second half of the events."""
        return self.table.slice(len(self.table) // 2).combine_chunks()
