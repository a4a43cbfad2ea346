"""Replace the string codes of an engine by numbers of a snapshot's list of texts, and back."""

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
    """Collects arrays of codes, then replaces the codes by numbers of a list of the texts in use.

    Parameters
    ----------
    strings
        The string table of the engine.
    """

    def __init__(self, strings: StringTable) -> None:
        self._strings = strings
        self._marks = np.zeros(strings.limit, np.bool_)
        self._arrays: list[tuple[Ints, Mask]] = []

    def add(self, codes: Ints, mask: Mask) -> None:
        """Add an array whose elements under the mask are codes (None: all); `number` overwrites them."""
        self._arrays.append((codes, mask))
        self._marks[codes if mask is None else codes[mask]] = True

    def number(self) -> Any:
        """Replace all codes by numbers of texts; return the texts as an Arrow array, None if there are none."""
        if not self._arrays or not self._marks.any():
            return None
        used = np.flatnonzero(self._marks)
        numbers = np.cumsum(self._marks) - 1
        for codes, mask in self._arrays:
            if mask is None:
                codes[:] = numbers[codes]
            else:
                codes[mask] = numbers[codes[mask]]
        return from_texts([self._strings.lookup(code) for code in used.tolist()])


class Codes:
    """Maps the texts of a snapshot to codes of an engine.

    Parameters
    ----------
    strings
        The string table of the engine.
    table
        Table with the result of ``Texts.number``; None: there are no texts.

    Raises
    ------
    Misfit
        The table is not a table of texts.
    """

    def __init__(self, strings: StringTable, table: Mapping[str, Any] | None) -> None:
        texts: Any = None if table is None else table.get("text")
        if table is not None and (list(table) != ["text"] or not isinstance(texts, pa.Array) or texts.null_count):
            raise Misfit("table 'texts'", f"the columns {list(table)}", "one of texts, 'text', without nulls")
        listed = [] if texts is None else texts.to_pylist()
        self._codes = np.array([strings.intern(text) for text in listed], np.int64)

    def put(self, numbers: Ints, mask: Mask, name: str) -> None:
        """Replace the numbers under the mask (None: all) by codes; `Misfit` names ``name`` if a text does not exist."""
        selected = numbers if mask is None else numbers[mask]
        invalid = (selected < 0) | (selected >= len(self._codes))
        if invalid.any():
            number = int(selected[int(np.flatnonzero(invalid)[0])])
            raise Misfit(name, f"the text number {number}", f"a number below {len(self._codes)}, the number of texts")
        if mask is None:
            numbers[:] = self._codes[selected]
        else:
            numbers[mask] = self._codes[selected]
