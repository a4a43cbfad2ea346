"""Streams out of order: hypothesis strategies, and the late events by definition."""

from __future__ import annotations

import warnings
from typing import Any

from hypothesis import strategies as st
from reference.matcher import Event

import fastcep as fc
from fastcep.query import ast
from strategies.patterns import Draw
from strategies.queries import Case

MIN = -(2**63)


@st.composite
def disordered(draw: Draw, cases: st.SearchStrategy[Case]) -> tuple[Case, list[Event], int]:
    """Draw a case, its events in another order (numbered on arrival unless a column numbers them), and a lateness."""
    case = draw(cases)
    arrivals = list(draw(st.permutations(case.events)))
    if draw(st.booleans()):  # mostly in order, so that few events are late
        arrivals = sorted(case.events, key=lambda one: one.time + draw(st.integers(0, 4)))
    if case.query.schema.sequence is None:
        arrivals = [Event(one.type, one.time, seq, one.values) for seq, one in enumerate(arrivals)]
    return case, arrivals, draw(st.sampled_from([2, 0, 1, 3, 5, 8, 40]))


def split(arrivals: list[Event], lateness: int, clocks: dict[int, int] | None = None) -> tuple[list[Event], ...]:
    """Split events by definition: accepted ones in stream order, and late ones. ``clocks``: advance before event k."""
    accepted, late = [], []
    watermark = MIN
    for number, one in enumerate(arrivals):
        watermark = max(watermark, (clocks or {}).get(number, MIN))
        (late if one.time < watermark else accepted).append(one)
        watermark = max(watermark, one.time - lateness)
    return sorted(accepted, key=lambda one: (one.time, one.seq)), late


def late_engine(case: Case, lateness: int, **options: Any) -> fc.Engine:
    """Make an engine that waits for late events."""
    with warnings.catch_warnings():
        unbounded = isinstance(case.query.window, ast.Unbounded | ast.ExplicitWindow)
        warnings.simplefilter("ignore" if unbounded else "error")
        return fc.Engine(case.query, allowed_lateness=f"{lateness}ns", **options)
