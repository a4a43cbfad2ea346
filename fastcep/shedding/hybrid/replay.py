"""Recall and saved work on a part of the history, if classes are dropped in an order that another part determined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcep.overload.protocols import Classes, Floats, Ints, Tree
from fastcep.shedding.hybrid.attribution import Account
from fastcep.shedding.hybrid.flow import Flow, Step, count_flow

__all__ = ["Curve", "drop_curves", "random_curve"]

Kinds = Mapping[str, Classes | Tree]  #: by variable

#: Largest number of points of a curve.
_POINTS = 32
#: Largest share of the matches whose loss counts as none.
_FREE = 1e-9


@dataclass(frozen=True)
class Curve:
    """Recall by saved work.

    Attributes
    ----------
    saved
        Share of the work that is saved, of the work that drops can save, ascending: float64[points].
    kept
        Share of the matches that is kept: float64[points].
    """

    saved: Floats
    kept: Floats

    def recall(self, shares: Floats) -> Floats:
        """Return the recall at shares of the work that drops can save; the last of it is saved at random."""
        recall: Floats = np.interp(shares, np.append(self.saved, 1.0), np.append(self.kept, 0.0))
        return recall


def drop_curves(early: Account, late: Account, classes: Kinds, event_classes: Kinds) -> tuple[Curve, Curve]:
    """Return the recall that the model of an earlier part estimates, and the recall in the later part.

    Parameters
    ----------
    early, late
        Accounts of both parts of one history.
    classes, event_classes
        Classes of partial matches, and of events, by variable, fitted to the earlier part.
    """
    flow, later = (count_flow(part, classes, event_classes) for part in (early, late))
    costs = early.costs
    steps = flow.steps(costs)
    points = _points(steps)
    cascade, base = flow.cascade(costs), flow.fixed(costs)
    room = 1 - base / (cascade.cost + base) if cascade.cost + base else 1.0
    saved, kept = np.array([(0.0, 1.0), *((step.saved, step.kept) for step in steps)])[points].T
    estimated = Curve(saved / max(room, 1e-12), kept)
    lost = _lost_at(late, flow, steps, classes, event_classes)[late.matched & late.is_owned]
    held_out = np.array([(lost > point).mean() for point in points])
    return estimated, Curve(_saved(later, steps, points, late), held_out)


def random_curve(account: Account) -> Curve:
    """Return the recall if all partial matches are dropped with the same probability when they are born."""
    depth = np.zeros(len(account.born), np.int64)
    parents = account.record.parents
    for rows in _generations(account):
        depth[rows] = np.where(parents[rows] < 0, 0, depth[parents[rows]]) + account.stored[rows]
    total = account.derived[1].sum(axis=1, dtype=np.float64)
    children = np.flatnonzero(parents >= 0)
    own = np.maximum(total - np.bincount(parents[children], total[children], len(total)), 0.0)[account.is_owned]
    probability = np.linspace(1, 0, _POINTS)
    matches = account.matched & account.is_owned
    of_match = depth[matches] - account.stored[matches]  # a match is found even if it is not stored
    size = int(depth.max(initial=0)) + 1
    powers = probability[:, None] ** np.arange(size)
    work = powers @ np.bincount(depth[account.is_owned], own, size)
    kept = powers @ np.bincount(of_match, minlength=size)
    return Curve(1 - work / max(work[0], 1e-12), kept / max(kept[0], 1))


def _points(steps: Sequence[Step]) -> Ints:
    """Return numbers of steps to evaluate at: after the free drops, then evenly over the saved work."""
    levels = [(step.saved, step.kept) for step in steps]  # steps that save only together have equal values
    ends = [n for n in range(1, len(steps) + 1) if n == len(steps) or levels[n - 1] != levels[n]]
    free = max([0, *(end for end in ends if steps[end - 1].kept >= 1 - _FREE)])
    numbers = np.array([free, *(end for end in ends if end > free)], np.int64)
    if len(numbers) <= _POINTS:
        return numbers
    saved = np.array([steps[n - 1].saved if n else 0.0 for n in numbers])
    wanted = np.linspace(saved[0], saved[-1], _POINTS)
    return np.unique(numbers[np.minimum(np.searchsorted(saved, wanted), len(numbers) - 1)])


def _saved(flow: Flow, steps: Sequence[Step], points: Ints, account: Account) -> Floats:
    """Return the share of the droppable work of a flow that is saved after numbers of steps."""
    cascade = flow.cascade(account.costs)
    cost = max(cascade.cost, 1e-12)
    saved, done = [], 0
    for point in points.tolist():
        cascade.drop([
            (int(step.events), step.owner * (flow.event_stride if step.events else flow.stride) + step.number,
             step.slice)
            for step in steps[done:point]
        ])  # fmt: skip
        done = point
        saved.append(1 - cascade.cost / cost)
    return np.maximum.accumulate(np.clip(saved, 0.0, 1.0))


def _lost_at(account: Account, flow: Flow, steps: Sequence[Step], classes: Kinds, event_classes: Kinds) -> Ints:
    """Return the number of steps after which each record, as a match, is lost; more than all if never."""
    record, never = account.record, len(steps) + 1
    groups, kinds = _groups(account, classes, flow.stride), _kinds(account, event_classes, flow.event_stride)
    of_group = np.full((flow.states * flow.stride, flow.slices), never, np.int64)
    of_kind = np.full(flow.members * flow.event_stride, never, np.int64)
    for number in range(len(steps), 0, -1):
        step = steps[number - 1]
        if step.events:
            of_kind[step.owner * flow.event_stride + step.number] = number
        else:
            of_group[step.owner * flow.stride + step.number, step.slice :] = number
    parents, born = record.parents, account.born
    as_match = of_kind[kinds]
    as_row = as_match.copy()
    for rows in _generations(account):
        parent = parents[rows]
        inherited = np.minimum(as_row[parent], of_group[groups[parent], born[rows]])
        as_match[rows] = np.minimum(as_match[rows], np.where(parent < 0, never, inherited))
        as_row[rows] = np.minimum(as_match[rows], of_group[groups[rows], born[rows]])
    return as_match


def _generations(account: Account) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the records by the number of events that they bind, so that parents come first."""
    lengths = account.lengths
    order = np.argsort(lengths, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(lengths))[:-1])


def _groups(account: Account, classes: Kinds, stride: int) -> Ints:
    """Return the group of each record, as `count_flow` does."""
    groups = account.record.states * stride
    for name, table in classes.items():
        for state in account.states_of(name):
            rows, values, null = account.record.features(state)
            columns = [list(account.features[name]).index(feature) for feature in table.features]
            groups[rows] += table.classify(values[:, columns], null[:, columns])
    return groups


def _kinds(account: Account, event_classes: Kinds, stride: int) -> Ints:
    """Return the kind of the event that each record has bound last, as `count_flow` does."""
    record, variables = account.record, len(account.record.plan.negated)
    kinds = record.tried_for * stride
    for name, table in event_classes.items():
        member = account.members.index(name)
        _, values, null = record.event_features(member)
        columns = [list(account.event_features[name]).index(feature) for feature in table.features]
        kinds[record.tried_for == member] += table.classify(values[:, columns], null[:, columns])
    keys = record.tried * variables + record.tried_for
    return np.asarray(kinds[np.searchsorted(keys, record.events * variables + record.variables)])
