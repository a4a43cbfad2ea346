"""Bounds of explicit windows for the builder."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from fastcep.errors import ValidationError
from fastcep.events.schema import Schema, TypeHandle
from fastcep.events.units import parse_duration
from fastcep.query import ast
from fastcep.query.builder.terms import Term, node_of
from fastcep.query.builder.variables import Variable, whole
from fastcep.query.printer import bound_text

__all__ = ["Edge", "after", "every", "on"]


@dataclass(frozen=True, slots=True, repr=False)
class Edge:
    """Start or end of windows, for `Builder.window`; created by `every`, `after` and `on`."""

    kind: str
    bound: ast.Bound
    schema: Schema | None = None

    def __repr__(self) -> str:
        return f"<{bound_text(self.bound, 'ON', self.kind.upper())}>"


def every(time: str | timedelta | None = None, *, events: int | None = None) -> Edge:
    """Open a window at regular intervals, ``EVERY 5s`` or ``EVERY 500 EVENTS``.

    Parameters
    ----------
    time
        Interval such as ``"5s"``: the first event at or after each multiple of it opens a window.
    events
        Interval as a number of events of the stream.
    """
    return Edge("every", _extent("every", time, events))


def after(time: str | timedelta | None = None, *, events: int | None = None) -> Edge:
    """Close each window at a distance from its opening event, ``CLOSE AFTER 8s`` or ``CLOSE AFTER 8000 EVENTS``.

    Parameters
    ----------
    time
        Length of the window such as ``"8s"``, inclusive.
    events
        Length of the window as a number of events of the stream.
    """
    return Edge("after", _extent("after", time, events))


def on(variable: Variable, *conditions: Term) -> Edge:
    """Open or close a window on an event, ``OPEN ON A o WHERE …`` or ``CLOSE ON B c WHERE …``.

    Parameters
    ----------
    variable
        The event, such as ``o = schema.A("o")``; not a variable of the pattern.
    conditions
        Conditions that must all hold. Those of a closing event can also mention the opening event.
    """
    if not isinstance(variable, Variable) or variable._declaration.minimum != 1:
        argument_text = f"the type {variable.name} alone" if isinstance(variable, TypeHandle) else repr(variable)
        raise ValidationError(f'on() takes a single variable such as schema.A("o"), not {argument_text}')
    where: ast.Expr | None = None
    for condition in conditions:
        where = node_of(condition) if where is None else ast.Binary("AND", where, node_of(condition))
    event = variable._declaration
    return Edge("on", ast.Bound(types=event.types, variable=event.name, where=where), variable._schema)


def _extent(function: str, time: str | timedelta | None, events: int | None) -> ast.Bound:
    if (time is None) == (events is None):
        raise ValidationError(f'{function}() takes a time or events=n, as in {function}("5s")')
    if events is not None:
        return ast.Bound(events=whole(events, f"{function}(events=…)"))
    assert time is not None
    return ast.Bound(nanoseconds=parse_duration(time))
