"""Job of ``fastcep run``: its queries and options, parsed and checked."""

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
    """Queries, input, output and options of a run.

    Attributes
    ----------
    schema, queries
        Contents of the ``.cep`` file.
    sources
        Paths of the inputs.
    inputs, outputs, lateness
        Options for input, output and late events.
    engine
        Keyword arguments of `Engine`.
    batch_rows
        Number of rows per batch.
    functions
        File of the user's functions.
    shedding
        Options for load shedding.
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
        """Open the input; `live` is how to wait for standard input, unless there are other inputs or it is sorted."""
        if self.inputs.sort or list(self.sources) != ["-"]:
            live = None
        ordered = self.lateness.ordered
        return self.inputs.open(self.sources, self.schema, self.batch_rows, ordered=ordered, live=live)

    def summary(self) -> Summary:
        """Return an empty summary."""
        return Summary(matches_by_query={query.name: 0 for query in self.queries})
