"""Cases on real data: one or two queries per data set, written as a user of the data would write them.

One case is on a generated stream that changes: `ds1_reversed`. Two data sets are part of the package. The others are
read from a folder (``--shared``); a case whose folder is missing is left out. Windows hold a few hundred to a few
thousand events, so that the load is high.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq

from bench.unseen.case import Case
from fastcep.datasets import bus_events, ds1, path, stock_events

__all__ = ["EVENTS", "REAL", "WINDOWED", "real_case"]

#: Largest number of events of a case.
EVENTS = 80_000

TRIPS = """STREAM TIME 'start_date'
EVENT Trip (bike int64 FROM 'bike_id', start int64 FROM 'start_terminal', end int64 FROM 'end_terminal')
"""
TRIANGLE = (
    TRIPS
    + """QUERY triangle
PATTERN SEQ(Trip a, Trip b, Trip c)
WHERE b.start = a.end AND c.start = b.end AND c.end = a.start AND a.start != a.end
WITHIN {window}
"""
)
HOT_PATH = (
    TRIPS
    + """QUERY hot_path
PATTERN SEQ(Trip+ a[], Trip b)
WHERE a[i+1].bike = a[i].bike AND a[i+1].start = a[i].end AND a[last].bike = b.bike AND b.end IN {{{ends}}}
WITHIN {window}
"""
)
TASKS = """STREAM TIME 'time' UNIT us TYPE 'kind'
EVENT Submit = 0 (job int64, task int64, machine int64)
EVENT Schedule = 1 (job int64, task int64, machine int64)
EVENT Evict = 2 (job int64, task int64, machine int64)
EVENT Fail = 3 (job int64, task int64, machine int64)
EVENT Finish = 4 (job int64, task int64, machine int64)
EVENT Kill = 5 (job int64, task int64, machine int64)

"""
PREFIX = (
    TASKS
    + """QUERY prefix
PATTERN SEQ(Submit a, Schedule b, Finish c)
WHERE [job, task] AND b.machine = c.machine
WITHIN 3min
"""
)
EVICTED = (
    TASKS
    + """QUERY evicted
PATTERN SEQ(Schedule a, Schedule b, (Evict|Kill|Fail) c)
WHERE [job] AND a.machine = c.machine AND a.task = c.task AND b.task > a.task
WITHIN 1min
"""
)
QUOTES = """STREAM TIME 'ts' UNIT ms TYPE 'type'
EVENT RE (number int64, price float64, change float64)
EVENT FE (number int64, price float64, change float64)
EVENT QE (number int64, price float64, change float64)

"""
RUN = (
    QUOTES
    + """QUERY run
PATTERN SEQ(RE a, RE b, RE c, RE d)
WHERE [number] AND a.price < b.price AND b.price < c.price AND c.price < d.price
WITHIN 20min
"""
)
DIP = (
    QUOTES
    + """QUERY dip
PATTERN SEQ(RE a, FE+ b[], RE c)
WHERE [number] AND b[i+1].price < b[i].price AND b[first].price < a.price AND c.price > a.price
WITHIN 8min
"""
)
FOLLOW = (
    QUOTES
    + """QUERY follow
PATTERN SEQ(RE a, RE b, FE c)
WHERE a.number != b.number AND b.number = c.number AND a.change > 0.2 AND b.change > 0.1 AND c.change < -0.1
WITHIN 2min
"""
)
POSITIONS = """STREAM TIME 't'
EVENT Position (id int64, x float64, y float64, speed float64)

"""
SPRINT = (
    POSITIONS
    + """QUERY sprint
PATTERN SEQ(Position a, Position b, Position c)
WHERE [id] AND a.speed < 2 AND b.speed > a.speed + 1 AND c.speed > b.speed + 1
WITHIN 4s
"""
)
CLOSE = (
    POSITIONS
    + """QUERY close
PATTERN SEQ(Position a, Position b, Position c)
WHERE a.id != b.id AND a.id = c.id AND a.speed > 3 AND c.speed < a.speed - 1 AND ABS(a.x - b.x) + ABS(a.y - b.y) < 4
WITHIN 3s
"""
)
FOLLOW_IN_WINDOWS = (
    QUOTES
    + """QUERY follow
PATTERN SEQ(RE a, RE b, FE c)
WHERE a.number != b.number AND b.number = c.number AND a.change > 0.1 AND b.change > 0.05 AND c.change < -0.05
WINDOW OPEN ON (RE|FE) o WHERE o.number < 5 CLOSE AFTER 2min
"""
)
TEAM_MATES = (
    POSITIONS
    + """QUERY team_mates
PATTERN SEQ(Position a, ANY(3, Position b[] DISTINCT id))
WHERE a.speed > 4 AND b[i].id != a.id AND ABS(b[i].x - a.x) + ABS(b[i].y - a.y) < 12
WINDOW OPEN ON Position o WHERE o.speed > 4 CLOSE AFTER 5s
STRATEGY skip_till_next
"""
)
BUS_STOP = """STREAM TIME 'ts' UNIT ms TYPE 'type'
EVENT DE (vehicle int64, stop int64, delay int64)
EVENT BE (vehicle int64, stop int64, delay int64)

