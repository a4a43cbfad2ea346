"""The folder of a durable run: its lock, its files, and the commit that makes new ones count, all at once."""

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
#: Where bad rows go while the run lasts, and then.
SCRATCH, BAD_ROWS = ".fastcep-bad-rows.part", "bad-rows.jsonl"
_OURS = re.compile(r"state-\d+\.fcs|(matches|late)-\d+\.arrow|bad-rows\.jsonl|\.fastcep-[\w-]+\.part")
_BLOCK = 1 << 20


def _is_ours(name: str) -> bool:
    """Whether a run has files of this name."""
    return name in (RECORD, LOCK) or _OURS.fullmatch(name) is not None


class Folder:
    """A folder that one run has for itself; a context manager.

    A commit is one renaming: the record, which names all files that count, takes its name when they are on the disk.
    Other files are left over from a run that broke off, and `clear` removes them.

    Parameters
    ----------
    path
        The folder; it is made if it is not there.

    Raises
    ------
    ValidationError
        If it cannot be made or written to, another run uses it, or it holds other files.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._told():
            fresh = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            if fresh:
                sync_folder(path.parent)
            strange = next(path.iterdir(), None)
            if strange is not None and not (path / LOCK).exists():
                raise ValidationError(
                    f"--checkpoint '{path}' is no folder of a run, it has a file '{strange.name}'; give a new or an "
                    "empty folder"
                )
            linked = next((file.name for file in path.iterdir() if file.is_symlink() and _is_ours(file.name)), None)
            if linked is not None:
                raise ValidationError(
                    f"--checkpoint '{path}' has a symbolic link '{linked}', expected a file of its own, as a run "
                    "replaces and removes its files; put back a copy of the folder, or give a new or an empty folder"
                )
            self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with self._told():
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ValidationError as error:
            os.close(self._lock)
            if not isinstance(error.__cause__, BlockingIOError):
                raise
            raise ValidationError(
                f"another run uses --checkpoint '{path}'; wait until it has ended, or give another folder"
            ) from None

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)

    def file(self, name: str) -> Path:
        """The path of a file in it."""
        return self.path / name

    def read(self) -> Record | None:
        """Give the last commit, None if there is none.

        Raises
        ------
        SnapshotError
            If it, or a file that belongs to it, is damaged or missing.
        """
        path = self.file(RECORD)
        with self._told():
            if not path.exists():
                return None
            record = Record.from_bytes(path.read_bytes(), str(path))
            for part in record.parts:
                self.check(part)
        return record

    def measure(self, name: str) -> Part:
        """Describe a file as it is now."""
        with self._told(), open(self.file(name), "rb") as file:
            checksum, size = xxh64(), 0
            while block := file.read(_BLOCK):
                checksum.update(block)
                size += len(block)
            return Part(name, size, checksum.hexdigest())

    def write(self, name: str, data: bytes) -> Part:
        """Write a file to the disk and describe it; ValidationError if it cannot be written."""
        with self._told():
            write_blocks(self.file(name), [data], sync=True)
        return Part(name, len(data), xxh64(data).hexdigest())

    def adopt(self, name: str, new: str) -> Part:
        """Give a file, which somebody else has written, another name; it is on the disk then."""
        with self._told():
            sync_file(self.file(name))
            self.file(name).replace(self.file(new))
        return self.measure(new)

    def check(self, part: Part) -> None:
        """Make sure that a file is what was committed; SnapshotError if not."""
        path = self.file(part.name)
        if not path.is_file():
            what = "is missing"
        elif path.stat().st_size != part.bytes:
            what = f"has {path.stat().st_size:,} bytes, expected {part.bytes:,}"
        elif self.measure(part.name) != part:
            what = "is damaged, its checksum is another"
        else:
            return
        raise SnapshotError(
            f"'{path}' {what}; put back a copy of the folder, or start anew with another --checkpoint folder"
        )

    def commit(self, record: Record, before: Record | None) -> None:
        """Make a record count in the place of the one before, whose files it does not name are removed.

        All files that it names are on the disk.

        Raises
        ------
        ValidationError
            If it cannot be written; the record before counts on.
        """
        with self._told():
            sync_folder(self.path)
            write_blocks(self.file(RECORD), [record.to_bytes()], sync=True)
            sync_folder(self.path)
            if before is not None:
                for part in {*before.parts} - {*record.parts}:
                    self.file(part.name).unlink(missing_ok=True)

    def clear(self, record: Record | None, keep: str = "") -> None:
        """Remove what a run that broke off left beside the record, but for the file `keep`."""
        known = {keep} if record is None else {keep, *(part.name for part in record.parts)}
        with self._told():
            for path in self.path.iterdir():
                if _OURS.fullmatch(path.name) and path.name not in known:
                    path.unlink()

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Remove a file in the end, if it is there."""
        try:
            yield
        finally:
            with suppress(OSError):
                self.file(name).unlink(missing_ok=True)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say what the operating system says as an error of the user's."""
        try:
            yield
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise ValidationError(
                f"cannot use --checkpoint '{self.path}': {reason[:1].lower()}{reason[1:]}; give another folder"
            ) from error
