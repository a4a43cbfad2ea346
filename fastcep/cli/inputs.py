"""Feed an engine from an input, up to the first bad row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fastcep.errors import DataError, FastcepError, MemoryLimitError
from fastcep.io import Source, open_source

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from fastcep.engine import Engine, Matches
    from fastcep.events import Schema
    from fastcep.io import Live

__all__ = ["BatchProcessor", "Batches", "InputOptions", "each", "feed"]


@dataclass(frozen=True)
class InputOptions:
    """Input options of the commands; see `fastcep.io.open_source`."""

    format: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    sort: bool = False
    bad_rows: Path | None = None

    def open(
        self, paths: Sequence[str], schema: Schema, chunk_rows: int, *, ordered: bool = True, live: Live | None = None
    ) -> Source:
        """Open the inputs; with `ordered`, a row whose time decreases is a bad row."""
        return open_source(
            list(paths),
            schema,
            chunk_rows=chunk_rows,
            format=self.format,
            delimiter=self.delimiter,
            encoding=self.encoding,
            sort=self.sort,
            bad_rows=self.bad_rows,
            ordered=ordered,
            live=live,
        )


class BatchProcessor(Protocol):
    """Consumer of batches with the interface of `Engine.process`."""

    def process(self, data: pa.RecordBatch, *, origin: str, rows: npt.NDArray[np.int64]) -> Matches: ...  # noqa: D102


class Batches(Protocol):
    """Iterable of batches with the interface of `Source`."""

    origin: str
    rows: npt.NDArray[np.int64]

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


def feed(engine: Engine, source: Source) -> Iterator[Matches]:
    """Process an input to its end and yield the matches, batch by batch.

    Raises
    ------
    FastcepError
        If a row is bad, or the engine reaches its memory limit. All matches of the events before it, those of held
        events included, have been yielded then.
    """
    try:
        yield from each(engine, source)
        yield engine.flush()
    except FastcepError as error:
        yield from _matches_of(error)
        if engine.metrics()["held_events"]:  # they were accepted before the error
            try:
                yield engine.flush(complete=False)
            except MemoryLimitError as flush_error:  # the first error is raised
                yield from _matches_of(flush_error)
        raise


def each(engine: BatchProcessor, source: Batches) -> Iterator[Matches]:
    """Process batches and yield the matches of each; of a batch with a bad row, the rows before it are processed."""
    for batch in source:
        try:
            matches = engine.process(batch, origin=source.origin, rows=source.rows)
        except DataError:
            yield from _process_valid_rows(engine, batch, source)
            raise
        yield matches


def _matches_of(error: FastcepError) -> Iterator[Matches]:
    if isinstance(error, MemoryLimitError) and error.matches is not None:
        yield error.matches


def _process_valid_rows(engine: BatchProcessor, batch: pa.RecordBatch, source: Batches) -> Iterator[Matches]:
    """Process the rows before the first bad one, found by bisection: the engine rejects a batch as a whole."""
    size, rows = batch.num_rows, source.rows
    while size > 1:
        middle = size // 2
        try:
            matches = engine.process(batch.slice(0, middle), origin=source.origin, rows=rows[:middle])
        except DataError:
            size = middle
        else:
            yield matches
            batch, rows, size = batch.slice(middle), rows[middle:], size - middle
