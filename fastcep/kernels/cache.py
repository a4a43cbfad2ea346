"""Cache folder of compiled kernels: private, content-addressed, safe if many processes share it.

A file is ``magic, MAC, length of the header, header (JSON), object code``. The key of the MAC is a random secret of the
folder. A file that is damaged, truncated, or written by someone who cannot read the secret is therefore rejected before
any of it is used. Files are written under a temporary name and renamed. Two processes that compile the same kernel
write the same content.
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
#: Maximum size of a file in bytes; a larger file is not a kernel.
_MAX_SIZE = 1 << 24
#: Size in bytes to which the folder is trimmed; the least recently used kernels are removed first.
LIMIT = 256 << 20
#: Time in seconds after which a kernel that could not be compiled is tried again.
_RETRY = 86_400
_SUFFIX = ".kernel"


class CacheError(Exception):
    """The cache folder cannot be used, so kernels are not compiled."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel: its symbol and object code, or an error; ``identity`` holds the versions and the processor."""

    key: str
    identity: dict[str, str]
    symbol: str = ""
    code: bytes = b""
    error: str = ""


def default_folder() -> Path:
    """Return ``$FASTCEP_CACHE_DIR`` or, if unset, ``$XDG_CACHE_HOME/fastcep`` or ``~/.cache/fastcep``."""
    configured = os.environ.get("FASTCEP_CACHE_DIR")
    if configured:
        return Path(configured).absolute()
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
        If the folder cannot be created, belongs to another user or is writable by others.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.stat()
        except OSError as error:
            raise CacheError(f"cannot create the folder {folder} for compiled kernels: {error.strerror}") from error
        if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            raise CacheError(f"the folder {folder} belongs to another user; set FASTCEP_CACHE_DIR to a private one")
        if status.st_mode & 0o022:
            raise CacheError(f"others can write to the folder {folder}; run chmod 700 on it, or set FASTCEP_CACHE_DIR")
        try:
            self._secret = self._read_secret()
        except OSError as error:
            raise CacheError(f"cannot write to the folder {folder} for compiled kernels: {error.strerror}") from error

    def get(self, key: str) -> Entry | None:
        """Return the kernel ``key``, or None; a file with invalid content is removed."""
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
        """Return whether there is a file for ``key``, regardless of its content."""
        return self._path(key).exists()

    def put(self, entry: Entry) -> None:
        """Store a kernel.

        Raises
        ------
        OSError
            If the disk is full or the folder does not exist; no partial file remains.
        """
        facts = {"key": entry.key, "identity": entry.identity, "symbol": entry.symbol, "error": entry.error}
        header = json.dumps(facts, sort_keys=True).encode()
        content = len(header).to_bytes(_LENGTH, "little") + header + entry.code
        self._write(self._path(entry.key), MAGIC + self._mac(content) + content)

    def entries(self) -> Iterator[tuple[Path, os.stat_result, Entry | None]]:
        """Yield path, status and entry of every kernel file; the entry is None for a rejected file."""
        for path in sorted(self.folder.glob("*" + _SUFFIX)):
            with suppress(FileNotFoundError):
                yield path, path.stat(), self._read(path)

    def trim(self, limit: int = LIMIT) -> int:
        """Remove the least recently used kernels until at most ``limit`` bytes remain; return the number removed."""
        kernels = []
        for path in self.folder.iterdir():
            with suppress(FileNotFoundError):
                status = path.stat()
                if path.suffix == _SUFFIX:
                    kernels.append((status.st_mtime, status.st_size, path))
                elif path.suffix == ".tmp" and time.time() - status.st_mtime > 3600:
                    _remove(path)
        total, removed = sum(size for _, size, _ in kernels), 0
        for _, size, path in sorted(kernels):
            if total <= limit:
                break
            _remove(path)
            total, removed = total - size, removed + 1
        return removed

    def clear(self) -> int:
        """Remove every kernel and return their number; the folder and its secret remain."""
        removed = 0
        for path in [*self.folder.glob("*" + _SUFFIX), *self.folder.glob("*.tmp")]:
            _remove(path)
            removed += path.suffix == _SUFFIX
        return removed

    # ------------------------------------------------------------------ files

    def _path(self, key: str) -> Path:
        return self.folder / (key + _SUFFIX)

    def _mac(self, content: bytes) -> bytes:
        return hashlib.blake2b(content, digest_size=_MAC, key=self._secret).digest()

    def _read(self, path: Path) -> Entry | None:
        """Return the entry in a file; None if there is no file or it is invalid."""
        data = _read_private(path)
        if data is None or len(data) < len(MAGIC) + _MAC + _LENGTH or data[: len(MAGIC)] != MAGIC:
            return None
        mac, content = data[len(MAGIC) : len(MAGIC) + _MAC], data[len(MAGIC) + _MAC :]
        if not hmac.compare_digest(mac, self._mac(content)):
            with suppress(OSError):
                self._secret = self._read_secret()  # another process may have replaced a damaged secret
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
        """Return the folder's secret; create it at first use, or if it is damaged or readable by others."""
        path = self.folder / "secret"
        for attempt in range(3):
            secret = _read_private(path, secret=True)
            if secret is not None and len(secret) == 32:
                return secret
            if attempt:  # the file exists at the second attempt as well and is not a valid secret
                self._write(path, secrets.token_bytes(32))
                continue
            temporary = self.folder / f"{secrets.token_hex(8)}.tmp"
            try:
                with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(secrets.token_bytes(32))
                with suppress(FileExistsError):
                    os.link(temporary, path)  # fails if another process was first; its secret is then used
            finally:
                _remove(temporary)
        raise CacheError(f"cannot read {path}; remove it")


def _read_private(path: Path, *, secret: bool = False) -> bytes | None:
    """Return the content of a regular file of this user, or None; a secret must not be readable by others."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        private = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
        if not stat.S_ISREG(status.st_mode) or not private or status.st_size > _MAX_SIZE:
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
