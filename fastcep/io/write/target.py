"""Output targets: a file that appears only when it is complete, or standard output."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pyarrow as pa

from fastcep.errors import ValidationError

__all__ = ["STDOUT", "Target", "check_target", "sync_file", "sync_folder", "write_blocks", "write_text"]

STDOUT = "-"


def check_target(path: str | PathLike[str]) -> None:
    """Raise ValidationError if a path cannot be written: missing folder, a folder itself, or no permission."""
    name = fspath(path)
    if name == STDOUT:
        return
    target = Path(name)
    if not target.parent.is_dir():
        raise _cannot_write(name, f"there is no folder '{target.parent}'; make it first")
    if target.is_dir():
        raise _cannot_write(name, "it is a folder; give the name of a file")
    if target.exists() and not os.access(target, os.W_OK):
        raise _cannot_write(name, "the file is not writable; change its permissions or use another name")
    if _replaceable(target) and not os.access(target.resolve().parent, os.W_OK | os.X_OK):
        raise _cannot_write(name, f"the folder '{target.parent}' is not writable; change its permissions")


class Target:
    """An output being written.

    A file is written under a temporary name in the same folder (``.fastcep-….part``), and `commit` renames it. The
    final name therefore always refers to a complete file, even if the process is killed. Devices, pipes and standard
    output, ``"-"``, are written directly.

    Parameters
    ----------
    path
        Path of the file, or ``"-"``.
    part
        Temporary name, used by this caller only; a file that a killed process left there is replaced. None: a new
        random name.
    sync
        True forces the bytes to disk before `commit` renames the file. Call `sync_folder` to force the new name to
        disk.

    Raises
    ------
    ValidationError
        If it cannot be written.
    """

    def __init__(self, path: str | PathLike[str], *, part: str | None = None, sync: bool = False) -> None:
        self.path = fspath(path)
        self._sync = sync
        check_target(self.path)
        self._final = self._temporary = None if self.path == STDOUT else Path(self.path).resolve()
        self.file: Any = sys.stdout.buffer
        if self._final is None or self._temporary is None:
            return
        try:
            if _replaceable(self._final):
                self._temporary = self._final.with_name(part or f".fastcep-{secrets.token_hex(8)}.part")
                if part is not None:
                    self._temporary.unlink(missing_ok=True)
                os.close(os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
                if self._final.exists():
                    os.chmod(self._temporary, stat.S_IMODE(self._final.stat().st_mode))
            # Not a Python file: a signal cannot interrupt a write of this one, so what was written stays complete.
            self.file = pa.OSFile(str(self._temporary), "wb")
        except OSError as error:
            raise self.failure(error) from error

    def failure(self, error: OSError) -> ValidationError:
        """Return the error to raise for an error of the operating system."""
        reason = os.strerror(error.errno) if error.errno else str(error)
        return _cannot_write(self.path, f"{reason[:1].lower()}{reason[1:]}; free space, or write elsewhere")

    def commit(self) -> None:
        """Complete the file and give it its name. Standard output is flushed and stays open."""
        if self._final is None:
            self.file.flush()
            return
        try:
            self.file.close()
            if self._temporary is not None and self._temporary != self._final:
                if self._sync:
                    sync_file(self._temporary)
                os.replace(self._temporary, self._final)
        except OSError as error:
            self.abandon()
            raise self.failure(error) from error

    def abandon(self) -> None:
        """Discard the output; an existing file with the final name is unchanged."""
        if self._final is None:
            return
        with suppress(OSError):
            self.file.close()
        if self._temporary is not None and self._temporary != self._final:
            self._temporary.unlink(missing_ok=True)


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a complete file of UTF-8 text; ValidationError if it cannot be written."""
    write_blocks(path, [text.encode()])


def write_blocks(
    path: str | PathLike[str], blocks: Iterable[bytes | pa.Buffer], *, part: str | None = None, sync: bool = False
) -> None:
    """Write a complete file, see `Target`; ValidationError if it cannot be written."""
    target = Target(path, part=part, sync=sync)
    try:
        for block in blocks:
            target.file.write(block)
    except OSError as error:
        target.abandon()
        raise target.failure(error) from error
    except BaseException:
        target.abandon()
        raise
    target.commit()


def sync_file(path: str | PathLike[str]) -> None:
    """Force the contents of a file to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: str | PathLike[str]) -> None:
    """Force the names of the files in a folder to disk, if the file system supports it."""
    try:
        sync_file(path)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _replaceable(target: Path) -> bool:
    """Return whether a rename may replace the target: it is missing or a regular file, not a pipe or device."""
    return not target.exists() or target.is_file()


def _cannot_write(name: str, why: str) -> ValidationError:
    label = "standard output" if name == STDOUT else f"'{name}'"
    return ValidationError(f"cannot write {label}: {why}")
