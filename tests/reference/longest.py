"""SELECT longest of the reference matcher: one match for each first event, reported when no longer one can come.

Of the matches that begin with the same event, the one with the latest last event is kept, and of these the first in
birth order. It is reported when no partial match that begins with the event is left: after the event that ends the last
of them, at the last event of WITHIN n EVENTS, or when the window by time, the explicit window or the stream ends.

Under contiguity with a skip to later events, a match waits until an event (of its partition) after which no partial
match of its partition has an earlier first event; otherwise it could drop one that becomes a match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fastcep.query import ast
from reference.chosen import Chosen, birth_order
from reference.policies import Policy
from reference.runs import Runs
from reference.search import Search


@dataclass(frozen=True)
class Reported:
    """A match, its time, and the position of the event that ended it; None if time has, or the end of the stream."""

    chosen: Chosen
    time: int
    event: int | None


class Longest:
    """The matches of a query with SELECT longest in one window."""

    def __init__(self, search: Search, policy: Policy, runs: Runs) -> None:
        self.search = search
        self.query = search.query
        self.events = search.events
        self.policy = policy
        self.runs = runs
        self.best: dict[int, Chosen] = {}  # by position of the first event

    def all(self) -> Iterator[Reported]:
        """Process all events, and the end of the window."""
        for position in range(len(self.events)):
            yield from self.process(position)
        yield from self.end()

    def process(self, position: int) -> list[Reported]:
        """Offer the next event; return the matches that are reported before it or at it."""
        reported = self.time_passes(self.events[position].time)
        for chosen in sorted(self.runs.complete(position), key=birth_order):
            start = chosen[0].position
            if start not in self.best or self.best[start][-1].position < position:
                self.best[start] = chosen
        over = [start for start in self.best if self.is_over(start, position)]
        return [*reported, *self.report(over, self.events[position].time, position)]

    def end(self) -> list[Reported]:
        """End the window, or the stream."""
        if self.query.window is not None and isinstance(self.query.window, ast.TimeWindow):
            return self.time_passes(None)
        window = self.search.window
        time = window.until if window.until is not None else window.end
        assert time is not None
        return self.report(self.best, time, None)

    def time_passes(self, time: int | None) -> list[Reported]:
        """Report the matches whose window by time ends before a time, or all (None)."""
        reported: list[Reported] = []
        if not isinstance(self.query.window, ast.TimeWindow):
            return reported
        ends = {start: self.events[start].time + self.query.window.nanoseconds for start in self.best}
        for end in sorted({end for end in ends.values() if time is None or end < time}):
            reported += self.report([start for start in self.best if ends[start] == end], end, None)
        return reported

    def is_over(self, start: int, position: int) -> bool:
        """Return True if the match of a start is reported at an event."""
        if self.counted_out(start, position):
            return True
        event, first = self.events[position], self.events[start]
        if self.query.strategy == "partition_contiguity" and not self.search.contiguity.same_partition(first, event):
            return False
        if any(run.chosen[0].position == start for run in self.runs.runs):
            return False
        if self.query.strategy == "skip_till_next" or self.query.after_match in ("no skip", "skip to next"):
            return True
        partition = self.policy.partition(self.best[start])
        return not any(
            run.chosen[0].position < start
            and not self.counted_out(run.chosen[0].position, position)
            and self.policy.partition(run.chosen) == partition
            for run in self.runs.runs
        )

    def counted_out(self, start: int, position: int) -> bool:
        """Return True if the event is the last one in the window of n events of a start."""
        window = self.query.window
        return isinstance(window, ast.CountWindow) and position - start >= window.events - 1

    def report(self, starts: Iterable[int], time: int, event: int | None) -> list[Reported]:
        """Report the matches of these starts that no earlier one drops, in birth order, and forget them all."""
        reported = []
        for start in sorted(starts):
            chosen = self.best.pop(start)
            if not self.policy.dropped(chosen):
                self.policy.skip(chosen)
                reported.append(chosen)
        self.best = {start: chosen for start, chosen in self.best.items() if not self.policy.dropped(chosen)}
        self.runs.runs = [run for run in self.runs.runs if not self.policy.dropped(run.chosen)]
        return [Reported(chosen, time, event) for chosen in sorted(reported, key=birth_order)]
