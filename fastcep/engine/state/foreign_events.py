"""Find the events of key groups that an engine does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.keygroups import GROUPS, NO_KEY, group_of_texts, group_of_words
from fastcep.events import EventBatch, StringTable
from fastcep.plan.plan import KeyPlan

__all__ = ["HasTexts", "foreign_events", "group_of_keys"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class HasTexts(Protocol):
    """Texts by their codes."""

    def lookup(self, code: int) -> str:
        """Return the text of a code."""
        ...


def group_of_keys(dtype: str, strings: HasTexts) -> Callable[[Ints], Bytes]:
    """Return the function that maps an array of words of this dtype (:mod:`fastcep.plan.ir`) to key groups."""

    def group_of_floats(words: Ints) -> Bytes:
        values = words.view(np.float64) + 0.0  # both zeros are equal
        return np.where(np.isnan(values), np.uint8(NO_KEY), group_of_words(values.view(np.int64)))

    def group_of_codes(codes: Ints) -> Bytes:
        distinct, places = np.unique(codes, return_inverse=True)
        return group_of_texts([strings.lookup(code) for code in distinct.tolist()])[places]

    return {"s": group_of_codes, "f": group_of_floats}.get(dtype, group_of_words)


def foreign_events(key: KeyPlan, batch: EventBatch, owned: frozenset[int], strings: StringTable) -> Bytes:
    """Return uint8[n]: 1 for each event of a key group that the engine does not own, otherwise 0."""
    is_foreign = np.ones(GROUPS, np.uint8)
    is_foreign[list(owned)] = 0
    group = group_of_keys(key.dtype, strings)
    foreign = np.zeros(len(batch), np.uint8)
    for column in set(key.columns) - {-1}:
        keyed = np.array([key_column == column for key_column in key.columns])[batch.type]
        nulls = batch.nulls[column]
        if nulls is not None:
            foreign[keyed & (nulls != 0)] = is_foreign[NO_KEY]
            keyed &= nulls == 0
        rows = np.flatnonzero(keyed)
        foreign[rows] = is_foreign[group(batch.columns[column][rows])]
    return foreign
