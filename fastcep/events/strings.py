"""Table of interned strings: events hold integer codes, one table per engine holds the strings."""

from __future__ import annotations

import sys
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.events.convert import from_numpy, from_texts, int64_values, null_bytes, plain

__all__ = ["Derived", "StringTable"]


class Derived(Protocol):
    """Results by string code."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""

    def clear(self) -> None:
        """Forget all results."""


class StringTable:
    """Two-way mapping of strings and their codes 0, 1, 2, …. Equal strings have equal codes.

    Attributes
    ----------
    derived
        Results by code that others keep, by any key. `reclaim` clears them, because it may give a code to another
        string; `nbytes` contains their size.
    """

    __slots__ = ("_codes", "_free", "_text_bytes", "_texts", "derived")

    def __init__(self) -> None:
        self.derived: WeakValueDictionary[Any, Derived] = WeakValueDictionary()
        self._codes: dict[str, int] = {}
        self._texts: list[str | None] = []  # None: a code free for reuse
        self._free: list[int] = []  # descending, so that pop() gives the smallest
        self._text_bytes = 0

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def nbytes(self) -> int:
        """Approximate size of the table and its strings, in bytes."""
        lists = sys.getsizeof(self._codes) + sys.getsizeof(self._texts) + sys.getsizeof(self._free)
        return lists + self._text_bytes + sum(results.nbytes for results in list(self.derived.values()))

    @property
    def codes(self) -> dict[str, int]:
        """Code by string, for reading only; a different object after `reclaim`."""
        return self._codes

    @property
    def limit(self) -> int:
        """Exclusive upper bound of the codes in use."""
        return len(self._texts)

    def intern(self, text: str) -> int:
        """Return the code of a string; a new string gets a new code."""
        code = self._codes.get(text)
        if code is None:
            if self._free:
                code = self._free.pop()
                self._texts[code] = text
            else:
                code = len(self._texts)
                self._texts.append(text)
            self._codes[text] = code
            self._text_bytes += sys.getsizeof(text)
        return code

    def lookup(self, code: int) -> str:
        """Return the string of a code; KeyError if no string has it."""
        text = self._texts[code] if 0 <= code < len(self._texts) else None
        if text is None:
            raise KeyError(f"no string has code {code}")
        return text

    def encode(self, array: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8] | None]:
        """Intern a column.

        Parameters
        ----------
        array
            Arrow array of any string type, or a dictionary of strings.

        Returns
        -------
        codes, nulls
            int64[n], 0 under a null; uint8[n] with 1 = null, or None if there is no null.
        """
        array = plain(array)
        if not isinstance(array, pa.DictionaryArray):
            array = array.dictionary_encode()
        nulls = null_bytes(array)
        indices = int64_values(array.indices)
        # Intern only the entries that the rows use: a shared dictionary may hold far more.
        used = np.zeros(len(array.dictionary), dtype=bool)
        used[indices if nulls is None else indices[nulls == 0]] = True
        code_of_entry = np.zeros(len(used) + 1, dtype=np.int64)  # one more: index 0 is valid if all rows are null
        entries = np.flatnonzero(used)
        texts = array.dictionary.take(from_numpy(entries, pa.int64())).to_pylist()
        code_of_entry[entries] = [self.intern(text) for text in texts]
        codes = code_of_entry[indices]
        if nulls is not None:
            codes[nulls != 0] = 0
        return codes, nulls

    def decode(self, codes: npt.NDArray[np.int64], nulls: npt.NDArray[np.uint8] | None) -> Any:
        """Return the strings of int64[n] codes as an Arrow string array, null where `nulls` is 1.

        KeyError if a code that is not null has no string.
        """
        codes = np.asarray(codes, dtype=np.int64)
        valid = np.ones(len(codes), dtype=bool) if nulls is None else np.asarray(nulls) == 0
        distinct, inverse = np.unique(codes[valid], return_inverse=True)
        texts = from_texts([self.lookup(code) for code in distinct.tolist()])
        positions = np.zeros(len(codes), dtype=np.int64)
        positions[valid] = inverse
        return texts.take(from_numpy(positions, nulls=~valid))

    def reclaim(self, live_codes: npt.NDArray[np.int64]) -> int:
        """Release every string whose code is not in `live_codes`, so that its code can be reused.

        Returns
        -------
        int
            Number of strings released.
        """
        for results in list(self.derived.values()):
            results.clear()
        live = np.zeros(len(self._texts), dtype=bool)
        live[np.asarray(live_codes, dtype=np.int64)] = True
        released = 0
        for code in np.flatnonzero(~live).tolist():
            text = self._texts[code]
            if text is not None:
                del self._codes[text]
                self._texts[code] = None
                self._text_bytes -= sys.getsizeof(text)
                self._free.append(code)
                released += 1
        # A dict and a list do not release memory when they shrink: copy them.
        self._codes = dict(self._codes)
        del self._texts[max(self._codes.values(), default=-1) + 1 :]
        self._free = sorted((code for code in self._free if code < len(self._texts)), reverse=True)
        return released
