"""Warning about a history that is too short for the model that was fitted on it.

A model predicts shares: of the partial matches, or of the events, of a class that lead to a match. From n matches, such
a share is known to about 1/sqrt(n) of its value, so with fewer than 20 matches it is off by more than a fifth, and the
order in which classes are dropped is largely chance. Partial matches whose window has not ended when the history ends
count as useless, although they may still lead to a match. With fewer than 5 windows these are more than a fifth.
"""

from __future__ import annotations

import logging

__all__ = ["LEAST_MATCHES", "LEAST_WINDOWS", "warn_short"]

_LOG = logging.getLogger("fastcep.shedding")

LEAST_MATCHES = 20
LEAST_WINDOWS = 5


def warn_short(
    kind: str,
    query: str,
    events: int,
    matches: int | None,
    windows: float | None,
    *,
    least_windows: int = LEAST_WINDOWS,
) -> None:
    """Log a warning if a history is too short.

    Parameters
    ----------
    kind, query
        Kind of the model, and name of its query.
    events
        Number of events of the history.
    matches
        Number of matches in it; None: unknown, or checked elsewhere.
    windows
        Length of the history in windows of the query; None: unknown.
    least_windows
        Smallest number of windows without a warning.
    """
    few_matches = matches is not None and matches < LEAST_MATCHES
    few_windows = windows is not None and windows < least_windows
    if not few_matches and not few_windows:
        return
    found = [] if matches is None else [f"{matches:,} match{'' if matches == 1 else 'es'}"]
    found += [] if windows is None else [f"{windows:.3g} windows"]
    expected = [] if matches is None else [f"{LEAST_MATCHES} matches"]
    expected += [] if windows is None else [f"{least_windows} windows"]
    _LOG.warning(
        "history of %s events is short for a model of kind %r of query %r: found %s, expected at least %s, so what it "
        "predicts is uncertain; give more history",
        f"{events:,}", kind, query, " and ".join(found), " and ".join(expected),
    )  # fmt: skip
