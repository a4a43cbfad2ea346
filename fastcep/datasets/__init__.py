"""Data sets: real streams that ship with fastcep, events derived from public data, and synthetic streams."""

from __future__ import annotations

from fastcep.datasets.catalogue import Dataset, list_datasets, make, path, show
from fastcep.datasets.derived import bus_events, soccer_events, stock_events, toll_events
from fastcep.datasets.generate import ds1, ds1_batches, ds2, ds2_batches, write_ds1_csv
from fastcep.datasets.mobility import bike_trips, bus_reports
from fastcep.datasets.synthetic_bikes import bike_chains, bike_chains_batches
from fastcep.datasets.synthetic_market import market, market_batches
from fastcep.datasets.synthetic_soccer import soccer, soccer_batches
from fastcep.datasets.synthetic_tasks import task_lives, task_lives_batches
from fastcep.datasets.synthetic_traffic import traffic, traffic_batches

__all__ = [
    "Dataset",
    "bike_chains",
    "bike_chains_batches",
    "bike_trips",
    "bus_events",
    "bus_reports",
    "ds1",
    "ds1_batches",
    "ds2",
    "ds2_batches",
    "list_datasets",
    "make",
    "market",
    "market_batches",
    "path",
    "show",
    "soccer",
    "soccer_batches",
    "soccer_events",
    "stock_events",
    "task_lives",
    "task_lives_batches",
    "toll_events",
    "traffic",
    "traffic_batches",
    "write_ds1_csv",
]
