"""What carries out independent pieces of work, perhaps elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

__all__ = ["Runner"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Runner(Protocol):
    """Applies a function to items; ``concurrent.futures.ProcessPoolExecutor`` is one as it is.

    Function, items and results can be pickled. The function reads a file of this machine, which is read once by each
    process; a runner with an attribute ``remote`` that is true (`fastcep.spark.SparkRunner`) is given one that holds
    all that it needs instead, and has to see to it that this is not sent for each item.
    """

    def map(self, function: Callable[[Item], Result], items: Iterable[Item], /) -> Iterable[Result]:
        """Apply the function to each item; the results come in the order of the items."""
        ...
