"""The reference *oracle*: what could be found for a target, if one had known all that was to come.

It makes no run with a shedder. From a record of all partial matches (`observe`) it knows which events and partial
matches led to a match, and refuses the others first; then it drops what has the least true contribution per true
consumption, both anew after each drop (``fastcep._core.fit.clairvoyant``). How many drops there must be is found by
halving: for the least of them with which the target is reached, it says what each event would have cost, exactly.
Where only some events must be faster, as with queues and percentiles, it also tries to drop more in those parts of the
stream alone, and takes what loses less.

So it tells what is possible and not how. Invariant: no strategy finds more matches at equal cost (by more than a
hundredth of them: a search that takes one step after the other need not find the best set).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep._core.fit.clairvoyant import Clairvoyant
from fastcep.arrivals.rate import Rate
from fastcep.errors import ValidationError
from fastcep.evaluation.clairvoyant_input import foresight_of
from fastcep.evaluation.latencies import Floats, over_time, skipped, statistic_of, total
from fastcep.evaluation.outcome import Outcome
from fastcep.evaluation.protocols import Reference
from fastcep.evaluation.targets import LATE, Target
from fastcep.overload.clock import VirtualClock
from fastcep.query import ast
from fastcep.query.patterns import is_monotonic, leaves_of
from fastcep.shedding.lineage import Lineage, observe

if TYPE_CHECKING:
    from fastcep.evaluation.trial import Trial

__all__ = ["Oracle"]

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]

#: The record and the heap take about so many bytes per partial match and match; that is what may be held.
_BYTES = 200
_MOST = 40_000_000

#: Into how many parts a stream is cut where only some of its events are late; and by which share the cost of all goes
#: down with each step further in one of them, so often at most.
_PARTS = 256
_NEXT = 0.95
_ROUNDS = 200


@dataclass
class Hindsight:
    """What is known of a trial afterwards.

    Attributes
    ----------
    record
        Of the query.
    foresight
        What a set of kept matches costs.
    matched
        Per record whether it is a match.
    lost, totals, left
        What `Clairvoyant.order` tells.
    """

    record: Lineage
    foresight: Clairvoyant
    matched: Bits
    lost: Ints
    totals: Ints
    left: Ints

    @classmethod
    def of(cls, trial: Trial) -> Hindsight:
        """Observe the queries of a trial."""
        setting = trial.setting
        found = observe(trial.queries[0], trial.stream.table, cost_table=setting.costs, index=setting.index)
        (record,) = found.records
        foresight = foresight_of(record, len(trial.stream), setting.costs)
        matched = np.zeros(len(record.parents), np.uint8)
        matched[record.matches] = 1
        return cls(record, foresight, matched, *foresight.order())

    def kept(self, step: int | Ints) -> Bits:
        """Per record whether it is a match that is kept before a step, or each before a step of its own."""
        return np.where((self.lost > step) | (self.lost == 0), self.matched, 0).astype(np.uint8)

    @cached_property
    def stored(self) -> npt.NDArray[np.bool_]:
        """Per record whether it was a row."""
        found = np.zeros(len(self.matched), bool)
        found[self.record.placed] = True
        return found

    def recall_at(self, costs: float) -> float:
        """The share of the matches that are left, if all may cost so many ns (births that are refused left out)."""
        step = int(np.searchsorted(-self.totals, -costs * 1000))
        return float(self.left[min(step, len(self.left) - 1)] / self.left[0])


class Oracle(Reference):
    """Drops what it knows to be worth least: the reference ``oracle``.

    It keeps what it found of the last trial.
    """

    name = "oracle"
    label = "oracle (knows what is to come)"
    reference = True

    def __init__(self) -> None:
        self._known: tuple[Trial, Hindsight] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_known": None}

    def check(self, queries: Sequence[ast.Query]) -> None:
        """Refuse several queries, and one that is not monotonic or has explicit windows: `ValidationError`."""
        if len(queries) > 1:
            raise ValidationError("shedders: 'oracle' is for one query; evaluate the queries one by one")
        (query,) = queries
        if not is_monotonic(query) or isinstance(query.window, ast.ExplicitWindow):
            raise ValidationError(
                "shedders: 'oracle' is for monotonic queries (no negation, LIMIT, SELECT or CONSUME; skip_till_any) "
                f"WITHIN a time or number of events; {query.name!r} is none"
            )

    def hindsight(self, trial: Trial) -> Hindsight:
        """What is known of a trial afterwards.

        Raises
        ------
        ValidationError
            If it is of several queries, or one that is not monotonic or has explicit windows, on the wall clock, or too
            large.
        """
        if self._known is None or self._known[0] is not trial:
            self.check(trial.queries)
            _check(trial)
            self._known = trial, Hindsight.of(trial)
        return self._known[1]

    def outcome(self, trial: Trial, target: Target, seed: int) -> Outcome:
        """The best that it knows for a target; nothing is drawn."""
        known = self.hindsight(trial)
        low, high = 0, len(known.totals) - 1
        while low < high:
            middle = (low + high) // 2
            if _reached(trial, target, _Run.of(trial, target, known, known.kept(middle))):
                high = middle
            else:
                low = middle + 1
        best = _Run.of(trial, target, known, known.kept(low))
        if target.rate is not None or (target.bound is not None and trial.setting.statistic != "mean"):
            local = _by_parts(trial, target, known)
            if local is not None and local.kept.sum() > best.kept.sum():
                best = local
        return _outcome(trial, target, known, best)


@dataclass(frozen=True)
class _Run:
    """Which matches are kept, and what the events would have taken, ns."""

    kept: Bits
    processing: Floats
    latencies: Floats
    share_over: float | None

    @classmethod
    def of(cls, trial: Trial, target: Target, known: Hindsight, kept: Bits) -> _Run:
        costs = known.foresight.costs(kept)
        processing = latencies = costs / 1000
        if target.rate is not None:
            arrivals = Rate.constant(target.rate).arrivals(0, len(costs))
            latencies = VirtualClock(trial.setting.costs).run(costs, arrivals)[1]
        judged = latencies[skipped(len(latencies), trial.setting.skip) :]
        share_over = None if target.bound is None else float((judged > target.bound).mean())
        return cls(kept, processing, latencies, share_over)


def _by_parts(trial: Trial, target: Target, known: Hindsight) -> _Run | None:
    """Go on to drop in those parts of the stream whose events are late, until few enough are; None: they stay."""
    size = -(-len(trial.stream) // _PARTS)
    steps, last = np.zeros(_PARTS, np.int64), len(known.totals) - 1
    part = known.record.events // size  # of a match by its last event
    for _ in range(_ROUNDS):
        run = _Run.of(trial, target, known, known.kept(steps[part]))
        if _reached(trial, target, run):
            return run
        more = _late_parts(trial, target, run, size)
        if not (steps[more] < last).any():
            return None
        goal = np.searchsorted(-known.totals, -_NEXT * known.totals[steps[more]])
        steps[more] = np.minimum(np.maximum(goal, steps[more] + 1), last)
    return None


def _late_parts(trial: Trial, target: Target, run: _Run, size: int) -> npt.NDArray[np.bool_]:
    """The parts with late events, and those in which the queues began that made them late."""
    assert target.bound is not None
    first = skipped(len(run.latencies), trial.setting.skip)
    late = first + np.flatnonzero(run.latencies[first:] > target.bound)
    numbers = np.arange(len(run.latencies))
    begins = np.maximum.accumulate(np.where(run.latencies <= run.processing, numbers, 0))
    opened = np.bincount(begins[late] // size, minlength=_PARTS + 1)
    closed = np.bincount(late // size + 1, minlength=_PARTS + 1)
    return np.asarray(np.cumsum((opened - closed)[:_PARTS]) > 0)


def _reached(trial: Trial, target: Target, run: _Run) -> bool:
    if target.demand is not None:
        return total(run.processing) <= (1 - target.demand) * len(trial.stream) / trial.truth.throughput * 1e9
    if target.rate is not None:
        assert run.share_over is not None
        return run.share_over <= LATE  # as is asked of the others
    judged = run.latencies[skipped(len(run.latencies), trial.setting.skip) :]
    assert target.bound is not None
    return statistic_of(judged, trial.setting.statistic) <= target.bound


def _outcome(trial: Trial, target: Target, known: Hindsight, run: _Run) -> Outcome:
    setting, query = trial.setting, trial.queries[0]
    judged = run.latencies[skipped(len(run.latencies), setting.skip) :]
    used, rows = _used(known, run.kept)
    shed_by = _shed_by(trial, known, used, rows)
    bindable = sum(trial.bindable[query.name].values())
    return Outcome(
        found=int(run.kept.sum()), right=int(run.kept.sum()),
        mean=statistic_of(judged, "mean"), p95=statistic_of(judged, "p95"), p99=statistic_of(judged, "p99"),
        processing=total(run.processing), overhead=0.0, share_over=run.share_over,
        shed_events=bindable - len(used), shed_matches=int(known.stored.sum() - rows.sum()),
        bindable=bindable, births=int(known.stored.sum()), demanded=False,
        line=over_time(run.latencies, setting.statistic if target.rate is None else "max"),
        shed_by={query.name: shed_by},
    )  # fmt: skip


def _used(known: Hindsight, kept: Bits) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The positions of the events that are used, and per record whether it is kept as a row."""
    record = known.record
    needed = kept.astype(bool)
    rows = np.zeros(len(needed), bool)
    ancestors = np.unique(record.parents[needed])
    while len(ancestors := ancestors[ancestors >= 0]):
        rows[ancestors] = needed[ancestors] = True
        ancestors = np.unique(record.parents[ancestors])
    return np.unique(record.events[needed]), rows & known.stored


