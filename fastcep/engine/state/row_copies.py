"""The rows of a dumped state that count as partial matches: several indexes of a state may have copies of one row.

Not every index has every row: an index leaves out rows with a null key, and those that its edge cannot extend, such as
a Kleene variable that has as many events as it may.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.word_layout import State, WordLayout

__all__ = ["CLASS", "HOME", "home_marks"]

Ints = npt.NDArray[np.int64]

CLASS = 0xFF  #: bits of a class word that hold the class, see ``class_of`` in _core/state/draws.pxd
HOME = 1 << 8  #: bit of a class word: of the copies of a row in several indexes, this one is counted


def home_marks(state: State, layout: WordLayout) -> list[Ints]:
    """Return per index the mark of each row: `HOME` if the row is counted there, otherwise 0.

    Of the copies of a row in several indexes, one has the mark.

    Parameters
    ----------
    state
        Result of `Matcher.dump`.
    layout
        Layout of its plan.
    """
    marks = []
    seen: dict[int, set[bytes]] = {}
    for number, fixed in enumerate(layout.fixed):
        rows, of_state = state[f"rows {number}"], layout.plan.indexes[number].state
        several = sum(index.state == of_state for index in layout.plan.indexes) > 1
        if not several:
            marks.append(np.full(rows.shape[1], HOME, np.int64))
        elif fixed.shed_class >= 0:
            marks.append(rows[fixed.shed_class] & HOME)
        else:
            marks.append(_first_copies(rows[: fixed.size], seen.setdefault(of_state, set())))
    return marks


def _first_copies(rows: Ints, seen: set[bytes]) -> Ints:
    """Return the mark of each row that is not in ``seen``, and add the rows to it; equal rows are numbered."""
    marks = np.zeros(rows.shape[1], np.int64)
    counts: dict[bytes, int] = {}
    for place, row in enumerate(np.ascontiguousarray(rows.T)):
        words = row.tobytes()
        counts[words] = counts.get(words, 0) + 1
        copy = words + counts[words].to_bytes(8, "little")
        if copy not in seen:
            seen.add(copy)
            marks[place] = HOME
    return marks
