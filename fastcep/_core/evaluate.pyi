from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

def evaluate(
    program: object,
    intern: Callable[[Any], int],
    values: list[npt.NDArray[np.int64]],
    nulls: list[npt.NDArray[np.uint8] | None],
    n: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], int, int]: ...