def _shed_by(trial: Trial, known: Hindsight, used: Ints, rows: npt.NDArray[np.bool_]) -> dict[str, Any]:
    query, record = trial.queries[0], known.record
    kinds = trial.stream.types(query.schema)[used]
    names = query.schema.type_names
    kept = dict(zip(names, np.bincount(kinds, minlength=len(names)).tolist(), strict=True))
    events = {name: {"seen": n, "dropped": n - kept[name]} for name, n in trial.bindable[query.name].items()}
    variables = [leaf.name for leaf in leaves_of(query.pattern)]
    by_variable: dict[str, dict[str, list[int]]] = {}
    states = record.states
    for number, state in enumerate(record.plan.states):
        if state.indexes:
            own = by_variable.setdefault(variables[state.member], {"born": [0], "refused": [0], "dropped": [0]})
            here = known.stored & (states == number)
            own["born"][0] += int(rows[here].sum())
            own["refused"][0] += int(here.sum() - rows[here].sum())
    return {"events": events, "partial_matches": by_variable}


def _check(trial: Trial) -> None:
    if trial.setting.clock != "virtual":
        raise ValidationError("shedders: 'oracle' counts operations; evaluate it with clock='virtual'")
    expected = len(trial.truth.identities) + trial.truth.created
    if expected > _MOST:
        raise ValidationError(
            f"shedders: 'oracle' takes about {_BYTES} bytes per match and partial match, and there are {expected:,} of "
            f"them, more than {_MOST:,}; evaluate it with fewer events"
        )
