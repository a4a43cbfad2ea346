"""The state store of streaming DataFrames of matches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.micro_batches import PROVIDER, ROCKSDB


@pytest.fixture
def rocksdb(spark: Any) -> Iterator[None]:
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.unset(PROVIDER)
