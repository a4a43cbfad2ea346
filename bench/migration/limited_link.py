"""A link in user space: a TCP proxy with a token bucket and a delay; ``python -m bench.migration.limited_link JSON``.

Data to the target passes at `rate` bytes/s after a burst, and arrives after `delay` seconds; answers are only delayed.
A queue of `queue` bytes lies before the bucket, as in a router; what does not fit waits in the sender.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

__all__ = ["limited_link"]

_CHUNK = 1400


class _Bucket:
    """Tokens for bytes; waits until there are enough."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._time = float(burst), asyncio.get_running_loop().time()

    async def take(self, count: int) -> None:
        now = asyncio.get_running_loop().time()
        self._tokens = min(self._burst, self._tokens + (now - self._time) * self._rate) - count
        self._time = now
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self._rate)


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: float | None, burst: int, delay: float, queue: int
) -> None:
    """Copy a direction until its end."""
    loop = asyncio.get_running_loop()
    bucket = None if rate is None else _Bucket(rate, burst)
    line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    waiting: asyncio.Queue[bytes] = asyncio.Queue(max(1, queue // _CHUNK))

    async def read() -> None:
        data = b"-"
        while data:
            with suppress(OSError):
                data = await reader.read(_CHUNK)
            await waiting.put(data)

    async def limit() -> None:
        data = b"-"
        while data:
            data = await waiting.get()
            if bucket is not None:
                await bucket.take(len(data))
            line.put_nowait((loop.time() + delay, data))

    async def arrive() -> None:
        while True:
            due, data = await line.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    with suppress(OSError):
        await asyncio.gather(read(), limit(), arrive())


@asynccontextmanager
async def limited_link(
    target: tuple[str, int], *, rate: float, burst: int | None = None, delay: float = 0.0, queue: int = 64_000
) -> AsyncIterator[tuple[str, int]]:
    """Yield the address of a link to a target.

    Parameters
    ----------
    target
        Host and port.
    rate
        Bytes per second.
    burst
        Size of the bucket in bytes; None: that of 20 ms, at least 4,000, because a busy process wakes up late.
    delay
        Seconds in each direction.
    queue
        Bytes that wait before the bucket.
    """
    size = max(4000, int(rate / 50)) if burst is None else burst

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*target)
        await asyncio.gather(
            _pass_on(reader, back, rate, size, delay, queue), _pass_on(there, writer, None, 0, delay, 1 << 20)
        )
        back.close()
        writer.close()

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)  # the system holds no more, as a device between
    listener.bind(("127.0.0.1", 0))
    server = await asyncio.start_server(connected, sock=listener)
    async with server:
        yield listener.getsockname()


async def _main(options: dict[str, object]) -> None:
    target = options.pop("target")
    async with limited_link(tuple(target), **options) as address:  # type: ignore[arg-type]
        print(json.dumps({"address": address}), flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until the parent ends


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
