"""A piece of a stream, what of it is counted, and its explicit windows.

Windows are cut by what the engine cuts them by (`WindowBounds`), so that they are the same; SEMANTICS, Window.
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

_PAIRS = 1 << 21  # pairs of a window with something in it that are in memory at a time
_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Piece:
    """Events in the order of the stream.

    Attributes
    ----------
    events, batch
        As they came, and read.
    strings
        What the codes in the batch stand for.
    first, last
        It owns the events from the one position to before the other.
    head, head_owned
        What was left out before these events, and lies in no window, and of it the positions that are owned: from the
        one to before the other.
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
        """Which of the positions it owns."""
        return (positions >= self.first) & (positions < self.last)


def piece_of(who: str, query: ast.Query, events: Any, owned: tuple[int, int] | None, base: int) -> Piece:
    """Read a piece.

    Windows that open EVERY n EVENTS are numbered from the stream's beginning, so what is before the first of them is
    left out: `base` events of the stream come before the piece.
    """
    as_count(who, "base", base, least=0)
    table, strings = as_table(events, "events"), StringTable()
    batch = EventBatch.from_data(query.schema, table, strings, "events")
    table = plain_table(table)
    first, last = _range(who, owned, len(batch))
    opening = query.window.opening.events if isinstance(query.window, ast.ExplicitWindow) else None
    skipped = min(-base % opening, len(batch)) if opening else 0
    if not skipped:
        return Piece(table, batch, strings, first, last, table.slice(0, 0))
    row = batch.row(skipped) if skipped < len(batch) else len(table)
    return Piece(
        table.slice(row), batch.slice(skipped, len(batch)), strings, max(0, first - skipped), max(0, last - skipped),
        table.slice(0, row), (min(first, skipped), min(last, skipped)),
    )  # fmt: skip


def _range(who: str, owned: tuple[int, int] | None, n: int) -> tuple[int, int]:
    if owned is None:
        return 0, n
    try:
        first, last = (int(at) for at in owned)
    except (TypeError, ValueError):
        first, last = -1, -1
    if not 0 <= first <= last <= n:
        raise ValidationError(
            f"{who}: owned={owned!r}; expected two positions (first, last) in the piece, from 0 to {n:,}, of which the "
            "second is behind the last event that is owned"
        )
    return first, last


@dataclass(frozen=True)
class Spans:
    """The explicit windows that open in a piece: int64[windows], by the position of the opening event.

    Attributes
    ----------
    opens, lasts
        Positions of the first and the last event of each; the end of the piece ends those that are open.
    """

    opens: Ints
    lasts: Ints

    @classmethod
    def of(cls, piece: Piece, plan: Plan) -> Spans:
        """Find them."""
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
        if plan.windows.pairs is not None:  # each is closed by an event of its own
            lasts[np.searchsorted(opens, closed)] = closes
        elif len(closes):
            at = np.searchsorted(closes, opens, "right")
            ended = at < len(closes)
            lasts[ended] = closes[at[ended]]
        return cls(opens, lasts)

    def holding(self, starts: Ints, ends: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Pairs of an interval (from ``starts`` to ``ends``, positions) and a window that holds it, part by part.

        Yields numbers of intervals, ascending, and for each the last position of the window.
        """
        behind = np.searchsorted(self.opens, starts, "right")
        begin = np.searchsorted(np.maximum.accumulate(self.lasts), ends)  # no earlier one lasts so long
        for number, offset in chunks(np.maximum(behind - begin, 0)):
            lasts = self.lasts[begin[number] + offset]
            kept = lasts >= ends[number]
            yield number[kept], lasts[kept]


def chunks(counts: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Every number i with 0, 1, … below ``counts[i]``, a part at a time; a part holds all of a number."""
    before = np.concatenate([[0], np.cumsum(counts)])
    low = 0
    while low < len(counts):
        high = max(low + 1, int(np.searchsorted(before, before[low] + _PAIRS, "right")) - 1)
        number = np.repeat(np.arange(low, high), counts[low:high])
        yield number, np.arange(before[low], before[high]) - before[number]
        low = high
