"""The rows of a dumped state that count as partial matches: several indexes of a state may have copies of one row.

Not every index has every row: an index leaves out rows with a null key, and those that its edge cannot extend, such as
a Kleene variable that has as many events as it may.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.word_layout import FixedWords, State, WordLayout

__all__ = ["CLASS", "HOME", "home_marks", "partial_match_numbers"]

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
    numbers, _ = partial_match_numbers(state, layout)
    for indexes in _indexes_by_state(layout):
        if layout.fixed[indexes[0]].shed_class < 0:
            _, first = np.unique(np.concatenate([numbers[index] for index in indexes]), return_index=True)
            joined = np.zeros(sum(len(numbers[index]) for index in indexes), np.int64)
            joined[first] = HOME
            marks += _split(joined, indexes, state)
        elif len(indexes) > 1:
            marks += [(index, state[f"rows {index}"][layout.fixed[index].shed_class] & HOME) for index in indexes]
        else:  # the only index of its state has all rows, whatever their class words are
            marks.append((indexes[0], np.full(len(numbers[indexes[0]]), HOME, np.int64)))
    return [mark for _, mark in sorted(marks, key=lambda item: item[0])]


def partial_match_numbers(state: State, layout: WordLayout) -> tuple[list[Ints], int]:
    """Number the partial matches of a state from 0; copies of a row in several indexes have the same number.

    Parameters
    ----------
    state, layout
        As for `home_marks`.

    Returns
    -------
    numbers, count
        Number of the partial match of each row, by index; the number of partial matches.
    """
    numbers: list[tuple[int, Ints]] = []
    count = 0
    for indexes in _indexes_by_state(layout):
        if len(indexes) == 1:
            joined = np.arange(state[f"rows {indexes[0]}"].shape[1])
        else:
            rows = np.concatenate([_content(state[f"rows {index}"], layout.fixed[index]) for index in indexes], axis=1)
            index_of = np.repeat(np.arange(len(indexes)), [state[f"rows {index}"].shape[1] for index in indexes])
            joined = _number_copies(rows, index_of)
        numbers += _split(joined + count, indexes, state)
        count += int(joined.max(initial=-1)) + 1
    return [of_index for _, of_index in sorted(numbers, key=lambda item: item[0])], count


def _indexes_by_state(layout: WordLayout) -> list[list[int]]:
    """Return the numbers of the indexes of each state that has some."""
    found: dict[int, list[int]] = {}
    for number in range(len(layout.fixed)):
        found.setdefault(layout.plan.indexes[number].state, []).append(number)
    return list(found.values())


def _split(joined: Ints, indexes: list[int], state: State) -> list[tuple[int, Ints]]:
    """Split an array over the rows of several indexes."""
    ends = np.cumsum([state[f"rows {index}"].shape[1] for index in indexes])
    return list(zip(indexes, np.split(joined, ends[:-1]), strict=True))


def _content(rows: Ints, fixed: FixedWords) -> Ints:
    """Return the words of rows in which all copies of a row agree: without classes and the memory of null registers."""
    content = rows.copy()
    if fixed.shed_class >= 0:
        content[fixed.shed_class] = 0
    for bit, register in enumerate(range(fixed.size + 1, len(rows))):
        content[register, (rows[fixed.size] >> bit) & 1 == 1] = 0
    return content


def _number_copies(rows: Ints, index_of: Ints) -> Ints:
    """Number rows; the n-th of equal rows in one index is a copy of the n-th in another."""
    if not len(index_of):
        return index_of
    order = np.lexsort((index_of, *rows))
    content, index_of = rows[:, order], index_of[order]
    is_new = np.append(True, (content[:, 1:] != content[:, :-1]).any(axis=0))
    is_first = is_new | np.append(True, index_of[1:] != index_of[:-1])
    places = np.arange(len(order))
    place_in_index = places - np.maximum.accumulate(np.where(is_first, places, 0))
    pairs = np.stack([np.cumsum(is_new), place_in_index])
    _, numbers = np.unique(pairs[0] * len(order) + pairs[1], return_inverse=True)
    out = np.empty(len(order), np.int64)
    out[order] = numbers
    return out
