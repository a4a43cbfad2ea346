"""The wire format of partial states: an Arrow record batch with one row per entry of a table of the state.

==========  ==============  ==========================================================================================
``state``   uint32          number of the partial state that the entry was sent for
``table``   uint16          number of its table, in the order of the base's list; `FRAME`: the first row of a batch
``entry``   uint32          number of the entry in its table
``words``   list of int64   the entry: integers, the bits of floats, numbers of texts
``texts``   list of string  the texts whose numbers are among the words, in the order of the words
==========  ==============  ==========================================================================================

A list has 4 bytes for its offset, and a text has 4 bytes for its offset. The first row of a batch is a frame: its words
are the digest of the base and the number of the batch, so that a batch of another partition, or one out of order, is
rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.errors import SnapshotError, ValidationError
from fastcep.migration.states import Ints

__all__ = ["FIXED", "FRAME", "SCHEMA", "Received", "Table", "encode_entries", "read_batch"]

Flags = npt.NDArray[np.bool_]

SCHEMA = pa.schema([
    pa.field("state", pa.uint32(), nullable=False),
    pa.field("table", pa.uint16(), nullable=False),
    pa.field("entry", pa.uint32(), nullable=False),
    pa.field("words", pa.list_(pa.field("word", pa.int64(), nullable=False)), nullable=False),
    pa.field("texts", pa.list_(pa.field("text", pa.string(), nullable=False)), nullable=False),
])  # fmt: skip
FRAME = 0xFFFF
FIXED = 4 + 2 + 4 + 4 + 4  #: bytes of an entry without words and texts
_OFFSET, _WORD = 4, 8
_MOST = np.iinfo(np.int32).max  # words or texts of a batch, because offsets have 32 bits
_REMEDY = "Send the migration again from the beginning"


@dataclass(eq=False)
class Table:
    """A table of the state whose entries are sent with partial states.

    Attributes
    ----------
    words
        int64[rows, entries]: the entries.
    texts
        Rows that have numbers of texts, and the mask of their entries (None: all), in the order of the rows.
    sent
        bool[entries]: entries that have been sent.
    """

    words: Ints
    texts: list[tuple[int, Flags | None]] = field(default_factory=list)
    sent: Flags = field(init=False)

    def __post_init__(self) -> None:
        self.texts.sort(key=lambda item: item[0])
        self.sent = np.zeros(self.words.shape[1], np.bool_)

    def sizes(self, lengths: Ints) -> Ints:
        """Return the bytes of each entry as sent; ``lengths`` has the bytes of each text."""
        size = np.full(self.words.shape[1], FIXED + _WORD * self.words.shape[0], np.int64)
        for row, mask in self.texts:
            used = slice(None) if mask is None else mask
            size[used] += _OFFSET + lengths[self.words[row][used]]
        return size

    def text_numbers(self, entries: Ints) -> tuple[Ints, Ints]:
        """Return the numbers of the texts of some entries, one entry after the other, and how many each entry has."""
        if not self.texts:
            return np.empty(0, np.int64), np.zeros(len(entries), np.int64)
        used = np.stack([np.full(len(entries), True) if mask is None else mask[entries] for _, mask in self.texts])
        numbers = self.words[[row for row, _ in self.texts]][:, entries]
        return numbers.T[used.T], used.sum(axis=0)


def encode_entries(
    frame: tuple[int, int], chunks: Sequence[tuple[int, Table, Ints, Ints]], texts: Any, states: int
) -> bytes:
    """Write entries as a record batch.

    Parameters
    ----------
    frame
        Digest of the base, number of the batch.
    chunks
        Number of a table, the table, the entries to write, and the state of each.
    texts
        Arrow array of all texts of the state.
    states
        Number of states, for the error.

    Raises
    ------
    ValidationError
        If there are too many words for one batch.
    """
    numbers, tables, entries, words, counts, used, uses = ([] for _ in range(7))  # type: ignore[var-annotated]
    for number, table, selected, of_state in [(FRAME, _frame(*frame), np.zeros(1, np.int64), np.zeros(1)), *chunks]:
        numbers.append(of_state)
        tables.append(np.full(len(selected), number))
        entries.append(selected)
        words.append(np.ascontiguousarray(table.words[:, selected].T).ravel())
        counts.append(np.full(len(selected), table.words.shape[0]))
        for out, values in zip((used, uses), table.text_numbers(selected), strict=True):
            out.append(values)
    ends = [np.concatenate([[0], *lengths]).cumsum() for lengths in (counts, uses)]
    if max(int(end[-1]) for end in ends) > _MOST:
        raise ValidationError(
            f"{states:,} states have more than {_MOST:,} words, which is too much for one batch; encode fewer at once"
        )
    word_ends, text_ends = (pa.array(end, pa.int32()) for end in ends)
    lists = [
        pa.ListArray.from_arrays(word_ends, pa.array(np.concatenate(words)), type=SCHEMA.field("words").type),
        pa.ListArray.from_arrays(
            text_ends, texts.take(pa.array(np.concatenate(used))), type=SCHEMA.field("texts").type
        ),
    ]
    columns = [
        pa.array(np.concatenate(values), kind)
        for values, kind in ((numbers, pa.uint32()), (tables, pa.uint16()), (entries, pa.uint32()))
    ]
    return bytes(pa.record_batch([*columns, *lists], schema=SCHEMA).serialize())


def _frame(digest: int, number: int) -> Table:
    return Table(np.array([[digest], [number]], np.int64))


@dataclass(frozen=True, eq=False)
class Received:
    """The entries of a batch, without the frame.

    Attributes
    ----------
    states, tables, entries
        int64[n]: columns of the batch.
    words, starts
        All words, and the place of the first word of each entry: int64[n + 1].
    texts, text_starts
        The same for the texts; the texts are an Arrow array.
    """

    states: Ints
    tables: Ints
    entries: Ints
    words: Ints
    starts: Ints
    texts: Any
    text_starts: Ints

    def table(self, rows: Ints, width: int) -> Ints:
        """Return the words of some entries, which all have this number of words: int64[width, rows]."""
        return np.ascontiguousarray(self.words[self.starts[rows] + np.arange(width)[:, None]])

    def texts_of(self, rows: Ints) -> Any:
        """Return the texts of some entries, one entry after the other, as an Arrow array."""
        counts = self.text_starts[rows + 1] - self.text_starts[rows]
        first = np.repeat(self.text_starts[rows] - (np.cumsum(counts) - counts), counts)
        return self.texts.take(pa.array(first + np.arange(len(first))))


def read_batch(data: bytes | memoryview, digest: int, number: int) -> Received:
    """Read a record batch, and check its frame.

    Raises
    ------
    SnapshotError
        If it is not such a batch, or not the expected one.
    """
    try:
        buffer = pa.py_buffer(data)
        batch: Any = pa.ipc.read_record_batch(buffer, SCHEMA)
        batch.validate(full=True)
        if batch.serialize().size != buffer.size:
            raise ValueError(f"{buffer.size:,} bytes instead of {batch.serialize().size:,}")
        if any(column.null_count for column in (*batch.columns, batch["words"].values, batch["texts"].values)):
            raise ValueError("a null")
    except (pa.ArrowException, ValueError, TypeError, LookupError, OverflowError, OSError, EOFError) as error:
        raise SnapshotError(
            f"found data that is not a record batch of partial states ({error}), expected a result of "
            f"PartialStates.encode. {_REMEDY}"
        ) from None
    states, tables, entries = (np.asarray(batch[name], np.int64) for name in ("state", "table", "entry"))
    words, texts = batch["words"], batch["texts"]
    starts, text_starts = (np.asarray(lists.offsets, np.int64) for lists in (words, texts))
    received = Received(
        states[1:], tables[1:], entries[1:], np.asarray(words.values), starts[1:], texts.values, text_starts[1:]
    )
    frame = received.words[starts[0] : starts[1]].tolist() if batch.num_rows else []
    if not batch.num_rows or tables[0] != FRAME or len(frame) != 2 or frame[0] != digest:
        raise SnapshotError(f"the batch belongs to another base than this one. {_REMEDY}")
    if frame[1] != number:
        raise SnapshotError(
            f"found batch {frame[1]} of the partial states, expected batch {number}: every batch must be added once, "
            "in the order of the calls of encode"
        )
    return received
