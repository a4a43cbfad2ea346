"""Turn the output of a matcher into matches: sequence numbers and RETURN columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep._core.matches.output import Output
from fastcep.engine.partitioned_matcher import AnyMatcher
from fastcep.engine.results.query_matches import QueryMatches
from fastcep.engine.results.returns import Bindings, Returns
from fastcep.events import EventRing
from fastcep.plan import Plan

__all__ = ["no_matches", "numbered", "take_matches"]

Ints = npt.NDArray[np.int64]


def take_matches(
    plan: Plan, matcher: AnyMatcher, returns: Returns | None, numbers: EventRing | None
) -> QueryMatches | Output:
    """Take the matches of one query out of its matcher.

    Parameters
    ----------
    plan
        Plan of the query.
    matcher
        Matcher of the query.
    returns
        Its RETURN columns; None if it has none.
    numbers
        The ring that holds the events' sequence numbers; None if these are the positions.
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
    """Return the sequence numbers of the events at these positions; -1 stays -1."""
    numbers = np.full(len(positions), -1, np.int64)
    bound = positions >= 0
    numbers[bound] = ring.take("seq", positions[bound])[0]
    return numbers


def no_matches(plan: Plan, returns: Returns | None) -> QueryMatches:
    """Return an empty result of a query, with all of its columns."""
    empty = np.empty(0, np.int64)
    lengths = [empty if listed else None for listed in plan.lists]
    bindings = Bindings(0, [empty] * len(lengths), lengths)
    windows = None if plan.windows is None else empty
    returned = returns.columns(bindings) if returns else {}
    return QueryMatches(plan.query, bindings, empty, empty, empty, returned, windows)
