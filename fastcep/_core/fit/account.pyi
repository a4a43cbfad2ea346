import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int32]
Reals = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

def visits(
    first: Ints, positions: Ints, kinds: Shorts, placed: Ints, buckets: Shorts, events: Ints, starts: Ints,
    limits: Ints, groups: Shorts | None = None, counts: npt.NDArray[np.float64] | None = None,
    spent: Reals | None = None, price: float = 0.0,
) -> None: ...
def derive(
    parents: Ints, born: Shorts, matched: Bytes, contribution: Reals, consumption: Reals, price: float
) -> None: ...
