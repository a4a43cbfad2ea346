"""Events derived from public data: small files with known results, the real files, and rejected input."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.tables import SHARED

from fastcep import datasets
from fastcep.datasets.derived import BUSES, PASSES, POSITIONS, QUOTES
from fastcep.errors import DataError, ValidationError

BARS = """Time,symbol,open,high,low,close,volume
2018-11-05 09:31:00,A,1,1,1,10.0,5
2018-11-05 09:31:00,B,1,1,1,20.0,5
2018-11-05 09:32:00,A,1,1,1,10.5,5
2018-11-05 09:32:00,B,1,1,1,19.75,5
2018-11-05 09:33:00,C,1,1,1,1.0,5
2018-11-05 09:33:00,A,1,1,1,10.5,5
2018-11-05 09:34:00,B,1,1,1,20.0,5
"""
POSITIONS_CSV = """t,id,x,y,heading
2013-11-07 21:05:13.100000001,2,1.0,0.0,0
2013-11-07 21:05:13.200000000,1,0.0,0.0,0
2013-11-07 21:05:13.300000000,2,9.0,9.0,0
2013-11-07 21:05:13.400000000,3,3.0,4.0,0
2013-11-07 21:05:14.100000000,3,0.0,3.0,0
2013-11-07 21:05:14.150000000,1,0.0,1.0,0
2013-11-07 21:05:14.200000000,2,0.0,4.0,0
2013-11-07 21:05:16.000000000,2,0.0,1.0,0
"""
SIRI = """1354233602000000,272,0,027B1002,2012-11-29,331,HN,0,-6.2,53.4,68,272006,33452,675,1
1354233603000000,,0,null,2012-11-29,331,HN,0,-6.2,53.4,59,272006,33452,675,1
1354233603000000,272,0,027B1002,2012-11-29,331,HN,0,-6.2,53.4,600,272006,33453,675,0
1354233604000000,272,0,027B1002,2012-11-29,331,HN,0,-6.2,53.4,600,272006,33454,,1
1354233605000000,272,0,027B1002,2012-11-29,331,HN,0,-6.2,53.4,-5,272006,33455,null,1
"""
SIRI_HEADER = (
    "timestamp,lineID,direction,journeyPatternID,timeframe,vehicleJourneyID,operator,congestion,lon,lat,delay,blockID,"
    "vehicleID,stopID,atStop\n"
)
TRAVELS = """"intersection_id","tollgate_id","vehicle_id","starting_time","travel_seq","travel_time"
"A","2","7","2016-10-18 00:00:10","1#x#2","60.5"
"A","3","8","2016-10-18 00:00:11","1#x#2","5"
"A","2","9","2016-10-18 00:00:20","1#x#2","20"
"A","2","9","2016-10-18 00:00:20","1#x#2","20"
"A","2","5","2016-10-18 00:00:40","1#x#2","1"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "in.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_stock_events(tmp_path: Path) -> None:
    table = datasets.stock_events(written(tmp_path, BARS), leading=["C"])
    assert table.schema.equals(QUOTES)
    assert table["type"].to_pylist() == ["QE", "QE", "RE", "FE", "QE", "QE", "RE"]
    assert table["number"].to_pylist() == [1, 2, 1, 2, 0, 1, 2]
    assert table["symbol"].to_pylist() == list("ABABCAB")
    assert table["change"].to_pylist() == [None, None, 0.5, -0.25, None, 0.0, 0.25]
    assert table["price"].to_pylist() == [10.0, 20.0, 10.5, 19.75, 1.0, 10.5, 20.0]
    start = int(np.datetime64("2018-11-05T09:31", "ms").astype(np.int64))
    assert [(ts - start) // 60_000 for ts in table["ts"].to_pylist()] == [0, 0, 1, 1, 2, 2, 3]


def test_stock_events_without_a_header(tmp_path: Path) -> None:
    rows = "X,200802290959,1,1,1,2.0,9\nY,200803010000,1,1,1,2.0,9\nX,200803010001,1,1,1,1.5,9\n"
    table = datasets.stock_events(written(tmp_path, rows))
    assert table["type"].to_pylist() == ["QE", "QE", "FE"]
    days = table["ts"].cast(pa.timestamp("ms")).to_pylist()
    assert [day.isoformat() for day in days] == ["2008-02-29T09:59:00", "2008-03-01T00:00:00", "2008-03-01T00:01:00"]


def test_soccer_events(tmp_path: Path) -> None:
    table = datasets.soccer_events(written(tmp_path, POSITIONS_CSV), striker=1, reach=3.0)
    assert table.schema.equals(POSITIONS)
    assert table["player"].to_pylist() == [2, 1, 3, 3, 1, 2, 2]  # the second position of 2 in its second is left out
    assert table["type"].to_pylist() == ["PO", "STR", "PO", "DF", "STR", "DF", "PO"]
    assert table["distance"].to_pylist() == [None, None, 5.0, 3.0, None, 3.0, None]  # the last: not seen for a second
    assert table["striker"].to_pylist() == [None, None, 1, 1, None, 1, None]
    assert [ts % 10_000 for ts in table["ts"].to_pylist()] == [3100, 3200, 3400, 4100, 4150, 4200, 6000]


@pytest.mark.parametrize("header", ["", SIRI_HEADER])
def test_bus_events(tmp_path: Path, header: str) -> None:
    table = datasets.bus_events(written(tmp_path, header + SIRI))
    assert table.schema.equals(BUSES)
    assert table["type"].to_pylist() == ["DE", "BE", "DE", "BE", "BE"]
    assert table["stop"].to_pylist() == [675, 675, 675, None, None]
    assert table["at_stop"].to_pylist() == [True, True, False, True, True]
    assert table["vehicle"].to_pylist() == [33452, 33452, 33453, 33454, 33455]
    assert table["ts"][0].as_py() == 1354233602000
    assert datasets.bus_events(written(tmp_path, header + SIRI), delay=30)["type"].to_pylist()[1] == "DE"


def test_toll_events(tmp_path: Path) -> None:
    table = datasets.toll_events(written(tmp_path, TRAVELS), "A-2")
    assert table.schema.equals(PASSES)
    assert table["type"].to_pylist() == ["Pos1", "Pos1", "Pos1", "Pos2", "Pos2", "Pos2"]
    assert table["vehicle"].to_pylist() == [7, 9, 5, 9, 5, 7]
    start = table["ts"][0].as_py()
    assert [ts - start for ts in table["ts"].to_pylist()] == [0, 10_000, 30_000, 30_000, 31_000, 60_500]
    assert len(datasets.toll_events(written(tmp_path, TRAVELS), "A-3")) == 2


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be read .*; check the path"):
        datasets.stock_events(tmp_path / "no.csv")
    with pytest.raises(ValidationError, match=r"leading=\['Z'\]: expected symbols of the file, such as A, B, C"):
        datasets.stock_events(written(tmp_path, BARS), leading=["A", "Z"])
    with pytest.raises(DataError, match="row 2 is earlier than the one before; sort the file by time"):
        datasets.stock_events(written(tmp_path, BARS.replace("05 09:32:00,A", "04 09:32:00,A")))
    with pytest.raises(DataError, match="expected CSV with the columns Time, symbol, close"):
        datasets.stock_events(written(tmp_path, BARS.replace("close", "last")))
    with pytest.raises(DataError, match="row 3, column 'close' is empty, expected double"):
        datasets.stock_events(written(tmp_path, BARS.replace("19.75", "")))
    with pytest.raises(DataError, match="expected CSV with the columns"):
        datasets.bus_events(written(tmp_path, BARS))
    with pytest.raises(ValidationError, match=r"striker=9: expected one of the players \[1, 2, 3\]"):
        datasets.soccer_events(written(tmp_path, POSITIONS_CSV), striker=9)
    with pytest.raises(ValidationError, match="reach=0: expected a positive number of metres"):
        datasets.soccer_events(written(tmp_path, POSITIONS_CSV), striker=1, reach=0)
    with pytest.raises(ValidationError, match="route='B-1': expected one of A-2, A-3"):
        datasets.toll_events(written(tmp_path, TRAVELS), "B-1")


def shared(folder: str, name: str) -> Path:
    path = SHARED / folder / name
    if not path.exists():
        pytest.skip(f"no {name} in the folder that FASTCEP_SHARED names")
    return path


@pytest.mark.shared
def test_real_quotes() -> None:
    """Check the shares that the description of the data gives: 48 % rise, 46 % fall."""
    week = datasets.stock_events(shared("stocks", "sp100_minute_bars_20181105_20181109.csv.gz"), ["AAPL"])
    assert Counter(week["type"].to_pylist()) == {"RE": 46_234, "FE": 44_713, "QE": 5_923}
    assert week["change"].null_count == 50
    day = datasets.stock_events(shared("stocks", "NASDAQ_20080201_first_10k_bars.csv.gz"))
    assert len(day) == 10_000 and day["change"].null_count == len(set(day["symbol"].to_pylist())) == 1_514


@pytest.mark.shared
def test_real_positions() -> None:
    table = datasets.soccer_events(shared("soccer", "tromso_anzhi_20131107_positions_20hz.csv.gz"), 10)
    assert Counter(table["type"].to_pylist()) == {"STR": 632, "DF": 121, "PO": 5_873}
    seconds = Counter(zip(table["player"].to_pylist(), (table["ts"].to_numpy() // 1_000).tolist(), strict=True))
    assert max(seconds.values()) == 1


@pytest.mark.shared
def test_real_buses() -> None:
    names = ("siri_20121130_0000_0040_10k.csv.gz", "siri_20130131_0000_0603_10k.csv.gz")
    counts = [Counter(datasets.bus_events(shared("dublinbus", name))["type"].to_pylist()) for name in names]
    assert counts == [{"DE": 2_191, "BE": 7_809}, {"DE": 757, "BE": 9_243}]


@pytest.mark.shared
def test_real_passages() -> None:
    """Check the numbers of trips that the description of the data gives for each route, less the 17 duplicate rows."""
    path = shared("tollgate", "trajectories_table_5_training_phase2.csv.gz")
    rows = {route: len(datasets.toll_events(path, route)) for route in ("A-2", "A-3", "B-1", "B-3", "C-1", "C-3")}
    assert rows == {"A-2": 7_624, "A-3": 5_056, "B-1": 1_692, "B-3": 3_120, "C-1": 1_668, "C-3": 1_078}
