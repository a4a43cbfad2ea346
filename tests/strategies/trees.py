"""Decision trees that classify partial matches or events."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from fastcep.overload.protocols import Tree


def tree(features: tuple[str, ...], nodes: list[Any], other: int = 0) -> Tree:
    """Create a tree from nodes (feature, threshold, left, right, class)."""
    feature, threshold, left, right, value = (list(column) for column in zip(*nodes, strict=True))
    return Tree(
        features, np.array(feature, np.int32), np.array(threshold, float), np.array(left, np.int32),
        np.array(right, np.int32), np.array(value, np.uint8), other,
    )  # fmt: skip


@st.composite
def trees(draw: Any, *features: str) -> Tree:
    """Draw a tree of up to seven leaves, with thresholds at or between existing values."""
    nodes: list[list[Any]] = [[-1, 0.0, 0, 0, 0]]
    for _ in range(draw(st.integers(0, 6))):
        leaf = draw(st.sampled_from([number for number, node in enumerate(nodes) if node[0] < 0]))
        at = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, -1.0]))
        nodes[leaf] = [draw(st.integers(0, len(features) - 1)), at, len(nodes), len(nodes) + 1, 0]
        nodes += [[-1, 0.0, 0, 0, 0], [-1, 0.0, 0, 0, 0]]
    for node in nodes:
        if node[0] < 0:
            node[4] = draw(st.integers(0, 5))
    return tree(features, nodes, draw(st.integers(0, 6)))
