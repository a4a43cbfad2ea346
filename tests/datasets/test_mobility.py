"""Trips of bikes and reports of buses: small files with known results, rejected input."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from datasets.test_derived import SIRI, SIRI_HEADER

from fastcep import datasets
from fastcep.datasets.mobility import BIKE_TRIPS, BUS_REPORTS
from fastcep.errors import DataError

TRIPS = """"tripduration","starttime","stoptime","start station id","end station id","bikeid"
131,"2018-05-01 07:29:57.5490","2018-05-01 07:32:08.6160",3183,3184,29617
73,"2018-05-01 00:00:00.0010","2018-05-01 08:15:11.9230",3184,3183,29288
73,"2018-05-01 07:29:57.5490","2018-05-01 08:15:11.9230",3183,3185,29288
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "in.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_trips_are_sorted_by_time(tmp_path: Path) -> None:
    found = datasets.bike_trips(written(tmp_path, TRIPS))
    assert found.schema == BIKE_TRIPS and found["bike"].to_pylist() == [29288, 29617, 29288]
    assert found["ts"].to_pylist() == [1525132800001, 1525159797549, 1525159797549]
    assert found["start"].to_pylist() == [3184, 3183, 3183] and found["end"].to_pylist() == [3183, 3184, 3185]


@pytest.mark.parametrize("header", ["", SIRI_HEADER])
def test_reports_of_buses(tmp_path: Path, header: str) -> None:
    found = datasets.bus_reports(str(written(tmp_path, header + SIRI)))
    assert found.schema == BUS_REPORTS and found["vehicle"].to_pylist() == [33452, 33452, 33453, 33454, 33455]
    assert found["ts"].to_pylist()[:2] == [1354233602000, 1354233603000]
    assert set(found["operator"].to_pylist()) == {"HN"} and set(found["block"].to_pylist()) == {272006}


def test_rejected_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        datasets.bike_trips(tmp_path / "other.csv")
    with pytest.raises(DataError, match="expected CSV with the columns starttime, start station id, end station id"):
        datasets.bike_trips(written(tmp_path, TRIPS.replace("bikeid", "bike")))
    with pytest.raises(DataError, match="row 1, column 'end station id' is empty, expected int64"):
        datasets.bike_trips(written(tmp_path, TRIPS.replace("3184,3183", "3184,")))
    with pytest.raises(DataError, match="row 1 is earlier than the one before; sort the file by time"):
        datasets.bus_reports(written(tmp_path, SIRI.replace("1354233603000000", "1354233601000000", 1)))
