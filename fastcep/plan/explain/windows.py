"""Facts of the windows of a query (docs/explain.md)."""

from __future__ import annotations

from typing import Any

from fastcep.events import format_duration
from fastcep.plan.plan import AFTER_EVENTS, AFTER_TIME, Plan, WindowPlan
from fastcep.query import ast
from fastcep.query.printer import window_text

__all__ = ["mode_facts", "window_facts"]

_KINDS = ("time", "events", "unbounded", "explicit")
_EXPIRY = {"unbounded": "never", "explicit": "with the window"}


def window_facts(plan: Plan) -> dict[str, Any]:
    """Return the facts of the window itself."""
    kind = _KINDS[plan.window_kind]
    return {
        "kind": kind,
        "value": plan.window if kind in ("time", "events") else None,
        "text": window_text(plan.query.window),
        "expiry": _EXPIRY.get(kind, "by first event"),
    }


def mode_facts(plan: Plan) -> dict[str, Any]:
    """Return whether windows share rows, and the openings and closings of explicit windows."""
    windows, window = plan.windows, plan.query.window
    if windows is None or not isinstance(window, ast.ExplicitWindow):
        why = "WITHIN counts from a match's first event, so one row serves every position of the window"
        return {"mode": "shared", "why": why}
    why = "a match is the same in every window that holds it, so one row serves all of them"
    return {
        "mode": "isolated" if windows.isolated else "shared",
        "why": f"each window has rows of its own, because of {windows.why}" if windows.isolated else why,
        "opens": _opens(windows, window.opening),
        "closes": _closes(windows, window.closing),
    }


def _opens(windows: WindowPlan, bound: ast.Bound) -> dict[str, Any]:
    if windows.opening is not None:
        return {**_extent("event", None), **_event(bound, windows.opening.local_texts[0])}
    kind = "events" if windows.every_events else "time"
    return _extent(kind, windows.every_events or windows.every_time)


def _closes(windows: WindowPlan, bound: ast.Bound) -> dict[str, Any]:
    if windows.closing in (AFTER_TIME, AFTER_EVENTS):
        return _extent("time" if windows.closing == AFTER_TIME else "events", windows.length)
    extent = _extent("event", None)
    if windows.pairs is None:
        assert windows.closers is not None
        return {**extent, **_event(bound, windows.closers.local_texts[0]), "keys": [], "predicates": []}
    opens = () if windows.opening is None else windows.opening.local_texts[0]
    on_opening, on_closing = windows.pairs.local_texts
    (edge,) = (edge for edge in windows.pairs.edges if edge.variable == 1)
    return {
        **extent,
        **_event(bound, on_closing),
        "keys": [{"row": row, "event": event} for row, event in edge.key_texts],
        "predicates": [*(text for text in on_opening if text not in opens), *edge.predicate_texts],
    }


def _extent(kind: str, value: int | None) -> dict[str, Any]:
    """Return an interval or length in events or ns; without a value, an event."""
    if value is None:
        return {"kind": kind, "value": None, "text": None}
    return {"kind": kind, "value": value, "text": format_duration(value) if kind == "time" else f"{value} EVENTS"}


def _event(bound: ast.Bound, conditions: tuple[str, ...]) -> dict[str, Any]:
    return {"variable": bound.variable, "types": list(bound.types), "conditions": list(conditions)}
