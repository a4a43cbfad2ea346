"""Which events belong to which key group, in an engine that numbers texts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.keygroups import GROUPS, group_of_texts, group_of_words
from fastcep.events import EventBatch, StringTable
from fastcep.plan.plan import KeyPlan

__all__ = ["foreign_events", "group_of_keys"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def group_of_keys(dtype: str, strings: StringTable) -> Callable[[Ints], Bytes]:
    """The function that gives the key groups of an array of words of this dtype (:mod:`fastcep.plan.ir`)."""
    if dtype != "s":
        return group_of_words

    def of_codes(codes: Ints) -> Bytes:
        distinct, places = np.unique(codes, return_inverse=True)
        return group_of_texts([strings.lookup(code) for code in distinct.tolist()])[places]

    return of_codes


def foreign_events(key: KeyPlan, batch: EventBatch, owned: frozenset[int], strings: StringTable) -> Bytes:
    """Per event 1 if it is in a key group that is not owned; one whose key is null joins nothing and is in none."""
    others = np.ones(GROUPS, np.uint8)
    others[list(owned)] = 0
    group = group_of_keys(key.dtype, strings)
    foreign = np.zeros(len(batch), np.uint8)
    for column in set(key.columns) - {-1}:
        of_type = np.array([own == column for own in key.columns])[batch.type]
        nulls = batch.nulls[column]
        here = np.flatnonzero(of_type if nulls is None else of_type & (nulls == 0))
        words = batch.columns[column][here]
        if key.dtype == "f":
            words = (words + 0.0).view(np.int64)  # both zeros are equal
        foreign[here] = others[group(words)]
    return foreign
