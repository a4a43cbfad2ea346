"""Derive events of the papers from public data: stock quotes, soccer positions, buses, passages of vehicles.

fastcep does not ship these data; the user names a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.datasets.csv_columns import SIRI, AnyPath, Ints, Types, check_order, first_line, integers, read_columns
from fastcep.errors import ValidationError

__all__ = [
    "BUSES",
    "PASSES",
    "POSITIONS",
    "QUOTES",
    "bus_events",
    "names_of",
    "passes",
    "soccer_events",
    "stock_events",
    "toll_events",
]

Floats = npt.NDArray[np.float64]

_QUOTES: Types = {
    "type": pa.string(),
    "number": pa.int64(),
    "symbol": pa.string(),
    "price": pa.float64(),
    "change": pa.float64(),
    "ts": pa.int64(),
}
_POSITIONS: Types = {
    "type": pa.string(),
    "player": pa.int64(),
    "striker": pa.int64(),
    "distance": pa.float64(),
    "x": pa.float64(),
    "y": pa.float64(),
    "ts": pa.int64(),
}
_BUSES: Types = {
    "type": pa.string(),
    "vehicle": pa.int64(),
    "stop": pa.int64(),
    "at_stop": pa.bool_(),
    "delay": pa.int64(),
    "ts": pa.int64(),
}
_PASSES: Types = {"type": pa.string(), "vehicle": pa.int64(), "ts": pa.int64()}
QUOTES, POSITIONS, BUSES, PASSES = (pa.schema(types) for types in (_QUOTES, _POSITIONS, _BUSES, _PASSES))

_BARS: Types = {"Time": pa.timestamp("ms"), "symbol": pa.string(), "close": pa.float64()}
_METASTOCK_BARS: Types = {"symbol": pa.string(), "minute": pa.int64(), "close": pa.float64()}
_METASTOCK = ["symbol", "minute", "open", "high", "low", "close", "volume"]
_STALE = 1_000_000_000  # ns; an older position of the striker is not used


def stock_events(path: AnyPath, leading: Sequence[str] = ()) -> pa.Table:
    """Derive rising and falling quotes from minute bars.

    A bar whose close is above that of the previous bar of its symbol is a rising quote; below, a falling quote.

    Parameters
    ----------
    path
        CSV, optionally gzipped, ordered by time: with a header that names at least ``Time``, ``symbol`` and ``close``,
        or in Metastock form (no header; ticker, minute as YYYYMMDDhhmm, open, high, low, close, volume).
    leading
        Symbols that get the numbers 0, 1, …; the others follow in order of their first appearance.

    Returns
    -------
    pyarrow.Table
        One row for each bar, in the order of the file: ``type`` (string: ``RE`` rising, ``FE`` falling, ``QE`` neither,
        or the first bar of the symbol), ``number`` (int64, number of the symbol), ``symbol`` (string), ``price``
        (float64, the close), ``change`` (float64, difference from the previous bar; null in the first one) and ``ts``
        (int64, milliseconds since 1970, local time of the exchange).

    Raises
    ------
    DataError
        If the file cannot be read, lacks a column or is not ordered by time.
    ValidationError
        If a leading symbol is not in the file.
    """
    if first_line(path).startswith("Time"):
        table = read_columns(path, _BARS)
        ts = integers(table["Time"])
    else:
        table = read_columns(path, _METASTOCK_BARS, _METASTOCK)
        ts = _milliseconds(integers(table["minute"]))
    check_order(path, ts)
    encoded = table["symbol"].combine_chunks().dictionary_encode()
    codes, symbols = integers(encoded.indices), [str(name) for name in encoded.dictionary.to_pylist()]
    missing = sorted(set(leading) - set(symbols))
    if missing:
        raise ValidationError(f"leading={missing}: expected symbols of the file, such as {', '.join(symbols[:5])}")
    names = [*dict.fromkeys(leading), *(name for name in symbols if name not in set(leading))]
    number_of = {name: number for number, name in enumerate(names)}
    price = table["close"].combine_chunks().to_numpy(zero_copy_only=False)
    by_symbol = np.argsort(codes, kind="stable")
    is_first_sorted = np.ones(len(codes), np.bool_)
    is_first_sorted[1:] = np.diff(codes[by_symbol]) != 0
    moves = np.zeros(len(codes))
    moves[1:] = np.diff(price[by_symbol])
    change, is_first = np.empty(len(codes)), np.empty(len(codes), np.bool_)
    change[by_symbol], is_first[by_symbol] = np.where(is_first_sorted, 0.0, moves), is_first_sorted
    numbers = np.array([number_of[name] for name in symbols], np.int64)[codes]
    columns = [_quote_types(change), numbers, table["symbol"], price, pa.array(change, mask=is_first), ts]
    return pa.table(columns, schema=QUOTES)


def soccer_events(path: AnyPath, striker: int, reach: float = 3.0) -> pa.Table:
    """Derive possession and defending from positions of the players of one team, one event per player and second.

    These data have neither a ball nor a second team. Therefore every event of the chosen striker counts as possession
    of the ball, and another player within reach counts as defending against the striker.

    Parameters
    ----------
    path
        CSV, optionally gzipped, ordered by time, whose header names at least ``t``, ``id``, ``x`` and ``y`` (metres).
    striker
        Id of the player who is the striker.
    reach
        Distance from the striker, in metres, within which another player defends.

    Returns
    -------
    pyarrow.Table
        First position of each player in each second: ``type`` (string: ``STR`` the striker, ``DF`` another player
        within reach, ``PO`` any other), ``player`` (int64), ``striker`` (int64, id of the striker; null for himself,
        and if the last position of the striker is older than a second), ``distance`` (float64, metres to the last
        position of the striker; null if ``striker`` is), ``x`` and ``y`` (float64, metres) and ``ts`` (int64,
        milliseconds since 1970, local time).

    Raises
    ------
    DataError
        If the file cannot be read, lacks a column or is not ordered by time.
    ValidationError
        If no player has the id ``striker``, or ``reach`` is not positive.
    """
    if not reach > 0:
        raise ValidationError(f"reach={reach}: expected a positive number of metres")
    types: Types = {"t": pa.timestamp("ns"), "id": pa.int64(), "x": pa.float64(), "y": pa.float64()}
    table = read_columns(path, types)
    time, player = integers(table["t"]), integers(table["id"])
    check_order(path, time)
    x, y = (table[name].combine_chunks().to_numpy() for name in "xy")
    striker_rows = np.flatnonzero(player == striker)
    if not len(striker_rows):
        raise ValidationError(f"striker={striker}: expected one of the players {np.unique(player).tolist()}")
    kept = _first_in_each_second(time, player)
    last = np.searchsorted(striker_rows, kept) - 1  # the last position of the striker before each row
    has_distance = (last >= 0) & (player[kept] != striker)
    last_row = striker_rows[np.maximum(last, 0)]
    has_distance &= time[kept] - time[last_row] <= _STALE
    dx, dy = x[kept] - x[last_row], y[kept] - y[last_row]
    distance = np.sqrt(dx * dx + dy * dy)
    kinds = np.where(player[kept] == striker, 0, np.where(has_distance & (distance <= reach), 1, 2))
    columns = [
        names_of(["STR", "DF", "PO"], kinds),
        player[kept],
        pa.array(np.full(len(kept), striker), mask=~has_distance),
        pa.array(distance, mask=~has_distance),
        x[kept],
        y[kept],
        time[kept] // 1_000_000,
    ]
    return pa.table(columns, schema=POSITIONS)


def bus_events(path: AnyPath, delay: int = 60) -> pa.Table:
    """Derive delayed buses and their stops from vehicle reports of buses in Dublin.

    Parameters
    ----------
    path
        CSV, optionally gzipped, with the 15 columns of the source (with or without a header), ordered by time.
    delay
        Delay, in seconds, from which on a bus counts as delayed.

    Returns
    -------
    pyarrow.Table
        One row for each report, in the order of the file: ``type`` (string: ``DE`` delayed at a known stop, ``BE`` any
        other), ``vehicle`` (int64), ``stop`` (int64, the current or next stop; null if unknown), ``at_stop`` (bool),
        ``delay`` (int64, seconds; negative is early) and ``ts`` (int64, milliseconds since 1970, UTC).

    Raises
    ------
    DataError
        If the file cannot be read, lacks a column or is not ordered by time.
    """
    types: Types = {
        "timestamp": pa.int64(),
        "delay": pa.int64(),
        "vehicleID": pa.int64(),
        "stopID": pa.int64(),
        "atStop": pa.int64(),
    }
    table = read_columns(path, types, None if first_line(path).startswith("timestamp") else SIRI)
    time = integers(table["timestamp"])
    check_order(path, time)
    delays, has_stop = integers(table["delay"]), table["stopID"].is_valid().to_numpy()
    columns = [
        names_of(["BE", "DE"], (delays >= delay) & has_stop),
        table["vehicleID"],
        table["stopID"],
        pa.array(integers(table["atStop"]) == 1),
        delays,
        time // 1_000,
    ]
    return pa.table(columns, schema=BUSES)


def toll_events(path: AnyPath, route: str = "A-2") -> pa.Table:
    """Derive the two passages of every vehicle on one route, from trips between an intersection and a tollgate.

    Parameters
    ----------
    path
        CSV, optionally gzipped, whose header names at least ``intersection_id``, ``tollgate_id``, ``vehicle_id``,
        ``starting_time`` and ``travel_time`` (seconds), as table 5 of KDD Cup 2017 does. Equal rows count once.
    route
        Intersection and tollgate, such as ``A-2``.

    Returns
    -------
    pyarrow.Table
        Two rows for each trip, ordered by time: ``type`` (string: ``Pos1`` at the intersection, ``Pos2`` at the
        tollgate), ``vehicle`` (int64) and ``ts`` (int64, milliseconds since 1970, local time). At equal times, Pos1
        comes before Pos2, and then the trip that is listed first.

    Raises
    ------
    DataError
        If the file cannot be read or lacks a column.
    ValidationError
        If no vehicle takes the route.
    """
    types: Types = {
        "intersection_id": pa.string(),
        "tollgate_id": pa.string(),
        "vehicle_id": pa.int64(),
        "starting_time": pa.timestamp("ms"),
        "travel_time": pa.float64(),
    }
    table = read_columns(path, types)
    ends = zip(table["intersection_id"].to_pylist(), table["tollgate_id"].to_pylist(), strict=True)
    routes = [f"{intersection}-{tollgate}" for intersection, tollgate in ends]
    if route not in routes:
        raise ValidationError(f"route={route!r}: expected one of {', '.join(sorted(set(routes)))}")
    table = table.filter(pa.array([row_route == route for row_route in routes]))
    started, vehicle = integers(table["starting_time"]), integers(table["vehicle_id"])
    travel = np.rint(table["travel_time"].combine_chunks().to_numpy() * 1_000).astype(np.int64)
    distinct = np.sort(np.unique(np.stack([started, vehicle, travel]), axis=1, return_index=True)[1])
    started, vehicle, travel = started[distinct], vehicle[distinct], travel[distinct]
    return pa.Table.from_batches([passes(started, started + travel, vehicle)])


def passes(first: Ints, second: Ints, vehicle: Ints) -> pa.RecordBatch:
    """Sort the passages of both points by time; at equal times by point, then in the order of the vehicles.

    Parameters
    ----------
    first, second
        int64[n], milliseconds; times at which each vehicle passes the first and the second point.
    vehicle
        int64[n], number of each vehicle.

    Returns
    -------
    pyarrow.RecordBatch
        Two rows for each vehicle, with the schema `PASSES`.
    """
    ts = np.concatenate([first, second])
    order = np.argsort(ts, kind="stable")
    kinds = np.repeat([0, 1], len(first))[order]
    return pa.record_batch(
        [names_of(["Pos1", "Pos2"], kinds), np.concatenate([vehicle, vehicle])[order], ts[order]], schema=PASSES
    )


def names_of(names: list[str], numbers: npt.NDArray[Any]) -> Any:
    """Return the name of each number as an Arrow array.

    Parameters
    ----------
    names
        At most 127 names.
    numbers
        Indices into ``names``.

    Returns
    -------
    pyarrow.StringArray
        One name for each entry of ``numbers``.
    """
    return pa.DictionaryArray.from_arrays(numbers.astype(np.int8), pa.array(names)).cast(pa.string())


def _quote_types(change: Floats) -> Any:
    return names_of(["QE", "RE", "FE"], np.where(change > 0, 1, np.where(change < 0, 2, 0)))


def _first_in_each_second(time: Ints, player: Ints) -> Ints:
    """Return the ascending indices of each player's first row in each second."""
    pairs = np.stack([player, time // 1_000_000_000])
    return np.sort(np.unique(pairs, axis=1, return_index=True)[1])


def _milliseconds(stamps: Ints) -> Ints:
    """Convert minutes written as YYYYMMDDhhmm to milliseconds since 1970."""
    year, month, day = stamps // 10**8, stamps // 10**6 % 100, stamps // 10**4 % 100
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1
    return np.asarray(((days * 24 + stamps // 100 % 100) * 60 + stamps % 100) * 60_000)
