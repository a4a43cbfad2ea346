"""Tables on disk in segments: each file holds the rows between two commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from fastcep.cli.durable.folder import Folder
from fastcep.cli.durable.record import Part
from fastcep.errors import SnapshotError
from fastcep.io import MatchWriter

__all__ = ["Segments", "tables"]


class Segments:
    """Writer of consecutive tables to segment files, which `cut` completes.

    The first file is written even without rows, so that the columns are known.

    Parameters
    ----------
    folder
        Folder of the run.
    stem
        Start of the file names ``{stem}-{number}.arrow``.
    parts
        Existing files.
    number
        Number of the next file.
    """

    def __init__(self, folder: Folder, stem: str, parts: Iterable[Part], number: int) -> None:
        self._folder, self._stem, self._number = folder, stem, number
        self.parts = tuple(parts)
        self._writer: MatchWriter | None = None

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        if self._writer is None:
            if self.parts and not len(table):
                return
            self._writer = MatchWriter(self._folder.file(self._name), sync=True)
        self._writer.write(table)

    def cut(self) -> None:
        """Complete the current file, if there is one, sync it to disk, and append it to `parts`."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()
            self.parts = (*self.parts, self._folder.measure(self._name))
        self._number += 1

    def abandon(self) -> None:
        """Remove the rows written since the last cut."""
        if self._writer is not None:
            self._writer.abandon()

    @property
    def _name(self) -> str:
        return f"{self._stem}-{self._number}.arrow"


def tables(folder: Folder, parts: Iterable[Part]) -> Iterator[pa.Table]:
    """Yield the rows of segments, one record batch at a time; SnapshotError if a file is damaged."""
    for part in parts:
        folder.check(part)
        path = folder.file(part.name)
        with ExitStack() as opened:
            try:
                reader = opened.enter_context(pa.ipc.open_file(opened.enter_context(pa.memory_map(str(path)))))
                batches = range(reader.num_record_batches)
            except (pa.ArrowException, OSError) as error:
                raise _malformed(path, error) from None
            if not batches:
                yield reader.schema.empty_table()
            for number in batches:
                try:
                    batch = reader.get_batch(number)
                    batch.validate(full=True)
                except (pa.ArrowException, OSError) as error:
                    raise _malformed(path, error) from None
                yield pa.Table.from_batches([batch])


def _malformed(path: Path, error: Exception) -> SnapshotError:
    return SnapshotError(
        f"'{path}' is not a valid Arrow file ({error}), although its checksum matches, so no run wrote it; "
        "restore a copy of the folder, or start over with another --checkpoint folder"
    )