QUERY bus_stop
PATTERN SEQ(DE a, DE b, DE c)
WHERE [stop] AND a.vehicle != b.vehicle AND c.delay >= b.delay
WITHIN 20min
"""
BUS_DELAY = """STREAM TIME 'ts' UNIT ms
EVENT Report (vehicle int64, stop int64, delay int64)

QUERY bus_delay
PATTERN SEQ(Report a, Report b, Report c)
WHERE [vehicle] AND b.delay > a.delay + 20 AND c.delay > b.delay + 20
WITHIN 5min
"""
SLOWING = """STREAM TIME 'ts' UNIT s
EVENT Link (link int64, vehicle int64, seconds float64)

QUERY slowing
PATTERN SEQ(Link a, Link b, Link c)
WHERE [link] AND b.seconds > 1.5 * a.seconds AND c.seconds > 1.5 * b.seconds
WITHIN 20min
"""
HEAVY = """STREAM TIME 'time'
EVENT Passage (tollgate_id int64, direction int64, vehicle_model int64, has_etc int64)

QUERY heavy
PATTERN SEQ(Passage a, Passage b, Passage c)
WHERE [tollgate_id, direction] AND a.vehicle_model > 2 AND b.vehicle_model >= a.vehicle_model
  AND c.vehicle_model >= b.vehicle_model AND a.has_etc = c.has_etc
WITHIN 10min
"""
PAYMENTS = """STREAM TIME 'TX_DATETIME'
EVENT Pay (customer int64 FROM 'CUSTOMER_ID', terminal int64 FROM 'TERMINAL_ID', amount float64 FROM 'TX_AMOUNT')

"""
TERMINAL = (
    PAYMENTS
    + """QUERY terminal
PATTERN SEQ(Pay a, Pay b, Pay c)
WHERE [terminal] AND b.amount > a.amount AND c.amount > 1.5 * b.amount
WITHIN 3d
"""
)
PROBE = (
    PAYMENTS
    + """QUERY probe
PATTERN SEQ(Pay a, Pay{1,3} b[], Pay c)
WHERE [customer] AND a.amount < 20 AND b[i].amount < 60 AND c.amount > 80
WITHIN 2d
"""
)

PAIRS = """STREAM TIME 'ts' UNIT us TYPE 'type'
EVENT A (ID int64, V int64)
EVENT B (ID int64, V int64)
EVENT C (ID int64, V int64)
EVENT D (ID int64, V int64)

