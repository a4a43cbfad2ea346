"""Bytes of files and of standard input, decompressed, in blocks of whole rows."""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.io.formats import compression_of
from fastcep.io.read.lines import line_ends

__all__ = [
    "BLOCK", "DAMAGE", "HEAD", "LONGEST_ROW", "STDIN", "Block", "ByteStream", "Cutter", "blocks", "label_of",
    "nothing", "regular", "work_through",
]  # fmt: skip

STDIN = "-"
HEAD = 1 << 16  # bytes looked at before reading starts
BLOCK = 1 << 20
LONGEST_ROW = 1 << 24
SLICE = 1 << 12  # zstd gives nothing of a read that meets the end of a file cut off, so reads are small
BOM = b"\xef\xbb\xbf"
#: What reading a damaged file raises.
DAMAGE = (OSError, EOFError, zlib.error, pa.ArrowException, UnicodeDecodeError)

Result = TypeVar("Result")


class _Joined(io.RawIOBase):
    """Bytes read already, and the file that they were read from; closing it does not close the file."""

    def __init__(self, head: bytes, tail: Any) -> None:
        self._head, self._tail = head, tail

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        size = len(target)
        if self._head:
            part, self._head = self._head[:size], self._head[size:]
        else:
            part = self._tail.read1(size)
        target[: len(part)] = part
        return len(part)


def label_of(path: str) -> str:
    """Return how messages call an input."""
    return "standard input" if path == STDIN else path


class ByteStream:
    """The bytes of an input, decompressed; of text, in UTF-8.

    Parameters
    ----------
    path
        A file, or ``"-"``.

    Attributes
    ----------
    path, label
        The input, and how messages call it.
    compression
        ``"gzip"``, ``"zstd"`` or None, by its first bytes.
    magic
        These first bytes.
    """

    #: Whether rows are handed on when they arrive, instead of in blocks.
    prompt = False

    def __init__(self, path: str) -> None:
        self.path, self.label = path, label_of(path)
        raw: Any = sys.stdin.buffer if path == STDIN else open(path, "rb")  # noqa: SIM115  # closed by close()
        self._close: Callable[[], None] = (lambda: None) if path == STDIN else raw.close
        self.magic: bytes = raw.read(4)
        self.compression = compression_of(self.magic)
        self._decoder: codecs.IncrementalDecoder | None = None
        self._held = b""
        self._read: Callable[[int], bytes]
        if self.compression is None:
            self._held, self._read = self.magic, raw.read1
            return
        source = io.BufferedReader(_Joined(self.magic, raw))
        if self.compression == "gzip":
            self._read = gzip.GzipFile(fileobj=source).read1
        else:
            zstd: Any = pa.input_stream(source, compression="zstd")
            self._read = lambda size: zstd.read(min(size, SLICE))

    def decode(self, encoding: str) -> None:
        """From now on give text, converted to UTF-8 and without a mark of byte order.

        Raises
        ------
        ValidationError
            If there is no such encoding.
        """
        try:
            "".encode(encoding)  # refuses what is no encoding of text
            if codecs.lookup(encoding).name != "utf-8":
                self._decoder = codecs.getincrementaldecoder(encoding)()
        except LookupError:
            raise ValidationError(
                f"unknown encoding {encoding!r}; expected a name such as 'utf-8' or 'latin-1'"
            ) from None
        if self._decoder is not None:
            self._held = self._decoder.decode(self._held).encode()
        self._held = self.peek(len(BOM)).removeprefix(BOM)

    def peek(self, size: int = HEAD) -> bytes:
        """Give the first bytes, `size` at least if there are so many; reading will give them again."""
        parts, count = [self._held], len(self._held)
        try:
            while count < size and (part := self._next(size)):
                parts.append(part)
                count += len(part)
        except DAMAGE:
            if not any(b"\n" in part for part in parts):
                raise  # else the rows that there are of a damaged file are read; then the damage is met again
        self._held = b"".join(parts)
        return self._held

    def peek_until(self, enough: Callable[[bytes], bool]) -> bytes:
        """Give first bytes that are `enough`, or all of them, or very many; reading will give them again."""
        head = self.peek()
        return head if enough(head) else self.peek(LONGEST_ROW)

    def read(self, size: int) -> bytes:
        """Give some more bytes, none at the end.

        Raises
        ------
        OSError, EOFError, zlib.error, pyarrow.ArrowException, UnicodeDecodeError
            If the file is damaged here.
        """
        if self._held:
            held, self._held = self._held, b""
            return held
        return self._next(size)

    def _next(self, size: int) -> bytes:
        part = self._read(size)
        if self._decoder is None:
            return bytes(part)
        text = self._decoder.decode(part, not part)
        while part and not text:  # half a character
            part = self._read(size)
            text = self._decoder.decode(part, not part)
        return text.encode()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._close()

    def spool(self) -> Any:
        """Copy all bytes to a temporary file, for formats that must seek; `close` closes and deletes it."""
        target = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close()
        try:
            while part := self.read(BLOCK):
                target.write(part)
        finally:
            self.close()
            self._close = target.close
        target.seek(0)
        return target


@dataclass(frozen=True)
class Block:
    """Whole rows of text; or, where `fault` says what is wrong with it, one row that cannot be read.

    ``line`` is the number of its first line in the file, from 1.
    """

    data: bytes
    fault: str | None = None
    line: int = 1


