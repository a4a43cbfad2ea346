"""A connection that carries frames; every wait has a time-out."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from fastcep.migration.transfer.frames import (
    CODE,
    HANDSHAKE,
    HEADER,
    Direction,
    Frame,
    Kind,
    Opener,
    ProtocolError,
    Sealer,
    checked_header,
)

__all__ = ["ANY_TIME", "Link", "LinkLost", "connect", "heartbeat", "listen"]

#: Bytes that are read at a time; memory grows only with what arrives.
_CHUNK = 1 << 16

#: Frames that may arrive at any time after the handshake.
ANY_TIME = frozenset({Kind.WORKING})


class LinkLost(ProtocolError):
    """The connection is closed, or the other side stalls."""


class _Reader(asyncio.StreamReader):
    """Returns all data that has arrived before it reports that the connection failed."""

    def set_exception(self, exc: BaseException) -> None:
        self.feed_eof()


async def connect(
    host: str, port: int, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a host; OSError if that fails."""
    loop = asyncio.get_running_loop()
    reader = _Reader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.create_connection(
        lambda: protocol, host, port, ssl=tls, server_hostname=host if tls else None
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def listen(
    connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    backlog: int,
    timeout: float,
) -> asyncio.Server:
    """Accept connections; OSError if that fails. `timeout` is that of TLS."""
    loop = asyncio.get_running_loop()

    def protocol() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(_Reader(loop=loop), connected, loop=loop)

    return await loop.create_server(
        protocol, host, port, ssl=tls, backlog=backlog, ssl_handshake_timeout=timeout if tls else None
    )


class Link:
    """A connection to the other host.

    Parameters
    ----------
    reader, writer
        Its streams.
    timeout
        Seconds until a side that sends or takes no data has stalled.

    Attributes
    ----------
    timeout
        The same.
    sealer, opener
        Codes of both directions; None until `secure`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float) -> None:
        self._reader, self._writer = reader, writer
        self.timeout = timeout
        self.sealer: Sealer | None = None
        self.opener: Opener | None = None
        writer.transport.set_write_buffer_limits(high=_CHUNK)

    @property
    def peer(self) -> str:
        """Address of the other side."""
        address = self._writer.get_extra_info("peername")
        return f"{address[0]}:{address[1]}" if address else "an unknown address"

    def secure(self, key: bytes, own: Direction) -> None:
        """Use codes from now on."""
        self.sealer, self.opener = Sealer(key, own), Opener(key, Direction(1 - own))

    def write(self, kind: Kind, payload: bytes | memoryview = b"", more: bool = False) -> None:
        """Append a frame to the data that is sent; it does not wait."""
        if kind in HANDSHAKE:
            self._writer.write(HEADER.pack(len(payload), kind) + bytes(payload))
        else:
            assert self.sealer is not None
            self._writer.write(self.sealer.seal(kind, payload, more))

    async def flush(self) -> None:
        """Wait until the system has taken nearly all data.

        Raises
        ------
        LinkLost
            If the connection is closed, or takes no data for the time-out.
        """
        with _failures("take data", self.timeout):
            async with asyncio.timeout(self.timeout):
                await self._writer.drain()

    async def send(self, kind: Kind, payload: bytes | memoryview = b"", more: bool = False) -> None:
        """Write a frame and flush."""
        self.write(kind, payload, more)
        await self.flush()

    async def read(self, expected: frozenset[Kind]) -> Frame:
        """Return the next frame; frames of `ANY_TIME` are skipped after the handshake.

        Parameters
        ----------
        expected
            Types that are allowed now.

        Raises
        ------
        ProtocolError
            If the frame is not allowed, too long, or has a wrong code.
        LinkLost
            If the connection is closed, or no data comes for the time-out.
        """
        while True:
            frame = await self._next(expected if self.opener is None else expected | ANY_TIME)
            if frame.kind in expected:
                return frame

    async def _next(self, expected: frozenset[Kind]) -> Frame:
        header = await self._exactly(HEADER.size)
        kind, length, more = checked_header(header, expected)
        payload = await self._exactly(length)
        if kind not in HANDSHAKE:
            assert self.opener is not None
            self.opener.check(header, payload, await self._exactly(CODE))
        return Frame(kind, payload, more)

    async def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            with _failures("send data", self.timeout):
                async with asyncio.timeout(self.timeout):
                    chunk = await self._reader.read(min(count - len(data), _CHUNK))
            if not chunk:
                raise LinkLost("the connection was closed")
            data += chunk
        return bytes(data)

    async def drain_input(self, seconds: float) -> None:
        """Discard input for a time or until the end of the connection, so that closing it loses no sent data."""
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(seconds):
                while await self._reader.read(_CHUNK):
                    pass

    async def close(self) -> None:
        """Send what is written, and close the connection; wait at most for the time-out."""
        self._writer.close()
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(self.timeout):
                await self._writer.wait_closed()
        self._writer.transport.abort()

    def close_soon(self) -> None:
        """Close the connection after the system has taken what is written; do not wait."""
        self._writer.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()


async def heartbeat(link: Link) -> None:
    """Report that this side works, until cancelled or the link is lost."""
    with suppress(LinkLost):
        while True:
            await asyncio.sleep(link.timeout / 4)
            await link.send(Kind.WORKING)


@contextmanager
def _failures(action: str, timeout: float) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise LinkLost(
            f"the other side did not {action} for {timeout:g} s",
            "check the link and the other host, or use a longer timeout",
        ) from None
    except OSError as error:
        raise LinkLost(f"the connection failed: {error.strerror or error}") from None
