"""Choose the store of a query for ``store="auto"``: run both stores on its first events, and keep the cheaper one.

A query starts with rows. During the trial the factorised store takes the same events, and its matches are discarded.
Both stores give the same matches in the same order, so the engine can go on with either from any event. The trial ends
after two windows, so that it does not measure only how the first window fills; after 131,072 events; or when one store
costs eight times as much as the other.

The cost of a store is estimated from its counters, so the choice depends on the events only, not on the clock:
nanoseconds per partial match or event that is stored, and per one that is visited, as ``python -m bench.compare_limit``
measures them (docs/performance.md).
"""

from __future__ import annotations

from fastcep._core.matcher.matcher import Matcher
from fastcep.engine.constant_binding import ConstantBinder
from fastcep.plan import Plan
from fastcep.query import ast

__all__ = ["CUT_SHORT", "TRIED", "StoreTrial"]

#: Number of events between two comparisons.
TRIED = 1 << 12

#: The reason that `explain` gives for rows after a trial that could not be finished.
CUT_SHORT = "default: the comparison with the other store could not be finished"

_MOST_EVENTS = 1 << 17
_WINDOWS = 2
_FAR = 8

#: Nanoseconds per relevant event in either store; then per store for what it stores and for what it visits.
_EVENT = 26
_COSTS = {"rows": (24, 6), "factorised": (20, 10)}


class StoreTrial:
    """The factorised store of a query that runs beside its rows.

    Parameters
    ----------
    plan
        For the factorised store.
    link
        Binds the string constants of the query.
    position
        Position of the first event that it takes.
    """

    def __init__(self, plan: Plan, link: ConstantBinder, position: int) -> None:
        self.plan = plan
        self.matcher = Matcher(plan, link)
        self._begin = position
        self._first_time: int | None = None

    def forget_output(self) -> bool:
        """Discard the matches; return False if there is no memory for that, and the trial cannot go on."""
        try:
            if self.matcher.output_pending:
                self.matcher.take_output()
        except MemoryError:
            return False
        return True

    def judge(self, rows: Matcher, position: int, first_time: int, time: int) -> bool | None:
        """Return whether the factorised store is the cheaper one; None if that is not known yet.

        ``first_time`` and ``time`` are the times of the first and last of the latest events (ns), ``position`` is that
        of the next event.
        """
        if not rows.relevant:  # events that no variable binds do not distinguish the stores
            self._begin, self._first_time = position, None
            return None
        if self._first_time is None:
            self._first_time = first_time
        seen = position - self._begin
        if seen < TRIED:
            return None
        factorised, by_rows = _cost(self.matcher, "factorised"), _cost(rows, "rows")
        is_clear = max(factorised, by_rows) > _FAR * min(factorised, by_rows)
        is_over = is_clear or seen >= _MOST_EVENTS or self._windows(seen, time) >= _WINDOWS
        return factorised < by_rows if is_over else None

    def reason(self, rows: Matcher, position: int) -> str:
        """Return the reason for the choice, for `explain`."""
        seen, factorised, by_rows = position - self._begin, _cost(self.matcher, "factorised"), _cost(rows, "rows")
        return (
            f"by statistics: the first {seen:,} events cost about {_duration(by_rows / seen)} each in rows and "
            f"{_duration(factorised / seen)} in the factorised store"
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


def _duration(nanoseconds: float) -> str:
    return f"{nanoseconds:,.0f} ns" if nanoseconds < 10_000 else f"{nanoseconds / 1000:,.0f} us"
