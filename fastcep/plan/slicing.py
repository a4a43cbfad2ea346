"""Split a stream into slices whose matches together are those of the whole stream: by key, or by time.

*By key*: a slice has all events of some keys. This requires that no part of the query depends on events of other keys.

*By time*: a slice has all events of a time range, and before them the events that a match detected in the range may
need. A match belongs to the slice in which it is detected, so slices overlap only at their beginning. Everything that a
match depends on (its first events, the absence of negated events, the event that opened a window) lies before its
detection, at most one window length away. The distance is twice the window length if the match is decided at the end of
its window and a negated event must not occur before the match. All matches that end in the same event are detected in
the same slice, so selection among them works per slice. The slices report matches in the order of the whole stream.

Invariant (tested against one engine, for random queries and splits): the matches of the slices are those of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fastcep.events import format_duration
from fastcep.plan.ir import PREVIOUS
from fastcep.plan.partition_key import event_partition
from fastcep.plan.plan import AFTER_EVENTS, AFTER_TIME, KeyPlan, Plan
from fastcep.query import ast
from fastcep.query.previous import any_time_before
from fastcep.query.printer import name_text, skip_text

__all__ = [
    "Context", "Slicing", "context_text", "relevant_types", "slicing_facts", "slicing_of", "slicing_refusal",
    "slicing_text",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Context:
    """Events that must precede a time slice.

    Attributes
    ----------
    nanoseconds, events
        Length of the context in time, and as a number of events.
    every_nanoseconds, every_events
        The context must begin at a multiple of this time, or of this number of events of the stream; 0: anywhere.
    """

    nanoseconds: int = 0
    events: int = 0
    every_nanoseconds: int = 0
    every_events: int = 0


@dataclass(frozen=True, slots=True)
class Slicing:
    """Ways to split the stream of a query.

    Attributes
    ----------
    key
        Key by which it can be split, or the reason why there is none.
    time
        Context of time slices, or the reason why they are not possible.
    numbered
        Whether the query depends on positions in the whole stream, so that no event may be omitted from a slice.
    """

    key: KeyPlan | str
    time: Context | str
    numbered: bool


def slicing_of(plan: Plan, longest_window: int | None = None) -> Slicing:
    """Return how the stream of a plan's query can be split; reasons begin with the name of a clause.

    ``longest_window`` is the maximum length in ns of windows that events open and close; None if unknown.
    """
    window = plan.query.window
    previous = any(column.column == PREVIOUS for column in plan.columns) and plan.partition is None
    numbered = previous or isinstance(window, ast.CountWindow | ast.ExplicitWindow)
    reason = any_time_before(plan.query)
    if reason:
        by_key = _by_key(plan, previous) if plan.query.partition else reason
        return Slicing(by_key, reason, numbered or not plan.query.partition)
    return Slicing(_by_key(plan, previous), _by_time(plan, longest_window), numbered)


def _by_key(plan: Plan, previous: bool) -> KeyPlan | str:
    window = plan.query.window
    if isinstance(window, ast.CountWindow):
        return f"WITHIN {window.events} EVENTS counts the events of all keys"
    if isinstance(window, ast.ExplicitWindow):
        return "WINDOW is opened by events of all keys"
    if plan.longest and isinstance(window, ast.Unbounded):
        return "SELECT longest under WITHIN UNBOUNDED reports matches at the end of the stream, not of a slice"
    if previous:
        return "contiguity applies to the stream, which has events of all keys"
    return plan.key


def _by_time(plan: Plan, longest_window: int | None) -> Context | str:
    query, window = plan.query, plan.query.window
    if isinstance(window, ast.ExplicitWindow):
        return _of_windows(plan, longest_window)
    if isinstance(window, ast.Unbounded):
        return "WITHIN UNBOUNDED lets a match begin at any earlier time"
    if query.consume == "consumed":
        return "CONSUME consumed removes events that matches of any earlier time used"
    if query.after_match != "no skip":
        return f"AFTER MATCH {skip_text(query)} drops partial matches that overlap matches of any earlier time"
    if isinstance(window, ast.CountWindow):
        return Context(events=window.events)
    assert isinstance(window, ast.TimeWindow)
    # The matches of a first event can depend on events up to a window length before it: if they are decided a window
    # length later, and if skip_till_next does not use an event because an earlier one was used.
    late = plan.period or plan.must_advance or any(state.deferred for state in plan.states)
    looks_back = any(negation.by_time for negation in plan.negations)
    waits = plan.lives - window.nanoseconds  # for a silence
    return Context(nanoseconds=window.nanoseconds * (2 if late and looks_back else 1) + waits)


def _of_windows(plan: Plan, longest_window: int | None) -> Context | str:
    windows = plan.windows
    assert windows is not None
    every_events, every_time = windows.every_events, windows.every_time
    if windows.closing == AFTER_TIME:
        return Context(windows.length, every_nanoseconds=every_time, every_events=every_events)
    if windows.closing == AFTER_EVENTS:
        return Context(0, windows.length, every_nanoseconds=every_time, every_events=every_events)
    if longest_window is not None and windows.opening is not None:
        return Context(longest_window)
    return "CLOSE ON an event lets a window begin at any earlier time"


def slicing_refusal(name: str, reasons: Iterable[str], remedy: str, by: str = "") -> str:
    """Return the error message for a query that cannot be cut ``by`` key or time, or at all (an empty text)."""
    return f"query {name!r} cannot be cut{f' by {by}' if by else ''}: {'; '.join(reasons)}; {remedy}"


def relevant_types(plan: Plan) -> tuple[bool, ...]:
    """Return per type whether its events can affect the query's matches, if the query is not numbered."""
    relevant = [bool(variables) for variables in plan.type_variables]
    partition = event_partition(plan)
    if partition is not None:
        relevant = [binds or bool(columns) for binds, columns in zip(relevant, partition.columns, strict=True)]
    return tuple(relevant)


def slicing_facts(plan: Plan) -> dict[str, Any]:
    """Return for `explain` whether the stream can be split by ``key`` and by ``time``, or the reasons why not."""
    slicing = slicing_of(plan)
    key, time = slicing.key, slicing.time
    return {
        "key": {"attributes": None, "why": key} if isinstance(key, str) else
        {"attributes": list(dict.fromkeys(key.attributes)), "why": ""},
        "time": {"before": None, "why": time} if isinstance(time, str) else {"before": context_text(time), "why": ""},
    }  # fmt: skip


def context_text(context: Context) -> str:
    """Return the text for the context that is read again before each slice."""
    has_time = context.nanoseconds or not context.events
    text = format_duration(context.nanoseconds) if has_time else f"{context.events:,} events"
    if context.every_nanoseconds:
        text += f", back to a multiple of {format_duration(context.every_nanoseconds)}"
    if context.every_events:
        text += f", back to a multiple of {context.every_events:,} events"
    return text


def slicing_text(facts: dict[str, Any]) -> str:
    """Return the facts of `slicing_facts` as one line."""
    key, time = facts["key"], facts["time"]
    parts = []
    if key["attributes"] is not None:
        parts.append(f"by {' = '.join(map(name_text, key['attributes']))}")
    if time["before"] is not None:
        parts.append(f"by time, with {time['before']} before each")
    if parts:
        return "; ".join(parts)
    return f"none: {key['why']}; {time['why']}"
