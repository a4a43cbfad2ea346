"""The memory limit of an engine: who may hold how much, and what happens to a query that needs more.

What all queries share (event ring, strings, held and late events) and what they hold when empty is taken off first; the
rest is divided equally, so that a query's share does not depend on what the others hold. A query that needs more loses
its partial matches and sits out the rest of the batch, or of the 8,192 events of it that are taken at once; the others
go on. The error comes when the batch is done and carries the matches that were found.
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
    """Keeps the queries of an engine within a number of bytes.

    Parameters
    ----------
    limit
        Bytes, or text such as ``"512MiB"``; None for no limit.
    on_limit
        ``raise`` an error when a query gives way, or ``shed``: then that is counted and no error.

    Attributes
    ----------
    bytes
        The limit.
    sheds
        Whether load is shed to stay below it.
    faults
        Where it is noted who gave way.

    Raises
    ------
    ValidationError
        If an option is wrong.
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
        """Refuse queries that would have no room to work in beside ``shared`` bytes; ValidationError says how much."""
        empty = sum(item.empty for item in running)
        least = shared + 2 * empty
        if self.bytes is not None and self.bytes < least:
            raise ValidationError(
                f"memory_limit={self._limit!r} is too small: these queries hold {shared + empty:,} bytes without any "
                f"partial match; give at least {least:,}"
            )

    def hold(self, running: Sequence[RunningQuery]) -> None:
        """Keep the room that these queries need when they hold nothing."""
        self._empty = sum(item.empty for item in running)

    def has_room(self, events: int, ring: EventRing | None, held: int, other: int) -> bool:
        """Whether `check_batch` would let the batch pass."""
        return self.bytes is None or self._needed(events, ring, held, other) <= self.bytes

    def _needed(self, events: int, ring: EventRing | None, held: int, other: int) -> int:
        return self._empty + other + (0 if ring is None else ring.bytes_with(held + events))

    def check_batch(self, events: int, ring: EventRing | None, held: int, other: int, origin: str) -> None:
        """Refuse a batch for which there would be no room even without partial matches.

        Parameters
        ----------
        events, ring
            How many the batch has, and where the engine keeps them (None: nowhere).
        held
            Events held back, which may be matched together with the batch.
        other
            Bytes held besides ring and partial matches, the batch included if it is going to be held back.
        origin
            For the message.

        Raises
        ------
        MemoryLimitError
            Nothing of the batch has been taken.
        """
        if self.bytes is not None and not self.has_room(events, ring, held, other):
            needed = self._needed(events, ring, held, other)
            raise MemoryLimitError(
                f"{origin}: no room for {events:,} more events: with {held:,} held back they need {needed:,} "
                f"bytes, and memory_limit is {self.bytes:,}; nothing of the batch was taken",
                "Give smaller batches, raise the limit, or, with allowed_lateness, call late() or shorten it",
            )

    def make_room(self, queries: QuerySet, count: int, other: int, position: int) -> None:
        """Let the ring have room for ``count`` more events: the query that needs the oldest event gives way.

        ``other`` is as for `check_batch`, which has let the events pass; ``position`` is that of the first of them.
        """
        ring = queries.ring
        assert ring is not None
        while True:
            oldest = queries.oldest(position)
            ring.reclaim(oldest)
            if oldest == position or self.has_room(len(ring) + count, ring, 0, other):
                return
            item = next(item for item in queries if item.matcher.first_needed == oldest)
            self._give_way(item, position)

    def divide(self, queries: QuerySet, shared: int, position: int) -> None:
        """Give every query its share of what is left beside ``shared`` bytes; one that holds more gives way.

        ``position`` is that of the next event.
        """
        share = self.share_out(queries, shared)
        for item in queries:
            if share is not None and item.nbytes > item.empty + share:
                if item.matcher.live:
                    self._give_way(item, position)
                else:
                    item.matcher.drop()
            for part in parts_of_query(item.matcher) if share is not None else ():
                if part.nbytes > part.limit and part.live:  # of several, whose query holds less than its share
                    self.faults.gave_up(item.name, position, part.live, limited=True)
                    part.drop()

    def share_out(self, queries: QuerySet, shared: int) -> int | None:
        """Give every query its share, also if it holds more now; returns it, None for no limit."""
        if self.bytes is None or not len(queries):
            return None
        share = (self.bytes - shared - self._empty) // len(queries)
        for item in queries:
            item.matcher.set_limit(item.empty + share - (item.nbytes - item.matcher.nbytes))
            if item.windows is not None:
                item.windows.set_limit(item.empty + share)
        return share

    def _give_way(self, item: RunningQuery, position: int) -> None:
        self.faults.gave_up(item.name, position, item.matcher.live, limited=True)
        item.matcher.drop()
