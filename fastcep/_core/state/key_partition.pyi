from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

MOST_PARTS: int
NO_PLACE: int

def parts_of(words: Ints, parts: int, floats: bool) -> npt.NDArray[np.uint8]: ...
def range_of(part: int, parts: int) -> tuple[int, int]: ...
def merge_runs(
    sides: Sequence[tuple[Ints, Ints, Ints, Ints | None, Ints | None]],
) -> tuple[Ints, Ints, Ints, Ints]: ...
def merge_column(columns: Sequence[Ints], segments: Ints, lengths: Sequence[Ints] | None = None) -> Ints: ...
