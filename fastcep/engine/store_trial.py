"""Which store a query gets with ``store="auto"``: both are tried on its first events, and what they count decides.

A query begins with rows. As long as the trial goes on the factorised store sees the same events, and what it finds is
thrown away; matches are the same in the same order from both, so that either may go on at any event. The trial ends
when the stream has come two windows far, so that what is counted is not only how the window fills, or after 131,072
events, or when one of them costs eight times as much as the other. The engine then keeps the cheaper one.

What a store costs is estimated from its counters, so that the choice depends on the events only and not on the clock:
nanoseconds per partial match or event that is stored, and per one that is looked at, as ``python -m
bench.compare_limit`` shows them (docs/performance.md).
"""

from __future__ import annotations

from fastcep._core.input.batch import Batch
from fastcep._core.matcher.matcher import Matcher
from fastcep.engine.constant_binding import ConstantBinder
from fastcep.events import EventRing
from fastcep.plan import Plan
from fastcep.query import ast

__all__ = ["CUT_SHORT", "TRIED", "StoreTrial"]

#: Events between two looks at the counters.
TRIED = 1 << 12

#: Why a query has rows whose trial came to no end.
CUT_SHORT = "the usual one: the other could not be tried to the end"

_MOST_EVENTS = 1 << 17
_WINDOWS = 2
_FAR = 8

#: Nanoseconds per relevant event in either store; then per store for what it stores and for what it visits.
_EVENT = 26
_COSTS = {"rows": (24, 6), "factorised": (20, 10)}


class StoreTrial:
    """The factorised store of a query, beside its rows.

    Parameters
    ----------
    plan
        For the factorised store.
    link
        Of the query.
    position
        Of the first event that it sees.
    """

    def __init__(self, plan: Plan, link: ConstantBinder, position: int) -> None:
        self.plan = plan
        self.matcher = Matcher(plan, link)
        self._begin = position
        self._first_time: int | None = None

    def follow(self, events: Batch, ring: EventRing | None, first: int, last: int, shared: bool) -> bool:
        """Take the events that the rows have taken; False: there is no memory for them, and this cannot go on."""
        try:
            return bool(self.matcher.process(events, ring, first, last, shared) == last)
        except MemoryError:
            return False

    def forget_output(self) -> bool:
        """Throw away what was found; False: there is no memory for that, and this cannot go on."""
        try:
            if self.matcher.output_pending:
                self.matcher.take_output()
        except MemoryError:
            return False
        return True

    def judge(self, rows: Matcher, position: int, first_time: int, time: int) -> bool | None:
        """Whether the factorised store is the cheaper one; None: not known yet.

        ``first_time`` and ``time`` are those of the first and the last of the latest events; the last one stands before
        ``position``.
        """
        if not rows.relevant:  # what concerns nobody tells nothing
            self._begin, self._first_time = position, None
            return None
        if self._first_time is None:
            self._first_time = first_time
        seen = position - self._begin
        if seen < TRIED:
            return None
        own, other = _cost(self.matcher, "factorised"), _cost(rows, "rows")
        far = max(own, other) > _FAR * min(own, other)
        enough = far or seen >= _MOST_EVENTS or self._windows(seen, time) >= _WINDOWS
        return own < other if enough else None

    def told(self, rows: Matcher, position: int) -> str:
        """Why it is the one or the other, for `explain`."""
        seen, own, other = position - self._begin, _cost(self.matcher, "factorised"), _cost(rows, "rows")
        return (
            f"by statistics: the first {seen:,} events cost about {_shown(other / seen)} each in rows and "
            f"{_shown(own / seen)} in the factorised store"
        )

    def _windows(self, seen: int, time: int) -> float:
        window = self.plan.query.window
        if isinstance(window, ast.TimeWindow):
            assert self._first_time is not None
            return (time - self._first_time) / max(1, window.nanoseconds)
        return seen / max(1, window.events) if isinstance(window, ast.CountWindow) else 0.0


def _cost(matcher: Matcher, store: str) -> int:
    stored, visited = _COSTS[store]
    return int(_EVENT * matcher.relevant + stored * matcher.rows_created + visited * matcher.rows_visited)


def _shown(nanoseconds: float) -> str:
    return f"{nanoseconds:,.0f} ns" if nanoseconds < 10_000 else f"{nanoseconds / 1000:,.0f} us"
