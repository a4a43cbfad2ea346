"""Wait for an operator from another host, and resume it: `receive`."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from fastcep.errors import FastcepError, MigrationError, ValidationError
from fastcep.migration.partial_states.protocol import StartAssembly
from fastcep.migration.states import Ints
from fastcep.migration.transfer.frames import ProtocolError
from fastcep.migration.transfer.kinds import assembly_of
from fastcep.migration.transfer.link import Link, listen
from fastcep.migration.transfer.new_host import Arrived, NewHost, ReceiveOptions, authenticate
from fastcep.migration.transfer.options import (
    Address,
    check_tls,
    parse_address,
    parse_key,
    seconds,
    sentence,
    size_option,
)

__all__ = ["Received", "receive"]

_LOG = logging.getLogger("fastcep.migration")

#: Largest number of connections at a time that have not proved that they know the key. One more closes the oldest.
_STRANGERS = 16
#: Largest number of refusals that are reported.
_REFUSALS = 100


@dataclass(frozen=True, eq=False)
class Received:
    """An operator that has moved to this host.

    Attributes
    ----------
    operator
        The operator, ready to process the events from `position` on.
    matches
        Results of the operator for the events that arrived during the migration, one per batch; empty with
        ``track="parallel"``, because the old operator has returned them.
    position
        Number of events of the stream that the operator has processed, those of the old host included.
    states
        int64[k]: numbers of the partial states that arrived, in their order.
    total_states
        Number of partial states that the old host had.
    late
        Number of states that arrived after the deadline.
    interrupted
        The reason for which the old host did not finish the transfer (``on_disconnect="hand_over"`` only); None if it
        did.
    refused
        Address and problem of peers that were refused meanwhile; at most the first 100.
    """

    operator: Any
    matches: list[Any]
    position: int
    states: Ints
    total_states: int
    late: int
    interrupted: str | None
    refused: tuple[str, ...]

    @property
    def states_received(self) -> int:
        """Number of partial states that arrived."""
        return len(self.states)

    @property
    def complete(self) -> bool:
        """True if all partial states arrived."""
        return len(self.states) == self.total_states


def receive(
    address: Address,
    *,
    key: bytes | str,
    tls: ssl.SSLContext | None = None,
    timeout: str | timedelta = "10s",
    wait: str | timedelta | None = None,
    limit: str | int = "1GiB",
    options: Mapping[str, Any] | None = None,
    assemblies: Mapping[str, StartAssembly] | None = None,
    kinds: Collection[str] | None = None,
    on_listening: Callable[[tuple[str, int]], object] | None = None,
    on_built: Callable[[Any], object] | None = None,
) -> Received:
    """Wait for an operator that an old host sends, and take it over.

    The call serves one migration. Peers with a wrong key or version, or that send anything else, are refused, logged
    (``fastcep.migration``) and reported in the result; they do not end the wait.

    Parameters
    ----------
    address
        Host and port to listen at; port 0: any free one, see `on_listening`.
    key
        The key that both hosts share, at least 16 bytes. It proves who the hosts are, and protects the data against
        changes. It does not hide the data; use `tls` for that.
    tls
        Context of a server; None: no TLS.
    timeout
        Time after which a peer that sends or takes no data is refused.
    wait
        Time to wait for the old host; None: without limit.
    limit
        Longest message in bytes, such as the base or one partial state.
    options
        Options of the new operator.
    assemblies
        Functions that start the assembly of further kinds of operators.
    kinds
        Kinds of operators to accept, such as ``["engine"]``; others are refused before their state is sent. None: all.
    on_listening
        Called with host and port when connections are accepted.
    on_built
        Called with the new operator when it has its state and before this host takes over, such as to store it. If it
        raises an error, the migration fails.

    Returns
    -------
    Received

    Raises
    ------
    MigrationError
        If the migration fails after an old host with the right key connected, or none does in time. This host has
        discarded the state then.
    ValidationError
        If an option is wrong.
    """
    host, port = parse_address(address)
    extra, accepted = _mapping("assemblies", assemblies), None if kinds is None else frozenset(kinds)
    for name, function in (("on_listening", on_listening), ("on_built", on_built)):
        if function is not None and not callable(function):
            raise ValidationError(f"{name}: {type(function).__name__}; expected a function or None")

    def assembly(kind: str) -> StartAssembly | None:
        return None if accepted is not None and kind not in accepted else extra.get(kind) or assembly_of(kind)

    receive_options = ReceiveOptions(
        assembly, _mapping("options", options), size_option("limit", limit), on_built or (lambda operator: None)
    )
    server = _Server(
        host, port, parse_key(key), check_tls(tls), seconds("timeout", timeout, positive=True),
        None if wait is None else seconds("wait", wait), receive_options, on_listening,
    )  # fmt: skip
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # there is none
        return asyncio.run(server.run())
    with ThreadPoolExecutor(1, "fastcep-receive") as thread:  # in a notebook, for example
        return thread.submit(lambda: asyncio.run(server.run())).result()


def _mapping(option: str, value: Any) -> dict[str, Any]:
    """Return an option that maps names to values; ValidationError if it is something else."""
    if value is not None and not isinstance(value, Mapping):
        raise ValidationError(f"{option}: {type(value).__name__}; expected a mapping of names, or None")
    return dict(value or {})


class _Server:
    """Accepts connections until one migration has ended."""

    def __init__(
        self,
        host: str,
        port: int,
        key: bytes,
        tls: ssl.SSLContext | None,
        timeout: float,
        wait: float | None,
        options: ReceiveOptions,
        on_listening: Callable[[tuple[str, int]], object] | None,
    ) -> None:
        self._host, self._port, self._key, self._tls = host, port, key, tls
        self._timeout, self._wait, self._options, self._on_listening = timeout, wait, options, on_listening
        self._strangers: dict[asyncio.Task[Any], Link] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._refused: list[str] = []
        self._begun = asyncio.Event()
        self._chosen: asyncio.Task[Any] | None = None
        self._result: asyncio.Future[Arrived]

    async def run(self) -> Received:
        """Return the operator of the one migration."""
        self._result = asyncio.get_running_loop().create_future()
        place = f"{self._host}:{self._port}"
        try:
            server = await listen(self._connected, self._host, self._port, self._tls, _STRANGERS, self._timeout)
        except OSError as error:
            raise ValidationError(
                f"address={place!r}: cannot listen there: {error.strerror or error}; choose another port or host"
            ) from None
        try:
            if self._on_listening is not None:
                self._on_listening(server.sockets[0].getsockname()[:2])
            await self._begin_in_time()
            server.close()
            return self._received(await self._result)
        finally:
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _begin_in_time(self) -> None:
        try:
            async with asyncio.timeout(self._wait):
                await self._begun.wait()
        except TimeoutError:
            raise MigrationError(
                f"no old host with the right key connected within {self._wait:g} s"
                + (f"; refused: {'; '.join(self._refused[:3])}" if self._refused else ""),
                "old", "Start the old host's send, and check address and key",
            ) from None  # fmt: skip

    def _received(self, arrived: Arrived) -> Received:
        return Received(
            arrived.operator, arrived.matches, arrived.position, np.array(arrived.states, np.int64),
            arrived.offer.states, arrived.late, arrived.problem, tuple(self._refused),
        )  # fmt: skip

    def _claim(self) -> bool:
        if self._chosen is not None:
            return False
        self._chosen = asyncio.current_task()
        return True

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        link = Link(reader, writer, self._timeout)
        self._tasks.add(task)
        self._strangers[task] = link
        if len(self._strangers) > _STRANGERS:
            self._strangers.pop(next(iter(self._strangers))).abort()
        try:
            side = NewHost(link, self._options)
            if await self._admit(link, side):
                self._strangers.pop(task, None)
                self._begun.set()
                await self._migrate(side)
        except asyncio.CancelledError:  # the server ends; asyncio would report a cancelled handler as an error
            link.abort()
        finally:
            self._strangers.pop(task, None)
            self._tasks.discard(task)
            await link.close()

    async def _admit(self, link: Link, side: NewHost) -> bool:
        """Return whether the peer has the key and offers a state."""
        peer = link.peer
        try:
            async with asyncio.timeout(self._timeout):
                await authenticate(link, self._key, self._claim)
                await side.accept()
        except (ProtocolError, TimeoutError) as error:
            problem = error.problem if isinstance(error, ProtocolError) else "it did not prove its key in time"
            if len(self._refused) < _REFUSALS:
                self._refused.append(f"{peer}: {problem}")
                _LOG.warning("refused %s: %s", peer, problem)
            if self._chosen is asyncio.current_task():
                self._chosen = None
            await side.refuse(problem)
            return False
        return True

    async def _migrate(self, side: NewHost) -> None:
        try:
            self._result.set_result(await side.run())
        except ProtocolError as error:
            self._fail(side, error.problem, error.remedy)
        except FastcepError as error:
            self._fail(side, str(error), "Fix that, and migrate again")
        except Exception as error:
            self._fail(side, repr(error), "See the error above", error)

    def _fail(self, side: NewHost, problem: str, remedy: str, cause: BaseException | None = None) -> None:
        owner = "none" if side.handed_over else "old"
        if side.is_built:
            remedy += "; if the old host reports that the outcome is unknown, continue there: Migration.take_back"
        failure = MigrationError(f"{problem}; this host has discarded the state", owner, sentence(remedy))
        failure.__cause__ = cause
        self._result.set_exception(failure)
