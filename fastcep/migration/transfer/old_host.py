"""The old host's side of the protocol: send the state, then the events, then ask for confirmation."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from fastcep.migration.partial_states.protocol import PartialStates
from fastcep.migration.transfer.frames import PIECE, Direction, Frame, Kind, ProtocolError
from fastcep.migration.transfer.handshake import Session, check_versions, greeting, parse_greeting, same_proof
from fastcep.migration.transfer.link import Link, LinkLost, connect, heartbeat
from fastcep.migration.transfer.messages import ACK, BUILT, END, Offer, events_message, reason_bytes, unpack
from fastcep.migration.transfer.outbox import Outbox
from fastcep.migration.transfer.pacing import Meter
from fastcep.migration.transfer.schedule import Schedule

__all__ = ["Clock", "OldHost", "Refused", "SendOptions"]

Clock = Callable[[], float]

_ANSWERS = frozenset({Kind.ACK, Kind.READY, Kind.REFUSED, Kind.BUILT, Kind.DONE})
#: Shortest piece of a long message, in bytes; frames that measure the link, and all of these together.
_SHORT_PIECE, _PAD, _MOST_PADDING = 1024, 512, 1 << 16


class Refused(ProtocolError):
    """The new host refuses the state, or discards it."""


@dataclass(frozen=True, slots=True)
class SendOptions:
    """Checked options of `send`; times in seconds, sizes in bytes."""

    host: str
    port: int
    key: bytes = field(repr=False)
    tls: ssl.SSLContext | None
    timeout: float
    deadline: float | None
    resume: float
    method: str
    seed: int
    on_disconnect: str
    track: str
    bandwidth: float | None


class OldHost:
    """One migration, seen from the old host.

    Parameters
    ----------
    parts
        The state.
    outbox
        Events that arrive meanwhile.
    options
        Options of the call.
    begin
        Time of the call, on the clock.
    clock
        Clock of the deadline, in seconds.

    Attributes
    ----------
    times
        Time of the end of each phase since the start, in seconds.
    sent
        Numbers of the states that were sent, in order.
    confirmed_states, confirmed_bytes, sent_bytes
        States and bytes of their frames.
    states_are_sent
        Whether all states that are to be sent have been sent.
    stopped
        With ``"hand_over"``: the old operator has stopped, because the first states were sent.
    committed
        The new host was asked to take over.
    done
        The new host has confirmed that it owns the state.
    late
        Number of states that arrived after the deadline, as the new host reports; None if unknown.
    confirmed_position
        Position of the new operator, as the new host reports; None if unknown.
    """

    def __init__(
        self, parts: PartialStates, outbox: Outbox, options: SendOptions, begin: float, clock: Clock = time.monotonic
    ) -> None:
        self._parts, self._outbox, self._options, self._clock = parts, outbox, options, clock
        self._start = begin
        self._changed = asyncio.Event()
        self._failure: Exception | None = None
        self._answer: Frame | None = None
        self._link: Link
        self.meter = Meter(0.0, options.bandwidth)
        self.schedule: Schedule | None = None
        self.times: dict[str, float] = {}
        self.sent: list[int] = []
        self.sent_bytes = 0
        self.confirmed_states = self.confirmed_bytes = 0
        self._sent_before_states = 0
        self.states_are_sent = False
        self.stopped = False
        self.committed = False
        self.done = False
        self.late: int | None = None
        self.confirmed_position: int | None = None

    async def run(self) -> None:
        """Move the state.

        Raises
        ------
        ProtocolError
            If that fails; the attributes have the state of the migration.
        """
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(self._changed.set)

        self._outbox.on_change(wake)
        self._link = link = await self._connect()
        tasks: list[asyncio.Task[None]] = []
        try:
            round_trip = await self._handshake(link)
            self._mark("handshake")
            self.meter = Meter(round_trip, self._options.bandwidth)
            tasks = [loop.create_task(self._read(link)), loop.create_task(heartbeat(link))]
            await self._offer()
            await self._probe()
            await self._send_states()
            await self._send_events()
            await self._finish()
        except BaseException as error:
            await self._abort(link, error)
            if isinstance(error, LinkLost) and tasks:  # a refusal may have arrived before
                await asyncio.wait(tasks[:1], timeout=link.timeout)
                if isinstance(self._failure, Refused):
                    raise self._failure from None
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            link.abort()

    def _mark(self, phase: str) -> None:
        self.times[phase] = self._clock() - self._start

    async def _connect(self) -> Link:
        options = self._options
        place = f"{options.host}:{options.port}"
        remedy = "start fastcep.migration.receive there first, and check the address"
        try:
            async with asyncio.timeout(options.timeout):
                reader, writer = await connect(options.host, options.port, options.tls)
        except TimeoutError:
            raise LinkLost(f"{place} did not accept the connection for {options.timeout:g} s", remedy) from None
        except ssl.SSLError as error:
            raise LinkLost(
                f"TLS with {place} failed: {error.reason or error}", "check tls= of both hosts and their certificates"
            ) from None
        except OSError as error:
            raise LinkLost(f"cannot connect to {place}: {error.strerror or error}", remedy) from None
        return Link(reader, writer, options.timeout)

    async def _handshake(self, link: Link) -> float:
        """Agree on keys; return the shortest round trip."""
        hello, start = greeting(), self._clock()
        await link.send(Kind.HELLO, hello.payload)
        frame = await link.read(frozenset({Kind.CHALLENGE, Kind.DENIED}))
        first, middle = self._clock() - start, self._clock()
        challenge = self._granted(frame)
        other = parse_greeting(challenge)
        check_versions(other, "the new host")
        session = Session.of(self._options.key, hello, other)
        await link.send(Kind.PROOF, session.old_proof)
        frame = await link.read(frozenset({Kind.WELCOME, Kind.DENIED}))
        if not same_proof(self._granted(frame), session.new_proof):
            raise ProtocolError("the new host has another key", "use the same key= on both hosts")
        link.secure(session.frames, Direction.FROM_OLD)
        return min(first, self._clock() - middle)

    @staticmethod
    def _granted(frame: Frame) -> bytes:
        if frame.kind == Kind.DENIED:
            if frame.payload == b"\x01":
                raise ProtocolError("the new host reports another key", "use the same key= on both hosts")
            raise ProtocolError("the new host serves another migration", "start another fastcep.migration.receive")
        return frame.payload

    async def _read(self, link: Link) -> None:
        """Take answers until the link is lost or the new host refuses."""
        try:
            while True:
                frame = await link.read(_ANSWERS)
                if frame.kind == Kind.ACK:
                    self._acknowledge(*unpack(ACK, frame.payload))
                elif frame.kind == Kind.REFUSED:
                    reason = frame.payload.decode("utf-8", "replace")
                    raise Refused(f"the new host refused the state: {reason}", "remove the cause, and migrate again")
                else:
                    self._answer = frame
                self._changed.set()
        except Exception as error:
            self._failure = error
            self._changed.set()

    def _acknowledge(self, total: int, states: int) -> None:
        if not (self.meter.acknowledged <= total <= self.meter.sent) or not (
            self.confirmed_states <= states <= len(self.sent)
        ):
            raise ProtocolError("the new host acknowledges what was not sent", "install the same fastcep on both hosts")
        self.meter.acknowledge(self._clock(), total)
        self.confirmed_states = states
        self.confirmed_bytes = max(0, min(total - self._sent_before_states, self.sent_bytes))

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition on the answers."""
        while not condition():
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()

    def _may_send(self, count: int) -> bool:
        """Return whether a frame of this length may be sent now, or need not be sent any more."""
        if self._has_answer(Kind.BUILT):
            return True
        if self.schedule is None:
            return self.meter.has_room(count)
        return self.meter.has_room(count, self.schedule.slack(self._clock()))

    async def _acknowledgement(self) -> None:
        """Wait for an acknowledgement, or any other answer."""
        before = self.meter.acknowledged
        await self._until(lambda: self.meter.acknowledged != before or self._has_answer(Kind.BUILT))

    def _has_answer(self, kind: Kind) -> bool:
        return self._answer is not None and self._answer.kind == kind

    async def _send(self, kind: Kind, message: bytes) -> None:
        """Send a message in pieces, as the window allows."""
        view, start = memoryview(message), 0
        while True:
            piece = view[start : start + min(PIECE, max(_SHORT_PIECE, self.meter.frame))]
            start += len(piece)
            await self._until(partial(self._may_send, len(piece)))
            if self._has_answer(Kind.BUILT):  # the new host has resumed at the deadline, and reads no more
                return
            self.meter.send(self._clock(), len(piece))
            await self._link.send(kind, piece, start < len(view))
            if start >= len(view):
                return

    async def _offer(self) -> None:
        options, parts = self._options, self._parts
        base = await asyncio.to_thread(parts.base)
        left = None
        if options.deadline is not None:
            left = max(0, int(1e9 * (self._start + options.deadline - self._clock() - self.meter.latency)))
        offer = Offer(
            parts.kind, parts.position, len(parts.states), len(base), options.on_disconnect, options.track, left
        )
        await self._link.send(Kind.OFFER, offer.to_bytes())
        await self._send(Kind.BASE, base)
        await self._until(lambda: self._has_answer(Kind.READY))
        self._mark("base")

    async def _probe(self) -> None:
        """Measure the bandwidth with frames that the new host discards, if a plan needs it."""
        left = min(_MOST_PADDING, self._parts.states.total_size // 16)
        if self._options.deadline is None:
            return
        while left > 0 and not self.meter.is_sound:
            size = min(left, _PAD)
            await self._until(partial(self._may_pad, size))
            self.meter.send(self._clock(), size)
            await self._link.send(Kind.PAD, bytes(size))
            left -= size
        if not self.meter.is_sound:
            await self._until(lambda: not self.meter.outstanding)

    def _may_pad(self, size: int) -> bool:
        return self.meter.is_sound or self.meter.sent + size <= 6 * _PAD + 2 * self.meter.acknowledged

    async def _send_states(self) -> None:
        options, meter = self._options, self.meter
        limit = None if options.deadline is None else self._start + options.deadline - options.resume
        self.schedule = schedule = Schedule(
            self._parts.states, meter, method=options.method, deadline=limit, seed=options.seed,
            overrun=options.on_disconnect == "keep",
        )
        self._sent_before_states = meter.sent
        while True:
            await self._until(
                lambda: schedule.can_send(self._clock(), max(_SHORT_PIECE, meter.frame)) or self._has_answer(Kind.BUILT)
            )
            if self._has_answer(Kind.BUILT):  # the new host has resumed at the deadline
                break
            numbers = schedule.next(self._clock())
            if not len(numbers):
                if not meter.outstanding:
                    break
                await self._acknowledgement()  # the link may be faster than measured
                continue
            message = self._parts.encode(np.asarray(numbers, np.int64))
            self.stopped = self.stopped or options.on_disconnect == "hand_over"
            self.sent += numbers.tolist()
            self.sent_bytes += len(message)
            await self._send(Kind.STATES, message)
        if options.on_disconnect == "keep" and not self.sent and len(self._parts.states):
            raise ProtocolError("no state can arrive before the deadline", "use a later deadline")
        self.states_are_sent = True
        self._mark("states")

    async def _send_events(self) -> None:
        """Forward events until no more follow."""
        while not self._has_answer(Kind.BUILT):
            self._changed.clear()
            closed = self._outbox.closed  # read first: all batches come before it is closed
            batch = self._outbox.forward()
            if batch is not None:
                await self._send(Kind.EVENTS, events_message(batch.table, batch.options))
            elif closed:
                break
            elif self._failure is not None:
                raise self._failure
            else:
                await self._changed.wait()
        self._mark("events")

    async def _finish(self) -> None:
        link, sealer = self._link, self._link.sealer
        assert sealer is not None
        if self._options.on_disconnect == "hand_over":
            self.stopped = True
        if not self._has_answer(Kind.BUILT):
            await link.send(Kind.END, END.pack(sealer.count, sealer.digest))
        await self._until(lambda: self._has_answer(Kind.BUILT))
        assert self._answer is not None
        states, self.late, position = unpack(BUILT, self._answer.payload)
        self.confirmed_position = position
        self._mark("build")
        if self._options.on_disconnect == "hand_over":
            self.confirmed_states, self.done = states, True
            return
        expected = self._parts.position + self._outbox.forwarded_events
        if (states, position) != (len(self.sent), expected):
            raise ProtocolError(
                f"the new host has {states:,} states and is at event {position:,}, expected {len(self.sent):,} states "
                f"and event {expected:,}",
                "install the same version of fastcep on both hosts",
            )
        self.committed = True
        await link.send(Kind.COMMIT)
        await self._until(lambda: self._has_answer(Kind.DONE))
        self.done = True
        self._mark("commit")

    async def _abort(self, link: Link, error: BaseException) -> None:
        """Report a failure to the new host, as far as that is possible."""
        if link.sealer is None or self.stopped or self.committed:
            return
        cancelled = isinstance(error, asyncio.CancelledError)
        reason = "aborted" if cancelled else getattr(error, "problem", type(error).__name__)
        with suppress(ProtocolError):
            link.write(Kind.ABORT, reason_bytes(reason))
            link.close_soon()
