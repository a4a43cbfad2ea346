"""Which events belong to which key group, in an engine that numbers texts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.keygroups import GROUPS, NO_KEY, group_of_texts, group_of_words
from fastcep.events import EventBatch, StringTable
from fastcep.plan.plan import KeyPlan

__all__ = ["foreign_events", "group_of_keys"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def group_of_keys(dtype: str, strings: StringTable) -> Callable[[Ints], Bytes]:
    """The function that gives the key groups of an array of words of this dtype (:mod:`fastcep.plan.ir`)."""

    def of_floats(words: Ints) -> Bytes:
        values = words.view(np.float64) + 0.0  # both zeros are equal
        return np.where(np.isnan(values), np.uint8(NO_KEY), group_of_words(values.view(np.int64)))

    def of_codes(codes: Ints) -> Bytes:
        distinct, places = np.unique(codes, return_inverse=True)
        return group_of_texts([strings.lookup(code) for code in distinct.tolist()])[places]

    return {"s": of_codes, "f": of_floats}.get(dtype, group_of_words)


def foreign_events(key: KeyPlan, batch: EventBatch, owned: frozenset[int], strings: StringTable) -> Bytes:
    """Per event 1 if it is in a key group that is not owned."""
    others = np.ones(GROUPS, np.uint8)
    others[list(owned)] = 0
    group = group_of_keys(key.dtype, strings)
    foreign = np.zeros(len(batch), np.uint8)
    for column in set(key.columns) - {-1}:
        of_type = np.array([own == column for own in key.columns])[batch.type]
        nulls = batch.nulls[column]
        if nulls is not None:
            foreign[of_type & (nulls != 0)] = others[NO_KEY]
            of_type &= nulls == 0
        here = np.flatnonzero(of_type)
        foreign[here] = others[group(batch.columns[column][here])]
    return foreign
