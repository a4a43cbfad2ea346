"""Protocol for objects that run independent tasks, perhaps on other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

__all__ = ["Runner"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Runner(Protocol):
    """Applies a function to items, as ``concurrent.futures.ProcessPoolExecutor`` does.

    Function, items and results can be pickled. By default the function reads a local file, once in each process. A
    runner whose attribute ``remote`` is true (`fastcep.spark.SparkRunner`) gets a function that contains its data
    instead; such a runner should not send the function again for each item.
    """

    def map(self, function: Callable[[Item], Result], items: Iterable[Item], /) -> Iterable[Result]:
        """Apply the function to each item; the results come in the order of the items."""
        ...
