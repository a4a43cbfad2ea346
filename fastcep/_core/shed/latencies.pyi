import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

def add_waits(
    arrivals: Ints, now: int, bound: float, ring: npt.NDArray[np.float64], place: int, histogram: Ints, bits: int,
    longest: int,
) -> tuple[int, int, int]: ...
