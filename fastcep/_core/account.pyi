import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int32]
Reals = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

class Probes:
    def __init__(self, first: Ints, positions: Ints, kinds: Shorts) -> None: ...
    def visits(
        self, placed: Ints, buckets: Shorts, events: Ints, starts: Ints, limits: Ints, spent: Reals, price: float,
        groups: Shorts | None = None, counts: npt.NDArray[np.float64] | None = None,
    ) -> None: ...

def derive(
    parents: Ints, born: Shorts, matched: Bytes, contribution: Reals, consumption: Reals, price: float
) -> None: ...
