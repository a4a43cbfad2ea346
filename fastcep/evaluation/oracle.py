"""The reference *oracle*: the best result for a target if all coming events were known.

It runs no shedder. From the lineage of all partial matches (`observe`) it knows which events and partial matches led
to a match, and drops the others first. Then it repeatedly drops the item with the least true contribution per true
consumption, and recomputes both (``fastcep._core.fit.clairvoyant``). A binary search finds the smallest number of drops
that reaches the target, and the exact cost of each event follows. If only some events must become faster, as with
queues and percentiles, it also tries to drop more in those parts of the stream only, and uses the result that loses
less.

It drops no partial match in favour of another one, so dropping must not change the others. That holds under
``skip_till_any``, and under ``skip_till_next``: a partial match that is kept binds the first event that it can bind;
this event is needed, so it is kept. Explicit windows that overlap share partial matches, and a record that is dropped
is lost in all of them.

The oracle shows what is possible, not how to reach it. Invariant: no strategy finds more matches at equal cost, up to
1 % of the matches, because the greedy search need not find the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep._core.fit.clairvoyant import Clairvoyant
from fastcep.arrivals.rate import Rate
from fastcep.errors import ValidationError
from fastcep.evaluation.clairvoyant_input import clairvoyant_of, matches_of_records
from fastcep.evaluation.latencies import Floats, over_time, skipped, statistic_of, total
from fastcep.evaluation.outcome import Outcome
from fastcep.evaluation.protocols import Reference
from fastcep.evaluation.targets import MAX_SHARE_OVER, Target
from fastcep.overload.clock import VirtualClock
from fastcep.query import ast
from fastcep.query.patterns import is_monotonic, pattern_variables
from fastcep.shedding.lineage import Lineage, observe

if TYPE_CHECKING:
    from fastcep.evaluation.trial import Trial

__all__ = ["Oracle"]

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]

#: Memory of the lineage and the heap in bytes per match or partial match, and the maximum number of both.
_BYTES = 200
_MAX_RECORDS = 40_000_000

#: Number of parts of the stream if only some of its events are late; factor by which each round reduces the total cost
#: in the late parts; maximum number of rounds.
_PARTS = 256
_REDUCTION = 0.95
_ROUNDS = 200


@dataclass
class Hindsight:
    """Complete knowledge of a trial after the fact.

    Attributes
    ----------
    record
        Lineage of the partial matches of the query.
    clairvoyant
        Cost model of a set of kept matches.
    matched
        Number of matches that each record is, one for each explicit window that contains it; 0: none.
    lost, totals, left
        Results of `Clairvoyant.order`.
    """

    record: Lineage
    clairvoyant: Clairvoyant
    matched: Ints
    lost: Ints
    totals: Ints
    left: Ints

    @classmethod
    def of(cls, trial: Trial) -> Hindsight:
        """Observe the queries of a trial."""
        setting = trial.setting
        observation = observe(trial.queries[0], trial.stream.table, cost_table=setting.costs, index=setting.index)
        (record,) = observation.records
        sequence = trial.stream.sequence(trial.queries[0].schema)
        matched = matches_of_records(record, observation.matches, sequence)
        clairvoyant = clairvoyant_of(record, len(trial.stream), setting.costs, matched)
        return cls(record, clairvoyant, matched, *clairvoyant.order())

    def kept(self, step: int | Ints) -> Bits:
        """Return for each record whether it is a match that is kept before a step; steps may differ by record."""
        is_kept = (self.lost > step) | (self.lost == 0)
        return np.where(is_kept & (self.matched > 0), 1, 0).astype(np.uint8)

    def found(self, kept: Bits) -> int:
        """Return the number of matches of the records that are kept."""
        return int(self.matched[kept.astype(bool)].sum())

    @cached_property
    def stored(self) -> npt.NDArray[np.bool_]:
        """Flag of each record: stored as a row."""
        is_stored = np.zeros(len(self.matched), bool)
        is_stored[self.record.placed] = True
        return is_stored

    def recall_at(self, costs: float) -> float:
        """Return the recall for a total cost in ns, without the cost of rejecting new partial matches."""
        step = int(np.searchsorted(-self.totals, -costs * 1000))
        return float(self.left[min(step, len(self.left) - 1)] / self.left[0])


class Oracle(Reference):
    """The reference ``oracle``: drops the items with the least true value.

    It caches its knowledge of the last trial.
    """

    name = "oracle"
    label = "oracle (knows what is to come)"
    reference = True

    def __init__(self) -> None:
        self._cached: tuple[Trial, Hindsight] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_cached": None}

    def check(self, queries: Sequence[ast.Query]) -> None:
        """Raise `ValidationError` for several queries, and for one in which a drop may change other partial matches."""
        if len(queries) > 1:
            raise ValidationError("shedders: 'oracle' supports only one query; evaluate the queries one by one")
        (query,) = queries
        strategy = "skip_till_any" if query.strategy == "skip_till_next" else query.strategy
        if not is_monotonic(replace(query, strategy=strategy)):
            raise ValidationError(
                "shedders: 'oracle' needs a query in which a drop changes no other partial match (no negation, LIMIT, "
                "SELECT, CONSUME or AFTER MATCH SKIP; STRATEGY skip_till_any or skip_till_next), which "
                f"{query.name!r} is not"
            )

    def hindsight(self, trial: Trial) -> Hindsight:
        """Return complete knowledge of a trial.

        Raises
        ------
        ValidationError
            If `check` rejects the queries, or if the trial has a wall clock or is too large.
        """
        if self._cached is None or self._cached[0] is not trial:
            self.check(trial.queries)
            _check(trial)
            self._cached = trial, Hindsight.of(trial)
        return self._cached[1]

    def outcome(self, trial: Trial, target: Target, seed: int) -> Outcome:
        """Return the best outcome for a target; the seed has no effect."""
        hindsight = self.hindsight(trial)
        low, high = 0, len(hindsight.totals) - 1
        while low < high:
            step = (low + high) // 2
            if _reached(trial, target, _Run.of(trial, target, hindsight, hindsight.kept(step))):
                high = step
            else:
                low = step + 1
        best = _Run.of(trial, target, hindsight, hindsight.kept(low))
        if target.rate is not None or (target.bound is not None and trial.setting.statistic != "mean"):
            local = _by_parts(trial, target, hindsight)
            if local is not None and hindsight.found(local.kept) > hindsight.found(best.kept):
                best = local
        return _outcome(trial, target, hindsight, best)


@dataclass(frozen=True)
class _Run:
    """Set of kept matches, and the resulting latencies in ns."""

    kept: Bits
    processing: Floats
    latencies: Floats
    share_over: float | None

    @classmethod
    def of(cls, trial: Trial, target: Target, hindsight: Hindsight, kept: Bits) -> _Run:
        costs = hindsight.clairvoyant.costs(kept)
        processing = latencies = costs / 1000
        if target.rate is not None:
            arrivals = Rate.constant(target.rate).arrivals(0, len(costs))
            latencies = VirtualClock(trial.setting.costs).run(costs, arrivals)[1]
        judged = latencies[skipped(len(latencies), trial.setting.skip) :]
        share_over = None if target.bound is None else float((judged > target.bound).mean())
        return cls(kept, processing, latencies, share_over)


def _by_parts(trial: Trial, target: Target, hindsight: Hindsight) -> _Run | None:
    """Drop more in the parts of the stream with late events until the target is reached; None if it cannot be."""
    size = -(-len(trial.stream) // _PARTS)
    steps, last = np.zeros(_PARTS, np.int64), len(hindsight.totals) - 1
    part = hindsight.record.events // size  # part of the last event of a match
    for _ in range(_ROUNDS):
        run = _Run.of(trial, target, hindsight, hindsight.kept(steps[part]))
        if _reached(trial, target, run):
            return run
        late = _late_parts(trial, target, run, size)
        if not (steps[late] < last).any():
            return None
        next_steps = np.searchsorted(-hindsight.totals, -_REDUCTION * hindsight.totals[steps[late]])
        steps[late] = np.minimum(np.maximum(next_steps, steps[late] + 1), last)
    return None


def _late_parts(trial: Trial, target: Target, run: _Run, size: int) -> npt.NDArray[np.bool_]:
    """Return the parts with late events, and the parts in which their queues began to grow."""
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
        return run.share_over <= MAX_SHARE_OVER  # the same condition as for other strategies
    judged = run.latencies[skipped(len(run.latencies), trial.setting.skip) :]
    assert target.bound is not None
    return statistic_of(judged, trial.setting.statistic) <= target.bound


def _outcome(trial: Trial, target: Target, hindsight: Hindsight, run: _Run) -> Outcome:
    setting, query = trial.setting, trial.queries[0]
    judged = run.latencies[skipped(len(run.latencies), setting.skip) :]
    used, rows = _used(hindsight, run.kept)
    shed_by = _shed_by(trial, hindsight, used, rows)
    bindable = sum(trial.bindable[query.name].values())
    found = hindsight.found(run.kept)
    return Outcome(
        found=found, right=found,
        mean=statistic_of(judged, "mean"), p95=statistic_of(judged, "p95"), p99=statistic_of(judged, "p99"),
        processing=total(run.processing), overhead=0.0, share_over=run.share_over,
        shed_events=bindable - len(used), shed_matches=int(hindsight.stored.sum() - rows.sum()),
        bindable=bindable, births=int(hindsight.stored.sum()), demanded=False,
        line=over_time(run.latencies, setting.statistic if target.rate is None else "max"),
        shed_by={query.name: shed_by},
    )  # fmt: skip


def _used(hindsight: Hindsight, kept: Bits) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the positions of the used events, and for each record whether it is kept as a row."""
    record = hindsight.record
    needed = kept.astype(bool)
    rows = np.zeros(len(needed), bool)
    ancestors = np.unique(record.parents[needed])
    while len(ancestors := ancestors[ancestors >= 0]):
        rows[ancestors] = needed[ancestors] = True
        ancestors = np.unique(record.parents[ancestors])
    return np.unique(record.events[needed]), rows & hindsight.stored


