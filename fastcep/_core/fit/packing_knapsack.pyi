import numpy as np
import numpy.typing as npt

def least_sizes(
    values: npt.ArrayLike, sizes: npt.ArrayLike, starts: npt.ArrayLike, bases: npt.ArrayLike, low: int, high: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int16]]: ...
def take_fitting(sizes: npt.ArrayLike, order: npt.ArrayLike, capacity: int) -> npt.NDArray[np.uint8]: ...
