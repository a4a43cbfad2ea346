"""A query that an engine runs, and what belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from fastcep._core.input.filters import Filter
from fastcep.engine.constant_binding import ConstantBinder
from fastcep.engine.faults import Faults
from fastcep.engine.matches import QueryMatches
from fastcep.engine.partitioned_matcher import Matching
from fastcep.engine.returns import Returns
from fastcep.engine.store_trial import StoreTrial
from fastcep.engine.timeouts import TimedOut
from fastcep.engine.windows import WindowBounds
from fastcep.plan import Plan
from fastcep.query import ast

__all__ = ["RunningQuery"]


@dataclass(slots=True, eq=False)
class RunningQuery:
    """A query, its plan, its state.

    Attributes
    ----------
    since
        Position of the first event that it sees.
    empty
        Bytes that it holds without any event.
    fresh
        Makes a matcher like its own, without state.
    nothing
        Its matches of a call that found none.
    windows
        Finds what opens and closes explicit windows; None without.
    timed
        Its partial matches that have timed out; None if they are not asked for.
    filters
        Those that it shares with other queries; None while it is alone.
    trial
        The other store, while it is tried.
    """

    plan: Plan
    link: ConstantBinder
    matcher: Matching
    since: int
    empty: int
    fresh: Callable[[], Matching]
    returns: Returns | None = None
    nothing: QueryMatches | None = None
    windows: WindowBounds | None = None
    timed: TimedOut | None = None
    filters: list[Filter] | None = None
    trial: StoreTrial | None = None

    @property
    def matchers(self) -> tuple[Matching, ...]:
        """All that take its events."""
        return (self.matcher,) if self.trial is None else (self.matcher, self.trial.matcher)

    @property
    def query(self) -> ast.Query:
        """The query."""
        return self.plan.query

    @property
    def name(self) -> str:
        """Its name."""
        return self.plan.query.name

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        held = [*self.matchers, *(() if self.windows is None else (self.windows,))]
        return sum(int(item.nbytes) for item in held)

    @property
    def defers(self) -> bool:
        """Whether it has matches that wait for time, or tells of partial matches whose time is over."""
        return self.timed is not None or any(state.deferred for state in self.plan.states)

    def give_up(self, position: int, dropped: int, faults: Faults) -> None:
        """Note that there was no memory for the event at a position, and how many partial matches were dropped."""
        faults.gave_up(self.name, position, dropped, limited=self.matcher.refused)

    def fail(self, error: Exception, last_time: int, faults: Faults) -> None:
        """Let it go on after a batch that it could not take, which ends at ``last_time``."""
        self.matcher.drop(last_time)
        self.matcher.forget_windows()
        faults.failed(self.name, error)

    def lose(self, error: Exception, faults: Faults) -> None:
        """Forget what it has found, which cannot be given."""
        faults.failed(self.name, error)
        with suppress(Exception):
            self.matcher.take_output()  # what is left of it must not come with the next call
