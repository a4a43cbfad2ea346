"""Open Parquet files so that a task notices that a file has changed since `detect` was called."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fastcep.errors import DataError

__all__ = ["OpenFiles", "opened"]

#: Maximum number of files that a task keeps open.
_MAX_OPEN = 16
#: Length of the number of bytes of the footer, and of the magic bytes after it.
_NUMBER, _TAIL = 4, 8


def opened(path: str, encoded: Sequence[str] = ()) -> tuple[pq.ParquetFile, bytes]:
    """Open a file, and return it with the digest of its footer.

    The footer has the sizes, places and statistics of all row groups, so it differs if rows of other times, or of other
    values that a filter distinguishes, are in one of them.

    Parameters
    ----------
    path
        Local path.
    encoded
        Columns of strings to read as dictionaries.

    Raises
    ------
    OSError, pyarrow.ArrowException
        If there is no such file, or it is not a Parquet file.
    """
    source: Any = pa.OSFile(path, "r")
    try:
        end = source.size() - _TAIL
        source.seek(max(end, 0))
        length = int.from_bytes(source.read(_NUMBER), "little")
        source.seek(max(end - length, 0))
        footer = blake2b(source.read(length), digest_size=16).digest()
        return pq.ParquetFile(source, read_dictionary=list(encoded)), footer
    except BaseException:
        source.close()
        raise


class OpenFiles:
    """The files that a task has used last.

    A task that alternates between files would otherwise parse a footer for each row group.

    Parameters
    ----------
    encoded
        Columns of strings to read as dictionaries.
    """

    def __init__(self, encoded: Sequence[str]) -> None:
        self._encoded = encoded
        self._files: dict[str, pq.ParquetFile] = {}

    def get(self, path: str, footer: bytes) -> pq.ParquetFile:
        """Return a file; `DataError` if it does not have the footer with the digest ``footer``."""
        file = self._files.pop(path, None)
        if file is None:
            file, current = opened(path, self._encoded)
            if current != footer:
                file.close(force=True)
                raise DataError(f"{path}: the file has changed since detect was called; call detect again")
        self._files[path] = file
        if len(self._files) > _MAX_OPEN:
            self._files.pop(next(iter(self._files))).close(force=True)
        return file

    def close(self) -> None:
        """Close all files."""
        while self._files:
            self._files.popitem()[1].close(force=True)
