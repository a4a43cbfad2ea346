"""Real quotes and positions that several papers use; the data does not ship with the package."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from bench.papers.data import SHARED
from bench.unseen.repeated import Repeated
from fastcep.datasets import soccer_events, stock_events

__all__ = ["POSITIONS", "QUOTES", "STRIKER", "real_positions", "real_quotes", "repeated"]

QUOTES = SHARED / "stocks" / "sp100_minute_bars_20181105_20181109.csv.gz"
POSITIONS = SHARED / "soccer" / "tromso_anzhi_20131107_positions_20hz.csv.gz"
#: Player who counts as the striker.
STRIKER = 10
_LEADING = ("AAPL", "MSFT", "GOOG", "FB", "INTC")
#: Distance in metres within which a player defends; the positions are those of one team.
_REACH = 10.0


def real_quotes(events: int, *, history: bool = False) -> pa.Table:
    """Return real quotes: the second half of the days again and again or, as history, the first half."""
    table = _real_quotes()
    return _half(table, events, history)


def real_positions(events: int, *, history: bool = False) -> pa.Table:
    """Return real positions, split as `real_quotes`."""
    return _half(_real_positions(), events, history)


def repeated(table: pa.Table, events: int) -> pa.Table:
    """Return a table of events again and again, up to a number of events."""
    return pa.Table.from_batches(Repeated(table, "ts", events)).combine_chunks()


@cache
def _real_quotes() -> pa.Table:
    return stock_events(QUOTES, _LEADING)


@cache
def _real_positions() -> pa.Table:
    return soccer_events(POSITIONS, STRIKER, _REACH)


def _half(table: pa.Table, events: int, history: bool) -> pa.Table:
    middle = len(table) // 2
    return table.slice(0, min(middle, events)) if history else repeated(table.slice(middle), events)
