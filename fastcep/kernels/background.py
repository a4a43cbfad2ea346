"""Control of the compiling process: one process at a time, other jobs queued, polled without waiting."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

#: Niceness of the compiling process, so that stream processing has priority.
_NICE = 15


class Background:
    """Compiles sources in a separate process.

    Attributes
    ----------
    news
        Number of kernels reported so far, a cheap test for new results.
    finished
        Keys of kernels that are in the cache.
    failed
        Reasons by key of kernels that could not be compiled. They are not tried again in this process.
    trouble
        Reason why the compiler could not run at all, or empty.
    """

    def __init__(self) -> None:
        self.news = 0
        self.trouble = ""
        self._lock = threading.Lock()
        self.finished: set[str] = set()
        self.failed: dict[str, str] = {}
        self._queue: dict[Path, dict[str, str]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._report: IO[bytes] | None = None
        self._read = 0
        self._folder = Path()
        self._job: dict[str, str] = {}
        self._started = ""

    @property
    def process(self) -> int | None:
        """Return the process id of the running compiler, or None."""
        return None if self._process is None else self._process.pid

    def submit(self, folder: Path, sources: dict[str, str]) -> None:
        """Queue ``{key: source}`` for compilation into the cache ``folder``."""
        with self._lock:
            running = self._job if folder == self._folder else {}
            new = {key: text for key, text in sources.items() if key not in running and key not in self.failed}
            if new:
                self._queue.setdefault(folder, {}).update(new)
                self.finished -= set(new)
        self.poll()

    def poll(self) -> int:
        """Read the reports of the process, start the next job if it has ended, and return :attr:`news`."""
        if self._lock.acquire(blocking=False):  # otherwise another thread is polling
            try:
                if self._process is not None:
                    exit_code = self._process.poll()
                    self._take_report()
                    if exit_code is not None:
                        self._end(exit_code)
                if self._process is None and self._queue:
                    folder = next(iter(self._queue))
                    self._start(folder, self._queue.pop(folder))
            finally:
                self._lock.release()
        return self.news

    def _start(self, folder: Path, sources: dict[str, str]) -> None:
        self._folder, self._job, self._started, self._read = folder, sources, "", 0
        try:
            self._report = tempfile.TemporaryFile()  # noqa: SIM115 – closed after the process has ended
            with tempfile.TemporaryFile() as job:
                job.write(json.dumps({"folder": str(folder), "sources": sources}).encode())
                job.seek(0)
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-W", "ignore", "-m", "fastcep.kernels"],
                    stdin=job,
                    stdout=self._report,
                    stderr=subprocess.DEVNULL,
                    cwd=folder,
                    env=_environment(),
                    start_new_session=True,
                )
            with suppress(OSError, AttributeError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)
        except OSError as error:
            self._give_up(f"cannot start {sys.executable}: {error.strerror}")
            self._close()

    def _take_report(self) -> None:
        assert self._report is not None
        if os.fstat(self._report.fileno()).st_size == self._read:
            return
        # The process shares the file offset, so read without moving it.
        text = os.pread(self._report.fileno(), 1 << 24, self._read)
        text = text[: text.rfind(b"\n") + 1]
        self._read += len(text)
        for line in text.decode(errors="replace").splitlines():
            word, _, arguments = line.partition(" ")
            key, _, reason = arguments.partition(" ")
            if word == "start":
                self._started = key
            elif word == "stop":
                self._give_up(arguments)
            else:
                self._job.pop(key, None)
                self._started = ""
                self.news += 1
                if word == "failed":
                    self.failed[key] = reason
                else:
                    self.finished.add(key)

    def _end(self, code: int) -> None:
        """Handle the end of the process: the kernel at which it crashed has failed, unreported ones are tried again."""
        if self._started or not code:
            crashed = [self._started] if self._started else list(self._job)
            for key in crashed:
                self._job.pop(key, None)
                self.failed[key] = f"the compiling process ended with code {code}"
            self.news += 1
            if self._job:
                self._queue.setdefault(self._folder, {}).update(self._job)
        elif self._job:
            self._give_up(f"the compiling process ended with code {code}")
        self._close()

    def _give_up(self, reason: str) -> None:
        self.failed.update(dict.fromkeys(self._job, reason))
        self.trouble, self._job = reason, {}
        self.news += 1

    def _close(self) -> None:
        self._process, self._job, self._started = None, {}, ""
        if self._report is not None:
            self._report.close()
            self._report = None

    def release(self) -> None:
        """Forget the process without waiting: at exit, and after a fork, whose child does not own the process."""
        self._lock = threading.Lock()
        if self._process is not None:
            self._process.returncode = 0
            if self._job:
                self._queue.setdefault(self._folder, {}).update(self._job)
            self._close()


def _environment() -> dict[str, str]:
    """Return the environment with this process's module path, so that the compiler finds the same packages."""
    paths = dict.fromkeys(os.path.abspath(path) for path in sys.path if path)
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, *(path for path in paths if path != root)])}


def why_unavailable() -> str | None:
    """Return the reason why this process cannot start a compiler; None if it can."""
    name = Path(sys.executable or "").name.lower()
    if "python" not in name or getattr(sys, "frozen", False) or not os.access(sys.executable, os.X_OK):
        return f"sys.executable is {sys.executable!r}, which is not a Python interpreter that can compile"
    return None


BACKGROUND = Background()
atexit.register(BACKGROUND.release)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BACKGROUND.release)

__all__ = ["BACKGROUND", "Background", "why_unavailable"]
