from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

CHUNK_ROWS: int

Ints = npt.NDArray[np.int64]
Nulls = npt.NDArray[np.uint8]

class Evaluator:
    arithmetic_nulls: int
    function_errors: int
    def __init__(self, program: object, intern: Callable[[Any], int]) -> None: ...
    def use_kernel(self, address: int) -> None: ...
    def __call__(self, values: list[Ints], nulls: list[Nulls | None], n: int) -> tuple[Ints, Nulls]: ...
    def run_chunks(
        self,
        inputs: list[tuple[npt.NDArray[Any], Nulls | None, Ints | None, int, int]],
        rows: npt.NDArray[np.int32] | None,
        keep: Nulls | None,
        outputs: Ints | None,
        output_nulls: Nulls | None,
        n: int,
        repeat: int = 1,
    ) -> int: ...

def evaluate(
    program: object, intern: Callable[[Any], int], values: list[Ints], nulls: list[Nulls | None], n: int
) -> tuple[Ints, Nulls, int, int]: ...
