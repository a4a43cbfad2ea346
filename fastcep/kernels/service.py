"""Interface of the engine: the kernels of its programs, as soon as they are available."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from typing import Any, Protocol

from fastcep.errors import ValidationError
from fastcep.kernels.background import BACKGROUND, why_unavailable
from fastcep.kernels.cache import Cache, CacheError, default_folder
from fastcep.kernels.generate import Role, generate
from fastcep.kernels.identity import key_of
from fastcep.kernels.load import load, loaded
from fastcep.plan.bytecode import Program

#: A program and its calling mode.
Task = tuple[Program, Role]

#: Reasons that have been warned about; each is reported once.
_warned: set[str] = set()


class User(Protocol):
    """A component that runs programs: a matcher, or the RETURN columns of a query."""

    @property
    def tasks(self) -> Iterable[Task]:
        """Return its programs."""
        ...

    def use_kernels(self, kernels: Mapping[Task, int]) -> None:
        """Run these programs with the generated code at these addresses."""
        ...


class Kernels:
    """Generated kernels for the programs of ``users``: from the cache at once, or compiled in the background.

    A task without a kernel is interpreted; the reason is in :meth:`metrics`. A folder or disk that cannot be used
    causes one warning.
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
        self._off = "" if _is_enabled() else "FASTCEP_JIT=0"
        self._cache: Cache | None = None
        self._total = 0
        self.use(users)

    def use(self, users: Sequence[User]) -> None:
        """Serve these users from now on, instead of the previous ones; users served before keep their kernels."""
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
        # New users can have programs that others already run, so loaded kernels are passed to all users again.
        self._missing = {key for task, key in self._tasks.items() if task not in self._failed}
        self._take()
        missing = {key: sources[key] for key in sources if key in self._missing}
        if missing:
            reason = why_unavailable()
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

    # ----------------------------------------------------------------- kernels

    def swap(self) -> None:
        """Pass new kernels to the users. Call it only between batches; it is cheap if no kernel is missing."""
        # Polled even if nothing is missing, so that no zombie process remains.
        if self._missing or BACKGROUND.process is not None:
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
        """Return whether :meth:`swap` has nothing to do until other users are served."""
        return not self._missing and not self._ready and BACKGROUND.process is None

    def _take(self) -> None:
        """Load the missing kernels that are in the cache."""
        assert self._cache is not None
        cached, addresses = {}, {}
        for key in sorted(self._missing):
            if (address := loaded(key)) is not None:
                addresses[key] = address
            elif key in BACKGROUND.failed:
                self._fail(key, BACKGROUND.failed[key])
            elif (entry := self._cache.get(key)) is not None and entry.error:
                self._fail(key, entry.error)
            elif entry is not None:
                cached[key] = (entry.symbol, entry.code)
            elif key in self._submitted and key in BACKGROUND.finished:
                self._fail(key, "its file was removed from the cache")
        try:
            addresses |= load(cached)
        except RuntimeError as error:
            for key in cached:
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
        """Call `swap` until no kernel is missing or time is over; return whether all programs are generated code."""
        end = time.monotonic_ns() + nanoseconds
        self.swap()
        while self._missing and time.monotonic_ns() < end:
            time.sleep(0.005)
            self.swap()
        return len(self._used) == self._total

    def metrics(self) -> dict[str, Any]:
        """Return the number of programs: ``total``, ``generated`` code in use, ``pending`` and ``failed``.

        ``reason`` states why programs stay interpreted permanently; it is None if there are none.
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


def _is_enabled() -> bool:
    value = os.environ.get("FASTCEP_JIT", "")
    if value not in ("", "0", "1"):
        raise ValidationError(f"the environment variable FASTCEP_JIT is {value!r}; expected 0 (off) or 1 (on)")
    return value != "0"


def _warn(reason: str) -> None:
    if reason not in _warned:
        _warned.add(reason)
        warnings.warn(f"conditions are interpreted, not compiled: {reason}", RuntimeWarning, stacklevel=3)


__all__ = ["Kernels", "Task", "User"]
