"""Texts in a snapshot: where tables hold codes of an engine's string table, numbers of one list of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.errors import SnapshotError
from fastcep.events import StringTable
from fastcep.events.convert import from_texts

__all__ = ["Codes", "Texts"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_] | None


class Texts:
    """Collects where codes stand, then numbers those that are used.

    Parameters
    ----------
    strings
        The engine's.
    """

    def __init__(self, strings: StringTable) -> None:
        self._strings = strings
        self._marks = np.zeros(strings.limit, np.bool_)
        self._places: list[tuple[Ints, Mask]] = []

    def add(self, codes: Ints, where: Mask) -> None:
        """Note an array of codes, of which those count whose flag is set (None: all); it is changed later."""
        self._places.append((codes, where))
        self._marks[codes if where is None else codes[where]] = True

    def number(self) -> Any:
        """Write numbers over the codes that count; return the texts, as an Arrow array; None if there are none."""
        if not self._places or not self._marks.any():
            return None
        used = np.flatnonzero(self._marks)
        numbers = np.cumsum(self._marks) - 1
        for codes, where in self._places:
            if where is None:
                codes[:] = numbers[codes]
            else:
                codes[where] = numbers[codes[where]]
        return from_texts([self._strings.lookup(code) for code in used.tolist()])


class Codes:
    """Gives the texts of a snapshot codes in an engine.

    Parameters
    ----------
    strings
        The engine's.
    texts
        What ``Texts.number`` returned; None: there are none.
    """

    def __init__(self, strings: StringTable, texts: Any) -> None:
        listed = [] if texts is None else pa.array(texts).to_pylist()
        self._codes = np.array([strings.intern(text) for text in listed], np.int64)

    def put(self, numbers: Ints, where: Mask) -> None:
        """Write codes over numbers."""
        chosen = numbers if where is None else numbers[where]
        if len(chosen) and (chosen.min() < 0 or chosen.max() >= len(self._codes)):
            raise SnapshotError("the snapshot names texts that it does not have; take it again")
        if where is None:
            numbers[:] = self._codes[chosen]
        else:
            numbers[where] = self._codes[chosen]
