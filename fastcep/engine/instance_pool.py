"""The protocol of a pool of instances whose number changes while they work: processes, threads, Spark executors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["InstanceCounts", "InstancePool"]


@dataclass(frozen=True)
class InstanceCounts:
    """Numbers of instances by what they do.

    Attributes
    ----------
    ready
        They work, or wait for work.
    starting
        They have been asked for, and get no work yet.
    leaving
        They finish the work that they have, and end then.
    """

    ready: int
    starting: int = 0
    leaving: int = 0


@runtime_checkable
class InstancePool(Protocol):
    """Instances that share work.

    A pool takes absolute numbers only: the next request repairs one that was lost, or that the end of an instance made
    wrong.
    """

    def resize(self, instances: int) -> None:
        """Set the number of instances, without waiting for it.

        For more instances, those that are leaving are used again first, and the rest is started. For fewer, the surplus
        gets no more work, finishes the work that it has, and ends. The same number again repeats the request.

        Raises
        ------
        ValidationError
            If the number is not from 1 to the pool's maximum.
        """
        ...

    def counts(self) -> InstanceCounts:
        """Return the present numbers of instances."""
        ...
