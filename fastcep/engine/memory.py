"""The memory limit of an engine: the share of each query, and the handling of a query that needs more.

The limit, less the bytes that all queries share (event ring, strings, held and late events) and the bytes that they
need when empty, is divided equally. So the share of a query does not depend on the memory that the others use. A query
that needs more loses its partial matches and skips the remaining events of the batch, or of the piece of 8,192 events
that is matched at once; the others continue. The error is raised at the end of the batch and carries the matches.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastcep.engine.faults import Faults
from fastcep.engine.partitioned_matcher import parts_of_query
from fastcep.engine.query_set import QuerySet
from fastcep.engine.running_query import RunningQuery
from fastcep.errors import MemoryLimitError, ValidationError
from fastcep.events import EventRing, parse_size

__all__ = ["MemoryLimit"]


class MemoryLimit:
    """Keep the queries of an engine within a number of bytes.

    Parameters
    ----------
    limit
        Bytes, or text such as ``"512MiB"``; None for no limit.
    on_limit
        ``raise``: raise an error when a query runs out of memory; ``shed``: only count its dropped partial matches.

    Attributes
    ----------
    bytes
        The limit, or None.
    sheds
        True: the engine sheds load to stay below the limit.
    faults
        Records the queries that run out of memory.

    Raises
    ------
    ValidationError
        If an option is invalid.
    """

    def __init__(self, limit: str | int | None, on_limit: str) -> None:
        try:
            self.bytes = None if limit is None else parse_size(limit)
        except ValidationError as error:
            raise ValidationError(f"memory_limit: {error}") from None
        if on_limit not in ("raise", "shed"):
            raise ValidationError(f"on_memory_limit={on_limit!r}: expected 'raise' or 'shed'")
        if on_limit == "shed" and self.bytes is None:
            raise ValidationError("on_memory_limit='shed' needs memory_limit='…'")
        self.sheds = on_limit == "shed"
        self.faults = Faults(self.bytes, self.sheds)
        self._limit = limit
        self._empty = 0

    def check_queries(self, running: Sequence[RunningQuery], shared: int) -> None:
        """Check that the limit has room for these queries beside ``shared`` bytes; if not, raise `ValidationError`."""
        empty = sum(item.empty for item in running)
        least = shared + 2 * empty
        if self.bytes is not None and self.bytes < least:
            raise ValidationError(
                f"memory_limit={self._limit!r} is too small: these queries need {shared + empty:,} bytes without any "
                f"partial match; give at least {least:,}"
            )

    def hold(self, running: Sequence[RunningQuery]) -> None:
        """Reserve the bytes that these queries need when they are empty."""
        self._empty = sum(item.empty for item in running)

    def has_room(self, events: int, ring: EventRing | None, held: int, other: int) -> bool:
        """Return True if `check_batch` would accept the batch."""
        return self.bytes is None or self._needed(events, ring, held, other) <= self.bytes

    def _needed(self, events: int, ring: EventRing | None, held: int, other: int) -> int:
        return self._empty + other + (0 if ring is None else ring.bytes_with(held + events))

    def check_batch(self, events: int, ring: EventRing | None, held: int, other: int, origin: str) -> None:
        """Reject a batch that would not fit even without partial matches.

        Parameters
        ----------
        events
            Number of events in the batch.
        ring
            The event ring; None: the engine keeps no events.
        held
            Number of events held back, which may be matched together with the batch.
        other
            Bytes in use besides ring and partial matches, including the batch if it will be held back.
        origin
            Name of the input, for the error message.

        Raises
        ------
        MemoryLimitError
            The batch does not fit. No event of it has been processed.
        """
        if self.bytes is not None and not self.has_room(events, ring, held, other):
            needed = self._needed(events, ring, held, other)
            raise MemoryLimitError(
                f"{origin}: no room for {events:,} more events: with {held:,} held back they need {needed:,} "
                f"bytes, and memory_limit is {self.bytes:,}; nothing of the batch was taken",
                "Use smaller batches, raise the limit, or, with allowed_lateness, call late() or shorten it",
            )

    def make_room(self, queries: QuerySet, count: int, other: int, position: int) -> None:
        """Make room in the ring for ``count`` more events; the query that needs the oldest event drops its state.

        ``other`` is as for `check_batch`, which has accepted the events; ``position`` is that of the first new event.
        """
        ring = queries.ring
        assert ring is not None
        while True:
            oldest = queries.oldest(position)
            ring.reclaim(oldest)
            if oldest == position or self.has_room(len(ring) + count, ring, 0, other):
                return
            item = next(item for item in queries if item.matcher.first_needed == oldest)
            self._drop_state(item, position)

    def divide(self, queries: QuerySet, shared: int, position: int) -> None:
        """Set the share of every query beside ``shared`` bytes; a query that holds more drops its partial matches.

        ``position`` is that of the next event.
        """
        share = self.share_out(queries, shared)
        for item in queries:
            if share is not None and item.nbytes > item.empty + share:
                if item.matcher.live:
                    self._drop_state(item, position)
                else:
                    item.matcher.drop()
            for part in parts_of_query(item.matcher) if share is not None else ():
                if part.nbytes > part.limit and part.live:  # one part holds too much, though the query does not
                    self.faults.note_out_of_memory(item.name, position, part.live, limited=True)
                    part.drop()

    def share_out(self, queries: QuerySet, shared: int) -> int | None:
        """Set the share of every query, even if it holds more now; return the share in bytes, None for no limit."""
        if self.bytes is None or not len(queries):
            return None
        share = (self.bytes - shared - self._empty) // len(queries)
        for item in queries:
            item.matcher.set_limit(item.empty + share - (item.nbytes - item.matcher.nbytes))
            if item.windows is not None:
                item.windows.set_limit(item.empty + share)
        return share

    def _drop_state(self, item: RunningQuery, position: int) -> None:
        self.faults.note_out_of_memory(item.name, position, item.matcher.live, limited=True)
        item.matcher.drop()
