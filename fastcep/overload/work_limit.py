"""Cutting off the work for single events, where a bound is on a percentile of the latency.

The compiled part is ``fastcep._core.shed.work_limit``.

A demand saves a share of all work. Where a bound is on the 99th percentile, that is nearly all lost for nothing: what
counts is what the few dearest events cost above the bound. A shedder that has `Shedder.cuts` lets the matcher cut that
off, event by event; the detector demands nothing more as long as the bound is held by that, and the shedder drops what
loses less than it saves of what is cut off (`QueryView.lost`).

Invariant: no event costs more than the bound by the cost table, but for the share that may.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.overload.protocols import Detector
from fastcep.plan import Plan
from fastcep.stored import COUNT, NUMBER, grid, record, sequence

if TYPE_CHECKING:
    from fastcep.overload.query_shedding import QueryShedding

__all__ = ["WorkLimit", "expected"]

Floats = npt.NDArray[np.float64]

#: Of the events that may be above the bound so many run on; the rest is for those that cannot be cut off.
_RUN_ON = 0.9

#: What events were tried with is forgotten by this factor with each decision; after so many decisions without an event
#: that was cut off, nothing is dropped beside it.
_KEPT, _QUIET = 0.99, 1000

#: Steps from one partial match to the next that are followed, at most; loops of Kleene closures have many. And what is
#: found is not taken to be rarer than that among the true matches.
_DEEP, _RAREST = 16, 0.01


class WorkLimit:
    """What is cut off of an engine's events.

    Parameters
    ----------
    bound
        The latency bound in ns; None: nothing is cut off.
    detectors
        Of which the strictest percentile counts.

    Attributes
    ----------
    on
        Whether events are cut off if they would cost more than the bound.
    lost
        Matches that were lost between the last two times that `look` was called, by estimate.
    share
        Of the matches that were there to be found lately, the share that was lost.
    """

    def __init__(self, bound: float | None, detectors: Sequence[Detector]) -> None:
        shares = [detector.allowed for detector in detectors if detector.allowed > 0]
        self.on = bound is not None and bool(shares)
        self.lost, self.share = 0.0, 0.0
        self._bound, self._run_on = bound or 0.0, _RUN_ON * min(shares, default=0.0)
        self._quiet = _QUIET
        self._before: list[Floats] = []
        self._lately: list[Floats] = []

    def use(self, queries: Sequence[QueryShedding]) -> None:
        """Cut off the events of these queries: each has as large a part of the bound, and of the events that run on."""
        if self.on:
            for query in queries:
                query.shedding.cut_off(round(self._bound * 1000 / len(queries)), self._run_on / len(queries))
            self._before = [query.shedding.tried.astype(np.float64) for query in queries]
            self._lately = [np.zeros_like(tried) for tried in self._before]

    @property
    def active(self) -> bool:
        """Whether an event was cut off not long ago."""
        return self._quiet < _QUIET

    def look(self, queries: Sequence[QueryShedding]) -> bool:
        """Take into account what was cut off by now; returns `active`."""
        if not self.on:
            return False
        found, all_, self.lost, self._quiet = 0.0, 0.0, 0.0, min(self._quiet + 1, _QUIET)
        for number, query in enumerate(queries):
            tried = query.shedding.tried.astype(np.float64)
            new, self._before[number] = tried - self._before[number], tried
            self._lately[number] = _KEPT * self._lately[number] + new
            if new[:, 2].any():
                self._quiet = 0
            if not self._lately[number][:, 2].any():
                continue
            own, there = expected(query.plan, self._lately[number])
            self.lost += float(_matches(query.plan, new)) * (there / own - 1) if own > 0 else 0.0
            found, all_ = found + own, all_ + there
        self.share = 1 - found / all_ if all_ > 0 else float(self._quiet == 0)
        return self.active

    def passed_over(self, queries: Sequence[QueryShedding]) -> int:
        """How many times an event was not tried with a partial match, or for a beginning, all in all."""
        return sum(int(query.shedding.tried[:, 2].sum()) for query in queries) if self.on else 0

    def state(self) -> dict[str, Any]:
        """What a snapshot has of it, as JSON has it."""
        return {
            "quiet": self._quiet, "share": self.share,
            "before": [tried.tolist() for tried in self._before], "lately": [own.tolist() for own in self._lately],
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        tables = [grid(NUMBER, *own.shape) for own in self._before]
        each = sequence(*tables)
        record({"quiet": COUNT, "share": NUMBER, "before": each, "lately": each})(state, "control.cut")
        self._quiet, self.share = state["quiet"], state["share"]
        self._before, self._lately = (
            [np.array(own, np.float64).reshape(-1, 3) for own in state[name]] for name in ("before", "lately")
        )


def expected(plan: Plan, tried: Floats) -> tuple[float, float]:
    """How many matches were found, and how many there would have been if nothing had been cut off.

    What was cut off is taken to be as what was not, edge by edge: then a partial match has so many more children, and
    each child is worth the matches that its own children lead to. What was cut off of a loop of a Kleene closure is
    worth what came of it as it was: how far it would have grown without an end is not told by a few rounds.

    Parameters
    ----------
    plan
        The query's.
    tried
        float64[edges, 3]: looks at partial matches, children that were made, and looks that were cut off.
    """
    looks, made, passed_over = tried.T
    source, target = (np.array([getattr(edge, of) for edge in plan.edges]) for of in ("source", "target"))
    loop = np.array([edge.again or edge.source == edge.target for edge in plan.edges])
    whole = np.where(looks > 0, made * (looks + passed_over) / np.maximum(looks, 1e-9), 0.0)
    accepting = np.array([state.accepting for state in plan.states], np.float64)
    born = np.bincount(target, made, len(accepting))
    inner, by = source >= 0, np.zeros(len(source))
    by[inner] = np.where(loop, made, whole)[inner] / np.maximum(born[source[inner]], 1e-9)
    worth: Floats = np.zeros(len(accepting))
    for _ in range(_DEEP):
        worth = np.bincount(source[inner], (by * (accepting + worth)[target])[inner], len(accepting)).astype(np.float64)
    began, lost = np.where(inner, 0.0, whole), np.where(loop, whole - made, 0.0)
    there, found = float(((began + lost) * (accepting + worth)[target]).sum()), _matches(plan, tried)
    return found, min(max(found, there), found / _RAREST)


def _matches(plan: Plan, tried: Floats) -> float:
    """Of what was made, the matches."""
    return sum(float(own[1]) for edge, own in zip(plan.edges, tried, strict=True) if plan.states[edge.target].accepting)
