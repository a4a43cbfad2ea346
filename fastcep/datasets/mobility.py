"""Read trips of bikes and reports of buses from public data, for the queries of the paper on migration.

fastcep does not ship these data; the user names a file.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fastcep.datasets.csv_columns import SIRI, AnyPath, Types, check_order, first_line, integers, read_columns

__all__ = ["BIKE_TRIPS", "BUS_REPORTS", "bike_trips", "bus_reports"]

_BIKE_TRIPS: Types = {"bike": pa.int64(), "start": pa.int64(), "end": pa.int64(), "ts": pa.int64()}
_BUS_REPORTS: Types = {"vehicle": pa.int64(), "operator": pa.string(), "block": pa.int64(), "ts": pa.int64()}
BIKE_TRIPS, BUS_REPORTS = (pa.schema(types) for types in (_BIKE_TRIPS, _BUS_REPORTS))


def bike_trips(path: AnyPath) -> pa.Table:
    """Read trips of Citi Bike, ordered by their start.

    Parameters
    ----------
    path
        CSV, optionally gzipped, whose header names at least ``starttime``, ``start station id``, ``end station id`` and
        ``bikeid``, as the files until January 2021 do; in any order.

    Returns
    -------
    pyarrow.Table
        One row for each trip: ``bike``, ``start``, ``end`` (int64; numbers of the bike and the stations) and ``ts``
        (int64, milliseconds since 1970, local time). Trips that start at the same time stay in the order of the file.

    Raises
    ------
    DataError
        If the file cannot be read, lacks a column or a value.
    """
    types: Types = {
        "starttime": pa.timestamp("ns"),
        "start station id": pa.int64(),
        "end station id": pa.int64(),
        "bikeid": pa.int64(),
    }
    table = read_columns(path, types)
    time = integers(table["starttime"]) // 1_000_000
    order = np.argsort(time, kind="stable")
    columns = [table[name].take(order) for name in ("bikeid", "start station id", "end station id")]
    return pa.table([*columns, time[order]], schema=BIKE_TRIPS)


def bus_reports(path: AnyPath) -> pa.Table:
    """Read reports of buses in Dublin.

    Parameters
    ----------
    path
        CSV, optionally gzipped, with the 15 columns of the source (with or without a header), ordered by time.

    Returns
    -------
    pyarrow.Table
        One row for each report, in the order of the file: ``vehicle`` (int64), ``operator`` (string), ``block`` (int64)
        and ``ts`` (int64, milliseconds since 1970, UTC).

    Raises
    ------
    DataError
        If the file cannot be read, lacks a column or a value, or is not ordered by time.
    """
    types: Types = {"timestamp": pa.int64(), "operator": pa.string(), "blockID": pa.int64(), "vehicleID": pa.int64()}
    table = read_columns(path, types, None if first_line(path).startswith("timestamp") else SIRI)
    time = integers(table["timestamp"])
    check_order(path, time)
    return pa.table([table["vehicleID"], table["operator"], table["blockID"], time // 1_000], schema=BUS_REPORTS)
