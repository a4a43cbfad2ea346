import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

class Clairvoyant:
    def __init__(
        self,
        parents: Ints,
        events: Ints,
        matched: Ints,
        first_place: Ints,
        place_from: Ints,
        place_until: Ints,
        probed: Ints,
        first_probe: Ints,
        probes_of: Ints,
        prices: Ints,
    ) -> None: ...
    def costs(self, kept: npt.NDArray[np.uint8]) -> Ints: ...
    def order(self) -> tuple[Ints, Ints, Ints]: ...
