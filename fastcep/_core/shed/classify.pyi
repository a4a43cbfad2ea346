import numpy as np

NODE: np.dtype[np.void]
