"""Piece of a stream: its events, those to count, and its explicit windows.

Windows are found by `WindowBounds`, as in the engine; see SEMANTICS, Window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.input.batch import Batch
from fastcep.engine.constant_binding import ConstantBinder
from fastcep.engine.windows import WindowBounds
from fastcep.errors import ValidationError
from fastcep.events import EventBatch, StringTable
from fastcep.events.batch import as_table, plain_table
from fastcep.plan import Plan
from fastcep.plan.plan import AFTER_EVENTS, AFTER_TIME
from fastcep.query import ast
from fastcep.shedding.options import as_count

__all__ = ["Ints", "Piece", "Spans", "chunks", "piece_of"]

Ints = npt.NDArray[np.int64]

_PAIRS = 1 << 21  # pairs of a window and an item in it that are in memory at a time
_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Piece:
    """Consecutive events of a stream, some of which the piece owns.

    Attributes
    ----------
    events, batch
        The events as given, and read into a batch.
    strings
        String table of the codes in the batch.
    first, last
        Range of owned positions: ``first`` is included, ``last`` is not.
    head, head_owned
        Skipped events before these, which lie in no window, and the range of owned positions among them.
    """

    events: pa.Table
    batch: EventBatch
    strings: StringTable
    first: int
    last: int
    head: pa.Table
    head_owned: tuple[int, int] = (0, 0)

    def __len__(self) -> int:
        return len(self.batch)

    def owns(self, positions: Ints) -> npt.NDArray[np.bool_]:
        """Return a mask of the positions that it owns."""
        return (positions >= self.first) & (positions < self.last)

    def positions(self, numbers: Ints) -> Ints:
        """Return the positions in the piece of sequence numbers."""
        return numbers if self.batch.sequence is None else np.searchsorted(self.batch.sequence, numbers)


def piece_of(caller: str, query: ast.Query, events: Any, owned: tuple[int, int] | None, base: int) -> Piece:
    """Read a piece that is preceded by `base` events of the stream.

    Windows that open EVERY n EVENTS are counted from the start of the stream, so events before the first of them are
    skipped.
    """
    as_count(caller, "base", base, least=0)
    table, strings = as_table(events, "events"), StringTable()
    batch = EventBatch.from_data(query.schema, table, strings, "events")
    table = plain_table(table)
    first, last = _range(caller, owned, len(batch))
    opening = query.window.opening.events if isinstance(query.window, ast.ExplicitWindow) else None
    skipped = min(-base % opening, len(batch)) if opening else 0
    if not skipped:
        return Piece(table, batch, strings, first, last, table.slice(0, 0))
    row = batch.row(skipped) if skipped < len(batch) else len(table)
    return Piece(
        table.slice(row), batch.slice(skipped, len(batch)), strings, max(0, first - skipped), max(0, last - skipped),
        table.slice(0, row), (min(first, skipped), min(last, skipped)),
    )  # fmt: skip


def _range(caller: str, owned: tuple[int, int] | None, n: int) -> tuple[int, int]:
    if owned is None:
        return 0, n
    try:
        first, last = (int(at) for at in owned)
    except (TypeError, ValueError):
        first, last = -1, -1
    if not 0 <= first <= last <= n:
        raise ValidationError(
            f"{caller}: owned={owned!r}; expected two positions (first, last) in the piece, from 0 to {n:,}; "
            "last is the position after the last owned event"
        )
    return first, last


@dataclass(frozen=True)
class Spans:
    """Explicit windows that open in a piece, ordered by opening event.

    Attributes
    ----------
    opens, lasts
        Positions of the first and the last event of each window: int64[windows]. Windows still open end with the piece.
    """

    opens: Ints
    lasts: Ints

    @classmethod
    def of(cls, piece: Piece, plan: Plan) -> Spans:
        """Find the windows of a piece."""
        assert plan.windows is not None
        n, length = len(piece), plan.windows.length
        if n == 0:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64))
        link = ConstantBinder(piece.strings)
        link.prepare(plan.query)
        opens, _, closes, closed = WindowBounds(plan, link).find(Batch(piece.batch, 0), None)
        if plan.windows.closing == AFTER_EVENTS:
            return cls(opens, np.minimum(opens + (length - 1), n - 1))
        if plan.windows.closing == AFTER_TIME:
            times = piece.batch.time
            until = np.minimum(times[opens], _LAST - length) + length
            return cls(opens, np.searchsorted(times, until, "right") - 1)
        lasts = np.full(len(opens), n - 1, np.int64)
        if plan.windows.pairs is not None:  # each window is closed by its own event
            lasts[np.searchsorted(opens, closed)] = closes
        elif len(closes):
            closing = np.searchsorted(closes, opens, "right")
            ended = closing < len(closes)
            lasts[ended] = closes[closing[ended]]
        return cls(opens, lasts)

    def holding(self, starts: Ints, ends: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield pairs of an interval of positions (``starts`` to ``ends``) and a window that contains it, in chunks.

        Each chunk has the numbers of the intervals, ascending, and the last positions of the windows.
        """
        stop = np.searchsorted(self.opens, starts, "right")
        first = np.searchsorted(np.maximum.accumulate(self.lasts), ends)  # all earlier windows end before the interval
        for number, offset in chunks(np.maximum(stop - first, 0)):
            lasts = self.lasts[first[number] + offset]
            kept = lasts >= ends[number]
            yield number[kept], lasts[kept]


def chunks(counts: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield each number i paired with 0, 1, … below ``counts[i]``, in chunks; a number is never split."""
    before = np.concatenate([[0], np.cumsum(counts)])
    low = 0
    while low < len(counts):
        high = max(low + 1, int(np.searchsorted(before, before[low] + _PAIRS, "right")) - 1)
        number = np.repeat(np.arange(low, high), counts[low:high])
        yield number, np.arange(before[low], before[high]) - before[number]
        low = high
