"""Errors of single queries in a call: recorded while the other queries continue, raised when the batch is done."""

from __future__ import annotations

from fastcep.engine.results.matches import Matches
from fastcep.errors import MemoryLimitError, OverLimit, QueryError

__all__ = ["Faults"]


class Faults:
    """Collect the errors of a call.

    Parameters
    ----------
    limit
        Bytes that the engine may hold, or None.
    sheds
        True: it is no error if a query drops partial matches to stay below the limit.
    """

    def __init__(self, limit: int | None, sheds: bool = False) -> None:
        self._limit, self._sheds = limit, sheds
        self._over_limit: list[OverLimit] = []
        self._errors: dict[str, Exception] = {}
        self._machine_is_full = False

    def note_out_of_memory(self, query: str, event: int, dropped: int, *, limited: bool) -> None:
        """Record that a query ran out of memory at an event.

        Parameters
        ----------
        query
            Name of the query.
        event
            Position of the event.
        dropped
            Number of partial matches that were dropped.
        limited
            True: the query needed more than its share of the limit. False: the machine has no more memory.
        """
        if limited and self._sheds:
            return  # `dropped_partial_matches` counts them
        self._machine_is_full |= not limited
        self._over_limit.append(OverLimit(query, event, dropped))

    def note_error(self, query: str, error: Exception) -> None:
        """Record an error of a query that does not concern memory; the first one of a query counts."""
        self._errors.setdefault(query, error)

    @property
    def any(self) -> bool:
        """True if an error is recorded."""
        return bool(self._over_limit or self._errors)

    def settle(self, matches: Matches) -> Matches:
        """Return ``matches``, or raise the recorded errors.

        Raises
        ------
        MemoryLimitError, QueryError
            With ``matches`` as an attribute. `QueryError` if any query failed for another reason than memory.
        """
        over_limit, errors = tuple(self._over_limit), self._errors
        memory_error = self._memory_error(over_limit, matches) if over_limit else None
        self._over_limit, self._errors, self._machine_is_full = [], {}, False
        if errors:
            if memory_error is not None:
                errors = errors | {item.query: memory_error for item in over_limit}
            first = next(iter(errors.values()))
            raise QueryError(errors, matches) from first
        if memory_error is not None:
            raise memory_error
        return matches

    def _memory_error(self, over_limit: tuple[OverLimit, ...], matches: Matches) -> MemoryLimitError:
        reason, advice = f"over memory_limit={self._limit or 0:,} bytes", "Raise the limit"
        if self._machine_is_full:
            reason, advice = "the machine has no more memory", "Set memory_limit"
        queries = ", ".join(
            f"{item.query!r} at event {item.event:,} ({item.dropped:,} partial matches dropped)" for item in over_limit
        )
        return MemoryLimitError(
            f"{reason}: {queries}",
            "The other queries processed the whole batch; the error's .matches has the matches, and the engine remains "
            f"usable. {advice}, shorten the window or narrow the conditions",
            matches,
            over_limit,
        )
