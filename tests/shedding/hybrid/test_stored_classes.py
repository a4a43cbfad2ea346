"""Conversion of classes to parts of a model and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fastcep.errors import ModelError
from fastcep.overload.protocols import Classes, Tree
from fastcep.shedding.hybrid.stored_classes import classes_from_table, classes_to_table

TABLE = Classes(("a.V + b.V", "a.x"), (-2, 2**62), np.arange(6, dtype=np.uint8).reshape(2, 3), 5)
TREE = Tree(
    ("a.V", "ä"), np.array([0, 1, -1, -1, -1], np.int32), np.array([2.5, np.nextafter(1, 0), 0, 0, 0]),
    np.array([1, 3, 0, 0, 0], np.int32), np.array([2, 4, 0, 0, 0], np.int32), np.array([0, 0, 1, 3, 0], np.uint8), 2,
)  # fmt: skip


@pytest.mark.parametrize("classes", [TABLE, TREE, Tree((), *(np.array([x], of) for x, of in (
    (-1, np.int32), (0, np.float64), (0, np.int32), (0, np.int32), (0, np.uint8))))])  # fmt: skip
def test_a_round_trip_is_exact(classes: Classes | Tree) -> None:
    found = classes_from_table(classes_to_table(classes))
    assert type(found) is type(classes) and found.count == classes.count
    for name, value in vars(classes).items():
        other = getattr(found, name)
        if isinstance(value, np.ndarray):
            assert other.dtype == value.dtype and other.shape == value.shape and np.array_equal(other, value)
            assert other.flags.writeable and other.flags.c_contiguous
        else:
            assert other == value


def changed(part: pa.Table, column: str, values: Any, dtype: Any) -> pa.Table:
    at = part.column_names.index(column)
    return part.set_column(at, column, pa.array(values, dtype))


def about(classes: Classes | Tree, **other: Any) -> pa.Table:
    part = classes_to_table(classes)
    metadata = json.loads((part.schema.metadata or {})[b"fastcep"]) | other
    return part.replace_schema_metadata({"fastcep": json.dumps(metadata)})


NODES = classes_to_table(TREE)


@pytest.mark.parametrize(
    "part",
    [
        pa.table({}),
        NODES.replace_schema_metadata({"fastcep": "{"}),
        NODES.replace_schema_metadata({"fastcep": "[]"}),
        NODES.slice(0, 0),
        NODES.slice(0, 2),
        NODES.drop_columns("value"),
        changed(NODES, "left", [1, 0, 0, 0, 0], pa.int32()),
        changed(NODES, "right", [2, 5, 0, 0, 0], pa.int32()),
        changed(NODES, "right", [2, -1, 0, 0, 0], pa.int32()),
        changed(NODES, "feature", [0, 2, -1, -1, -1], pa.int32()),
        changed(NODES, "feature", [0, -2, -1, -1, -1], pa.int32()),
        changed(NODES, "feature", [0, 1, -1, -1, -1], pa.int64()),
        changed(NODES, "feature", [0, None, -1, -1, -1], pa.int32()),
        about(TREE, other=256),
        about(TREE, other=None),
        about(TABLE, shape=[2, 4]),
        about(TABLE, shape=[6]),
        about(TABLE, low=[1]),
        about(TABLE, low=[1, 2**63]),
        about(TABLE, other=-1),
        about(TABLE, features=["a"]),
        about(TABLE, form="tree"),
        changed(classes_to_table(TABLE), "class", range(6), pa.int64()),
    ],
)
def test_what_is_no_part_of_classes_is_refused(part: pa.Table) -> None:
    with pytest.raises(ModelError, match=r"neither a table of classes nor a tree \(.+\); fit a new model"):
        classes_from_table(part)
