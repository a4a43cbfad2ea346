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

    def __init__(self, users: Sequence[User] = ()) -> None:
        self._users: Sequence[User] = ()
        self._tasks: dict[Task, str] = {}
        self._sharing: dict[str, list[Task]] = {}
        self._missing: set[str] = set()
        self._ready: dict[Task, int] = {}
        self._used: set[Task] = set()
        self._failed: dict[Task, str] = {}
        self._seen = -1
        self._submitted: set[str] = set()
        self._off = "" if _wanted() else "FASTCEP_JIT=0"
        self._cache: Cache | None = None
        self._total = 0
        self.use(users)

    def use(self, users: Sequence[User]) -> None:
        """Serve these from now on, and no others; those that are served already keep what they have."""
        self._users = users
        tasks = dict.fromkeys(task for user in users for task in user.tasks)
        self._total = len(tasks)
        self._failed = {task: reason for task, reason in self._failed.items() if task in tasks}
        self._used &= tasks.keys()
        if self._off or not tasks:
            self._tasks, self._sharing, self._missing = {}, {}, set()
            return
        try:
            sources = self._generate([task for task in tasks if task not in self._tasks and task not in self._failed])
            self._cache = self._cache or Cache(default_folder())
        except CacheError as error:
            self._turn_off(str(error), warn=True)
            return
        except (PackageNotFoundError, ImportError, OSError) as error:
            self._turn_off(f"LLVM cannot be used: {error}", warn=True)
            return
        self._tasks = {task: key for task, key in self._tasks.items() if task in tasks}
        self._sharing = {}
        for task, key in self._tasks.items():
            self._sharing.setdefault(key, []).append(task)
        # New users may have programs that others run already: what is loaded goes to all once more.
        self._missing = {key for task, key in self._tasks.items() if task not in self._failed}
        self._take()
        missing = {key: sources[key] for key in sources if key in self._missing}
        if missing:
            reason = unusable()
            if reason is not None:
                self._turn_off(reason, warn=False)
            else:
                self._submitted |= missing.keys()
                BACKGROUND.submit(self._cache.folder, missing)
        self.swap()

    def _generate(self, tasks: Iterable[Task]) -> dict[str, str]:
        sources = {}
        for task in tasks:
            try:
                source = generate(*task)
            except NotImplementedError as error:
                self._failed[task] = f"not generated: {error}"
                continue
            key = key_of(source)
            sources[key] = source
            self._tasks[task] = key
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
            self._used.update(self._ready)
            self._ready = {}

    @property
    def settled(self) -> bool:
        """Whether :meth:`swap` has nothing to do, until others are served."""
        return not self._missing and not self._ready and BACKGROUND.process is None

    def _take(self) -> None:
        """Load what the cache has of the missing kernels."""
        assert self._cache is not None
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
            elif key in self._submitted and key in BACKGROUND.finished:
                self._fail(key, "its file has gone from the cache")
        try:
            addresses |= load(found)
        except RuntimeError as error:
            for key in found:
                self._fail(key, f"cannot load: {error}")
        for key, address in addresses.items():
            self._ready.update(dict.fromkeys(self._sharing[key], address))
        self._missing -= set(addresses)
        if BACKGROUND.trouble:
            _warn(BACKGROUND.trouble)

    def _fail(self, key: str, reason: str) -> None:
        self._failed.update(dict.fromkeys(self._sharing[key], reason))
        self._missing.discard(key)

    def wait(self, nanoseconds: int) -> bool:
        """Swap until no kernel is missing, or the time is over; returns whether every program is generated code."""
        end = time.monotonic_ns() + nanoseconds
        self.swap()
        while self._missing and time.monotonic_ns() < end:
            time.sleep(0.005)
            self.swap()
        return len(self._used) == self._total

    def metrics(self) -> dict[str, Any]:
        """``total`` programs, how many are ``generated`` code in use, ``pending`` and ``failed``, and ``reason`` if any
        is not generated for good (None otherwise).
        """
        pending = sum(len(self._sharing[key]) for key in self._missing)
        reasons = sorted({self._off, *self._failed.values()} - {""})
        return {
            "total": self._total,
            "generated": len(self._used),
            "pending": pending,
            "failed": len(self._failed),
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
