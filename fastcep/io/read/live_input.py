"""Live standard input: complete rows are passed on as soon as they arrive, and a callback runs during silence."""

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

FORMAT_BYTES = 8  # enough to detect the format


@dataclass(frozen=True)
class Live:
    """Options for waiting on standard input.

    Attributes
    ----------
    wait
        Seconds of silence before each call of `on_quiet`.
    on_quiet
        Called repeatedly while the iteration waits for input.
    """

    wait: float
    on_quiet: Callable[[], None]


class LiveStream(ByteStream):
    """Standard input, returned as it arrives.

    Raises
    ------
    ValidationError
        If it is not a file or pipe of the operating system, or is compressed.
    """

    prompt = True

    def __init__(self, live: Live) -> None:
        self.path, self.label = STDIN, label_of(STDIN)
        try:
            self._descriptor = sys.stdin.fileno()
        except (AttributeError, ValueError, OSError):
            raise ValidationError(
                f"{self.label} cannot be read live: it is not connected to a file or a pipe"
            ) from None
        self._live = live
        self._close = lambda: None
        self._read = self._arrived
        self._decoder = None
        self._held = b""
        self.magic = self.peek(4)[:4]
        self.compression = compression_of(self.magic)
        if self.compression is not None:
            raise ValidationError(f"{self.label} cannot be read live: it is compressed; decompress it before the pipe")

    def _arrived(self, size: int) -> bytes:
        """Wait for input, and return all that has arrived, up to `size` bytes."""
        while not select.select([self._descriptor], [], [], self._live.wait)[0]:
            self._live.on_quiet()
        parts = [os.read(self._descriptor, size)]
        count = len(parts[0])
        while parts[-1] and count < size and select.select([self._descriptor], [], [], 0)[0]:
            parts.append(os.read(self._descriptor, size - count))
            count += len(parts[-1])
        return b"".join(parts)

    def peek(self, size: int = HEAD) -> bytes:
        """Return what has arrived: at least a line, `FORMAT_BYTES` bytes, or `size` bytes. Reading returns it again."""
        return self.peek_until(lambda head: len(head) >= min(size, FORMAT_BYTES) or b"\n" in head.lstrip())

    def peek_until(self, enough: Callable[[bytes], bool]) -> bytes:
        """Wait until the first bytes are `enough`, and return them. Reading returns them again."""
        while not enough(self._held) and len(self._held) < LONGEST_ROW and (part := self._next(BLOCK)):
            self._held += part
        return self._held
