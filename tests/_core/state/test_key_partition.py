"""Parts of a query: to which a key belongs, and how what they found comes in the order of one matcher."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastcep._core.state.key_partition import MOST_PARTS, NO_PLACE, merge_column, merge_runs, parts_of, range_of


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, MOST_PARTS])
def test_keys_in_a_row_are_spread_evenly(parts: int) -> None:
    for start in (0, 1, -5, 10**12):
        for count in (10, 100, 10_000):
            sizes = np.bincount(parts_of(np.arange(start, start + count), parts, False), minlength=parts)
            assert len(sizes) == parts
            assert sizes.max() - sizes.min() <= 4


def test_floats_that_are_equal_are_in_one_part_and_nan_in_the_first() -> None:
    words = np.array([0.0, -0.0, np.nan, -np.nan], np.float64).view(np.int64)
    for parts in range(1, MOST_PARTS + 1):
        zero, negative, *nans = parts_of(words, parts, True).tolist()
        assert zero == negative and nans == [0, 0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(1, MOST_PARTS))
def test_a_part_is_a_range_of_hashes(words: list[int], parts: int) -> None:
    ranges = [range_of(part, parts) for part in range(parts)]
    assert [first for first, _ in ranges] == list(np.cumsum([0, *(size for _, size in ranges)]))[:-1]
    assert sum(size for _, size in ranges) == 2**32
    for word, part in zip(words, parts_of(ints(words), parts, False).tolist(), strict=True):
        hashed = (word * 0x9E3779B97F4A7C15 % 2**64) >> 32
        assert ranges[part][0] <= hashed < sum(ranges[part])


#: Runs of all parts: time, (position, -1 for a decision), place, window, how many matches.
runs = st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.integers(0, 2), st.integers(1, 3)), max_size=14)


@given(runs, st.randoms(use_true_random=False), st.integers(2, 4), st.booleans())
@example([(1, False, 0, 2), (1, True, 0, 1), (1, True, 1, 1)], None, 2, True)
def test_runs_come_in_the_order_of_one_matcher(drawn: list, random: object, parts: int, placed: bool) -> None:
    """Numbered matches in the order of one matcher are dealt to parts, and must come back in it."""
    wanted: list[tuple[int, int, list[int]]] = []
    keys: list[tuple[int, int]] = []
    made = position = 0
    for time, decides, window, count in sorted(drawn, key=lambda run: run[0]):
        position += 1
        place = position if placed else NO_PLACE
        same_place = wanted and wanted[-1][0] < 0 and decides and wanted[-1][1] == time
        if same_place and (not placed or (random is not None and keys[-1][1] < window)):
            place = keys[-1][0]
        matches = list(range(made, made + count))
        made += count
        if same_place and (place, window if placed else 0) == keys[-1]:
            wanted[-1][2].extend(matches)
            continue
        if not decides and not placed and wanted and wanted[-1][0] < 0 and wanted[-1][1] == time:
            continue  # no event comes behind what waited for its time
        wanted.append((-1 if decides else position, time, matches))
        keys.append((place, window if placed else 0))
    sides: list[tuple[list, ...]] = [([], [], [], [], []) for _ in range(parts)]
    for (at, time, matches), key in zip(wanted, keys, strict=True):
        owner = (lambda _: 0) if random is None else (lambda _: random.randrange(parts))
        owners = [owner(match) for match in matches] if at < 0 else [owner(0)] * len(matches)
        for part in range(parts):
            own = [match for match, one in zip(matches, owners, strict=True) if one == part]
            if own:
                sides[part][0].append(at)
                sides[part][1].append(time)
                sides[part][2].append(len(own))
                sides[part][3].extend(key if at < 0 else ())
                sides[part][4].extend(own)
    given_sides = [
        tuple(None if number == 3 and not placed else ints(column) for number, column in enumerate(side))
        for side in sides
    ]
    detected, times, counts, segments = merge_runs(given_sides)
    assert detected.tolist() == [at for at, _, _ in wanted]
    assert times.tolist() == [time for _, time, _ in wanted]
    assert counts.tolist() == [len(matches) for _, _, matches in wanted]
    every = [match for _, _, matches in wanted for match in matches]
    assert merge_column([side[4] for side in given_sides], segments).tolist() == every
    lengths = [side[4] % 3 for side in given_sides]
    lists = [np.repeat(side[4], own) for side, own in zip(given_sides, lengths, strict=True)]
    assert merge_column(lists, segments, lengths).tolist() == [match for match in every for _ in range(match % 3)]
