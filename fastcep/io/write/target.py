"""Where output goes: a file that appears whole when it is done, or standard output."""

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
    """Refuse a name that cannot be written to: no such folder, a folder itself, no permission; ValidationError."""
    name = fspath(path)
    if name == STDOUT:
        return
    target = Path(name)
    if not target.parent.is_dir():
        raise _refused(name, f"there is no folder '{target.parent}'; make it first")
    if target.is_dir():
        raise _refused(name, "it is a folder; give the name of a file")
    if target.exists() and not os.access(target, os.W_OK):
        raise _refused(name, "the file may not be written; change its permissions or take another name")
    if _replaceable(target) and not os.access(target.resolve().parent, os.W_OK | os.X_OK):
        raise _refused(name, f"no file may be made in the folder '{target.parent}'; change its permissions")


class Target:
    """An output being written.

    A file is written under a temporary name beside it (``.fastcep-….part``) and takes its name in `commit`, so that the
    name stands for a whole file at every moment, also when the process is killed. Devices and pipes are written
    directly, and so is standard output, ``"-"``.

    Parameters
    ----------
    path
        The file, or ``"-"``.
    part
        The temporary name, of a caller that alone uses it: what a killed process left there is replaced. None: a new
        one.
    sync
        The bytes are on the disk before the file takes its name. That it has the name is on the disk after
        `sync_folder`.

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
            # Not Python's file: a signal cannot come in the middle of a write, so what is written stays whole.
            self.file = pa.OSFile(str(self._temporary), "wb")
        except OSError as error:
            raise self.failure(error) from error

    def failure(self, error: OSError) -> ValidationError:
        """Make the error to raise for one of the operating system."""
        reason = os.strerror(error.errno) if error.errno else str(error)
        return _refused(self.path, f"{reason[:1].lower()}{reason[1:]}; free space, or write elsewhere")

    def commit(self) -> None:
        """Finish: the file takes its name. Standard output is flushed and stays open."""
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
        """Give up: remove what was written; a file that had the name before stays as it was."""
        if self._final is None:
            return
        with suppress(OSError):
            self.file.close()
        if self._temporary is not None and self._temporary != self._final:
            self._temporary.unlink(missing_ok=True)


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a whole file of UTF-8 text; ValidationError if it cannot be written."""
    write_blocks(path, [text.encode()])


def write_blocks(
    path: str | PathLike[str], blocks: Iterable[bytes], *, part: str | None = None, sync: bool = False
) -> None:
    """Write a whole file, see `Target`; ValidationError if it cannot be written."""
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
    """Wait until what a file holds is on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def sync_folder(path: str | PathLike[str]) -> None:
    """Wait until the names of the files in a folder are on the disk, where the file system can say so."""
    try:
        sync_file(path)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _replaceable(target: Path) -> bool:
    """Whether the name may be given to another file: it is free or a regular file, no pipe and no device."""
    return not target.exists() or target.is_file()


def _refused(name: str, why: str) -> ValidationError:
    shown = "standard output" if name == STDOUT else f"'{name}'"
    return ValidationError(f"cannot write {shown}: {why}")
