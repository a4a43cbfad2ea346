import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

class Output:
    @property
    def count(self) -> int: ...
    def arrays(self) -> tuple[list[Ints], list[Ints | None], Ints, Ints, Ints, Ints | None]: ...
