"""Feed an engine from an input, row by row where something is wrong."""

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

__all__ = ["Batches", "InputOptions", "TakesBatches", "each", "feed"]


@dataclass(frozen=True)
class InputOptions:
    """The options of ``fastcep run`` about its input; see `fastcep.io.open_source`."""

    format: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    sort: bool = False
    bad_rows: Path | None = None

    def open(
        self, paths: Sequence[str], schema: Schema, chunk_rows: int, *, ordered: bool = True, live: Live | None = None
    ) -> Source:
        """Open the inputs; `ordered` says whether a row that runs backwards in time is a bad one."""
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


class TakesBatches(Protocol):
    """Takes batches of events as an `Engine` does."""

    def process(self, data: pa.RecordBatch, *, origin: str, rows: npt.NDArray[np.int64]) -> Matches: ...  # noqa: D102


class Batches(Protocol):
    """Gives batches as a `Source` does."""

    origin: str
    rows: npt.NDArray[np.int64]

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


def feed(engine: Engine, source: Source) -> Iterator[Matches]:
    """Hand an input to an engine to its end and yield what it gives, batch by batch.

    Raises
    ------
    FastcepError
        If a row cannot be taken, or the engine comes to its memory limit. All matches found have been yielded then,
        also those of events that were held back.
    """
    try:
        yield from each(engine, source)
        yield engine.flush()
    except FastcepError as error:
        yield from _found(error)
        if engine.metrics()["held_events"]:  # they were accepted before the error
            try:
                yield engine.flush(complete=False)
            except MemoryLimitError as second:  # what went wrong first is told
                yield from _found(second)
        raise


def each(engine: TakesBatches, source: Batches) -> Iterator[Matches]:
    """Hand batch after batch to an engine and yield what it gives; of one that it refuses the rows before the fault."""
    for batch in source:
        try:
            matches = engine.process(batch, origin=source.origin, rows=source.rows)
        except DataError:
            yield from _before_the_fault(engine, batch, source)
            raise
        yield matches


def _found(error: FastcepError) -> Iterator[Matches]:
    if isinstance(error, MemoryLimitError) and error.matches is not None:
        yield error.matches


def _before_the_fault(engine: TakesBatches, batch: pa.RecordBatch, source: Batches) -> Iterator[Matches]:
    """Take the rows before the first that the engine refuses, found by halving: a batch is refused whole."""
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
