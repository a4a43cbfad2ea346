"""Open an input where the last run stopped: read again what it had taken, and make sure that it is the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fastcep.cli.durable.digest import Digest
from fastcep.errors import DataError, MemoryLimitError, SchemaError, ValidationError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from fastcep.cli.durable.record import Record
    from fastcep.engine import Engine, Matches
    from fastcep.io import Source

__all__ = ["CountingEngine", "Rest"]

_MEND = (
    ". Give the same input again (rows may have been added at its end), or start anew with another --checkpoint folder"
)


class CountingEngine:
    """Hands rows to an engine and keeps count of those that it took.

    Parameters
    ----------
    engine
        The engine.
    digest
        Of the rows taken before; it goes on.
    rows
        How many there were.

    Attributes
    ----------
    rows
        How many there are.
    sound
        Whether the engine stands behind exactly these rows. After it came to its memory limit, or a query failed, it
        has lost something.
    ended
        Whether the engine was flushed.
    """

    def __init__(self, engine: Engine, digest: Digest, rows: int) -> None:
        self.engine, self.rows = engine, rows
        self.sound, self.ended = True, False
        self._digest = digest

    @property
    def digest(self) -> str:
        """Of the rows taken."""
        return self._digest.hexdigest()

    def process(self, data: pa.RecordBatch, *, origin: str, rows: npt.NDArray[np.int64]) -> Matches:
        """See `fastcep.Engine.process`."""
        self.sound = False
        try:
            matches = self.engine.process(data, origin=origin, rows=rows)
        except (DataError, SchemaError, ValidationError):
            self.sound = True  # of the batch nothing was taken
            raise
        except MemoryLimitError as error:
            self.sound = error.matches is None
            raise
        self._digest.add(data)
        self.rows += data.num_rows
        self.sound = True
        return matches

    def flush(self) -> Matches:
        """See `fastcep.Engine.flush`."""
        self.sound, self.ended = False, True
        matches = self.engine.flush()
        self.sound = True
        return matches


class Rest:
    """The rows of an input behind those that were taken before; what a `Source` is for an engine.

    Parameters
    ----------
    source
        The input, from its beginning.
    digest
        Takes the rows that are read again.
    record
        The last commit; None: all rows are new.

    Raises
    ------
    DataError
        If the input does not begin with the rows that were taken before.
    """

    def __init__(self, source: Source, digest: Digest, record: Record | None) -> None:
        self._source = source
        self._held: pa.RecordBatch | None = None
        self.origin, self.rows = source.origin, source.rows
        if record is not None:
            self._skip(digest, record)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._held is not None:
            yield self._held
            self._held = None
        for batch in self._source:
            self.origin, self.rows = self._source.origin, self._source.rows
            yield batch

    def _skip(self, digest: Digest, record: Record) -> None:
        try:
            left = self._read(digest, record.rows)
        except (DataError, SchemaError) as error:
            raise DataError(
                f"{error}. When the checkpoint was made the first {record.rows:,} rows could be taken, so the input "
                f"was changed{_MEND}"
            ) from error
        if left:
            raise DataError(
                f"{self._source.path}: found {record.rows - left:,} rows, expected at least the {record.rows:,} that "
                f"were taken before; it was cut short{_MEND}"
            )
        if digest.hexdigest() != record.digest:
            raise DataError(
                f"{self._source.path}: its first {record.rows:,} rows are others than those that were taken before, "
                f"so it was rewritten{_MEND}"
            )

    def _read(self, digest: Digest, left: int) -> int:
        """Read so many rows again; give how many were missing."""
        while left and (batch := next(self._source, None)) is not None:
            count = min(left, batch.num_rows)
            digest.add(batch.slice(0, count))
            left -= count
            if count < batch.num_rows:
                self.origin, self.rows = self._source.origin, self._source.rows[count:]
                self._held = batch.slice(count)
        return left
