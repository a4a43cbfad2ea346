"""Generate bike trips fitted to a year of Bay Area Bike Share: chains of trips that start where the last one ended.

All constants are counted over the 326,339 trips of 2014 in the source of the data set ``bayarea_2014``, which also has
durations and users. Among the trips of a bike in order of time, a trip is *joined* if it starts where the previous one
ended (80 %); otherwise a van moved the bike. Numbers are drawn from evenly spaced quantiles (every 5 %; the ends are
the quantiles 0.1 and 99.5 %).

The generator draws and computes only integers, so that a seed gives the same events on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.datasets.derived import names_of
from fastcep.datasets.generate import CHUNK, by_quantiles, check_size, rechunk
from fastcep.errors import ValidationError

__all__ = ["BIKES", "bike_chains", "bike_chains_batches"]

Ints = npt.NDArray[np.int64]

_COLUMNS: dict[str, pa.DataType] = {
    "start_date": pa.timestamp("ms"),
    "start_terminal": pa.int16(),
    "end_terminal": pa.int16(),
    "bike_id": pa.int32(),
    "user": pa.string(),
}
BIKES = pa.schema(_COLUMNS)
_BEGIN = 1_388_534_400_000  # 2014-01-01, in ms
_BLOCK = 21_600_000  # ms of trips that are generated at a time
_USERS = ["Subscriber", "Customer"]
#: Numbers of the stations, most popular first; then per 10,000 trips, how many end there, and how many vans go there.
_TERMINALS = np.array(
    [70, 50, 69, 77, 61, 60, 65, 74, 55, 39, 76, 64, 67, 57, 72, 63, 51, 54, 68, 56, 49, 48, 45, 75, 66, 41, 42, 2, 62,
     82, 47, 73, 71, 28, 46, 59, 4, 27, 6, 58, 11, 29, 7, 9, 31, 32, 84, 3, 35, 34, 10, 8, 16, 13, 14, 12, 5, 37, 36,
     80, 30, 33, 22, 38, 83, 24, 23, 21, 26, 25]
)  # fmt: skip
_ENDS = np.array(
    [1018, 481, 470, 454, 431, 412, 375, 359, 351, 314, 302, 270, 262, 214, 213, 204, 197, 195, 192, 189, 179, 178, 176,
     171, 168, 151, 147, 146, 141, 133, 132, 129, 124, 108, 108, 90, 58, 48, 42, 41, 41, 37, 36, 34, 33, 32, 31, 29, 29,
     28, 28, 26, 24, 24, 23, 21, 19, 18, 18, 17, 17, 17, 13, 10, 5, 4, 3, 3, 3, 3]
)  # fmt: skip
_VANS = np.array(
    [790, 460, 490, 120, 230, 380, 310, 230, 340, 100, 260, 360, 300, 120, 90, 100, 300, 270, 150, 360, 110, 160, 210,
     150, 230, 150, 130, 90, 570, 230, 110, 610, 370, 50, 40, 140, 60, 20, 40, 150, 10, 20, 30, 10, 20, 40, 30, 20, 10,
     30, 90, 20, 30, 20, 30, 10, 20, 30, 10, 10, 80, 10, 20, 10, 5, 5, 5, 5, 5, 5]
)  # fmt: skip
#: Groups of stations by popularity: the last rank; number of joined next trips per 10,000 trips that end there;
#: quantiles of the seconds that a bike stands there until the joined trip.
_GROUPS = (
    (1, 6_050, [0, 60, 120, 240, 360, 480, 600, 780, 900, 1200, 1560, 2100, 2760, 3960, 6000, 11820, 35700, 44160,
                50100, 59040, 219278]),
    (13, 8_206, [0, 180, 420, 720, 1080, 1560, 2100, 2820, 3720, 4800, 6240, 8220, 10860, 14580, 20460, 28920, 40740,
                 50040, 57240, 80160, 228048]),
    (35, 8_331, [0, 360, 900, 1560, 2340, 3240, 4320, 5700, 7500, 9840, 12720, 16620, 21960, 27900, 33060, 42000,
                 50940, 60840, 79320, 132300, 367109]),
    (70, 8_304, [0, 831, 2640, 4800, 9000, 14280, 23160, 29340, 33840, 43380, 51000, 61740, 77220, 93963, 133134,
                 167685, 226980, 304854, 432318, 721314, 2659608]),
)  # fmt: skip
#: San Francisco, San Jose, Mountain View, Palo Alto, Redwood City: stations, and number of bikes used mostly there.
#: In the source, 15 of 10,000 trips and 103 of 10,000 vans go to another city; in the generated stream none do.
_CITIES = (
    ({*range(39, 78), 82}, 393), ({*range(2, 17), 80, 84}, 178), ({*range(27, 34)}, 85), ({*range(34, 39)}, 19),
    ({*range(21, 27), 83}, 12),
)  # fmt: skip
#: Seconds from the end of a trip to the next one at another station: in all cities, and in all but San Francisco.
_MOVED = np.array(
    [[529, 3660, 5880, 8460, 11940, 16560, 23340, 30540, 40200, 49440, 55140, 62400, 72180, 81660, 88560, 106740,
      146280, 178440, 257580, 445410, 2627570],
     [1659, 36498, 63816, 86040, 113556, 152220, 182514, 233892, 272592, 331482, 379260, 437475, 511332, 590337, 691560,
      837060, 1011624, 1215048, 1643904, 2545503, 7426193]]
)  # fmt: skip
#: Duration of a trip in seconds, by user.
_DURATIONS = np.array(
    [[74, 192, 228, 260, 290, 320, 350, 380, 410, 440, 471, 503, 537, 574, 614, 659, 711, 776, 866, 1015, 2110],
     [71, 327, 429, 513, 587, 661, 740, 822, 915, 1015, 1127, 1257, 1411, 1598, 1864, 2425, 3504, 5380, 8528, 14827,
      76094]]
)  # fmt: skip
#: Per 10,000 trips, by user: how many end where they start, and after how many the next user of the bike is a customer.
_ROUND, _CUSTOMER = np.array([134, 1_641]), np.array([1_099, 3_690])


def bike_chains_batches(
    events: int = 1_000_000, seed: int = 7, chunk: int = CHUNK, *, bikes: int = 687, compress: int = 120
) -> Iterator[pa.RecordBatch]:
    """Generate trips of shared bikes, in memory bounded by the chunk and the number of bikes.

    Every bike alternates between standing and being ridden, in one of five cities. A trip ends where it starts with a
    probability that depends on the user, otherwise at a station of the city drawn by popularity. The time that the bike
    then stands, and the probability that the next trip starts there, depend on the popularity of the station. There is
    no time of day: the distribution of the times includes rush hours and nights. A shorter stream with the same seed is
    a prefix of a longer one.

    Parameters
    ----------
    events
        Number of trips, at least 1.
    seed
        Seed of ``numpy.random.default_rng``.
    chunk
        Number of trips of a batch, at least 1; the last batch can have fewer.
    bikes
        Number of bikes, at least 1; in the source 687.
    compress
        Divisor of all times, at least 1. With 120, five days of real time become an hour. In the source, a bike makes
        1.3 trips a day.

    Yields
    ------
    pyarrow.RecordBatch
        Columns of `bayarea_2014`: ``start_date`` (timestamp in ms, ascending, from 2014), ``start_terminal`` and
        ``end_terminal`` (int16: the 70 numbers of the source, 2 to 84), ``bike_id`` (int32, from 1); and ``user``
        (string: ``Subscriber`` or ``Customer``).

    Raises
    ------
    ValidationError
        If a parameter is below 1, or there are more than 1,000,000 bikes.
    """
    check_size(events=events, chunk=chunk, bikes=bikes, compress=compress)
    if bikes > 1_000_000:
        raise ValidationError(f"bikes={bikes}: expected at most 1,000,000")
    return rechunk(_blocks(seed, bikes, compress), events, chunk)


def bike_chains(events: int = 1_000_000, seed: int = 7, **options: Any) -> pa.Table:
    """Generate trips of shared bikes as one table.

    Parameters
    ----------
    events, seed, **options
        See `bike_chains_batches`.

    Returns
    -------
    pyarrow.Table
        ``events`` rows with the columns of `bike_chains_batches`.

    Raises
    ------
    ValidationError
        If a parameter is out of its range.
    """
    return pa.Table.from_batches(bike_chains_batches(events, seed, **options), BIKES).combine_chunks()


class _Fleet:
    """State of all bikes, as arrays with one entry for each bike.

    Attributes
    ----------
    terminals
        int64, number of each station.
    station
        int64, current station of each bike, as an index into ``terminals``.
    user
        int64, next user of each bike: 0 a subscriber, 1 a customer.
    next
        int64, start of the next trip of each bike, in compressed ms.
    """

    def __init__(self, seed: int, bikes: int, compress: int) -> None:
        """Place all bikes at stations, partly through their standing times."""
        self._streams = np.random.default_rng(seed).spawn(7)
        self._compress = compress
        city = np.array([next(k for k, (numbers, _) in enumerate(_CITIES) if n in numbers) for n in _TERMINALS])
        order = np.argsort(city, kind="stable")  # stations of a city are adjacent
        self.terminals, self._ends, self._vans = _TERMINALS[order], _ENDS[order], _VANS[order]
        self._group = np.searchsorted([last for last, _, _ in _GROUPS], order + 1)
        self._bounds = np.searchsorted(city[order], np.arange(len(_CITIES) + 1))
        fleets = np.cumsum([city_bikes for _, city_bikes in _CITIES])
        self._city = np.searchsorted(fleets, np.arange(bikes) % fleets[-1], side="right")
        self.station = self._drawn_stations(self._streams[2], self._ends, np.arange(bikes))
        self.user = (self._streams[5].integers(0, 10_000, bikes) < 1_489).astype(np.int64)
        standing = self._standing_times(self._group[self.station])
        self.next = standing * self._streams[6].integers(0, 1 << 20, bikes) >> 20

    def ride(self, riding: Ints) -> Ints:
        """Make the next trip of these bikes, and return the stations where the trips end."""
        user, begin = self.user[riding], self.next[riding]
        ends = self._drawn_stations(self._streams[2], self._ends, riding)
        returns = self._streams[3].integers(0, 10_000, len(riding)) < _ROUND[user]
        ends = np.where(returns, self.station[riding], ends)
        durations = [by_quantiles(self._streams[4], knots * 1_000, len(riding)) for knots in _DURATIONS]
        joined = np.array([share for _, share, _ in _GROUPS])[self._group[ends]]
        moved = self._streams[1].integers(0, 10_000, len(riding)) >= joined
        van_ends = self._drawn_stations(self._streams[1], self._vans, riding)
        away = [by_quantiles(self._streams[0], knots * 1_000, len(riding)) for knots in _MOVED]
        standing = np.where(moved, np.where(self._city[riding] == 0, *away), self._standing_times(self._group[ends]))
        elapsed = np.maximum((np.where(user == 0, *durations) + standing) // self._compress, 1)
        self.next[riding] = begin + elapsed
        self.station[riding] = np.where(moved, van_ends, ends)
        self.user[riding] = self._streams[5].integers(0, 10_000, len(riding)) < _CUSTOMER[user]
        return ends

    def _standing_times(self, group: Ints) -> Ints:
        """Draw the standing times, in uncompressed ms, at stations of these groups."""
        drawn = [by_quantiles(self._streams[0], np.array(knots) * 1_000, len(group)) for _, _, knots in _GROUPS]
        return np.asarray(np.choose(group, drawn))

    def _drawn_stations(self, stream: np.random.Generator, weights: Ints, bikes: Ints) -> Ints:
        """Draw a station by weight for each bike, from those of its city."""
        cumulative = np.concatenate([[0], np.cumsum(weights)])
        low, high = (cumulative[self._bounds[self._city[bikes] + end]] for end in (0, 1))
        drawn = low + (stream.integers(0, 1 << 30, len(bikes)) * (high - low) >> 30)
        return np.asarray(np.searchsorted(cumulative, drawn, side="right") - 1)


def _blocks(seed: int, bikes: int, compress: int) -> Iterator[pa.RecordBatch]:
    fleet, until = _Fleet(seed, bikes, compress), 0
    while True:
        until += max(_BLOCK // compress, 1)
        rounds = []
        while len(riding := np.flatnonzero(fleet.next < until)):
            begin, station, user = fleet.next[riding], fleet.station[riding], fleet.user[riding]
            rounds.append((begin, station, fleet.ride(riding), riding, user))
        if not rounds:
            continue
        begin, station, ends, bike, user = (np.concatenate(parts) for parts in zip(*rounds, strict=True))
        order = np.lexsort((bike, begin))
        columns = [
            pa.array(_BEGIN + begin[order]).cast(pa.timestamp("ms")),
            fleet.terminals[station[order]].astype(np.int16),
            fleet.terminals[ends[order]].astype(np.int16),
            (bike[order] + 1).astype(np.int32),
            names_of(_USERS, user[order]),
        ]
        yield pa.record_batch(columns, schema=BIKES)
