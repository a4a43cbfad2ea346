"""Resume an input where the last run stopped: read the processed rows again and check that they are unchanged."""

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

__all__ = ["CountingEngine", "RemainingRows"]

_REMEDY = (
    ". Give the same input again (rows may have been added at its end), or start over with another --checkpoint folder"
)


class CountingEngine:
    """Engine that counts and digests the rows it accepts.

    Parameters
    ----------
    engine
        Engine to pass rows to.
    digest
        Digest of the rows that earlier runs processed; new rows are added to it.
    rows
        Number of rows that earlier runs processed.

    Attributes
    ----------
    rows
        Number of rows processed, those of earlier runs included.
    consistent
        Whether the engine state is the result of exactly these rows. False after the engine exceeded its memory limit
        or a query failed, because both lose state.
    ended
        Whether the engine was flushed.
    """

    def __init__(self, engine: Engine, digest: Digest, rows: int) -> None:
        self.engine, self.rows = engine, rows
        self.consistent, self.ended = True, False
        self._digest = digest

    @property
    def digest(self) -> str:
        """The digest of the rows processed."""
        return self._digest.hexdigest()

    def process(self, data: pa.RecordBatch, *, origin: str, rows: npt.NDArray[np.int64]) -> Matches:
        """See `fastcep.Engine.process`."""
        self.consistent = False
        try:
            matches = self.engine.process(data, origin=origin, rows=rows)
        except (DataError, SchemaError, ValidationError):
            self.consistent = True  # the engine rejected the batch as a whole
            raise
        except MemoryLimitError as error:
            self.consistent = error.matches is None
            raise
        self._digest.add(data)
        self.rows += data.num_rows
        self.consistent = True
        return matches

    def flush(self) -> Matches:
        """See `fastcep.Engine.flush`."""
        self.consistent, self.ended = False, True
        matches = self.engine.flush()
        self.consistent = True
        return matches


class RemainingRows:
    """Input rows after those that earlier runs processed; can replace a `Source`.

    Parameters
    ----------
    source
        Input, at its start.
    digest
        Digest that the rows read again are added to.
    record
        Last commit; None: no row was processed yet.

    Raises
    ------
    DataError
        If the input does not begin with the rows that were processed before.
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
            missing = self._read(digest, record.rows)
        except (DataError, SchemaError) as error:
            raise DataError(
                f"{error}. The first {record.rows:,} rows were valid when the checkpoint was made, so the input has "
                f"changed{_REMEDY}"
            ) from error
        if missing:
            raise DataError(
                f"{self._source.path}: found {record.rows - missing:,} rows, expected at least the {record.rows:,} "
                f"that the last commit includes; the input was truncated{_REMEDY}"
            )
        if digest.hexdigest() != record.digest:
            raise DataError(
                f"{self._source.path}: its first {record.rows:,} rows differ from those that the last commit includes; "
                f"the input was rewritten{_REMEDY}"
            )

    def _read(self, digest: Digest, remaining: int) -> int:
        """Read the first `remaining` rows again, and return how many of them are missing."""
        while remaining and (batch := next(self._source, None)) is not None:
            count = min(remaining, batch.num_rows)
            digest.add(batch.slice(0, count))
            remaining -= count
            if count < batch.num_rows:
                self.origin, self.rows = self._source.origin, self._source.rows[count:]
                self._held = batch.slice(count)
        return remaining
