"""Run a new host in a thread, and play hosts that break the protocol."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from migration.transfer.counter import ASSEMBLIES, Counter, CounterStates

from fastcep.errors import MigrationError
from fastcep.migration import Migration, Received, receive, start

KEY = b"a key of 32 bytes for the tests!"
PATIENCE = 60.0  # seconds until a test gives up


class NewHostThread:
    """A `receive` that runs in a thread."""

    def __init__(self, **options: Any) -> None:
        self._port: queue.Queue[tuple[str, int]] = queue.Queue()
        self._options = {"key": KEY, "assemblies": ASSEMBLIES, "timeout": "20s"} | options
        self._outcome: Received | BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.address = self._port.get(timeout=PATIENCE)

    def _run(self) -> None:
        try:
            self._outcome = receive(("127.0.0.1", 0), on_listening=self._port.put, **self._options)
        except BaseException as error:
            self._outcome = error

    @property
    def is_waiting(self) -> bool:
        return self._thread.is_alive()

    def outcome(self) -> Received | BaseException:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the new host still waits"
        assert self._outcome is not None
        return self._outcome

    def received(self) -> Received:
        outcome = self.outcome()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


@contextmanager
def new_host(**options: Any) -> Iterator[NewHostThread]:
    host = NewHostThread(**options)
    yield host
    for _ in range(100):  # it ends, or another migration ends it
        if not host.is_waiting:
            break
        with (
            suppress(MigrationError),
            start(Counter(), host.address, key=host._options["key"], states=CounterStates(Counter())) as last,
        ):
            last.finish()
    host.outcome()


def begin(counter: Counter, address: tuple[str, int], **options: Any) -> Migration:
    """Start to move a counter."""
    options = {"key": KEY, "timeout": "20s"} | options
    return start(counter, address, states=options.pop("states", None) or CounterStates(counter), **options)
