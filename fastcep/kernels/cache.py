"""The folder of compiled kernels: private, content-addressed, safe when many processes share it.

A file is ``magic, MAC, length of the header, header (JSON), object code``. The MAC is keyed by a random secret of the
folder, so a file that is damaged, cut off, or written by anyone who cannot read the secret, is refused before any of it
is used. Files are written under another name and renamed; two processes that compile the same kernel write the same.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAGIC = b"FASTCEP1"
_MAC, _LENGTH = 32, 4
#: A file larger than this is no kernel.
_LARGEST = 1 << 24
#: The folder is cut back to this size, oldest use first.
LIMIT = 256 << 20
#: After this a kernel that could not be compiled is tried again (seconds).
_RETRY = 86_400
_SUFFIX = ".kernel"


class CacheError(Exception):
    """The folder cannot be used; kernels are then not compiled."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel: its symbol and object code, or why there is none; ``identity`` is what it was compiled by and for."""

    key: str
    identity: dict[str, str]
    symbol: str = ""
    code: bytes = b""
    error: str = ""


def default_folder() -> Path:
    """``$FASTCEP_CACHE_DIR``, else ``$XDG_CACHE_HOME/fastcep``, else ``~/.cache/fastcep``."""
    given = os.environ.get("FASTCEP_CACHE_DIR")
    if given:
        return Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base and os.path.isabs(base) else Path.home() / ".cache") / "fastcep"
    except RuntimeError as error:
        raise CacheError("there is no home folder for compiled kernels; set FASTCEP_CACHE_DIR") from error


class Cache:
    """Compiled kernels in ``folder``.

    Raises
    ------
    CacheError
        If the folder cannot be made, belongs to somebody else or can be written by others.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.stat()
        except OSError as error:
            raise CacheError(f"cannot make the folder {folder} for compiled kernels: {error.strerror}") from error
        if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
            raise CacheError(f"the folder {folder} belongs to another user; set FASTCEP_CACHE_DIR to a private one")
        if found.st_mode & 0o022:
            raise CacheError(f"others can write to the folder {folder}; run chmod 700 on it, or set FASTCEP_CACHE_DIR")
        try:
            self._secret = self._read_secret()
        except OSError as error:
            raise CacheError(f"cannot write to the folder {folder} for compiled kernels: {error.strerror}") from error

    def get(self, key: str) -> Entry | None:
        """The kernel ``key``, or None; a file that is not what it says it is gets removed."""
        path = self._path(key)
        entry = self._read(path)
        if entry is None or entry.key != key or (entry.error and _age(path) > _RETRY):
            _remove(path)
            return None
        if not entry.error:
            with suppress(OSError):
                os.utime(path)
        return entry

    def has(self, key: str) -> bool:
        """Whether there is a file for ``key``, whatever it holds."""
        return self._path(key).exists()

    def put(self, entry: Entry) -> None:
        """Store a kernel.

        Raises
        ------
        OSError
            If the disk is full or the folder gone; nothing half-written stays.
        """
        facts = {"key": entry.key, "identity": entry.identity, "symbol": entry.symbol, "error": entry.error}
        header = json.dumps(facts, sort_keys=True).encode()
        content = len(header).to_bytes(_LENGTH, "little") + header + entry.code
        self._write(self._path(entry.key), MAGIC + self._mac(content) + content)

    def entries(self) -> Iterator[tuple[Path, os.stat_result, Entry | None]]:
        """Every file of a kernel; None for one that is refused."""
        for path in sorted(self.folder.glob("*" + _SUFFIX)):
            with suppress(FileNotFoundError):
                yield path, path.stat(), self._read(path)

    def trim(self, limit: int = LIMIT) -> int:
        """Remove the kernels used longest ago until at most ``limit`` bytes are left; returns how many went."""
        found = []
        for path in self.folder.iterdir():
            with suppress(FileNotFoundError):
                status = path.stat()
                if path.suffix == _SUFFIX:
                    found.append((status.st_mtime, status.st_size, path))
                elif path.suffix == ".tmp" and time.time() - status.st_mtime > 3600:
                    _remove(path)
        total, gone = sum(size for _, size, _ in found), 0
        for _, size, path in sorted(found):
            if total <= limit:
                break
            _remove(path)
            total, gone = total - size, gone + 1
        return gone

    def clear(self) -> int:
        """Remove every kernel; returns how many. The folder and its secret stay."""
        gone = 0
        for path in [*self.folder.glob("*" + _SUFFIX), *self.folder.glob("*.tmp")]:
            _remove(path)
            gone += path.suffix == _SUFFIX
        return gone

    # ------------------------------------------------------------------ files

    def _path(self, key: str) -> Path:
        return self.folder / (key + _SUFFIX)

    def _mac(self, content: bytes) -> bytes:
        return hashlib.blake2b(content, digest_size=_MAC, key=self._secret).digest()

    def _read(self, path: Path) -> Entry | None:
        """The entry in a file, None if there is no file or it is not ours."""
        data = _read_private(path)
        if data is None or len(data) < len(MAGIC) + _MAC + _LENGTH or data[: len(MAGIC)] != MAGIC:
            return None
        mac, content = data[len(MAGIC) : len(MAGIC) + _MAC], data[len(MAGIC) + _MAC :]
        if not hmac.compare_digest(mac, self._mac(content)):
            with suppress(OSError):
                self._secret = self._read_secret()  # another process may have replaced a damaged one
            if not hmac.compare_digest(mac, self._mac(content)):
                return None
        end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
        facts: dict[str, Any] = json.loads(content[_LENGTH:end])
        return Entry(code=content[end:], **facts)

    def _write(self, path: Path, data: bytes) -> None:
        temporary = self.folder / f"{secrets.token_hex(8)}.tmp"
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        finally:
            _remove(temporary)

    def _read_secret(self) -> bytes:
        """The folder's secret; made at first use, made anew when it is damaged or others could read it."""
        path = self.folder / "secret"
        for attempt in range(3):
            found = _read_private(path, secret=True)
            if found is not None and len(found) == 32:
                return found
            if attempt:  # it was there, also for the second time, and is no secret
                self._write(path, secrets.token_bytes(32))
                continue
            temporary = self.folder / f"{secrets.token_hex(8)}.tmp"
            try:
                with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(secrets.token_bytes(32))
                with suppress(FileExistsError):
                    os.link(temporary, path)  # fails if another process was first: then its secret holds
            finally:
                _remove(temporary)
        raise CacheError(f"cannot read {path}; remove it")


def _read_private(path: Path, *, secret: bool = False) -> bytes | None:
    """A regular file of this user, or None; a secret must not be readable by others."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        private = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
        if not stat.S_ISREG(status.st_mode) or not private or status.st_size > _LARGEST:
            return None
        if status.st_mode & (0o077 if secret else 0o022):
            return None
        return file.read()


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # another process has just removed it
        return 0.0


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
