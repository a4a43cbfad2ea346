"""Decompressed bytes of files and of standard input, in blocks of complete rows."""

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
    "no_pieces", "regular", "work_through",
]  # fmt: skip

STDIN = "-"
HEAD = 1 << 16  # bytes inspected before reading starts
BLOCK = 1 << 20
LONGEST_ROW = 1 << 24
ZSTD_READ = 1 << 12  # bytes; a read that meets the end of a truncated file returns nothing, so reads are small
BOM = b"\xef\xbb\xbf"
#: Exceptions that reading a damaged file can raise.
DAMAGE = (OSError, EOFError, zlib.error, pa.ArrowException, UnicodeDecodeError)

Result = TypeVar("Result")


class _Joined(io.RawIOBase):
    """Bytes already read from a file, followed by the rest of the file. Closing it leaves the file open."""

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
    """Return the name of an input for messages."""
    return "standard input" if path == STDIN else path


class ByteStream:
    """Decompressed bytes of an input; text as UTF-8.

    Parameters
    ----------
    path
        Path of a file, or ``"-"``.

    Attributes
    ----------
    path, label
        The input, and its name for messages.
    compression
        ``"gzip"``, ``"zstd"`` or None, detected from the first bytes.
    magic
        The first 4 bytes.
    """

    #: True if rows are passed on when they arrive, instead of in blocks.
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
        self._decompress(self.magic, raw)

    def _decompress(self, head: bytes, raw: Any) -> None:
        """Read from `head` and then `raw`, which has ``read1``, and decompress."""
        source = io.BufferedReader(_Joined(head, raw))
        if self.compression == "gzip":
            self._read = gzip.GzipFile(fileobj=source).read1
        else:
            zstd: Any = pa.input_stream(source, compression="zstd")
            self._read = lambda size: zstd.read(min(size, ZSTD_READ))

    def decode(self, encoding: str) -> None:
        """Convert the text to UTF-8, without a byte order mark, from now on.

        Raises
        ------
        ValidationError
            If the encoding is unknown.
        """
        try:
            "".encode(encoding)  # rejects codecs that do not encode text
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
        """Return the first bytes, at least `size` unless the input is shorter. Reading returns them again."""
        parts, count = [self._held], len(self._held)
        try:
            while count < size and (part := self._next(size)):
                parts.append(part)
                count += len(part)
        except DAMAGE:
            if not any(b"\n" in part for part in parts):
                raise  # otherwise the rows before the damage are read first, and reading then fails again
        self._held = b"".join(parts)
        return self._held

    def peek_until(self, enough: Callable[[bytes], bool]) -> bytes:
        """Return first bytes that are `enough`, at most all or `LONGEST_ROW`. Reading returns them again."""
        head = self.peek()
        return head if enough(head) else self.peek(LONGEST_ROW)

    def read(self, size: int) -> bytes:
        """Return the next bytes, empty at the end.

        Raises
        ------
        OSError, EOFError, zlib.error, pyarrow.ArrowException, UnicodeDecodeError
            If the file is damaged at this position.
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
        """Copy all bytes to a temporary file, for formats that must seek. `close` deletes it."""
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
    """Complete rows of text, or one row that cannot be read.

    Attributes
    ----------
    data
        The text.
    fault
        Reason why the row cannot be read, None for complete rows.
    line
        Number of the first line in the file, from 1.
    """

    data: bytes
    fault: str | None = None
    line: int = 1


class Cutter(Protocol):
    """Finds the ends of rows."""

    def cut(self, data: bytes) -> int:
        """Return the length of the complete rows at the start."""
        ...

    def unclosed(self, data: bytes) -> int | None:
        """Return the start of a row that does not end in this data, None if there is none."""
        ...


def blocks(stream: ByteStream, cutter: Cutter, skip: int = 0, line: int = 1) -> Iterator[Block]:
    """Cut a stream into blocks of complete rows, of about `BLOCK` bytes, or for a prompt stream as they arrive.

    Parameters
    ----------
    stream
        The bytes; closed at the end.
    cutter
        Finds the ends of rows.
    skip
        Number of bytes to skip at the start.
    line
        Number of the first line after the skipped bytes.

    Raises
    ------
    OSError, EOFError, zlib.error, pyarrow.ArrowException
        If the file is damaged, after the rows before the damage.
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
            data = yield from _complete_rows(data, cutter)
            if (ended and failure is None) or len(data) > LONGEST_ROW:
                data = yield from _unfinished_rows(data, cutter, ended)
            parts, count = [data], len(data)
            enough = max(BLOCK, min(2 * count, LONGEST_ROW + 1))  # avoids scanning a long row again for each part
        if failure is not None:
            raise failure
    finally:
        stream.close()


