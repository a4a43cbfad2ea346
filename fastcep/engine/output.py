"""From what the matchers found in a call to its matches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep._core.matches.output import Output
from fastcep.engine.matches import QueryMatches
from fastcep.engine.partitioned_matcher import Matching
from fastcep.engine.returns import Bindings, Returns
from fastcep.events import EventRing
from fastcep.plan import Plan

__all__ = ["no_matches", "numbered", "take_matches"]

Ints = npt.NDArray[np.int64]


def take_matches(
    plan: Plan, matcher: Matching, returns: Returns | None, numbers: EventRing | None
) -> QueryMatches | Output:
    """Take what a matcher found in a batch.

    Parameters
    ----------
    plan, matcher, returns
        Of one query; `returns` is None if it has no RETURN.
    numbers
        The ring with the events' sequence numbers; None if these are the positions.
    """
    output = matcher.take_output()
    if isinstance(output, Output):
        if returns is None and numbers is None:
            return output
        output = output.arrays()
    values, lengths, detected, times, counts, windows = output
    bindings = Bindings(int(counts.sum()), values, lengths)
    returned = returns.columns(bindings) if returns is not None else {}
    if numbers is not None:
        bindings = Bindings(bindings.n, [numbered(positions, numbers) for positions in values], lengths)
    return QueryMatches(plan.query, bindings, detected, counts, times, returned, windows)


def numbered(positions: Ints, ring: EventRing) -> Ints:
    """Sequence numbers of events by position; -1 stays."""
    out = np.full(len(positions), -1, np.int64)
    here = positions >= 0
    out[here] = ring.take("seq", positions[here])[0]
    return out


def no_matches(plan: Plan, returns: Returns | None) -> QueryMatches:
    """The matches of a query in a call that found none."""
    empty = np.empty(0, np.int64)
    lengths = [empty if listed else None for listed in plan.lists]
    bindings = Bindings(0, [empty] * len(lengths), lengths)
    windows = None if plan.windows is None else empty
    returned = returns.columns(bindings) if returns else {}
    return QueryMatches(plan.query, bindings, empty, empty, empty, returned, windows)
