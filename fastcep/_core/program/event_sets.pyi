from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

def select(
    types: NDArray[np.uint16],
    members: Iterable[int],
    n_types: int,
    comparisons: Iterable[tuple[int, NDArray[np.int64], int, NDArray[np.uint8] | None]],
    simd: bool,
) -> NDArray[Any]: ...
