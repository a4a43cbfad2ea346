from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Shorts = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

class Cascade:
    cost: float
    matches: float
    updates: int
    def __init__(
        self, source: Shorts, slice: Shorts, kind: Shorts, target: Shorts, stored: Floats, matched: Floats,
        visit_group: Shorts, visit_slice: Shorts, visit_kind: Shorts, visits: Floats, groups: int, slices: int,
        kinds: int, prices: Floats, rows_cost: Floats, events: bool = True, rows: bool = True,
    ) -> None: ...
    def steps(self, most: int = 4096) -> tuple[Shorts, Floats]: ...
    def drop(self, steps: Sequence[tuple[int, int, int]]) -> None: ...
    def weights(self) -> tuple[Floats, Floats, Floats, Floats]: ...
