"""Tables on disk in pieces: what was found between two commits is a file."""

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
    """Writes tables, one behind the other, to files that are whole when they are `cut`.

    The first file is made even if it has no rows, so that the columns are known.

    Parameters
    ----------
    folder
        Where they go.
    stem
        The files are called ``{stem}-{number}.arrow``.
    parts
        The files that there are.
    number
        Of the next file.
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
        """Finish the file, if there is one to finish; it is on the disk then, and one of the `parts`."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()
            self.parts = (*self.parts, self._folder.measure(self._name))
        self._number += 1

    def abandon(self) -> None:
        """Remove what was written since the last cut."""
        if self._writer is not None:
            self._writer.abandon()

    @property
    def _name(self) -> str:
        return f"{self._stem}-{self._number}.arrow"


def tables(folder: Folder, parts: Iterable[Part]) -> Iterator[pa.Table]:
    """Give what segments hold, piece by piece; SnapshotError if one is damaged."""
    for part in parts:
        folder.check(part)
        path = folder.file(part.name)
        with ExitStack() as opened:
            try:
                reader = opened.enter_context(pa.ipc.open_file(opened.enter_context(pa.memory_map(str(path)))))
                pieces = range(reader.num_record_batches)
            except (pa.ArrowException, OSError) as error:
                raise _malformed(path, error) from None
            if not pieces:
                yield reader.schema.empty_table()
            for number in pieces:
                try:
                    batch = reader.get_batch(number)
                    batch.validate(full=True)
                except (pa.ArrowException, OSError) as error:
                    raise _malformed(path, error) from None
                yield pa.Table.from_batches([batch])


def _malformed(path: Path, error: Exception) -> SnapshotError:
    return SnapshotError(
        f"'{path}' is no Arrow file as a run writes it ({error}). Its checksum is right, so it was written like that; "
        "put back a copy of the folder, or start anew with another --checkpoint folder"
    )
