"""Data sets: real streams that ship with fastcep, and generators of the papers' synthetic ones."""

from __future__ import annotations

from fastcep.datasets.catalogue import Dataset, list_datasets, make, path, show
from fastcep.datasets.generate import ds1, ds1_batches, ds2, ds2_batches, write_ds1_csv

__all__ = [
    "Dataset",
    "ds1",
    "ds1_batches",
    "ds2",
    "ds2_batches",
    "list_datasets",
    "make",
    "path",
    "show",
    "write_ds1_csv",
]
