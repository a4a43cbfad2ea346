"""Texts in a snapshot: where tables hold codes of an engine's string table, numbers of one list of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.events import StringTable
from fastcep.events.convert import from_texts
from fastcep.stored import Misfit

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
    table
        The table with what ``Texts.number`` returned; None: there are none.

    Raises
    ------
    Misfit
        It is no table of texts.
    """

    def __init__(self, strings: StringTable, table: Mapping[str, Any] | None) -> None:
        texts: Any = None if table is None else table.get("text")
        if table is not None and (list(table) != ["text"] or not isinstance(texts, pa.Array) or texts.null_count):
            raise Misfit("table 'texts'", f"the columns {list(table)}", "one of texts, 'text', without nulls")
        listed = [] if texts is None else texts.to_pylist()
        self._codes = np.array([strings.intern(text) for text in listed], np.int64)

    def put(self, numbers: Ints, where: Mask, name: str) -> None:
        """Write codes over numbers, which stand in ``name``; `Misfit` if there is no such text."""
        chosen = numbers if where is None else numbers[where]
        wrong = (chosen < 0) | (chosen >= len(self._codes))
        if wrong.any():
            found = int(chosen[int(np.flatnonzero(wrong)[0])])
            raise Misfit(name, f"the text number {found}", f"a number below {len(self._codes)}, of so many texts")
        if where is None:
            numbers[:] = self._codes[chosen]
        else:
            numbers[where] = self._codes[chosen]
