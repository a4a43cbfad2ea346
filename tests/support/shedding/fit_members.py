"""Tables of members to fit classes to, as from a lineage record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def table(contribution: Any, consumption: Any, **features: Any) -> pa.Table:
    lists = {name: _lists(parts) for name, parts in (("contribution", contribution), ("consumption", consumption))}
    return pa.table({name: pa.array(column) for name, column in features.items()} | lists)


def _lists(parts: Any) -> Any:
    values = np.asarray(parts, np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def sums(rows: int = 6_000, rate: float = 3.0, seed: int = 1, slices: int = 4) -> pa.Table:
    """Return partial matches (a, b) of Q1 with c.V from 2 to 10; those with a.V + b.V > 10 have no match.

    The contribution of the others, and the cost of all, depend on the remaining part of the window at their birth.
    """
    random = np.random.default_rng(seed)
    a, b, key = random.integers(1, 11, (3, rows))
    live = random.uniform(0, 1, (rows, 1)) > np.arange(slices) / slices
    matches = random.poisson(live * (rate / slices / 9) * (a + b <= 10)[:, None])
    visits = random.poisson(live * 40 / slices)
    return table(matches, 100 * visits + 700 * matches, total=a + b, a=a, b=b, key=key, noise=random.normal(size=rows))
