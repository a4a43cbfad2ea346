"""Events that reach the work limit of a query, by what they would cost without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.stored import AMOUNT, COUNT, Misfit, sequence

if TYPE_CHECKING:
    from fastcep.overload.query_shedding import QueryShedding

__all__ = ["REACHING_EVENTS", "ReachingEvents"]

Floats = npt.NDArray[np.float64]

#: Least number of events after which older counts are halved; otherwise after a window.
_HALVED = 2000.0

#: Number of entries by cost, see work_limit.pyx.
_COSTS = 33

_BY_COST = sequence(*[AMOUNT] * _COSTS)
#: Check of a stored state.
REACHING_EVENTS = sequence(COUNT, COUNT, _BY_COST, *[AMOUNT] * 4, _BY_COST)


class ReachingEvents:
    """Recent events that reached the work limit of a query, by what they cost without it."""

    def __init__(self, query: QueryShedding) -> None:
        self._query = query
        self._before: tuple[int, int, list[float]] = query.shedding.reached
        self._events = self._over = 0.0  #: numbers of events: all, above the bound,
        self._ran_on = self._reached = 0.0  #: ran on, and reached the limit
        self._by_cost: Floats = np.zeros(_COSTS)  #: estimate of the latter by cost, see work_limit.pyx

    def add(self, events: int, over: float) -> None:
        """Add the events since the last call, of which the share ``over`` was above the bound."""
        decay = 0.5 ** (events / max(self._query.window_size, _HALVED))
        before, self._before = self._before, self._query.shedding.reached
        self._events, self._over = decay * self._events + events, decay * self._over + over * events
        self._ran_on = decay * self._ran_on + self._before[0] - before[0]
        self._reached = decay * self._reached + self._before[1] - before[1]
        self._by_cost = decay * self._by_cost + np.subtract(self._before[2], before[2])

    @property
    def over(self) -> float:
        """Share of the events above the bound."""
        return self._over / max(self._events, 1.0)

    @property
    def stopped(self) -> float:
        """Share of the events that were stopped and would have exceeded the limit."""
        total = float(self._by_cost.sum())
        exceeding = self._reached * (float(self._by_cost[1:].sum()) / total if total > 0 else 1.0)
        return max(0.0, exceeding - self._ran_on) / max(self._events, 1.0)

    def percentile(self, allowed_share: float) -> float:
        """Return the cost, in limits, that ``allowed_share`` of the events exceed: at least 1; 0: unknown."""
        allowed, total = allowed_share * self._events, float(self._by_cost.sum())
        if self._reached <= allowed:
            return 1.0
        if total <= 0:
            return 0.0
        beyond = self._reached / total * np.append(np.cumsum(self._by_cost[:0:-1])[::-1], 0.0)
        if beyond[0] <= allowed:
            return 1.0
        if not np.isfinite(beyond[0]):
            return 0.0
        place = int(np.flatnonzero(beyond > allowed)[-1])
        part = (beyond[place] - allowed) / (beyond[place] - beyond[place + 1])
        return float(2 ** ((place + part) / 4))

    def state(self) -> list[Any]:
        """Return the state for a snapshot as JSON values."""
        return [*self._before, self._events, self._over, self._ran_on, self._reached, self._by_cost.tolist()]

    def restore(self, state: list[Any]) -> None:
        """Restore a `state`."""
        ran_on, reached, costs, self._events, self._over, self._ran_on, self._reached, by_cost = state
        now = self._query.shedding.reached
        if ran_on > now[0] or reached > now[1] or any(cost > most for cost, most in zip(costs, now[2], strict=True)):
            raise Misfit("control.cut.reaching", "larger counts", "at most those of the matcher")
        self._before, self._by_cost = (ran_on, reached, costs), np.array(by_cost, np.float64)