QUERY pairs
PATTERN SEQ(A a, B b, C c)
WHERE [ID] AND a.V + b.V = c.V
WITHIN 8ms
"""


@cache
def _trips(folder: Path | None) -> pa.Table:
    """Trips ordered by their start: those of the Bay Area, or those of Jersey City from a folder."""
    if folder is None:
        return pq.read_table(path("bayarea_2014"))
    names = {
        "starttime": "start_date", "start station id": "start_terminal", "end station id": "end_terminal",
        "bikeid": "bike_id",
    }  # fmt: skip
    types = [pa.timestamp("us"), pa.int64(), pa.int64(), pa.int64()]
    options = pv.ConvertOptions(column_types=dict(zip(names, types, strict=True)), include_columns=list(names))
    files = [folder / "citibike" / f"JC-{month}-citibike-tripdata.csv.gz" for month in ("201901", "201902", "201903")]
    table = pa.concat_tables(pv.read_csv(file, convert_options=options) for file in files)
    return table.rename_columns(list(names.values())).sort_by("start_date")


def _bayarea(_: Path) -> pa.Table:
    return _trips(None)


def _jersey(shared: Path) -> pa.Table:
    return _trips(shared)


def _tasks(_: Path) -> pa.Table:
    return pq.read_table(path("google_2011"))


@cache
def _bars(shared: Path) -> pa.Table:
    return stock_events(shared / "stocks" / "sp100_minute_bars_20181105_20181109.csv.gz")


@cache
def _positions(shared: Path) -> pa.Table:
    """Every fourth position of each player, which is five a second."""
    file = shared / "soccer" / "tromso_anzhi_20131107_positions_20hz.csv.gz"
    types = {"t": pa.timestamp("ns"), "id": pa.int64(), "x": pa.float64(), "y": pa.float64(), "speed": pa.float64()}
    options = pv.ConvertOptions(column_types=types, include_columns=list(types))
    table = pv.read_csv(file, convert_options=options)
    number, players = np.empty(len(table), np.int64), table["id"].to_numpy()
    for player in np.unique(players):
        rows = np.flatnonzero(players == player)
        number[rows] = np.arange(len(rows))
    return table.filter(pa.array(number % 4 == 0))


@cache
def _buses(shared: Path) -> pa.Table:
    """Reports of a night in November and one in January."""
    files = ("siri_20121130_0000_0040_10k.csv.gz", "siri_20130131_0000_0603_10k.csv.gz")
    return pa.concat_tables(bus_events(shared / "dublinbus" / file) for file in files)


@cache
def _links(shared: Path) -> pa.Table:
    """One event for each road link that a vehicle passes, when it leaves the link."""
    file = shared / "tollgate" / "trajectories_table_5_training_phase2.csv.gz"
    table = pv.read_csv(file, convert_options=pv.ConvertOptions(include_columns=["vehicle_id", "travel_seq"]))
    passed = pc.split_pattern(table["travel_seq"], ";").combine_chunks()
    parts = [item.split("#") for item in passed.flatten().to_pylist()]
    vehicles = np.repeat(table["vehicle_id"].to_numpy(), np.diff(passed.offsets.to_numpy()))
    entered = np.array([part[1] for part in parts], "datetime64[s]").astype(np.int64)
    seconds = np.array([float(part[2]) for part in parts])
    columns = {
        "link": np.array([int(part[0]) for part in parts]), "vehicle": vehicles, "seconds": seconds,
        "ts": entered + seconds.astype(np.int64),
    }  # fmt: skip
    return pa.table(columns).sort_by("ts")


@cache
def _passages(shared: Path) -> pa.Table:
    return pv.read_csv(shared / "tollgate" / "volume_table_6_training_phase2.csv.gz").sort_by("time")


@cache
def _payments(shared: Path) -> pa.Table:
    columns = ["TX_DATETIME", "CUSTOMER_ID", "TERMINAL_ID", "TX_AMOUNT"]
    file = shared / "cardfraud" / "simulated_transactions_201804_201805.csv.gz"
    return pv.read_csv(file, convert_options=pv.ConvertOptions(include_columns=columns))


def _payments_of_terminals(shared: Path) -> pa.Table:
    """Return the payments at one in six terminals."""
    table = _payments(shared)
    return table.filter(pc.less(table["TERMINAL_ID"], 10_000 // 6))


def _payments_of_customers(shared: Path) -> pa.Table:
    """Return the payments by one in six customers."""
    table = _payments(shared)
    return table.filter(pc.less(table["CUSTOMER_ID"], 5_000 // 6))


def _reversed_ds1(_: Path) -> pa.Table:
    """DS1 with large values of C in the last quarter: pairs of A and B that had no matches then have them all."""
    table = ds1(events=EVENTS, seed=7, c_values=(2, 10))
    values = table["V"].to_numpy().copy()
    late = (np.arange(len(table)) >= 3 * len(table) // 4) & pc.equal(table["type"], "C").to_numpy()
    values[late] = 22 - values[late]  # from 2..10 to 12..20, which only the other sums of two values from 1..10 reach
    return table.set_column(table.schema.get_field_index("V"), "V", pa.array(values))


#: From the name of a case to its document, its folder (None: part of the package), and the function that reads it.
REAL: dict[str, tuple[str, str | None, Callable[[Path], pa.Table]]] = {
    "ds1_reversed": (PAIRS, None, _reversed_ds1),
    "jersey_triangle": (TRIANGLE.format(window="1d"), "citibike", _jersey),
    "jersey_hot_path": (HOT_PATH.format(window="1d", ends="3186, 3183, 3203"), "citibike", _jersey),
    "bayarea_triangle": (TRIANGLE.format(window="8h"), None, _bayarea),
    "bayarea_hot_path": (HOT_PATH.format(window="1d", ends="70, 69, 50"), None, _bayarea),
    "google_prefix": (PREFIX, None, _tasks),
    "google_evicted": (EVICTED, None, _tasks),
    "bars_run": (RUN, "stocks", _bars),
    "bars_dip": (DIP, "stocks", _bars),
    "bars_follow": (FOLLOW, "stocks", _bars),
    "soccer_sprint": (SPRINT, "soccer", _positions),
    "soccer_close": (CLOSE, "soccer", _positions),
    "dublin_stop": (BUS_STOP, "dublinbus", _buses),
    "dublin_delay": (BUS_DELAY, "dublinbus", _buses),
    "tollgate_slowing": (SLOWING, "tollgate", _links),
    "tollgate_heavy": (HEAVY, "tollgate", _passages),
    "cards_terminal": (TERMINAL, "cardfraud", _payments_of_terminals),
    "cards_probe": (PROBE, "cardfraud", _payments_of_customers),
}


#: Cases with explicit windows, for the comparison of kinds of queries.
WINDOWED: dict[str, tuple[str, str | None, Callable[[Path], pa.Table]]] = {
    "real data 1": (FOLLOW_IN_WINDOWS, "stocks", _bars),
    "real data 2": (TEAM_MATES, "soccer", _positions),
}


def real_case(name: str, shared: Path, events: int = EVENTS) -> Case | None:
    """Return the case with a name, or None if its folder is missing.

    Parameters
    ----------
    name
        Key of `REAL` or `WINDOWED`.
    shared
        Folder with the data sets that are not part of the package.
    events
        Largest number of events. They are taken around the middle of the data set, whose first half is history.
    """
    document, folder, read = (REAL | WINDOWED)[name]
    if folder is not None and not (shared / folder).is_dir():
        return None
    table = read(shared)
    first = max(0, (len(table) - events) // 2)
    return Case(name, document, table.slice(first, events).combine_chunks())
