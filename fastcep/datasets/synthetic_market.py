"""Generate quotes of a synthetic market: a few symbols lead, and the others follow their moves.

The generator draws only integers and uniform floats and computes with whole cents, so that a seed gives the same events
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
_UP, _DOWN = 48, 96  # percent of independent moves that go up; that go up or down


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
    """Generate quotes of a synthetic market batch by batch, in memory bounded by the chunk size.

    Every symbol has one quote a minute, in order of the symbols' numbers and evenly spaced over the minute. The first
    symbols are the leaders. Each leader has a block of consecutive followers; inside a block, followers with larger
    numbers follow later: with a delay of 0 minutes, then 1, up to ``lag``. A shorter stream with the same seed is a
    prefix of a longer one.

    Parameters
    ----------
    events
        Number of quotes, at least 1.
    seed
        Seed of ``numpy.random.default_rng``.
    chunk
        Number of quotes of a batch, at least 1; the last batch can have fewer.
    symbols, leaders
        Number of symbols, and number of leaders among them.
    influence
        Probability that a follower repeats the move of its leader. Otherwise it rises (0.48), falls (0.48) or stays.
    persistence
        Probability that a leader that moved in the last minute moves in the same direction again.
    lag
        Largest delay of a follower, in minutes.

    Yields
    ------
    pyarrow.RecordBatch
        Columns of `stock_events`: ``type`` (RE, FE or QE), ``number`` (0 to symbols - 1), ``symbol`` (S000, …),
        ``price`` and ``change`` (whole cents; moves are 1 to 5 cents) and ``ts`` (milliseconds from 0). ``change`` is
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
        See `market_batches`.

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
    scaled = np.maximum(number - leaders, 0) * leaders  # index among the followers, times the number of leaders
    followers = symbols - leaders
    leader = scaled // followers
    delay = scaled % followers * (lag + 1) // followers
    price = rng.integers(2_000, 20_001, symbols)  # cents
    leader_moves: deque[np.ndarray[tuple[int], np.dtype[np.int64]]] = deque(
        (np.zeros(leaders, np.int64) for _ in range(lag + 1)), maxlen=lag + 1
    )
    start = 0
    while True:
        drawn = rng.integers(0, 100, symbols)
        sign = np.where(drawn < _UP, 1, np.where(drawn < _DOWN, -1, 0))
        u, ticks = rng.random(symbols), rng.integers(1, 6, symbols)
        persists = (u[:leaders] < persistence) & (leader_moves[0] != 0)
        leader_moves.appendleft(np.where(persists, leader_moves[0], sign[:leaders]))
        sign[:leaders] = leader_moves[0]
        followed = np.stack(leader_moves)[delay, leader]  # move of each symbol's leader, delay minutes ago
        sign[leaders:] = np.where(u < influence, followed, sign)[leaders:]
        move = sign * ticks
        move = np.where(price + move < 100, np.abs(move), move)  # a price never falls below 1.00
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
