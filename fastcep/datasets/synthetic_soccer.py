"""Generate positions of a synthetic soccer match: two teams and a ball.

The generator draws only integers and uniform floats, and computes only with the four operations and square roots, which
all machines round equally. A seed therefore gives the same events on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.datasets.derived import POSITIONS, names_of
from fastcep.datasets.generate import CHUNK, check_share, check_size, rechunk
from fastcep.errors import ValidationError

__all__ = ["soccer", "soccer_batches"]

OBJECTS = 23  # the ball, then two teams of 11
STRIKERS = (11, 22)
_LENGTH, _WIDTH = 105.0, 68.0  # metres
_LINES = ((5.0, (34.0,)), (25.0, (10.0, 26.0, 42.0, 58.0)), (48.0, (10.0, 26.0, 42.0, 58.0)), (72.0, (22.0, 46.0)))
_CORNER = np.array([_LENGTH, _WIDTH])
_BLOCK = 256  # seconds
_PRESSING = 4  # opponents who run at the player with the ball

Floats = npt.NDArray[np.float64]


def soccer_batches(
    events: int = 1_000_000,
    seed: int = 7,
    chunk: int = CHUNK,
    *,
    passing: float = 0.3,
    losing: float = 0.2,
    reach: float = 3.0,
) -> Iterator[pa.RecordBatch]:
    """Generate positions, possession and defending of a synthetic match, in memory bounded by the chunk size.

    Every object has one event a second: the ball first, then the players in order of their numbers. Players keep their
    places in a 4-4-2 formation, shifted by a quarter of the displacement of the ball; the four opponents nearest to the
    player with the ball run at that player. A shorter stream with the same seed is a prefix of a longer one.

    Parameters
    ----------
    events
        Number of positions, at least 1; there are 23 for each second.
    seed
        Seed of ``numpy.random.default_rng``.
    chunk
        Number of positions of a batch, at least 1; the last batch can have fewer.
    passing
        Probability in each second that the ball goes to another player.
    losing
        Probability that this player is the nearest opponent. Otherwise it is a player of the same team, drawn with
        three times the weight for the striker.
    reach
        Distance from a striker, in metres, within which a player of the other team defends.

    Yields
    ------
    pyarrow.RecordBatch
        Columns of `soccer_events`: ``type`` (STR a striker with the ball, DF a player within reach of the other team's
        striker, PO any other position), ``player`` (0 the ball, 1 to 11 one team, 12 to 22 the other; 11 and 22 are the
        strikers), ``striker`` (striker of the other team; null for the ball), ``distance`` (metres to that striker;
        null for the ball), ``x`` and ``y`` (metres on a field of 105 by 68, rounded to centimetres) and ``ts``
        (milliseconds from 0).

    Raises
    ------
    ValidationError
        If a parameter is out of its range.
    """
    check_size(events=events, chunk=chunk)
    check_share(passing=passing, losing=losing)
    if not reach > 0:
        raise ValidationError(f"reach={reach}: expected a positive number of metres")
    return rechunk(_blocks(seed, passing, losing, reach), events, chunk)


def soccer(events: int = 1_000_000, seed: int = 7, **options: Any) -> pa.Table:
    """Generate positions, possession and defending of a synthetic match as one table.

    Parameters
    ----------
    events, seed, **options
        See `soccer_batches`.

    Returns
    -------
    pyarrow.Table
        ``events`` rows with the columns of `soccer_batches`.

    Raises
    ------
    ValidationError
        If a parameter is out of its range.
    """
    return pa.Table.from_batches(soccer_batches(events, seed, **options), POSITIONS).combine_chunks()


def _blocks(seed: int, passing: float, losing: float, reach: float) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(seed)
    home = _homes()
    place, holder = home.copy(), STRIKERS[0]
    for start in count(0, _BLOCK):
        places, holders = np.empty((_BLOCK, OBJECTS, 2)), np.empty((_BLOCK, 1), np.int64)
        speed = 2.0 + 5.0 * rng.random((_BLOCK, OBJECTS))  # metres a second
        noise = rng.random((_BLOCK, OBJECTS, 2)) - 0.5
        for second in range(_BLOCK):
            if rng.random() < passing:
                holder = _receiver(rng, holder, place, losing)
            place = _moved(place, home, holder, speed[second], noise[second])
            places[second], holders[second] = place, holder
        yield _events(start, np.rint(places * 100) / 100, holders, reach)


def _events(start: int, places: Floats, holders: npt.NDArray[np.int64], reach: float) -> pa.RecordBatch:
    """Return the events from second ``start`` on, for places[seconds, objects, 2] and holders[seconds, 1]."""
    seconds = len(places)
    number = np.arange(OBJECTS)
    other = np.where(number < 12, STRIKERS[1], STRIKERS[0])  # the striker of the other team
    distance = _distances(places, places[:, other])
    has_ball = (number == holders) & np.isin(number, STRIKERS)
    kinds = np.where(has_ball, 0, np.where((distance <= reach) & (number > 0), 1, 2))
    ts = (start + np.arange(seconds)[:, None]) * 1_000 + number * 1_000 // OBJECTS
    ball = np.tile(number == 0, seconds)
    columns = [
        names_of(["STR", "DF", "PO"], kinds.ravel()),
        np.tile(number, seconds),
        pa.array(np.tile(other, seconds), mask=ball),
        pa.array(distance.ravel(), mask=ball),
        places[:, :, 0].ravel(),
        places[:, :, 1].ravel(),
        ts.ravel(),
    ]
    return pa.record_batch(columns, schema=POSITIONS)


def _homes() -> Floats:
    """Return the positions of all objects when the ball is in the middle. The teams are mirror images."""
    first_team = [(x, y) for x, ys in _LINES for y in ys]
    second_team = [(_LENGTH - x, _WIDTH - y) for x, y in first_team]
    return np.array([(_LENGTH / 2, _WIDTH / 2), *first_team, *second_team])


def _receiver(rng: np.random.Generator, holder: int, place: Floats, losing: float) -> int:
    """Draw the player who gets the ball."""
    team = 1 if holder < 12 else 12  # first number of the holder's team
    if rng.random() < losing:
        opponents = 13 - team  # first number of the other team
        distance = _distances(place[opponents : opponents + 11], place[holder])
        return opponents + int(np.argmin(distance))
    return team + min(int(rng.integers(0, 13)), 10)  # 10 and above: the striker, who has the last number of the team


def _moved(place: Floats, home: Floats, holder: int, speed: Floats, noise: Floats) -> Floats:
    """Return the positions after one second."""
    target = home + (place[0] - home[0]) / 4
    opponents = 12 if holder < 12 else 1
    distance = _distances(place[opponents : opponents + 11], place[holder])
    target[opponents + np.argsort(distance, kind="stable")[:_PRESSING]] = place[holder]
    target[holder] = place[holder]
    target[holder, 0] += 4.0 if holder < 12 else -4.0  # towards the other goal
    path = target - place
    length = np.maximum(_distances(target, place), 1e-9)
    moved = place + path * (np.minimum(speed, length) / length)[:, None] + noise
    moved[0] = moved[holder]  # the ball is with the holder
    return np.asarray(np.minimum(np.maximum(moved, 0.0), _CORNER))


def _distances(a: Floats, b: Floats) -> Floats:
    dx, dy = a[..., 0] - b[..., 0], a[..., 1] - b[..., 1]
    return np.asarray(np.sqrt(dx * dx + dy * dy))
