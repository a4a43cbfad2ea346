"""The survey of a stream on Spark."""

from __future__ import annotations

import random
from bisect import bisect_right
from typing import Any

import pytest

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 3_000])
def test_with_bucket(spark: Any, count: int) -> None:
    """Up to the number of edges of a stream in a thousand slices, too many for a tree of conditions."""
    from pyspark.sql import functions as F

    from fastcep.spark.slicing.survey import with_bucket

    draw = random.Random(count)
    edges = sorted(draw.sample(range(-(10**18), 10**18), count))
    times = [draw.randrange(-(2**63) + 1, 2**63) for _ in range(200)] + edges[:50] + [one - 1 for one in edges[-50:]]
    frame = spark.createDataFrame([(time,) for time in times], "time bigint")
    array = F.from_json(F.lit(str(edges)), "array<bigint>")
    rows = with_bucket(frame, "place", array, count).collect()
    assert [row["place"] for row in rows] == [bisect_right(edges, row["time"]) for row in rows]