def _shed_by(trial: Trial, hindsight: Hindsight, used: Ints, rows: npt.NDArray[np.bool_]) -> dict[str, Any]:
    query, record = trial.queries[0], hindsight.record
    kinds = trial.stream.types(query.schema)[used]
    names = query.schema.type_names
    kept = dict(zip(names, np.bincount(kinds, minlength=len(names)).tolist(), strict=True))
    events = {name: {"seen": n, "dropped": n - kept[name]} for name, n in trial.bindable[query.name].items()}
    variables = [variable.name for variable in pattern_variables(query.pattern)]
    by_variable: dict[str, dict[str, list[int]]] = {}
    states = record.states
    for number, state in enumerate(record.plan.states):
        if state.indexes:
            counts = by_variable.setdefault(variables[state.variable], {"born": [0], "refused": [0], "dropped": [0]})
            in_state = hindsight.stored & (states == number)
            counts["born"][0] += int(rows[in_state].sum())
            counts["refused"][0] += int(in_state.sum() - rows[in_state].sum())
    return {"events": events, "partial_matches": by_variable}


def _check(trial: Trial) -> None:
    if trial.setting.clock != "virtual":
        raise ValidationError("shedders: 'oracle' counts operations; evaluate it with clock='virtual'")
    expected = len(trial.truth.identities) + trial.truth.created
    if expected > _MAX_RECORDS:
        raise ValidationError(
            f"shedders: 'oracle' needs about {_BYTES} bytes per match and partial match; found {expected:,} of them, "
            f"expected at most {_MAX_RECORDS:,}; evaluate it with fewer events"
        )
