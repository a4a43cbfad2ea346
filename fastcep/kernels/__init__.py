"""Generated kernels (tier 1): machine code of programs, compiled in the background and cached (docs/kernels.md)."""

from fastcep.kernels.service import Kernels, Task

__all__ = ["Kernels", "Task"]
