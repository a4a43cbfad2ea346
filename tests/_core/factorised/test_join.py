"""The join of the factorised store: all widths find the same pairs in the same order."""

from __future__ import annotations

import numpy as np
import pytest

from fastcep._core.factorised.join import join_rows

HUGE = 2**63 - 1


@pytest.mark.parametrize("width", [1, 4, 8])
@pytest.mark.parametrize("size", [1, 3, 4, 7, 8, 9, 20, 31, 33, 48, 63, 64])
def test_widths(width: int, size: int) -> None:
    """Sums and differences, of which some overflow, with every number of rows before a probe row."""
    draw = np.random.default_rng(size)
    for base, sign, spread in [(7, 1, 5), (7, -1, 5), (0, 1, 1), (HUGE, 1, 3), (-HUGE - 1, -1, 3)]:
        pos = np.cumsum(draw.integers(1, 9, size))
        sums = base + sign * draw.integers(-spread, spread + 1, size) if abs(base) < 99 else None
        value = draw.choice([base, 0, 1], size) if sums is None else sums
        m = int(draw.integers(1, 257))
        probe, probe_value = np.cumsum(draw.integers(1, 9, m)) + 1_000, draw.integers(-spread, spread + 1, m)
        counts = np.sort(draw.integers(-3, size + 1, m))
        expected = [
            (int(pos[row]), int(probe[i]))
            for i in range(m)
            for row in range(max(0, counts[i]))
            if int(value[row]) == base + sign * int(probe_value[i])
        ]
        try:
            first, second = join_rows(pos, value, probe, probe_value, counts, base, sign, width)
        except ValueError as error:
            pytest.skip(str(error))
        assert list(zip(first.tolist(), second.tolist(), strict=True)) == expected
        assert expected or spread == 3 or counts.max() < 2


def test_too_many_rows() -> None:
    rows = np.zeros(65, np.int64)
    with pytest.raises(ValueError, match="at most 64 and 256 rows"):
        join_rows(rows, rows, rows, rows, rows, 0, 1, 1)
