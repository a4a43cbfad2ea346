"""A slow, obvious matcher that every path of the engine is compared with.

It follows the page on semantics word by word and reads only the query's syntax tree; it shares no code with the engine.
The stream is complete: no event comes after its last one, so all deferred matches are decided.

Each window is matched independently (`windows`). Skip till any match and contiguity define a match: try every way to
bind a pattern's variables, and keep those that are matches (`search`). Skip till next match defines what becomes of a
partial match at each event: follow them all (`runs`, which can follow the other strategies as well). Selection,
consumption and AFTER MATCH follow, event by event (`policies`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastcep.query import ast
from fastcep.query.patterns import pattern_variables, positive_variables
from reference.before import with_earlier
from reference.chosen import Chosen, birth_order
from reference.conditions import Event, return_value
from reference.longest import Longest
from reference.policies import Partition, Policy
from reference.runs import Runs
from reference.search import Detected, Search
from reference.values import Value
from reference.windows import Window, windows

__all__ = ["Binding", "Event", "Match", "TimedOut", "Value", "find_matches", "return_values", "timed_out"]

Binding = int | list[int | None] | None


@dataclass(frozen=True)
class Match:
    """One match.

    Attributes
    ----------
    bindings
        Sequence numbers by variable: a number, a list, or None for a variable that is not bound. For a variable in a
        group (called ``g.a``) a list with an entry for each round, None where the round does not bind it. With
        ``SELECT cumulative`` always a list.
    last
        Sequence number of the event that completes it: the last that it binds, or the one that ends its window.
    detected_at
        The time (ns) of that event, or the deciding time.
    deferred
        True if it had to wait for the deciding time, or for the end of the stream.
    window_id
        Sequence number of the event that opens its window; None without explicit windows.
    """

    bindings: dict[str, Binding]
    last: int
    detected_at: int
    deferred: bool = False
    window_id: int | None = None


@dataclass(frozen=True)
class TimedOut:
    """One partial match that was still waiting when its window ended.

    Attributes
    ----------
    bindings
        As in `Match`.
    timed_out_at
        The time (ns) of the window's end; for ``WITHIN n EVENTS`` the time of the first event after the window.
    bound
        Number of bound variables.
    waits_for
        The variables that could be bound next.
    window_id
        As in `Match`.
    """

    bindings: dict[str, Binding]
    timed_out_at: int
    bound: int
    waits_for: list[str]
    window_id: int | None = None


Process = Callable[[int], list[Chosen]]  # position -> the matches that end there
Place = tuple[object, ...]  # what a list is sorted by


def find_matches(
    query: ast.Query, events: Sequence[Event], by_runs: bool | None = None, end: int | None = None
) -> list[Match]:
    """Return all matches of ``query`` over ``events`` (in stream order), in the defined order.

    Windows are in the order in which they open. That is the order of their ids, unless the events were re-ordered: then
    the order of the stream decides, as for everything that uses sequence numbers.

    ``by_runs``: True to follow partial matches; by default only where that is necessary. ``end``: the time (ns) that
    the stream has reached, if it is later than its last event.
    """
    found: list[tuple[Place, Match]] = []
    events = with_earlier(query, events)
    for window in windows(query, events, end):
        one = OneWindow(query, events, window)
        found += one.matches(needs_runs(query) if by_runs is None else by_runs)
    found.sort(key=lambda pair: pair[0])
    return [match for _, match in found]


def timed_out(query: ast.Query, events: Sequence[Event], end: int | None = None) -> list[TimedOut]:
    """Return the partial matches that wait at the end of their window; the end of the stream ends all windows."""
    found: list[tuple[Place, TimedOut]] = []
    events = with_earlier(query, events)
    for window in windows(query, events, end):
        found += OneWindow(query, events, window).timed_out()
    found.sort(key=lambda pair: pair[0])
    return [one for _, one in found]


def needs_runs(query: ast.Query) -> bool:
    """Return True if the time of a decision matters: it affects which partial matches advance, and what is consumed."""
    negated = any(variable.negated for variable in pattern_variables(query.pattern))
    return query.strategy == "skip_till_next" or (query.consume == "consumed" and negated)


class OneWindow:
    """A query in one of its windows."""

    def __init__(self, query: ast.Query, events: Sequence[Event], window: Window) -> None:
        self.query = query
        self.window = window
        self.all_events = events
        self.policy = Policy(query, events[window.start : window.stop])
        self.search = Search(query, events, window, self.policy.consumed)

    def matches(self, by_runs: bool) -> list[tuple[Place, Match]]:
        """Return its matches, each with its sort key."""
        found: list[tuple[Place, Match, Partition]] = []
        if self.query.select == "longest":
            for match in Longest(self.search, self.policy, Runs(self.search, self.policy)).all():
                detected = match.chosen, match.time, match.event is None
                found.append((*self.placed(detected, match.event), self.policy.partition(match.chosen)))
        else:
            process = Runs(self.search, self.policy).complete if by_runs else self.enumerated()
            for position in range(len(self.search.events)):
                for one in self.reported(process(position)):
                    found.append((*self.placed(one), self.policy.partition(one[0])))
        found.sort(key=lambda entry: entry[0])
        counts = Counter[Partition]()
        kept: list[tuple[Place, Match]] = []
        for place, match, partition in found:
            counts[partition] += 1
            if self.query.limit is None or counts[partition] <= self.query.limit:
                kept.append((place, match))
        return kept

    def timed_out(self) -> list[tuple[Place, TimedOut]]:
        """Return its partial matches that time out, each with its sort key."""
        runs = Runs(self.search, self.policy)
        counts = Counter[Partition]()
        longest = Longest(self.search, self.policy, runs) if self.query.select == "longest" else None
        for position in range(len(self.search.events)):
            if longest is not None:
                counts.update(self.policy.partition(match.chosen) for match in longest.process(position))
            else:
                detected = self.reported(runs.complete(position))
                counts.update(self.policy.partition(chosen) for chosen, _, deferred in detected if not deferred)
            if self.query.limit is not None:  # a partition with as many matches is done
                limit = self.query.limit
                runs.runs = [run for run in runs.runs if counts[self.policy.partition(run.chosen)] < limit]
        runs.end()
        # Under WITHIN n EVENTS each event ends the window of one start.
        one_by_one = isinstance(self.query.window, ast.CountWindow)
        names = [variable.name for variable in self.search.variables]
        return [
            (
                (
                    one.time,
                    self.window.closing is None,  # the event that closes it comes before time passes
                    -1 if self.window.closing is None else self.window.closing,
                    self.window.start,
                    one.chosen[0].position if one_by_one else 0,
                    birth_order(self.moved(one.chosen)),
                ),
                TimedOut(
                    self.bindings(one.chosen, cumulative=False),
                    one.time,
                    len({pair.variable for pair in one.chosen}),
                    [names[variable] for variable in one.waits_for],
                    self.window.window_id,
                ),
            )
            for one in runs.expired
        ]

    def enumerated(self) -> Process:
        """Enumerate all matches; of those that end in one event, yield those not eliminated by earlier events."""
        ending: dict[int, list[Chosen]] = {}
        for chosen in self.search.matches():
            ending.setdefault(chosen[-1].position, []).append(chosen)
        return lambda position: [one for one in ending.get(position, []) if not self.policy.dropped(one)]

    def reported(self, complete: list[Chosen]) -> list[Detected]:
        """Return the reported ones of the matches that end in one event."""
        detected = self.search.detected(complete)
        if self.policy.none:
            return detected
        assert not any(deferred for _, _, deferred in detected), "refused: decided only when the window has ended"
        return [
            (chosen, self.search.events[chosen[-1].position].time, False)
            for chosen in self.policy.report([chosen for chosen, _, _ in detected])
        ]

    def moved(self, chosen: Chosen) -> Chosen:
        """Return the same bindings with positions in the whole stream."""
        return tuple(type(pair)(pair.position + self.window.start, pair.variable, pair.round) for pair in chosen)

    def placed(self, detected: Detected, event: int | None = None) -> tuple[Place, Match]:
        """Return a match with its sort key: detecting event, window, birth; deferred matches come later.

        ``event`` is the position of the detecting event, if it is not the last one of the match.
        """
        chosen, time, deferred = detected
        last = self.window.start + (chosen[-1].position if event is None else event)
        by_event = not deferred
        if deferred and self.window.closing is not None:
            last, by_event = self.window.closing, True
        born = birth_order(self.moved(chosen))
        place = (time, not by_event, last if by_event else -1, deferred, self.window.start, born)
        bindings = self.bindings(chosen, self.query.select == "cumulative")
        match = Match(bindings, self.all_events[last].seq, time, not by_event, self.window.window_id)
        return place, match

    def bindings(self, chosen: Chosen, cumulative: bool) -> dict[str, Binding]:
        """Return the bound events as sequence numbers, by variable name."""
        events, named = self.search.events, dict[str, Binding]()
        for number, variable in enumerate(self.search.variables):
            pairs = [pair for pair in chosen if pair.variable == number]
            own = {pair.round: events[pair.position].seq for pair in pairs}
            if variable.negated:
                continue
            if cumulative:
                named[variable.name] = [events[position].seq for position in sorted({pair.position for pair in pairs})]
            elif not variable.repeated:
                named[variable.name] = own.get(0)
            elif variable.group is None:
                named[variable.name] = [events[pair.position].seq for pair in pairs]
            else:
                named[variable.name] = [own.get(turn) for turn in range(self.search.turns(variable.group, chosen))]
        return named


def return_values(query: ast.Query, match: Match, events: Sequence[Event]) -> dict[str, Value | list[Value]]:
    """Return the RETURN columns of a match. Attributes of an absent variable and a missing ``x[k]`` are null."""
    by_sequence = {event.seq: event for event in with_earlier(query, events)}
    bound: dict[str, list[Event | None]] = {}
    for variable in positive_variables(query.pattern):
        binding = match.bindings[variable.name]
        numbers = binding if isinstance(binding, list) else [] if binding is None else [binding]
        bound[variable.name] = [None if sequence is None else by_sequence[sequence] for sequence in numbers]
        if variable.group is not None:
            bound[variable.group.name] = [None] * len(numbers)
    return {item.name: return_value(item.expression, bound) for item in query.returns}
