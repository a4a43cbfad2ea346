"""How a stream can be cut into slices whose matches, put together, are those of the whole: by key, or by time.

*By key*: a slice has all events of some keys. Nothing that a query says may then look at events of other keys.

*By time*: a slice has all events of a stretch of time, and before these as many as a match that is detected in it
may need. A match belongs to the slice in which it is detected, so that slices overlap to one side only: what begins a
match, an event that is not to be there, and the event that opened a window all lie before its detection, no further
than the window is long; twice as far if the match is decided by the end of its window and no event may come before it,
either. Matches that end in one event are all detected in one slice, so that selection among them goes by slice, too;
and slices put out matches in the order of the whole.

Invariant (tested against one engine, for random queries and cuts): the matches of the slices are those of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastcep.events import format_duration
from fastcep.plan.ir import PREVIOUS
from fastcep.plan.plan import AFTER_EVENTS, AFTER_TIME, KeyPlan, Plan
from fastcep.query import ast
from fastcep.query.printer import name_text

__all__ = ["Context", "Slicing", "context_text", "relevant_types", "slicing_facts", "slicing_of", "slicing_text"]


@dataclass(frozen=True, slots=True)
class Context:
    """What a slice of time must have before it.

    Attributes
    ----------
    nanoseconds, events
        All events of so much time, and so many events.
    every_nanoseconds, every_events
        It must begin at a multiple of so much time, or of so many events of the stream; 0: anywhere.
    """

    nanoseconds: int = 0
    events: int = 0
    every_nanoseconds: int = 0
    every_events: int = 0


@dataclass(frozen=True, slots=True)
class Slicing:
    """How the stream of a query can be cut.

    Attributes
    ----------
    key
        By which attribute, or why by none.
    time
        What slices of time need, or why there can be none.
    numbered
        Whether the query asks for places in the whole stream, so that no event may be left out of a slice.
    """

    key: KeyPlan | str
    time: Context | str
    numbered: bool


def slicing_of(plan: Plan, longest_window: int | None = None) -> Slicing:
    """Find out how the stream of a plan's query can be cut; reasons begin with the name of a clause.

    ``longest_window`` says how long, in ns, windows are at most that events open and close; None: nobody knows.
    """
    window = plan.query.window
    previous = any(column.column == PREVIOUS for column in plan.columns) and plan.partition is None
    numbered = previous or isinstance(window, ast.CountWindow | ast.ExplicitWindow)
    return Slicing(_by_key(plan, previous), _by_time(plan, longest_window), numbered)


def _by_key(plan: Plan, previous: bool) -> KeyPlan | str:
    window = plan.query.window
    if isinstance(window, ast.CountWindow):
        return f"WITHIN {window.events} EVENTS counts the events of all keys"
    if isinstance(window, ast.ExplicitWindow):
        return "WINDOW is opened by events of all keys"
    if previous:
        return "contiguity is that of the stream, in which events of all keys lie"
    return plan.key


def _by_time(plan: Plan, longest_window: int | None) -> Context | str:
    query, window = plan.query, plan.query.window
    if isinstance(window, ast.ExplicitWindow):
        return _of_windows(plan, longest_window)
    if isinstance(window, ast.Unbounded):
        return "WITHIN UNBOUNDED lets a match begin any time before"
    if query.consume == "consumed":
        return "CONSUME consumed takes away events by matches of any time before"
    if query.after_match != "no skip":
        return f"AFTER MATCH {query.after_match.upper()} drops partial matches by matches of any time before"
    if isinstance(window, ast.CountWindow):
        return Context(events=window.events)
    assert isinstance(window, ast.TimeWindow)
    # What comes of a first event may hang on what was there up to a window before it: where it is decided a window
    # after it, and where, by skip_till_next, an event is not taken any more as an earlier one was.
    late = plan.period or plan.must_advance or any(state.deferred for state in plan.states)
    looks_back = any(negation.by_time for negation in plan.negations)
    return Context(nanoseconds=window.nanoseconds * (2 if late and looks_back else 1))


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
    return "CLOSE ON an event lets a window begin any time before"


def relevant_types(plan: Plan) -> tuple[bool, ...]:
    """Of each type whether its events can be told apart from none by the query, if it is not numbered."""
    wanted = [bool(members) for members in plan.type_members]
    if plan.partition is not None:
        wanted = [own or bool(columns) for own, columns in zip(wanted, plan.partition.columns, strict=True)]
    return tuple(wanted)


def slicing_facts(plan: Plan) -> dict[str, Any]:
    """For `explain`: ``key`` and ``time`` say whether it can be cut by these, or else why it cannot."""
    found = slicing_of(plan)
    key, time = found.key, found.time
    return {
        "key": {"attributes": None, "why": key} if isinstance(key, str) else
        {"attributes": list(dict.fromkeys(key.attributes)), "why": ""},
        "time": {"before": None, "why": time} if isinstance(time, str) else {"before": context_text(time), "why": ""},
    }  # fmt: skip


def context_text(context: Context) -> str:
    """What is read again before each slice."""
    what = format_duration(context.nanoseconds) if context.nanoseconds or not context.events else ""
    told = what or f"{context.events:,} events"
    if context.every_nanoseconds:
        told += f", back to a multiple of {format_duration(context.every_nanoseconds)}"
    if context.every_events:
        told += f", back to a multiple of {context.every_events:,} events"
    return told


def slicing_text(facts: dict[str, Any]) -> str:
    """The same in a line."""
    key, time = facts["key"], facts["time"]
    parts = []
    if key["attributes"] is not None:
        parts.append(f"by {' = '.join(map(name_text, key['attributes']))}")
    if time["before"] is not None:
        parts.append(f"by time, with {time['before']} before each")
    if parts:
        return "; ".join(parts)
    return f"none: {key['why']}; {time['why']}"
