"""The memory limit of an engine: who may hold how much, and what happens to a query that needs more.

What all queries share (event ring, strings, held and late events) and what they hold when empty is taken off first; the
rest is divided equally, so that a query's share does not depend on what the others hold. A query that needs more loses
its partial matches and sits out the rest of the batch; the others go on. The error comes when the batch is done and
carries the matches that were found.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastcep._core.match import Matcher
from fastcep.engine.matches import Matches
from fastcep.errors import MemoryLimitError, OverLimit, ValidationError
from fastcep.events import EventRing, parse_size

__all__ = ["MemoryLimit"]


class MemoryLimit:
    """Keeps the matchers of an engine within a number of bytes.

    Parameters
    ----------
    limit
        Bytes, or text such as ``"512MiB"``; None for no limit.
    on_limit
        ``"raise"``.
    matchers, names
        The queries' matchers, and the queries' names.
    shared
        Bytes that the empty engine holds for all of them.

    Raises
    ------
    ValidationError
        If an option is wrong, or the limit is below what the empty engine holds.
    """

    def __init__(
        self, limit: str | int | None, on_limit: str, matchers: Sequence[Matcher], names: Sequence[str], shared: int
    ) -> None:
        try:
            self.bytes = None if limit is None else parse_size(limit)
        except ValidationError as error:
            raise ValidationError(f"memory_limit: {error}") from None
        if on_limit != "raise":
            later = "; shedding comes in a later version" if on_limit == "shed" else ""
            raise ValidationError(f'on_memory_limit={on_limit!r}: expected "raise"{later}')
        self._matchers = tuple(matchers)
        self._names = tuple(names)
        self._over: list[OverLimit] = []
        self._out_of_memory = False
        self._empty = tuple(matcher.nbytes for matcher in self._matchers)
        empty = sum(self._empty)
        least = shared + 2 * empty
        if self.bytes is not None and self.bytes < least:
            raise ValidationError(
                f"memory_limit={limit!r} is too small: these queries hold {shared + empty:,} bytes without any "
                f"partial match; give at least {least:,}"
            )

    def has_room(self, events: int, ring: EventRing | None, held: int, other: int) -> bool:
        """Whether `check_batch` would let the batch pass."""
        return self.bytes is None or self._needed(events, ring, held, other) <= self.bytes

    def _needed(self, events: int, ring: EventRing | None, held: int, other: int) -> int:
        return sum(self._empty) + other + (0 if ring is None else ring.bytes_with(held + events))

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

    def make_room(self, ring: EventRing, count: int, other: int, position: int) -> None:
        """Let the ring have room for ``count`` more events: the query that needs the oldest event gives way.

        ``other`` is as for `check_batch`, which has let the events pass; ``position`` is that of the first of them.
        """
        while True:
            needed = [matcher.first_needed for matcher in self._matchers]
            oldest = min((at for at in needed if at is not None), default=position)
            ring.reclaim(oldest)
            if oldest == position or self.has_room(len(ring) + count, ring, 0, other):
                return
            number = needed.index(oldest)
            self._over.append(OverLimit(self._names[number], position, self._matchers[number].live))
            self._matchers[number].drop()

    def divide(self, shared: int, position: int) -> None:
        """Give every query its share of what is left beside ``shared`` bytes; one that holds more gives way.

        ``position`` is that of the next event.
        """
        if self.bytes is None:
            return
        share = (self.bytes - shared - sum(self._empty)) // len(self._matchers)
        for name, matcher, empty in zip(self._names, self._matchers, self._empty, strict=True):
            matcher.set_limit(empty + share)
            if matcher.nbytes > empty + share:
                if matcher.live:
                    self._over.append(OverLimit(name, position, matcher.live))
                matcher.drop()

    def gave_up(self, number: int, position: int, dropped: int) -> None:
        """Note that a matcher found no memory for the event at ``position``."""
        self._out_of_memory |= not self._matchers[number].refused
        self._over.append(OverLimit(self._names[number], position, dropped))

    def settle(self, found: Matches) -> Matches:
        """Return ``found``, or raise what was noted.

        Raises
        ------
        MemoryLimitError
            With ``found`` as its ``matches``.
        """
        if not self._over:
            return found
        over, self._over = tuple(self._over), []
        reason, advice = f"over memory_limit={self.bytes or 0:,} bytes", "Raise the limit"
        if self._out_of_memory:
            reason, advice = "the machine has no more memory", "Set memory_limit"
            self._out_of_memory = False
        told = ", ".join(
            f"{item.query!r} at event {item.event:,} ({item.dropped:,} partial matches dropped)" for item in over
        )
        raise MemoryLimitError(
            f"{reason}: {told}",
            "The other queries took the whole batch, and the matches found are in the error's .matches; the engine can "
            f"go on. {advice}, shorten the window or narrow the conditions",
            found,
            over,
        )
