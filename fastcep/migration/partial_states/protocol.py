"""The parts of an operator's state that a migration sends: a base, which the new host always needs, and partial states.

Data flow::

    old host   operator ──cut──▶ PartialStates ──encode──▶ messages
                                                               │ link
    new host   operator ◀─build── Assembly ◀──────add──────────┘

Invariant (tested): an operator that is built from the base and any set of partial states continues like the old
operator with exactly these partial states; with all of them, it is equal to the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from fastcep.migration.states import Ints, States

__all__ = ["Assembly", "PartialStates", "StartAssembly"]


class PartialStates(Protocol):
    """The state of an operator at one event of its stream, cut into a base and partial states.

    The operator may continue while the states are sent; that does not change them.
    """

    @property
    def kind(self) -> str:
        """Kind of the operator, which selects the `Assembly`: ``"engine"``, ``"aggregate"`` or ``"join"``."""
        ...

    @property
    def states(self) -> States:
        """Sizes as sent, in bytes, and utilities of the partial states.

        A size includes all that the state needs. Parts which it has in common with other states are sent only once, so
        several states together may be smaller than the sum of their sizes, but are never larger.
        """
        ...

    @property
    def position(self) -> int:
        """Number of events of the stream before this state."""
        ...

    def base(self) -> bytes:
        """Return the part of the state that the new host needs in any case."""
        ...

    def encode(self, numbers: Ints) -> bytes:
        """Return the states with these numbers (positions in `states`) as an Arrow IPC record batch.

        Data that an earlier call has returned is not repeated, so the new host needs the results of all calls, in
        order.
        """
        ...


class Assembly(Protocol):
    """Collects the partial states that arrive at the new host."""

    def add(self, batch: bytes | memoryview) -> Ints:
        """Add a result of `PartialStates.encode`; return the numbers of its states.

        Raises
        ------
        SnapshotError
            If the data is not such a result, or does not fit the base. The assembly has not changed.
        """
        ...

    def build(self) -> Any:
        """Create the operator with the states that have arrived.

        Raises
        ------
        SnapshotError
            If the state does not fit together.
        """
        ...


#: Starts an assembly from a base and options for the new operator; `SnapshotError` if the base is invalid.
StartAssembly = Callable[[bytes, Mapping[str, Any]], Assembly]
