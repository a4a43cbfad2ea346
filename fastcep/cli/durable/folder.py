"""Folder of a durable run: its lock, its files, and atomic commits."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from xxhash import xxh64

from fastcep.cli.durable.record import Part, Record
from fastcep.errors import SnapshotError, ValidationError
from fastcep.io.write.target import sync_file, sync_folder, write_blocks

__all__ = ["BAD_ROWS", "SCRATCH", "Folder"]

RECORD = "checkpoint.json"
LOCK = "lock"
#: Names of the file of bad rows: during the run, and after it.
SCRATCH, BAD_ROWS = ".fastcep-bad-rows.part", "bad-rows.jsonl"
_RUN_FILE = re.compile(r"state-\d+\.fcs|(matches|late)-\d+\.arrow|bad-rows\.jsonl|\.fastcep-[\w-]+\.part")
_BLOCK = 1 << 20


def _is_run_file(name: str) -> bool:
    """Return whether a run writes files of this name."""
    return name in (RECORD, LOCK) or _RUN_FILE.fullmatch(name) is not None


class Folder:
    """Folder with an exclusive lock for one run; a context manager that releases the lock.

    A commit is one rename: the record, which lists all committed files, takes its final name after they are synced to
    disk. All other files are left over from an interrupted run, and `clear` removes them.

    Parameters
    ----------
    path
        Path of the folder; it is created if it does not exist.

    Raises
    ------
    ValidationError
        If the folder cannot be created or written to, another run uses it, or it holds other files.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._os_errors():
            is_new = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            if is_new:
                sync_folder(path.parent)
            other_file = next(path.iterdir(), None)
            if other_file is not None and not (path / LOCK).exists():
                raise ValidationError(
                    f"--checkpoint '{path}' is not the folder of a run: it contains '{other_file.name}'; give a new or "
                    "an empty folder"
                )
            linked = next((file.name for file in path.iterdir() if file.is_symlink() and _is_run_file(file.name)), None)
            if linked is not None:
                raise ValidationError(
                    f"--checkpoint '{path}': '{linked}' is a symbolic link, expected a regular file, because a run "
                    "replaces and removes its files; restore a copy of the folder, or give a new or an empty folder"
                )
            self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with self._os_errors():
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ValidationError as error:
            os.close(self._lock)
            if not isinstance(error.__cause__, BlockingIOError):
                raise
            raise ValidationError(
                f"another run uses --checkpoint '{path}'; wait until it ends, or give another folder"
            ) from None

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)

    def file(self, name: str) -> Path:
        """Return the path of a file in the folder."""
        return self.path / name

    def read(self) -> Record | None:
        """Return the last commit, None if there is none.

        Raises
        ------
        SnapshotError
            If the record or one of its files is damaged or missing.
        """
        path = self.file(RECORD)
        with self._os_errors():
            if not path.exists():
                return None
            record = Record.from_bytes(path.read_bytes(), str(path))
            for part in record.parts:
                self.check(part)
        return record

    def measure(self, name: str) -> Part:
        """Return the size and checksum of a file as it is now."""
        with self._os_errors(), open(self.file(name), "rb") as file:
            checksum, size = xxh64(), 0
            while block := file.read(_BLOCK):
                checksum.update(block)
                size += len(block)
            return Part(name, size, checksum.hexdigest())

    def write(self, name: str, data: bytes) -> Part:
        """Write a file, sync it to disk, and return its size and checksum; ValidationError if it cannot be written."""
        with self._os_errors():
            write_blocks(self.file(name), [data], sync=True)
        return Part(name, len(data), xxh64(data).hexdigest())

    def adopt(self, name: str, new: str) -> Part:
        """Sync a file that another component wrote, rename it, and return its size and checksum."""
        with self._os_errors():
            sync_file(self.file(name))
            self.file(name).replace(self.file(new))
        return self.measure(new)

    def check(self, part: Part) -> None:
        """Raise SnapshotError if a file differs from the committed one."""
        path = self.file(part.name)
        if not path.is_file():
            fault = "is missing"
        elif path.stat().st_size != part.bytes:
            fault = f"has {path.stat().st_size:,} bytes, expected {part.bytes:,}"
        elif self.measure(part.name) != part:
            fault = "is damaged: its checksum does not match"
        else:
            return
        raise SnapshotError(
            f"'{path}' {fault}; restore a copy of the folder, or start over with another --checkpoint folder"
        )

    def commit(self, record: Record, before: Record | None) -> None:
        """Replace the previous record atomically, and remove the files that only the previous record lists.

        All files that the new record lists must be on disk.

        Raises
        ------
        ValidationError
            If the record cannot be written; the previous record stays valid.
        """
        with self._os_errors():
            sync_folder(self.path)
            write_blocks(self.file(RECORD), [record.to_bytes()], sync=True)
            sync_folder(self.path)
            if before is not None:
                for part in {*before.parts} - {*record.parts}:
                    self.file(part.name).unlink(missing_ok=True)

    def clear(self, record: Record | None, keep: str = "") -> None:
        """Remove the files that the record does not list, which an interrupted run left, except the file `keep`."""
        kept = {keep} if record is None else {keep, *(part.name for part in record.parts)}
        with self._os_errors():
            for path in self.path.iterdir():
                if _RUN_FILE.fullmatch(path.name) and path.name not in kept:
                    path.unlink()

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Remove a file on exit, if it exists."""
        try:
            yield
        finally:
            with suppress(OSError):
                self.file(name).unlink(missing_ok=True)

    @contextmanager
    def _os_errors(self) -> Iterator[None]:
        """Translate errors of the operating system to ValidationError."""
        try:
            yield
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise ValidationError(
                f"cannot use --checkpoint '{self.path}': {reason[:1].lower()}{reason[1:]}; give another folder"
            ) from error