def _complete_rows(data: bytes, cutter: Cutter) -> Generator[Block, None, bytes]:
    """Yield complete rows, in blocks of at most `BLOCK` bytes unless a row is longer. Return the remaining bytes."""
    size = BLOCK
    while len(data) > size:
        length = cutter.cut(data[:size])
        if length:
            yield Block(data[:length])
            data = data[length:]
        size = BLOCK if length else 2 * size
    if length := cutter.cut(data):
        yield Block(data[:length])
    return data[length:]


def _unfinished_rows(data: bytes, cutter: Cutter, ended: bool) -> Generator[Block, None, bytes]:
    """Yield rows that do not end: a line with an open quote as a bad row, and the rows after it. Return the rest."""
    while (start := cutter.unclosed(data)) is not None:
        yield from _complete_rows(data[:start], cutter)
        end = data.find(b"\n", start) + 1 or len(data)
        yield Block(data[start:end], "a quote that is never closed")
        data = yield from _complete_rows(data[end:], cutter)
    if len(data) > LONGEST_ROW:
        raise pa.ArrowInvalid(f"a row is longer than {LONGEST_ROW >> 20} MiB")
    if data and ended:
        yield Block(data)
        return b""
    return data


def work_through(stream: ByteStream, blocks: Iterator[Block], work: Callable[[Block], Result]) -> Iterator[Result]:
    """Apply a function to the blocks of a stream in threads, ahead of the consumer; yield the results in order.

    Parameters
    ----------
    stream
        Stream of the blocks. A file is read ahead too. A pipe is not, because a read can block for a long time. A
        prompt stream is processed block by block without threads.
    blocks
        The blocks.
    work
        Function of one block.

    Raises
    ------
    Exception
        Any exception of `blocks` or `work`, after the results before it.
    """
    return _sequentially(blocks, work) if stream.prompt else _ahead(blocks, work, regular(stream.path))


def _sequentially(blocks: Iterator[Block], work: Callable[[Block], Result]) -> Iterator[Result]:
    try:
        yield from map(work, blocks)
    finally:
        blocks.close()  # type: ignore[attr-defined]  # a generator


def _ahead(blocks: Iterator[Block], work: Callable[[Block], Result], background: bool) -> Iterator[Result]:
    with ThreadPoolExecutor(3) as pool:
        queue: deque[Future[Result]] = deque()
        failure: Exception | None = None
        ended = False
        reading = pool.submit(next, blocks, None) if background else None
        try:
            while queue or not ended:
                while not ended and len(queue) < 3:
                    try:
                        block = next(blocks, None) if reading is None else reading.result()
                    except Exception as error:
                        failure, block = error, None
                    ended = block is None
                    if block is not None:
                        reading = pool.submit(next, blocks, None) if background else None
                        queue.append(pool.submit(work, block))
                if queue:
                    yield queue.popleft().result()
            if failure is not None:
                raise failure
        finally:
            for task in queue:
                task.cancel()
            if reading is not None and not reading.cancel():
                reading.exception()  # wait: a running generator cannot be closed
            blocks.close()  # type: ignore[attr-defined]  # a generator


def no_pieces() -> Iterator[Any]:
    """Yield nothing, for an empty input."""
    yield from ()


def regular(path: str) -> bool:
    """Return whether a path is a regular file, which can be opened again and mapped into memory."""
    return path != STDIN and Path(path).is_file()
