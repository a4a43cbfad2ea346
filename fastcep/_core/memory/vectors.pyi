import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

def repeated(values: Ints, counts: Ints) -> Ints: ...
