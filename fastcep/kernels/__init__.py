"""Generated kernels (tier 1): programs as machine code, compiled in the background, kept on disk (docs/kernels.md)."""

from fastcep.kernels.service import Kernels, Task

__all__ = ["Kernels", "Task"]
