"""A query of an engine, with its plan, its state and its errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from fastcep._core.input.filters import Filter
from fastcep.engine.constant_binding import ConstantBinder
from fastcep.engine.faults import Faults
from fastcep.engine.partitioned_matcher import AnyMatcher
from fastcep.engine.results.query_matches import QueryMatches
from fastcep.engine.results.returns import Returns
from fastcep.engine.results.timeouts import TimedOut
from fastcep.engine.store_trial import StoreTrial
from fastcep.engine.windows import WindowBounds
from fastcep.plan import Plan
from fastcep.query import ast

__all__ = ["RunningQuery"]


@dataclass(slots=True, eq=False)
class RunningQuery:
    """A query, its plan and its state.

    Attributes
    ----------
    plan
        The plan, for the store that is in use.
    link
        Binds the constants of its programs.
    matcher
        Holds its partial matches.
    since
        Position of the first event that it sees.
    empty
        Bytes that it needs without any event.
    new_matcher
        Makes a matcher like `matcher`, without state.
    returns
        Its RETURN columns; None if it has none.
    no_matches
        Its result in a call without matches.
    windows
        Finds the events that open and close explicit windows; None if it has none.
    timed_out
        Its partial matches that have timed out; None if the engine does not keep them.
    filters
        Filters that it shares with other queries; None while it is the only query.
    trial
        The candidate store, while it is being tried.
    standby
        Matcher without state of the plan to go on with when the overload control falls asleep or wakes up; None if it
        never does.
    """

    plan: Plan
    link: ConstantBinder
    matcher: AnyMatcher
    since: int
    empty: int
    new_matcher: Callable[[], AnyMatcher]
    returns: Returns | None = None
    no_matches: QueryMatches | None = None
    windows: WindowBounds | None = None
    timed_out: TimedOut | None = None
    filters: list[Filter] | None = None
    trial: StoreTrial | None = None
    standby: AnyMatcher | None = None

    @property
    def matchers(self) -> tuple[AnyMatcher, ...]:
        """The matchers that process its events, including that of the candidate store."""
        return (self.matcher,) if self.trial is None else (self.matcher, self.trial.matcher)

    @property
    def query(self) -> ast.Query:
        """The query."""
        return self.plan.query

    @property
    def name(self) -> str:
        """The name of the query."""
        return self.plan.query.name

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        windows = () if self.windows is None else (self.windows,)
        return sum(int(item.nbytes) for item in (*self.matchers, *windows))

    @property
    def defers(self) -> bool:
        """True if matches may wait for a time, or if the engine keeps partial matches that time out."""
        return self.timed_out is not None or any(state.deferred for state in self.plan.states)

    def give_up(self, position: int, dropped: int, faults: Faults) -> None:
        """Record that the query ran out of memory at the event at ``position`` and dropped partial matches."""
        faults.note_out_of_memory(self.name, position, dropped, limited=self.matcher.refused)

    def fail(self, error: Exception, last_time: int, faults: Faults) -> None:
        """Drop the state after a batch that raised an error; ``last_time`` is the time of the batch's last event."""
        self.matcher.drop(last_time)
        self.matcher.forget_windows()
        faults.note_error(self.name, error)

    def lose(self, error: Exception, faults: Faults) -> None:
        """Discard the matches of the call, because an error prevents their return."""
        faults.note_error(self.name, error)
        with suppress(Exception):
            self.matcher.take_output()  # so that the next call does not return the remaining ones
