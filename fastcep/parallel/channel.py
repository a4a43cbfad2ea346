"""Messages between the engine and its instances: a small header, and data in memory that both map.

A message is one packet of a local socket, with the header as JSON. Data (events, matches) is written once as Arrow IPC
streams to an anonymous memory file, whose descriptor goes with the packet. Instances map the memory and read the events
without a copy. The files have no names, so nothing remains of them when the processes end, however they end.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import select
import socket
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

__all__ = ["PAUSE", "Channel", "SharedMemoryError", "packed", "unpacked"]

#: Seconds until a message is tried again that the system cannot take, see `Channel.send`.
PAUSE = 0.01

#: Largest packet in bytes, and size of the socket's buffer. Headers are far smaller; long texts travel as data.
_PACKET, _BUFFER = 1 << 16, 1 << 20


#: The channels of this process.
_OPEN: weakref.WeakSet[Channel] = weakref.WeakSet()


class SharedMemoryError(MemoryError):
    """The system has no memory for the data of a message, or no descriptor for it."""

    def __init__(self, action: str, number: int) -> None:
        remedy = "use smaller batches or a smaller queue_limit"
        if number in (errno.EMFILE, errno.ENFILE):
            remedy = "close files or raise the limit of open files (ulimit -n)"
        super().__init__(f"cannot {action} shared memory: {os.strerror(number)}; {remedy}")


def packed(tables: Sequence[pa.Table]) -> pa.Buffer:
    """Return tables as consecutive Arrow IPC streams."""
    sink = pa.BufferOutputStream()
    for table in tables:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


def unpacked(data: Any, count: int) -> list[pa.Table]:
    """Return the tables of `packed`, as views of the data."""
    source = pa.BufferReader(pa.py_buffer(data))
    return [pa.ipc.open_stream(source).read_all() for _ in range(count)]


class Channel:
    """One end of a connection.

    Parameters
    ----------
    connection
        Local socket that keeps the bounds of packets.
    maps
        Map the data that is received; otherwise copy it. A mapping holds a descriptor, of which there are few, so it is
        for data that is soon dropped.

    Attributes
    ----------
    is_crowded
        Whether the last message could not be sent because too many with data have not been received.
    """

    def __init__(self, connection: socket.socket, *, maps: bool) -> None:
        self._socket, self._maps = connection, maps
        self.is_crowded = False
        _OPEN.add(self)

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Return both ends of a new connection; sending through the first one never waits."""
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        ends[0].setblocking(False)
        return cls(ends[0], maps=False), cls(ends[1], maps=True)

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    def send(self, header: dict[str, Any], data: pa.Buffer | bytes | None = None) -> bool:
        """Send a message; return False if others have to be received first.

        These are those in this channel, or, if it `is_crowded`, all with data that processes of this user have sent:
        Linux limits their number to that of the files that a process may open.

        Raises
        ------
        ConnectionError
            If the other end is closed.
        SharedMemoryError
            If the system has no memory for the data, or no descriptor for it.
        """
        self.is_crowded = False
        packet = json.dumps(header | ({} if data is None else {"bytes": len(memoryview(data))})).encode()
        memory = None if data is None else _memory_file(data)
        try:
            socket.send_fds(self._socket, [packet], [] if memory is None else [memory])
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            self.is_crowded = True
            return False
        finally:
            if memory is not None:
                os.close(memory)
        return True

    def send_in_time(self, header: dict[str, Any], data: pa.Buffer | bytes | None = None) -> None:
        """Send a message, and wait until that is possible; errors as for `send`."""
        while not self.send(header, data):
            poll = select.poll()
            poll.register(self._socket, 0)  # reports if the other end is closed
            if poll.poll(1e3 * PAUSE):
                raise ConnectionResetError("the other end is closed")

    def receive(self) -> tuple[dict[str, Any], Any] | None:
        """Receive a message, its header and its data; None if the other end is closed.

        Raises
        ------
        BlockingIOError
            If no message has come, and the channel does not wait.
        SharedMemoryError
            If the process has no descriptor for the data. The message is lost.
        """
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._socket, _PACKET, 1)
        except ConnectionError:
            return None
        if not packet:
            return None
        header = json.loads(packet)
        if not descriptors:
            if "bytes" in header:  # Linux drops a descriptor for which the process has no number
                raise SharedMemoryError(f"get {header['bytes']:,} bytes from", errno.EMFILE)
            return header, None
        try:
            if self._maps:
                return header, mmap.mmap(descriptors[0], header["bytes"], prot=mmap.PROT_READ)
            with open(descriptors[0], "rb", closefd=False) as file:
                file.seek(0)
                return header, file.read()
        finally:
            os.close(descriptors[0])

    def close(self) -> None:
        """Close this end."""
        with suppress(OSError):
            self._socket.close()


def _memory_file(data: pa.Buffer | bytes) -> int:
    """Return the descriptor of an anonymous file in memory with this content, at least one byte."""
    descriptor, view = -1, memoryview(data)
    try:
        descriptor = os.memfd_create("fastcep")
        rest = view
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        raise SharedMemoryError(f"put {len(view):,} bytes into", error.errno or 0) from None
    return descriptor


def _close_all() -> None:
    for channel in list(_OPEN):
        channel.close()


if hasattr(os, "register_at_fork"):  # a forked process must not keep the connections of its parent open
    os.register_at_fork(after_in_child=_close_all)
