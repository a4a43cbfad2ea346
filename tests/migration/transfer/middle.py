"""A host between two others that can change, drop, repeat and hold back frames."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from fastcep.migration.transfer.frames import CODE, HANDSHAKE, HEADER, MORE, Kind

#: Called with the type and the bytes of a frame; returns the bytes to send instead, or None to close the connection.
Change = Callable[[Kind, bytes], bytes | None]


def unchanged(kind: Kind, data: bytes) -> bytes:
    return data


class Middle:
    """Accepts one connection at `address`, and connects it to another address, frame by frame."""

    def __init__(self, target: tuple[str, int], from_old: Change = unchanged, from_new: Change = unchanged) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._target = target
        self.from_old: list[tuple[Kind, bytes]] = []
        self.from_new: list[tuple[Kind, bytes]] = []
        self._changes = from_old, from_new
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        old, _ = self._listener.accept()
        new = socket.create_connection(self._target)
        self._listener.close()
        pairs = ((old, new, self._changes[0], self.from_old), (new, old, self._changes[1], self.from_new))
        threads = [threading.Thread(target=self._pass_on, args=pair, daemon=True) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        old.close()
        new.close()

    @staticmethod
    def _pass_on(
        source: socket.socket, target: socket.socket, change: Change, record: list[tuple[Kind, bytes]]
    ) -> None:
        reader = source.makefile("rb")
        with suppress(OSError):
            while header := reader.read(HEADER.size):
                length, number = HEADER.unpack(header)
                kind = Kind(number & ~MORE)
                data = header + reader.read(length + (0 if kind in HANDSHAKE else CODE))
                record.append((kind, data))
                changed = change(kind, data)
                if changed is None:
                    break
                target.sendall(changed)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR if change is not unchanged else socket.SHUT_WR)


def only(kind: Kind, change: Callable[[bytes], bytes | None], number: int = 0) -> Change:
    """Change one frame of a type, by default the first."""
    count = 0

    def changed(found: Kind, data: bytes) -> bytes | None:
        nonlocal count
        if found != kind:
            return data
        count += 1
        return change(data) if count == number + 1 else data

    return changed


def flip(data: bytes, position: int, bit: int = 0) -> bytes:
    """Change a bit."""
    changed = bytearray(data)
    changed[position] ^= 1 << bit
    return bytes(changed)
