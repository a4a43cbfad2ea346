"""What went wrong with single queries in a call: noted while the others go on, told when the batch is done."""

from __future__ import annotations

from fastcep.engine.matches import Matches
from fastcep.errors import MemoryLimitError, OverLimit, QueryError

__all__ = ["Faults"]


class Faults:
    """Collects what went wrong in a call.

    Parameters
    ----------
    limit
        Bytes that the engine may hold, or None.
    sheds
        Whether partial matches may go for the limit's sake without an error.
    """

    def __init__(self, limit: int | None, sheds: bool = False) -> None:
        self._limit, self._sheds = limit, sheds
        self._over: list[OverLimit] = []
        self._failed: dict[str, Exception] = {}
        self._out_of_memory = False

    def gave_up(self, query: str, event: int, dropped: int, *, limited: bool) -> None:
        """Note that a query gave way at an event: for the limit (``limited``), or because the machine has no more."""
        if limited and self._sheds:
            return  # `dropped_partial_matches` counts them
        self._out_of_memory |= not limited
        self._over.append(OverLimit(query, event, dropped))

    def failed(self, query: str, error: Exception) -> None:
        """Note that a query failed otherwise."""
        self._failed.setdefault(query, error)

    def settle(self, found: Matches) -> Matches:
        """Return ``found``, or raise what was noted.

        Raises
        ------
        MemoryLimitError, QueryError
            With ``found`` as its ``matches``; the second if any query failed for another reason than memory.
        """
        over, failed = tuple(self._over), self._failed
        short = self._memory_error(over, found) if over else None
        self._over, self._failed, self._out_of_memory = [], {}, False
        if failed:
            if short is not None:
                failed = failed | {item.query: short for item in over}
            first = next(iter(failed.values()))
            raise QueryError(failed, found) from first
        if short is not None:
            raise short
        return found

    def _memory_error(self, over: tuple[OverLimit, ...], found: Matches) -> MemoryLimitError:
        reason, advice = f"over memory_limit={self._limit or 0:,} bytes", "Raise the limit"
        if self._out_of_memory:
            reason, advice = "the machine has no more memory", "Set memory_limit"
        told = ", ".join(
            f"{item.query!r} at event {item.event:,} ({item.dropped:,} partial matches dropped)" for item in over
        )
        return MemoryLimitError(
            f"{reason}: {told}",
            "The other queries took the whole batch, and the matches found are in the error's .matches; the engine can "
            f"go on. {advice}, shorten the window or narrow the conditions",
            found,
            over,
        )
