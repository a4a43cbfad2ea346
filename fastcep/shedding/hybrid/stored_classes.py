"""Classes as parts of a model: tables and trees to Arrow and back.

A table's column is ``class``, its cells in row-major order; a tree has a row per node. What both are of is in the
metadata of the schema, as JSON.
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
    """Make a part of a model."""
    about: dict[str, Any] = {"features": list(classes.features), "other": classes.other}
    if isinstance(classes, Tree):
        columns = {name: np.asarray(getattr(classes, name), dtype) for name, dtype in _NODES.items()}
        about["form"] = "tree"
    else:
        columns = {"class": classes.table.ravel()}
        about |= {"form": "table", "low": list(classes.low), "shape": list(classes.table.shape)}
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    return table.replace_schema_metadata({_KEY: json.dumps(about)})


def classes_from_table(table: pa.Table) -> Classes | Tree:
    """Read a part of a model: `ModelError` if it is not what `classes_to_table` gives.

    The matcher looks classes up and walks trees without looking where it goes, so that is done here.
    """
    try:
        about = json.loads((table.schema.metadata or {})[_KEY])
        features, other = tuple(map(str, about["features"])), int(about["other"])
        columns = {name: np.array(table[name].to_numpy()) for name in table.column_names}
        if about["form"] == "tree":
            return _checked_tree(Tree(features, **columns, other=other))
        cells = columns["class"].reshape([int(size) for size in about["shape"]])
        return _checked_table(Classes(features, tuple(map(int, about["low"])), cells, other))
    except (LookupError, TypeError, ValueError, AttributeError, ValidationError, pa.ArrowException) as error:
        raise ModelError(
            f"a part of a model is no table of classes and no tree ({error!s}); fit a new model with fastcep.fit()"
        ) from None


def _checked_tree(tree: Tree) -> Tree:
    rows = tree.feature
    for name, dtype in _NODES.items():
        if getattr(tree, name).dtype != dtype or getattr(tree, name).shape != rows.shape:
            raise ValueError(f"found {name} of another type or length")
    if not len(rows) or tree.feature.min() < -1:
        raise ValueError("it has no nodes, or one that asks for no feature")
    tree.check()
    _check_other(tree.other)
    return tree


def _checked_table(classes: Classes) -> Classes:
    if classes.table.dtype != np.uint8 or not len(classes.features) == len(classes.low) == classes.table.ndim:
        raise ValueError("features and cells do not fit each other")
    if not math.prod(classes.table.shape) or any(not -(2**63) <= low < 2**63 for low in classes.low):
        raise ValueError("it has no cells, or of values beyond int64")
    _check_other(classes.other)
    return classes


def _check_other(other: int) -> None:
    if not 0 <= other <= 255:
        raise ValueError(f"found class {other}, expected one from 0 to 255")
