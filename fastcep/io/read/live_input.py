"""Standard input as it comes: complete rows that have arrived are handed on at once, and silence is noticed."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from dataclasses import dataclass

from fastcep.errors import ValidationError
from fastcep.io.formats import compression_of
from fastcep.io.read.streams import BLOCK, HEAD, LONGEST_ROW, STDIN, ByteStream, label_of

__all__ = ["Live", "LiveStream"]

TELLING = 8  # bytes that tell the format


@dataclass(frozen=True)
class Live:
    """How to wait for standard input.

    Attributes
    ----------
    wait
        Seconds of silence after which `on_quiet` is called, again and again.
    on_quiet
        Called while the iteration waits for input.
    """

    wait: float
    on_quiet: Callable[[], None]


class LiveStream(ByteStream):
    """Standard input, given as it arrives.

    Raises
    ------
    ValidationError
        If it is no file of the system, or compressed.
    """

    prompt = True

    def __init__(self, live: Live) -> None:
        self.path, self.label = STDIN, label_of(STDIN)
        try:
            self._number = sys.stdin.fileno()
        except (AttributeError, ValueError, OSError):
            raise ValidationError(
                f"{self.label} cannot be waited for: it is not connected to a file or a pipe"
            ) from None
        self._live = live
        self._close = lambda: None
        self._read = self._arrived
        self._decoder = None
        self._held = b""
        self.magic = self.peek(4)[:4]
        self.compression = compression_of(self.magic)
        if self.compression is not None:
            raise ValidationError(f"{self.label} cannot be waited for: it is compressed; decompress it before the pipe")

    def _arrived(self, size: int) -> bytes:
        """Wait for more, and give all that is there."""
        while not select.select([self._number], [], [], self._live.wait)[0]:
            self._live.on_quiet()
        parts = [os.read(self._number, size)]
        count = len(parts[0])
        while parts[-1] and count < size and select.select([self._number], [], [], 0)[0]:
            parts.append(os.read(self._number, size - count))
            count += len(parts[-1])
        return b"".join(parts)

    def peek(self, size: int = HEAD) -> bytes:
        """Give what has arrived: at least a line or as many bytes as tell a format, fewer if `size` is less."""
        return self.peek_until(lambda head: len(head) >= min(size, TELLING) or b"\n" in head.lstrip())

    def peek_until(self, enough: Callable[[bytes], bool]) -> bytes:
        """Wait for first bytes that are `enough`; reading will give them again."""
        while not enough(self._held) and len(self._held) < LONGEST_ROW and (part := self._next(BLOCK)):
            self._held += part
        return self._held