class Cutter(Protocol):
    """Knows where rows end."""

    def cut(self, data: bytes) -> int:
        """Return how many first bytes are whole rows."""
        ...

    def unclosed(self, data: bytes) -> int | None:
        """Return where a row starts that never ends although there is no more data, None if there is none."""
        ...


def blocks(stream: ByteStream, cutter: Cutter, skip: int = 0, line: int = 1) -> Iterator[Block]:
    """Cut a stream into blocks of whole rows, about `BLOCK` long, or of a prompt stream as they arrive.

    Rows before a damage come before its error.

    Parameters
    ----------
    stream
        The bytes; it is closed in the end.
    cutter
        Knows where rows end.
    skip
        Bytes to leave out at the start.
    line
        Number of the first line behind them.

    Raises
    ------
    OSError, EOFError, zlib.error, pyarrow.ArrowException
        If the file is damaged, after the rows before.
    """
    for block in _blocks(stream, cutter, skip):
        yield replace(block, line=line)
        line += len(line_ends(block.data))


def _blocks(stream: ByteStream, cutter: Cutter, skip: int) -> Iterator[Block]:
    parts: list[bytes] = []
    count, enough = 0, BLOCK
    failure: Exception | None = None
    ended = False
    try:
        while not ended:
            try:
                part = stream.read(BLOCK)
                ended = not part
            except DAMAGE as error:
                failure, ended, part = error, True, b""
            parts.append(part)
            count += len(part)
            if count < enough and not ended and not stream.prompt:
                continue
            data = b"".join(parts)[skip:]
            skip = 0
            data = yield from _whole_rows(data, cutter)
            if (ended and failure is None) or len(data) > LONGEST_ROW:
                data = yield from _rest(data, cutter, ended)
            parts, count = [data], len(data)
            enough = max(BLOCK, min(2 * count, LONGEST_ROW + 1))  # a long row is not looked through again for each part
        if failure is not None:
            raise failure
    finally:
        stream.close()


def _whole_rows(data: bytes, cutter: Cutter) -> Generator[Block, None, bytes]:
    """Give the whole rows, in blocks of no more than `BLOCK` unless a row is longer. Return the rest."""
    size = BLOCK
    while len(data) > size:
        whole = cutter.cut(data[:size])
        if whole:
            yield Block(data[:whole])
            data = data[whole:]
        size = BLOCK if whole else 2 * size
    if whole := cutter.cut(data):
        yield Block(data[:whole])
    return data[whole:]


def _rest(data: bytes, cutter: Cutter, ended: bool) -> Generator[Block, None, bytes]:
    """Give blocks of rows that do not end: a line with an open quote is bad, the next a new row. Return the rest."""
    while (start := cutter.unclosed(data)) is not None:
        yield from _whole_rows(data[:start], cutter)
        end = data.find(b"\n", start) + 1 or len(data)
        yield Block(data[start:end], "a quote that is never closed")
        data = yield from _whole_rows(data[end:], cutter)
    if len(data) > LONGEST_ROW:
        raise pa.ArrowInvalid(f"a row is longer than {LONGEST_ROW >> 20} MiB")
    if data and ended:
        yield Block(data)
        return b""
    return data


def work_through(stream: ByteStream, items: Iterator[Block], work: Callable[[Block], Result]) -> Iterator[Result]:
    """Map the blocks of a stream to results in order, some of them ahead of the consumer in threads.

    Parameters
    ----------
    stream
        Where the blocks are from. A file is read ahead too, a pipe is not, since it may block for long; and of a
        prompt stream nothing waits for what comes later.
    items
        The blocks.
    work
        What to do with one.

    Raises
    ------
    Exception
        What `items` or `work` raise, at their turn.
    """
    return _at_once(items, work) if stream.prompt else _ahead(items, work, regular(stream.path))


def _at_once(items: Iterator[Block], work: Callable[[Block], Result]) -> Iterator[Result]:
    try:
        yield from map(work, items)
    finally:
        items.close()  # type: ignore[attr-defined]  # a generator


def _ahead(items: Iterator[Block], work: Callable[[Block], Result], background: bool) -> Iterator[Result]:
    with ThreadPoolExecutor(3) as pool:
        queue: deque[Future[Result]] = deque()
        failure: Exception | None = None
        ended = False
        reading = pool.submit(next, items, None) if background else None
        try:
            while queue or not ended:
                while not ended and len(queue) < 3:
                    try:
                        block = next(items, None) if reading is None else reading.result()
                    except Exception as error:
                        failure, block = error, None
                    ended = block is None
                    if block is not None:
                        reading = pool.submit(next, items, None) if background else None
                        queue.append(pool.submit(work, block))
                if queue:
                    yield queue.popleft().result()
            if failure is not None:
                raise failure
        finally:
            for task in queue:
                task.cancel()
            if reading is not None and not reading.cancel():
                reading.exception()  # wait: a generator that runs cannot be closed
            items.close()  # type: ignore[attr-defined]  # a generator


def nothing() -> Iterator[Any]:
    """Give no pieces."""
    yield from ()


def regular(path: str) -> bool:
    """Return whether a path is a file that can be opened again and mapped, unlike a pipe."""
    return path != STDIN and Path(path).is_file()
