"""Generator of a market: a few leading symbols, whose moves the others follow. Synthetic.

It draws only integers and evenly distributed reals and computes with whole cents, so that a seed gives the same events
on every machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.datasets.derived import QUOTES, names_of
from fastcep.datasets.generate import CHUNK, check_share, check_size, rechunk
from fastcep.errors import ValidationError

__all__ = ["market", "market_batches"]

_MINUTE = 60_000  # ms
_UP, _DOWN = 48, 96  # per cent of own moves that go up; up or down


def market_batches(
    events: int = 1_000_000,
    seed: int = 7,
    chunk: int = CHUNK,
    *,
    symbols: int = 500,
    leaders: int = 5,
    influence: float = 0.8,
    persistence: float = 0.7,
    lag: int = 2,
) -> Iterator[pa.RecordBatch]:
    """Generate quotes of a synthetic market piece by piece, in memory bounded by the chunk.

    Every symbol has one quote a minute, in the order of the symbols' numbers and evenly spread over the minute. The
    leading symbols are the first ones. The others are dealt to them in blocks of neighbours, and inside a block the
    later ones follow later: 0 minutes behind their leader, then 1, up to ``lag``. A longer stream begins with a
    shorter one.

    Parameters
    ----------
    events
        Number of quotes, at least 1.
    seed
        Seed of ``numpy.random.default_rng``.
    chunk
        Quotes in a batch, at least 1; the last batch may hold fewer.
    symbols, leaders
        How many symbols there are, and how many of them lead.
    influence
        Probability that a follower moves as its leader did; else it rises (0.48), falls (0.48) or stays.
    persistence
        Probability that a leader moves on as in the minute before, if it moved.
    lag
        The largest delay of a follower, in minutes.

    Yields
    ------
    pyarrow.RecordBatch
        The columns of `stock_events`: ``type`` (RE, FE or QE), ``number`` (0 to symbols - 1), ``symbol`` (S000, …),
        ``price`` and ``change`` (whole cents; a move is of 1 to 5) and ``ts`` (milliseconds from 0). ``change`` is
        never null.

    Raises
    ------
    ValidationError
        If a parameter is out of its range.
    """
    check_size(events=events, chunk=chunk, leaders=leaders)
    check_share(influence=influence, persistence=persistence)
    if symbols <= leaders or lag < 0:
        raise ValidationError(f"symbols={symbols}, lag={lag}: expected more symbols than leaders={leaders}, lag >= 0")
    return rechunk(_minutes(seed, symbols, leaders, influence, persistence, lag), events, chunk)


def market(events: int = 1_000_000, seed: int = 7, **options: Any) -> pa.Table:
    """Generate quotes of a synthetic market as one table.

    Parameters
    ----------
    events, seed, **options
        As for `market_batches`.

    Returns
    -------
    pyarrow.Table
        ``events`` rows with the columns of `market_batches`.

    Raises
    ------
    ValidationError
        If a parameter is out of its range.
    """
    return pa.Table.from_batches(market_batches(events, seed, **options), QUOTES).combine_chunks()


def _minutes(
    seed: int, symbols: int, leaders: int, influence: float, persistence: float, lag: int
) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(seed)
    number = np.arange(symbols)
    names = pa.array([f"S{k:03}" for k in range(symbols)])
    place = np.maximum(number - leaders, 0) * leaders  # among the followers, times leaders
    followers = symbols - leaders
    leader = place // followers
    delay = place % followers * (lag + 1) // followers
    price = rng.integers(2_000, 20_001, symbols)  # cents
    before: deque[np.ndarray[tuple[int], np.dtype[np.int64]]] = deque(
        (np.zeros(leaders, np.int64) for _ in range(lag + 1)), maxlen=lag + 1
    )
    start = 0
    while True:
        drawn = rng.integers(0, 100, symbols)
        sign = np.where(drawn < _UP, 1, np.where(drawn < _DOWN, -1, 0))
        u, ticks = rng.random(symbols), rng.integers(1, 6, symbols)
        goes_on = (u[:leaders] < persistence) & (before[0] != 0)
        before.appendleft(np.where(goes_on, before[0], sign[:leaders]))
        sign[:leaders] = before[0]
        led = np.stack(before)[delay, leader]  # what each one's leader did, delay minutes ago
        sign[leaders:] = np.where(u < influence, led, sign)[leaders:]
        move = sign * ticks
        move = np.where(price + move < 100, np.abs(move), move)  # a price does not fall below 1
        price = price + move
        yield pa.record_batch(
            [
                names_of(["QE", "RE", "FE"], np.sign(move) % 3),
                number,
                names,
                price / 100,
                move / 100,
                start + number * _MINUTE // symbols,
            ],
            schema=QUOTES,
        )
        start += _MINUTE
