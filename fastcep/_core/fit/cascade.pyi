from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Shorts = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

class Cascade:
    cost: float
    found: float
    def __init__(
        self, source: Shorts, slice: Shorts, kind: Shorts, target: Shorts, stored: Floats, matched: Floats,
        looked_group: Shorts, looked_slice: Shorts, looked_kind: Shorts, looked: Floats, groups: int, slices: int,
        kinds: int, prices: Floats, rows_cost: Floats, events: bool = True, rows: bool = True,
    ) -> None: ...
    def steps(self, most: int = 4096) -> tuple[Shorts, Floats]: ...
    def drop(self, what: Sequence[tuple[int, int, int]]) -> None: ...
    def weights(self) -> tuple[Floats, Floats, Floats, Floats]: ...
