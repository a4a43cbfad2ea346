"""What the engine asks: the kernels of its programs, as soon as they are there."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from typing import Any, Protocol

from fastcep.errors import ValidationError
from fastcep.kernels.background import BACKGROUND, unusable
from fastcep.kernels.cache import Cache, CacheError, default_folder
from fastcep.kernels.generate import Role, generate
from fastcep.kernels.identity import key_of
from fastcep.kernels.load import load, loaded
from fastcep.plan.bytecode import Program

#: A program and how it is called.
Task = tuple[Program, Role]

#: What has been warned about; each is said once.
_said: set[str] = set()


class User(Protocol):
    """What runs programs: a matcher, or the RETURN columns of a query."""

    @property
    def tasks(self) -> Iterable[Task]:
        """Its programs."""
        ...

    def use_kernels(self, kernels: Mapping[Task, int]) -> None:
        """Run these programs by the generated code at these addresses."""
        ...


class Kernels:
    """Generated kernels for the programs of ``users``: from the cache at once, or compiled in the background.

    Whatever goes wrong, a task without a kernel is interpreted; the reason is in :meth:`metrics`, and a folder or disk
    that cannot be used is warned about once.
    """

    def __init__(self, users: Sequence[User]) -> None:
        self._users = users
        self._tasks: dict[str, list[Task]] = {}
        self._total = self._failed = self._used = 0
        self._missing: set[str] = set()
        self._ready: dict[Task, int] = {}
        self._seen = -1
        self._submitted = False
        self._off = "" if _wanted() else "FASTCEP_JIT=0"
        self._errors: set[str] = set()
        tasks = list(dict.fromkeys(task for user in users for task in user.tasks))
        self._total = len(tasks)
        if self._off or not tasks:
            return
        try:
            sources = self._generate(tasks)
            self._cache = Cache(default_folder())
        except CacheError as error:
            self._turn_off(str(error), warn=True)
            return
        except (PackageNotFoundError, ImportError, OSError) as error:
            self._turn_off(f"LLVM cannot be used: {error}", warn=True)
            return
        self._missing = set(self._tasks)
        self._take()
        missing = {key: sources[key] for key in sources if key in self._missing}
        if missing:
            reason = unusable()
            if reason is not None:
                self._turn_off(reason, warn=False)
            else:
                self._submitted = True
                BACKGROUND.submit(self._cache.folder, missing)
        self.swap()

    def _generate(self, tasks: Iterable[Task]) -> dict[str, str]:
        sources = {}
        for program, role in tasks:
            try:
                source = generate(program, role)
            except NotImplementedError as error:
                self._errors.add(f"not generated: {error}")
                self._failed += 1
                continue
            key = key_of(source)
            sources[key] = source
            self._tasks.setdefault(key, []).append((program, role))
        return sources

    def _turn_off(self, reason: str, *, warn: bool) -> None:
        self._off, self._missing = reason, set()
        if warn:
            _warn(reason)

    # ------------------------------------------------------------------ use

    def swap(self) -> None:
        """Let the users run what has become ready; only between batches. Cheap when there is nothing to wait for."""
        if self._missing or BACKGROUND.process is not None:  # also when nothing is missing: it leaves no zombie
            news = BACKGROUND.poll()
            if self._missing and news != self._seen:
                self._seen = news
                self._take()
        if self._ready:
            for user in self._users:
                user.use_kernels(self._ready)
            self._used += len(self._ready)
            self._ready = {}

    def _take(self) -> None:
        """Load what the cache has of the missing kernels."""
        found, addresses = {}, {}
        for key in sorted(self._missing):
            if (address := loaded(key)) is not None:
                addresses[key] = address
            elif key in BACKGROUND.failed:
                self._fail(key, BACKGROUND.failed[key])
            elif (entry := self._cache.get(key)) is not None and entry.error:
                self._fail(key, entry.error)
            elif entry is not None:
                found[key] = (entry.symbol, entry.code)
            elif self._submitted and key in BACKGROUND.finished:
                self._fail(key, "its file has gone from the cache")
        try:
            addresses |= load(found)
        except RuntimeError as error:
            for key in found:
                self._fail(key, f"cannot load: {error}")
        for key, address in addresses.items():
            self._ready.update(dict.fromkeys(self._tasks[key], address))
        self._missing -= set(addresses)
        if BACKGROUND.trouble:
            _warn(BACKGROUND.trouble)

    def _fail(self, key: str, reason: str) -> None:
        self._failed += len(self._tasks[key])
        self._errors.add(reason)
        self._missing.discard(key)

    def wait(self, nanoseconds: int) -> bool:
        """Swap until no kernel is missing, or the time is over; returns whether every program is generated code."""
        end = time.monotonic_ns() + nanoseconds
        self.swap()
        while self._missing and time.monotonic_ns() < end:
            time.sleep(0.005)
            self.swap()
        return self._used == self._total

    def metrics(self) -> dict[str, Any]:
        """``total`` programs, how many are ``generated`` code in use, ``pending`` and ``failed``, and ``reason`` if any
        is not generated for good (None otherwise).
        """
        pending = sum(len(self._tasks[key]) for key in self._missing)
        reasons = sorted({self._off, *self._errors} - {""})
        return {
            "total": self._total,
            "generated": self._used,
            "pending": pending,
            "failed": self._failed,
            "reason": "; ".join(reasons) or None,
        }


def _wanted() -> bool:
    value = os.environ.get("FASTCEP_JIT", "")
    if value not in ("", "0", "1"):
        raise ValidationError(f"the environment variable FASTCEP_JIT is {value!r}; expected 0 (off) or 1 (on)")
    return value != "0"


def _warn(reason: str) -> None:
    if reason not in _said:
        _said.add(reason)
        warnings.warn(f"conditions are interpreted, not compiled: {reason}", RuntimeWarning, stacklevel=3)


__all__ = ["Kernels", "Task", "User"]
