"""Generate synthetic traffic through a no-passing zone between two control points, with vehicles that overtake.

The generator draws only uniform floats and computes only with the four operations, which all machines round equally. A
seed therefore gives the same events on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.datasets.derived import PASSES, passes
from fastcep.datasets.generate import CHUNK, check_share, check_size, rechunk
from fastcep.errors import ValidationError

__all__ = ["traffic", "traffic_batches"]

_BLOCK = 4_096  # vehicles
_LN2 = 0.6931471805599453

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def traffic_batches(
    events: int = 1_000_000,
    seed: int = 7,
    chunk: int = CHUNK,
    *,
    rate: float = 5.0,
    length: float = 15.0,
    speed: float = 60.0,
    fastest: float = 72.0,
    fast: float = 0.1,
) -> Iterator[pa.RecordBatch]:
    """Generate passages of both ends of a no-passing zone, in memory bounded by chunk size and vehicles in the zone.

    Vehicles arrive as a Poisson process, each with a constant speed. A shorter stream with the same seed is a prefix of
    a longer one. At the end of the stream, some vehicles are still in the zone.

    Parameters
    ----------
    events
        Number of passages, at least 1.
    seed
        Seed of ``numpy.random.default_rng``.
    chunk
        Number of passages of a batch, at least 1; the last batch can have fewer.
    rate
        Mean number of vehicles that arrive in a second.
    length
        Length of the zone, in km.
    speed, fastest
        Speed of most vehicles, and highest speed, in km/h.
    fast
        Share of the vehicles that drive faster than ``speed``, with uniform speeds up to ``fastest``.

    Yields
    ------
    pyarrow.RecordBatch
        ``type`` (string: ``Pos1`` at the start of the zone, ``Pos2`` at its end), ``vehicle`` (int64: 0, 1, … in order
        of arrival) and ``ts`` (int64, milliseconds from 0). At equal times, Pos1 comes before Pos2, and then the
        vehicle that arrived first.

    Raises
    ------
    ValidationError
        If a parameter is out of its range.
    """
    check_size(events=events, chunk=chunk)
    check_share(fast=fast)
    for name, value in (("rate", rate), ("length", length), ("speed", speed)):
        if not value > 0:
            raise ValidationError(f"{name}={value}: expected a positive number")
    if fastest < speed:
        raise ValidationError(f"fastest={fastest}: expected at least speed={speed}")
    return rechunk(_blocks(seed, rate, length, speed, fastest, fast), events, chunk)


def traffic(events: int = 1_000_000, seed: int = 7, **options: Any) -> pa.Table:
    """Generate passages of both ends of a no-passing zone as one table.

    Parameters
    ----------
    events, seed, **options
        See `traffic_batches`.

    Returns
    -------
    pyarrow.Table
        ``events`` rows with the columns of `traffic_batches`.

    Raises
    ------
    ValidationError
        If a parameter is out of its range.
    """
    return pa.Table.from_batches(traffic_batches(events, seed, **options), PASSES).combine_chunks()


def _blocks(
    seed: int, rate: float, length: float, speed: float, fastest: float, fast: float
) -> Iterator[pa.RecordBatch]:
    gaps, is_fast, speeds = np.random.default_rng(seed).spawn(3)
    waiting: pa.Table = pa.Table.from_batches([], PASSES)  # passages that a later vehicle can precede
    last = count = 0  # µs of the last arrival; vehicles so far
    while True:
        gap = np.maximum(-logarithm(1.0 - gaps.random(_BLOCK)), 0.0) / rate  # log 1 can round to nonzero
        arrival = last + np.cumsum(np.floor(gap * 1e6).astype(np.int64))
        last = int(arrival[-1])
        excess = (fastest - speed) * speeds.random(_BLOCK)
        kmh = np.where(is_fast.random(_BLOCK) < fast, speed + excess, speed)
        first = arrival // 1_000
        second = first + np.floor(length / kmh * 3_600_000).astype(np.int64)
        new = pa.Table.from_batches([passes(first, second, np.arange(count, count + _BLOCK))])
        waiting = pa.concat_tables([waiting, new]).sort_by(
            [("ts", "ascending"), ("type", "ascending"), ("vehicle", "ascending")]
        )
        final = int(np.searchsorted(waiting["ts"].to_numpy(), last // 1_000))  # rows that no later vehicle can precede
        yield from waiting.slice(0, final).combine_chunks().to_batches()
        waiting = waiting.slice(final)
        count += _BLOCK


def logarithm(u: Floats) -> Floats:
    """Return natural logarithms, computed with the four operations only, because libraries round theirs differently.

    Parameters
    ----------
    u
        float64[n] in (0, 1].

    Returns
    -------
    numpy.ndarray
        float64[n], the logarithms with an error of at most 1e-14.
    """
    mantissa, exponent = np.frexp(u)  # u = mantissa · 2^exponent, mantissa in [1/2, 1)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square, total = s * s, np.zeros_like(s)
    for odd in range(33, 0, -2):  # ln m = 2 (s + s³/3 + s⁵/5 + …), |s| <= 1/3
        total = total * square + 1.0 / odd
    return np.asarray(exponent * _LN2 + 2.0 * s * total)
