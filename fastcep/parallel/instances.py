"""The engine's side of its instances: start them, send them messages, and notice when one ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Literal, Protocol

import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.events import Schema
from fastcep.parallel.channel import Channel
from fastcep.parallel.instance import serve
from fastcep.query import Document, ast, document_text

__all__ = ["Instance", "Starter", "Workers"]

#: How instances run.
Workers = Literal["processes", "threads"]


class _Worker(Protocol):
    """A process or a thread."""

    def stop(self) -> None:
        """Let it end at once, if it can."""
        ...

    def ended(self) -> str:
        """Return how it ended, once its channel is closed."""
        ...


@dataclass
class _Process:
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        self.process.kill()

    def ended(self) -> str:
        code = self.process.wait()
        return f"ended by signal {-code}" if code < 0 else f"ended with code {code}"


@dataclass
class _Thread:
    thread: Thread

    def stop(self) -> None:
        """Do nothing: a thread ends after the events that it matches."""

    def ended(self) -> str:
        self.thread.join()
        return "ended"


class Instance:
    """A process or a thread that runs slices.

    Parameters
    ----------
    number
        Number of the instance, from 0.
    channel
        Connection to it.
    worker
        The process or thread.

    Attributes
    ----------
    slices
        Numbers of the slices that it runs.
    outstanding
        Number of events that were sent, or wait to be sent, and that it has not answered yet.
    is_ready
        Whether it has started.
    is_leaving
        Whether it gets no more slices, and ends when it has finished those that it has.
    """

    def __init__(self, number: int, channel: Channel, worker: _Worker) -> None:
        self.number, self.channel, self.worker = number, channel, worker
        self.slices: set[int] = set()
        self.outstanding = 0
        self.is_ready = self.is_leaving = False
        self._unsent: deque[tuple[dict[str, Any], pa.Buffer | bytes | None]] = deque()

    @property
    def has_unsent(self) -> bool:
        """True while messages wait until the instance has received others."""
        return bool(self._unsent)

    @property
    def process(self) -> int | None:
        """Id of its process; None for a thread."""
        return self.worker.process.pid if isinstance(self.worker, _Process) else None

    def post(self, header: dict[str, Any], data: pa.Buffer | bytes | None = None) -> None:
        """Send a message, now or when the instance can take it."""
        self._unsent.append((header, data))
        self.send()

    def send(self) -> None:
        """Send the messages that the instance can take now; one that has ended gets none.

        Raises
        ------
        SharedMemoryError
            If the system has no memory for a message.
        """
        try:
            while self._unsent and self.channel.send(*self._unsent[0]):
                self._unsent.popleft()
        except ConnectionError:  # the scheduler notices it when it receives
            self._unsent.clear()

    def end(self) -> str:
        """Close the connection, wait until the instance has ended, and return how."""
        self.channel.close()
        return self.worker.ended()


class Starter:
    """Starts instances.

    Parameters
    ----------
    workers
        ``processes`` or ``threads``.
    queries, watches
        Queries over plain events, and those that find windows longer than slices allow.
    options
        Options of their engines, as JSON values.

    Raises
    ------
    ValidationError
        If the system cannot run them.
    """

    def __init__(
        self, workers: Workers, queries: Sequence[ast.Query], watches: Sequence[ast.Query], options: dict[str, Any]
    ) -> None:
        if not sys.platform.startswith("linux"):
            raise ValidationError(
                f"instances need Linux, and this is {sys.platform}; use Engine, for keyed queries with threads=…"
            )
        self._workers, self._queries = workers, [*queries, *watches]
        self._header = {"options": options, "queries": len(queries)}
        self._started = 0
        schema: Schema = queries[0].schema
        self._text = document_text(Document(schema, tuple(self._queries))).encode() if workers == "processes" else b""

    def start(self) -> Instance:
        """Start an instance.

        Raises
        ------
        OSError, SharedMemoryError
            If the process cannot be started, or the query cannot be sent to it.
        """
        here, there = Channel.pair()
        try:
            worker = self._process(there) if self._workers == "processes" else self._thread(there)
        except BaseException:
            here.close()
            there.close()
            raise
        instance = Instance(self._started, here, worker)
        self._started += 1
        try:
            instance.post(self._header, self._text or None)
        except BaseException:
            worker.stop()
            instance.end()
            raise
        return instance

    def _thread(self, channel: Channel) -> _Thread:
        thread = Thread(
            target=serve, args=(channel, self._queries), name=f"fastcep-instance-{self._started}", daemon=True
        )
        thread.start()
        return _Thread(thread)

    def _process(self, channel: Channel) -> _Process:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fastcep.parallel", str(channel.fileno())], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, env=_environment(), pass_fds=[channel.fileno()],
            start_new_session=True,  # Ctrl-C is for the process that started this one
        )  # fmt: skip
        channel.close()
        return _Process(process)


def _environment() -> dict[str, str]:
    """Return the environment of a process that imports what this one does."""
    paths = dict.fromkeys([str(Path(__file__).resolve().parents[2]), *(os.path.abspath(path) for path in sys.path)])
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
