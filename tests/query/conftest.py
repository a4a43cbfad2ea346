"""Schema shared by the tests of queries."""

from __future__ import annotations

import pytest

from fastcep.events import Schema

SCHEMA = Schema(
    {
        "A": {"ID": "int64", "V": "int64", "x": "float64", "name": "string", "flag": "bool"},
        "B": {"ID": "int64", "V": "int64", "x": "float64", "name": "string", "flag": "bool"},
        "C": {"ID": "int64", "V": "float64", "end": "int64"},
        "BikeTrip": {"bike": "int64", "start": "int64", "end": "int64"},
    },
    type="type",
    time_unit="us",
    sources={"C": {"V": "v", "end": "stop"}, "BikeTrip": {"end": "stop"}},
)


@pytest.fixture
def schema() -> Schema:
    return SCHEMA
