"""Generator of traffic through a no-passing zone between two control points, with vehicles that overtake. Synthetic.

It draws only evenly distributed reals and computes with the four operations, which every machine rounds alike, so that
a seed gives the same events everywhere.
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
    """Generate passages of the two ends of a no-passing zone, in memory bounded by the chunk and the zone's vehicles.

    Vehicles arrive as a Poisson process, each with a speed that it keeps. A longer stream begins with a shorter one;
    at its end some vehicles are still in the zone.

    Parameters
    ----------
    events
        Number of passages, at least 1.
    seed
        Seed of ``numpy.random.default_rng``.
    chunk
        Passages in a batch, at least 1; the last batch may hold fewer.
    rate
        Vehicles that arrive in a second, on average.
    length
        Of the zone, in km.
    speed, fastest
        In km/h: of most vehicles, and the highest.
    fast
        Share of the vehicles that drive faster, evenly distributed between ``speed`` and ``fastest``.

    Yields
    ------
    pyarrow.RecordBatch
        ``type`` (string: ``Pos1`` where the zone begins, ``Pos2`` where it ends), ``vehicle`` (int64: 0, 1, … in the
        order of their arrival) and ``ts`` (int64, milliseconds from 0). At one time Pos1 comes before Pos2, and of
        two the vehicle that arrived first.

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
    """Generate passages of the two ends of a no-passing zone as one table.

    Parameters
    ----------
    events, seed, **options
        As for `traffic_batches`.

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
    gaps, which, speeds = np.random.default_rng(seed).spawn(3)
    waiting: pa.Table = pa.Table.from_batches([], PASSES)  # passages that later vehicles may come before
    last = count = 0  # µs of the last arrival; vehicles so far
    while True:
        gap = np.maximum(-logarithm(1.0 - gaps.random(_BLOCK)), 0.0) / rate  # the logarithm may miss 0 by a hair
        arrival = last + np.cumsum(np.floor(gap * 1e6).astype(np.int64))
        last = int(arrival[-1])
        faster = (fastest - speed) * speeds.random(_BLOCK)
        kmh = np.where(which.random(_BLOCK) < fast, speed + faster, speed)
        first = arrival // 1_000
        second = first + np.floor(length / kmh * 3_600_000).astype(np.int64)
        new = pa.Table.from_batches([passes(first, second, np.arange(count, count + _BLOCK))])
        waiting = pa.concat_tables([waiting, new]).sort_by(
            [("ts", "ascending"), ("type", "ascending"), ("vehicle", "ascending")]
        )
        sure = int(np.searchsorted(waiting["ts"].to_numpy(), last // 1_000))
        yield from waiting.slice(0, sure).combine_chunks().to_batches()
        waiting = waiting.slice(sure)
        count += _BLOCK


def logarithm(u: Floats) -> Floats:
    """Return natural logarithms by the four operations alone; libraries round theirs differently.

    Parameters
    ----------
    u
        Numbers in (0, 1].

    Returns
    -------
    numpy.ndarray
        Within 1e-14 of the logarithms.
    """
    mantissa, exponent = np.frexp(u)  # u = mantissa · 2^exponent, mantissa in [1/2, 1)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square, total = s * s, np.zeros_like(s)
    for odd in range(33, 0, -2):  # ln m = 2 (s + s³/3 + s⁵/5 + …), |s| <= 1/3
        total = total * square + 1.0 / odd
    return np.asarray(exponent * _LN2 + 2.0 * s * total)
