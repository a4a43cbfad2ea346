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

__all__ = ["Live", "LiveStream", "standard_input"]

FORMAT_BYTES = 8  # enough to detect the format


@dataclass(frozen=True)
class Live:
    """Options for waiting on standard input.

    Attributes
    ----------
    wait
        Seconds of silence before each call of `on_quiet`; None: it is never called.
    on_quiet
        Called repeatedly while the iteration waits for input.
    """

    wait: float | None = None
    on_quiet: Callable[[], None] | None = None


@dataclass(frozen=True)
class _Arriving:
    """Reader of the bytes that have arrived."""

    read1: Callable[[int], bytes]


def standard_input(live: Live) -> ByteStream:
    """Open standard input; if it is not a file or pipe of the operating system, it is read in blocks.

    Raises
    ------
    ValidationError
        If `Live.on_quiet` could then not be called, or if input to be read during silence is compressed.
    """
    try:
        sys.stdin.fileno()
    except (AttributeError, ValueError, OSError):
        if live.wait is None:
            return ByteStream(STDIN)
        problem = "it is not connected to a file or a pipe"
        raise ValidationError(f"{label_of(STDIN)} cannot be read live: {problem}") from None
    return LiveStream(live)


class LiveStream(ByteStream):
    """Standard input, returned as it arrives.

    Raises
    ------
    ValidationError
        If it is compressed, with `Live.wait`.
    """

    prompt = True

    def __init__(self, live: Live) -> None:
        self.path, self.label = STDIN, label_of(STDIN)
        self._descriptor = sys.stdin.fileno()
        self._live = live
        self._close = lambda: None
        self._read = self._arrived
        self._decoder = None
        self._held = b""
        self.magic = self.peek(4)[:4]
        self.compression = compression_of(self.magic)
        if self.compression is not None:
            if live.wait is not None:
                problem = "it is compressed; decompress it before the pipe"
                raise ValidationError(f"{self.label} cannot be read live: {problem}")
            head, self._held = self._held, b""
            self._decompress(head, _Arriving(self._arrived))

    def _arrived(self, size: int) -> bytes:
        """Wait for input, and return all that has arrived, up to `size` bytes."""
        while not select.select([self._descriptor], [], [], self._live.wait)[0]:
            if self._live.on_quiet is not None:
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
