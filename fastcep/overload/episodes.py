"""Report shedding: episodes, log messages, and the estimated recall."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fastcep.overload.match_counts import Estimate, total
from fastcep.overload.recall import RecallEstimate
from fastcep.stored import COUNT, FLAG, INT64, NUMBER, TEXT, or_null, record, sequence

__all__ = ["Episodes", "without_warnings"]

_LOG = logging.getLogger("fastcep.shedding")

#: Number of windows without shedding that end an episode.
_QUIET = 1.0

#: Nanoseconds without shedding after which the log reports its end; episodes closer together are reported as one.
_CALM = 10_000_000_000

#: Minimum number of consecutive decisions at the largest demand without holding the bound, before the log reports it.
_FAILED = 8

#: Largest number of decisions before the log reports a missed bound.
_MOST = 64

#: Share of the latency bound above which the log reports the cost of decisions, once there are that many.
_EXPENSIVE, _REPEATED = 0.1, 3

#: Number of decisions that dropped events for the backlog limit, at which the log reports it.
_LIMITED = 8

_PAIR = sequence(INT64, INT64)
_LOGGED = record({
    "first": INT64, "last": INT64, "why": TEXT, "before": _PAIR, "found": sequence(NUMBER, NUMBER), "failed": FLAG,
})  # fmt: skip
_STATE = record({
    "count": COUNT, "active": FLAG, "why": TEXT, "began": INT64, "quiet": NUMBER, "told": or_null(_LOGGED),
})  # fmt: skip


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress the log lines of shedding episodes, except errors, where episodes are expected."""

    def errors(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    _LOG.addFilter(errors)  # not the level: threads that set and reset it concurrently could leave it changed
    try:
        yield
    finally:
        _LOG.removeFilter(errors)


class Episodes:
    """Successive episodes of shedding.

    An episode begins with the first decision to shed. It ends when nothing was shed for about a window.

    The log has a WARNING when shedding starts, another one if the bound cannot be held at the largest demand, and an
    INFO message when nothing was shed for ten seconds of the engine's clock or the stream has ended.

    Attributes
    ----------
    count
        Number of episodes that have begun.
    active
        Whether an episode is in progress.
    """

    def __init__(self) -> None:
        self.count = 0
        self.active = False
        self._why = ""
        self._began = 0
        self._quiet = 0.0  # number of windows without shedding
        self._recalls: Sequence[RecallEstimate] = ()
        self._limited = False
        self._logged: dict[str, Any] | None = None  # values at the start of shedding that the log has reported
        self._costs: list[float] = []  # ns per event, at consecutive decisions with the largest demand
        self._backlog_logged = False
        self._expensive = 0  # number of decisions that took more than `_EXPENSIVE`

    def shift_counters(self, events: int, partial_matches: int) -> None:
        """Adjust for a jump of the drop counters by these numbers, after queries or their states were exchanged."""
        if self._logged is not None:
            before = self._logged["before"]
            self._logged["before"] = [before[0] + events, before[1] + partial_matches]

    def record_estimates(self, recalls: Sequence[RecallEstimate], limited: bool) -> None:
        """Record the estimates of the queries; ``limited``: whether the work for some event was limited."""
        self._recalls, self._limited = recalls, limited

    @property
    def _total(self) -> Estimate:
        """Estimated matches since the start, summed over the queries."""
        return total(item.total for item in self._recalls)

    @property
    def recall(self) -> float | None:
        """Estimated share of the true matches that were found; None if unknown."""
        estimate = self._total
        return estimate.recall if estimate.expected > 0 or self.count or self._limited else 1.0

    def record_decision(
        self, now: int, sheds: bool, why: str, windows: float, before: tuple[int, int],
        dropped: Callable[[], tuple[int, int]],
    ) -> None:  # fmt: skip
        """Record a decision.

        Parameters
        ----------
        now
            Time of the decision, in ns on the engine's clock.
        sheds
            Whether the decision sheds load.
        why
            Reason, for the log and the metrics.
        windows
            Number of windows since the last decision.
        before
            Number of events, and of partial matches, dropped before the decision. It counts if the decision begins an
            episode, as the decision itself may drop partial matches.
        dropped
            Function that returns these numbers since the engine was created.
        """
        if sheds:
            self._quiet = 0.0
            if not self.active:
                self.active, self._why, self._began = True, why, now
                self.count += 1
            self._log_start(now, why, before)
        elif self.active:
            self._quiet += windows
            if self._quiet >= _QUIET:
                self.active, self._quiet = False, 0.0
        if self._logged is not None and not self.active and now - self._logged["last"] >= _CALM:
            self._log_end(dropped)

    def check_bound(self, failed: bool, cost: float, bound: float | None, by_window: float) -> None:
        """Log a warning if the bound is missed at the largest demand for two windows.

        Parameters
        ----------
        failed
            Whether the bound was missed at the largest demand. The demand takes effect in the course of a window.
        cost
            Time per event since the last decision, in ns.
        bound
            Latency bound in ns, or None.
        by_window
            Number of decisions in a window.
        """
        if not failed or self._logged is None or self._logged["failed"]:
            self._costs.clear()
            return
        self._costs.append(cost)
        if len(self._costs) >= min(max(_FAILED, 2 * by_window), _MOST):
            self._logged["failed"] = True
            limit = "the limit" if bound is None else f"the latency bound of {_duration(bound)}"
            _LOG.warning(
                "%s cannot be held: with all shed that the shedder can, an event costs at least %s; give a larger "
                "bound, a simpler query, or a shedder that drops events", limit,
                _duration(sum(self._costs) / len(self._costs)),
            )  # fmt: skip

    def check_cost(self, cost: float, largest: float, bound: float | None, shedder: str) -> None:
        """Log once that decisions take more than a tenth of the latency bound; a single one is an interruption.

        Parameters
        ----------
        cost, largest
            Cost of this decision, and the largest cost so far, in ns.
        bound
            Latency bound in ns, or None.
        shedder
            Name of the shedder.
        """
        if not bound or cost <= _EXPENSIVE * bound:
            return
        self._expensive += 1
        if self._expensive == _REPEATED:
            _LOG.warning(
                "decisions of the shedder %r take up to %.3g ms, more than a tenth of the latency bound of %.3g ms; "
                "use a model with fewer classes, a shedder without a model, or a larger bound",
                shedder, largest / 1e6, bound / 1e6,
            )  # fmt: skip

    def check_backlog(self, engaged: int, shedder: str) -> None:
        """Log once that the shedder saves too little, given how many decisions dropped events in addition."""
        if engaged == _LIMITED and not self._backlog_logged:
            self._backlog_logged = True
            _LOG.warning(
                "the shedder %r saves less than is demanded; so that the latency bound holds, events are dropped at "
                "random in addition", shedder,
            )  # fmt: skip

    def end(self, dropped: Callable[[], tuple[int, int]]) -> None:
        """End the episode in progress, if any, at the end of the stream."""
        self.active, self._quiet = False, 0.0
        if self._logged is not None:
            self._log_end(dropped)

    def _log_start(self, now: int, why: str, before: tuple[int, int]) -> None:
        if self._logged is None:
            estimate = self._total
            self._logged = {
                "first": now, "why": why, "before": list(before), "found": [estimate.found, estimate.expected],
                "failed": False,
            }  # fmt: skip
            _LOG.warning("load is shed: %s", why)
        self._logged["last"] = now

    def _log_end(self, dropped: Callable[[], tuple[int, int]]) -> None:
        assert self._logged is not None
        start, self._logged = self._logged, None
        events, partial_matches = (new - old for new, old in zip(dropped(), start["before"], strict=True))
        estimate = self._total
        found, expected = estimate.found - start["found"][0], estimate.expected - start["found"][1]
        recall = "n/a" if expected <= 0 else f"{min(1.0, found / expected):.3f}"
        _LOG.info(
            "load was shed for %s: %s; dropped %s events and %s partial matches; estimated recall %s",
            _duration(start["last"] - start["first"]), start["why"], f"{events:,}", f"{partial_matches:,}", recall,
        )  # fmt: skip

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of the current episode and the estimated recall, see `Engine.metrics`."""
        estimate = self._total.metrics()
        return {
            "active": self.active,
            "why": self._why if self.active else "",
            "since": self._began if self.active else None,
            "episodes": self.count,
            "estimated_recall": self.recall,
            "estimated_recall_interval": estimate["estimated_recall_interval"],
            "matches": estimate,
            "recent_matches": total(item.recent for item in self._recalls).metrics(),
        }

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot."""
        return {
            "count": self.count, "active": self.active, "why": self._why, "began": self._began, "quiet": self._quiet,
            "told": self._logged,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`; follow with `record_estimates`."""
        _STATE(state, "control.episodes")
        self.count, self.active, self._why = state["count"], state["active"], state["why"]
        self._began, self._quiet, self._logged = state["began"], state["quiet"], state["told"]


def _duration(nanoseconds: float) -> str:
    """Format a duration to three digits, with its unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"
