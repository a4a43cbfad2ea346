"""What the format of snapshots costs beside the state itself: ``make bench``.

``test_copy`` is the yardstick of the large tables: the same columns joined to one piece of bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fastcep.engine.state.container import pack, unpack
from fastcep.engine.state.keygroups import group_of_texts, group_of_words

HEADER = {"queries": ["PATTERN SEQ(A a, B b) WHERE [ID] WITHIN 5ms"], "position": 17}
TABLES: dict[str, Callable[[], dict[str, dict[str, Any]]]] = {
    "none": dict,
    "tiny": lambda: {
        "rows": {"a": np.arange(10), "b": np.arange(10, dtype=np.uint8)},
        "keys": {"k": np.arange(5), "n": np.arange(5, dtype=np.int32)},
    },
    "80MB": lambda: {"rows": {f"c{k}": np.random.default_rng(k).integers(0, 99, 1_000_000) for k in range(10)}},
}


@pytest.mark.parametrize("size", TABLES)
def test_pack(benchmark: Any, size: str) -> None:
    tables = TABLES[size]()
    benchmark(lambda: pack(HEADER, tables))


@pytest.mark.parametrize("size", TABLES)
def test_unpack(benchmark: Any, size: str) -> None:
    snapshot = pack(HEADER, TABLES[size]())
    benchmark(lambda: unpack(snapshot))


def test_copy(benchmark: Any) -> None:
    columns = list(TABLES["80MB"]()["rows"].values())
    benchmark(lambda: b"".join(columns))


@pytest.mark.parametrize("count", [1, 1_000_000])
def test_groups_of_words(benchmark: Any, count: int) -> None:
    words = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, count)
    benchmark(lambda: group_of_words(words))


def test_groups_of_texts(benchmark: Any) -> None:
    texts = [f"bike {number}" for number in range(100_000)]
    benchmark(lambda: group_of_texts(texts))
