import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
#: Axis of a feature: thresholds, offset of each interval in the table, the integer at which ``ranks`` begins, and the
#: offset of each integer from there on; ``ranks`` is empty if the thresholds are too far apart.
Axis = tuple[npt.NDArray[np.float64], Ints, int, npt.NDArray[np.uint16]]
Grid = tuple[tuple[Axis, ...], Bytes]  #: the axes by feature, and the class of each cell
#: Classifier of a state or variable: a table (low, size, table, other), or a decision tree (nodes, grid, other).
Table = tuple[Ints, Ints, Bytes, int] | tuple[Bytes, Grid | None, int]

NODE: np.dtype[np.void]
