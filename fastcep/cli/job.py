"""What ``fastcep run`` is asked to do, read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastcep.cli.inputs import InputOptions
from fastcep.cli.late import Lateness
from fastcep.cli.outputs import OutputOptions
from fastcep.cli.shedding import SheddingOptions
from fastcep.cli.summary import Summary

if TYPE_CHECKING:
    from fastcep.events import Schema
    from fastcep.io import Live, Source
    from fastcep.query import Query

__all__ = ["Job"]


@dataclass(frozen=True)
class Job:
    """Queries, the input, and where to.

    Attributes
    ----------
    schema, queries
        Of the ``.cep`` file.
    sources
        The inputs.
    inputs, outputs, lateness
        The options about them.
    engine
        The engine's options.
    batch_rows
        Rows handed to it at once.
    functions
        The file of the user's functions.
    shedding
        What to do about overload.
    """

    schema: Schema
    queries: Sequence[Query]
    sources: Sequence[str]
    inputs: InputOptions
    outputs: OutputOptions
    lateness: Lateness
    engine: Mapping[str, Any]
    batch_rows: int
    functions: Path | None = None
    shedding: SheddingOptions = field(default_factory=SheddingOptions)

    def open(self, live: Live | None = None) -> Source:
        """Open the input."""
        ordered = self.lateness.allowed is None
        return self.inputs.open(self.sources, self.schema, self.batch_rows, ordered=ordered, live=live)

    def summary(self) -> Summary:
        """A summary of nothing yet."""
        return Summary(matches_by_query={query.name: 0 for query in self.queries})
