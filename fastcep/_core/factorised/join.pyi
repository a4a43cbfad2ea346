import numpy as np
from numpy.typing import NDArray

def join_rows(
    pos: NDArray[np.int64],
    value: NDArray[np.int64],
    probe: NDArray[np.int64],
    probe_value: NDArray[np.int64],
    counts: NDArray[np.int64],
    base: int,
    sign: int,
    width: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
