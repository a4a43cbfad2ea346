"""Run queries in several processes or threads of one machine, with the result of a single engine."""

from fastcep.parallel.engine import ParallelEngine

__all__ = ["ParallelEngine"]
