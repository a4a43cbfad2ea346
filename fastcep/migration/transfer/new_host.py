"""The new host's side of the protocol: collect the state, build the operator, take over when asked to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fastcep.errors import FastcepError, MemoryLimitError, QueryError
from fastcep.migration.partial_states.protocol import Assembly, StartAssembly
from fastcep.migration.transfer.frames import Direction, Frame, Kind, ProtocolError
from fastcep.migration.transfer.handshake import Session, check_versions, greeting, parse_greeting, same_proof
from fastcep.migration.transfer.link import Link, heartbeat
from fastcep.migration.transfer.messages import ACK, BUILT, END, Offer, message_events, reason_bytes, unpack

__all__ = ["Arrived", "NewHost", "ReceiveOptions", "authenticate"]

_DATA = frozenset({Kind.PAD, Kind.STATES, Kind.EVENTS, Kind.END, Kind.ABORT})
#: Seconds for which input is read after the operator has resumed without END, so that the old host gets BUILT.
_DRAIN = 0.05
#: The same after a refusal: until the old host closes the connection, at most this long.
_REFUSAL = 1.0

_WRONG_KEY, _BUSY = b"\x01", b"\x02"


@dataclass(frozen=True, slots=True)
class ReceiveOptions:
    """Checked options of `receive`.

    Attributes
    ----------
    assemblies
        Starts the assembly, by kind of the operator.
    operator
        Options for the new operator.
    limit
        Bytes of the longest message.
    on_built
        Called with the operator before this host takes over.
    """

    assemblies: Callable[[str], StartAssembly | None]
    operator: Mapping[str, Any]
    limit: int
    on_built: Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Arrived:
    """The result of a migration at the new host; attributes as of `Received`."""

    operator: Any
    matches: list[Any]
    position: int
    states: list[int]
    late: int
    offer: Offer
    problem: str | None


async def authenticate(link: Link, key: bytes, claim: Callable[[], bool]) -> None:
    """Let the old host prove that it has the key, then do the same.

    Parameters
    ----------
    link
        The connection.
    key
        The shared key.
    claim
        Called when the old host has the key; returns whether it may migrate now.

    Raises
    ------
    ProtocolError
        If it has not, has other versions, or may not.
    """
    hello = parse_greeting((await link.read(frozenset({Kind.HELLO}))).payload)
    challenge = greeting()
    await link.send(Kind.CHALLENGE, challenge.payload)
    check_versions(hello, "the old host")
    session = Session.of(key, hello, challenge)
    proof = await link.read(frozenset({Kind.PROOF}))
    if not same_proof(proof.payload, session.old_proof):
        await link.send(Kind.DENIED, _WRONG_KEY)
        raise ProtocolError("it has another key", "use the same key= on both hosts")
    if not claim():
        await link.send(Kind.DENIED, _BUSY)
        raise ProtocolError("another migration is served", "start another fastcep.migration.receive")
    await link.send(Kind.WELCOME, session.new_proof)
    link.secure(session.frames, Direction.FROM_NEW)


class NewHost:
    """One migration, seen from the new host, over a link that is authenticated.

    Parameters
    ----------
    link
        The connection.
    options
        Options of the call.
    clock
        Clock of the deadline, in seconds.

    Attributes
    ----------
    offer
        Description of the state; None before it has arrived.
    is_built
        The operator has been built.
    handed_over
        The old operator has stopped, so this host resumes with what has arrived.
    """

    def __init__(self, link: Link, options: ReceiveOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._link, self._options, self._clock = link, options, clock
        self._deadline: float | None = None
        self._assembly: Assembly
        self._operator: Any = None
        self.is_built = False
        self._work: asyncio.Task[None] | None = None
        self._states: list[int] = []
        self._late = 0
        self._bytes = 0
        self._events = 0
        self._matches: list[Any] = []
        self._parts: list[bytes] = []
        self.offer: Offer | None = None
        self.handed_over = False

    async def accept(self) -> None:
        """Read the offer; it proves that the old host knows the key of this session.

        Raises
        ------
        ProtocolError
            If it is not the next message.
        """
        self.offer = Offer.from_bytes((await self._read(frozenset({Kind.OFFER}))).payload)
        if self.offer.deadline is not None:
            self._deadline = self._clock() + self.offer.deadline / 1e9

    async def run(self) -> Arrived:
        """Receive the state and own it.

        Raises
        ------
        ProtocolError
            If that fails: this host has discarded the state.
        """
        pulse = asyncio.get_running_loop().create_task(heartbeat(self._link))
        try:
            await self._start()
            problem = await self._receive()
            await self._build()
            return await self._take_over(problem)
        except (ProtocolError, FastcepError) as error:
            await self.refuse(str(error))
            raise
        except Exception as error:  # of the operator
            await self.refuse(f"{type(error).__name__}: {error}")
            raise
        finally:
            pulse.cancel()
            await asyncio.gather(pulse, return_exceptions=True)

    async def refuse(self, reason: str) -> None:
        """Report to the old host, if it has proved its key, that this host discards the state."""
        if self._link.sealer is None:
            return
        with suppress(ProtocolError):
            await self._link.send(Kind.REFUSED, reason_bytes(reason))
            await self._link.drain_input(_REFUSAL)

    async def _start(self) -> None:
        offer = self.offer
        assert offer is not None
        if offer.base_bytes > self._options.limit:
            raise ProtocolError(
                f"the base has {offer.base_bytes:,} bytes, expected at most {self._options.limit:,}",
                "raise limit= of receive",
            )
        start = self._options.assemblies(offer.kind)
        if start is None:
            raise ProtocolError(
                f"operators of the kind {offer.kind!r} are not accepted here",
                "give assemblies= or kinds= to receive for it",
            )
        base = await self._message(frozenset({Kind.BASE}))
        if len(base) != offer.base_bytes:
            raise ProtocolError(f"the base has {len(base):,} bytes, expected {offer.base_bytes:,}")
        self._assembly = await asyncio.to_thread(start, base, self._options.operator)
        await self._link.send(Kind.READY)

    async def _read(self, expected: frozenset[Kind]) -> Frame:
        frame = await self._link.read(expected | {Kind.ABORT})
        if frame.kind == Kind.ABORT:
            reason = frame.payload.decode("utf-8", "replace")
            raise ProtocolError(f"the old host ended the migration: {reason}", "see the error of the old host")
        return frame

    async def _message(self, expected: frozenset[Kind]) -> bytes:
        """Return a whole message that the next frames have, and acknowledge each of them."""
        frame = await self._read(expected)
        while self._add_piece(frame):
            await self._acknowledge()
            frame = await self._read(frozenset({frame.kind}))
        await self._acknowledge()
        return self._joined()

    def _add_piece(self, frame: Frame) -> bool:
        """Add a piece of a message; return whether more follow."""
        self._bytes += len(frame.payload)
        self._parts.append(frame.payload)
        size = sum(map(len, self._parts))
        if size > self._options.limit:
            raise ProtocolError(
                f"a message has {size:,} bytes or more, expected at most {self._options.limit:,}",
                "raise limit= of receive",
            )
        return frame.more

    def _joined(self) -> bytes:
        message, self._parts = b"".join(self._parts), []
        return message

    async def _acknowledge(self) -> None:
        await self._link.send(Kind.ACK, ACK.pack(self._bytes, len(self._states)))

    async def _receive(self) -> str | None:
        """Take states and events until the end; with ``"hand_over"`` return what has ended it before."""
        assert self.offer is not None
        if self.offer.on_disconnect == "keep":
            await self._data()
            return None
        loop = asyncio.get_running_loop()
        data, alarm = loop.create_task(self._data()), loop.create_task(self._deadline_passed())
        try:
            await asyncio.wait({data, alarm}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
            is_late = data.cancel()
        try:
            await data
        except asyncio.CancelledError:
            if not is_late:
                raise
            problem = "the deadline passed"
            if self._work is not None:
                await self._work
        except (ProtocolError, FastcepError) as error:
            if not self.handed_over:
                raise
            problem = str(error)
        else:
            return None
        if not self.handed_over:
            raise ProtocolError(f"{problem} before any state arrived", "use a later deadline")
        return problem

    async def _deadline_passed(self) -> None:
        """Wait for the deadline."""
        await asyncio.sleep(3e8 if self._deadline is None else max(0.0, self._deadline - self._clock()))

    async def _data(self) -> None:
        assert self.offer is not None
        expected = _DATA
        while True:
            frame = await self._read(expected)
            if frame.kind == Kind.END:
                self._check_end(frame.payload)
                self.handed_over = self.offer.on_disconnect == "hand_over"
                return
            expected = frozenset({frame.kind}) if frame.more else _DATA
            if frame.kind == Kind.PAD:
                self._bytes += len(frame.payload)
            elif not self._add_piece(frame):
                if frame.kind == Kind.STATES:
                    self._add_states(self._joined())
                else:
                    self._work = asyncio.get_running_loop().create_task(self._process(self._joined()))
                    await asyncio.shield(self._work)  # the deadline does not stop a thread
            await self._acknowledge()

    def _check_end(self, payload: bytes) -> None:
        opener = self._link.opener
        assert opener is not None
        count, digest = unpack(END, payload)
        if (count, digest) != opener.before:
            raise ProtocolError(f"found {opener.before[0]:,} frames, expected {count:,} with the old host's digest")

    def _add_states(self, message: bytes) -> None:
        assert self.offer is not None
        if self.is_built:
            raise ProtocolError("found states after events, expected them before")
        numbers = self._assembly.add(message)
        self.handed_over = self.offer.on_disconnect == "hand_over"
        self._states += numbers.tolist()
        if self._deadline is not None and self._clock() > self._deadline:
            self._late += len(numbers)

    async def _build(self) -> None:
        if not self.is_built:
            self._operator = await asyncio.to_thread(self._assembly.build)
            self.is_built = True

    async def _process(self, message: bytes) -> None:
        """Process a batch of events; keep its matches if the old operator does not report them."""
        assert self.offer is not None
        await self._build()
        table, options = message_events(message)
        try:
            matches = await asyncio.to_thread(self._operator.process, table, **options)
        except (MemoryLimitError, QueryError) as error:  # the operator has processed the batch, as far as it could
            self._events += len(table)
            if self.offer.track == "single" and error.matches is not None:
                self._matches.append(error.matches)
            raise
        self._events += len(table)
        if self.offer.track == "single":
            self._matches.append(matches)

    async def _take_over(self, problem: str | None) -> Arrived:
        link, offer = self._link, self.offer
        assert offer is not None
        position = offer.position + self._events
        arrived = Arrived(self._operator, self._matches, position, self._states, self._late, offer, problem)
        built = BUILT.pack(len(self._states), self._late, position)
        await asyncio.to_thread(self._options.on_built, self._operator)
        if offer.on_disconnect == "hand_over":
            with suppress(ProtocolError):
                await link.send(Kind.BUILT, built)
                if problem is not None:
                    await link.drain_input(_DRAIN)
            return arrived
        await link.send(Kind.BUILT, built)
        await self._read(frozenset({Kind.COMMIT}))
        with suppress(ProtocolError):  # this host owns the state, whether the old host learns of it or not
            await link.send(Kind.DONE)
        return arrived
