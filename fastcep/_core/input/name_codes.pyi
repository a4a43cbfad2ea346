from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

class Names:
    probes: int
    def __init__(self, names: Sequence[bytes]) -> None: ...
    def find(
        self, offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64], texts: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.uint16]: ...
