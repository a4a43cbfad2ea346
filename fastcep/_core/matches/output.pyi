from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

class Output:
    @property
    def n(self) -> int: ...
    @property
    def query(self) -> Any: ...
    def arrays(self) -> tuple[list[Ints], list[Ints | None], Ints, Ints, Ints, Ints | None]: ...
    def to_lists(
        self,
    ) -> tuple[list[list[int]], list[list[int] | None], list[int], list[int], list[int], list[int] | None]: ...
