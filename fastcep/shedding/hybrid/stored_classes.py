"""Store classes as parts of a model: convert tables and trees to Arrow and back.

A table has the column ``class`` with its cells in row-major order; a tree has a row per node. Features and other
attributes are in the metadata of the schema, as JSON.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.errors import ModelError, ValidationError
from fastcep.overload.protocols import Classes, Tree

__all__ = ["classes_from_table", "classes_to_table"]

_KEY = b"fastcep"
_NODES = {"feature": np.int32, "threshold": np.float64, "left": np.int32, "right": np.int32, "value": np.uint8}


def classes_to_table(classes: Classes | Tree) -> pa.Table:
    """Return classes as an Arrow table."""
    metadata: dict[str, Any] = {"features": list(classes.features), "other": classes.other}
    if isinstance(classes, Tree):
        columns = {name: np.asarray(getattr(classes, name), dtype) for name, dtype in _NODES.items()}
        metadata["form"] = "tree"
    else:
        columns = {"class": classes.table.ravel()}
        metadata |= {"form": "table", "low": list(classes.low), "shape": list(classes.table.shape)}
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    return table.replace_schema_metadata({_KEY: json.dumps(metadata)})


def classes_from_table(table: pa.Table) -> Classes | Tree:
    """Read classes from an Arrow table; raise `ModelError` if it is not one of `classes_to_table`.

    The matcher reads tables and trees without bounds checks, so all values are checked here.
    """
    try:
        metadata = json.loads((table.schema.metadata or {})[_KEY])
        features, other = tuple(map(str, metadata["features"])), int(metadata["other"])
        columns = {name: np.array(table[name].to_numpy()) for name in table.column_names}
        if metadata["form"] == "tree":
            return _checked_tree(Tree(features, **columns, other=other))
        cells = columns["class"].reshape([int(size) for size in metadata["shape"]])
        return _checked_table(Classes(features, tuple(map(int, metadata["low"])), cells, other))
    except (LookupError, TypeError, ValueError, AttributeError, ValidationError, pa.ArrowException) as error:
        raise ModelError(
            f"a part of a model is neither a table of classes nor a tree ({error!s}); "
            "fit a new model with fastcep.fit()"
        ) from None


def _checked_tree(tree: Tree) -> Tree:
    rows = tree.feature
    for name, dtype in _NODES.items():
        if getattr(tree, name).dtype != dtype or getattr(tree, name).shape != rows.shape:
            raise ValueError(f"found {name} of another type or length")
    if not len(rows) or tree.feature.min() < -1:
        raise ValueError("it has no nodes, or a node without a feature")
    tree.check()
    _check_other(tree.other)
    return tree


def _checked_table(classes: Classes) -> Classes:
    if classes.table.dtype != np.uint8 or not len(classes.features) == len(classes.low) == classes.table.ndim:
        raise ValueError("features and cells do not fit together")
    if not math.prod(classes.table.shape) or any(not -(2**63) <= low < 2**63 for low in classes.low):
        raise ValueError("it has no cells, or values beyond int64")
    _check_other(classes.other)
    return classes


def _check_other(other: int) -> None:
    if not 0 <= other <= 255:
        raise ValueError(f"found class {other}, expected one from 0 to 255")
