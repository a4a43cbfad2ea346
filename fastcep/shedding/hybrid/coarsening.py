"""Merge classes of a model until decisions and drop orders take no longer than allowed.

Two classes of a variable are merged that lose the least by it. Dropping them together instead of one after the other
drops a part of the better class where the worse one would have been enough: with consumptions w and v, and
contributions per consumption r and s, at most ``w v / (w + v) |r - s|`` matches more are lost.

How long a model takes is predicted from its size and from the number of updates of its cascade, so that a fit does not
depend on the machine or its load. The times that a model reports are measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.overload.protocols import Classes, Tree
from fastcep.query.patterns import pattern_variables
from fastcep.shedding.hybrid.drop_order import DropOrder, TableSizes
from fastcep.shedding.hybrid.flow import merged_groups
from fastcep.shedding.hybrid.model import HybridModel

__all__ = ["affordable", "merged"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Role = tuple[str, str]  #: ``"partial match"`` or ``"event"``, and the variable

#: Predicted times in ns: of a decision, per entry of its tables, and per update of a cascade.
_DECISION, _ENTRY, _UPDATE = 50_000.0, 30.0, 20.0
#: Smallest share of the classes that is left by one round of merging, and largest.
_LEAST, _MOST = 0.5, 0.9
_DEMANDS = np.linspace(0.02, 0.98, 25)


def affordable(model: HybridModel, decision_cost: float, order_cost: float) -> HybridModel:
    """Merge classes until a decision, and the drop order, take no longer than allowed; measure what they take.

    Parameters
    ----------
    model
        Model whose flow has the counts by window, see `Flow.by_window`.
    decision_cost, order_cost
        Largest predicted times in ns of a decision and of a drop order.

    Returns
    -------
    HybridModel
        Model with measured times. It has the same classes if it is within the limits.
    """
    while True:
        flow = model.flow
        entries = flow.states * flow.stride * flow.slices + flow.members * flow.event_stride
        began = perf_counter_ns()
        _, updates = flow.counted_steps(model.costs)
        took = perf_counter_ns() - began
        excess = max((_DECISION + _ENTRY * entries) / decision_cost, updates * _UPDATE / order_cost)
        count = _count(model)
        if excess <= 1:
            break
        coarser = merged(model, int(count * min(max(excess ** (-1 / 3), _LEAST), _MOST)))
        if _count(coarser) == count:
            break
        model = coarser
    model = replace(model, flow=model.flow.without_windows())
    return replace(model, measured={"decision_cost": _measured_decision(model), "order_cost": float(took)})


def merged(model: HybridModel, count: int) -> HybridModel:
    """Merge classes of a model until ``count`` are left over all variables; those first that lose least by it."""
    labels = _unmerged(model)
    pools = {role: _Pool(*_worth(model, role)) for role in labels}
    for _ in range(sum(len(of_role) for of_role in labels.values()) - count):
        role = min(pools, key=lambda each: pools[each].least)
        if np.isinf(pools[role].least):
            break
        pools[role].merge()
    labels = {role: pool.labels for role, pool in pools.items()}
    names = [variable.name for variable in pattern_variables(model.query.pattern)]
    by_state = [labels.get(("partial match", name)) for name in model.variables]
    by_variable = [labels.get(("event", name)) for name in names]
    return HybridModel(
        model.query,
        {name: _relabelled(classes, labels["partial match", name]) for name, classes in model.classes.items()},
        {name: _relabelled(classes, labels["event", name]) for name, classes in model.event_classes.items()},
        merged_groups(model.flow, by_state, by_variable), _merged_values(model.values, labels), model.variables,
        model.costs, model.parameters, validation=model.validation, match_rate=model.match_rate,
    )  # fmt: skip


def _count(model: HybridModel) -> int:
    """Return the number of classes of all variables."""
    return sum(map(len, _unmerged(model).values()))


def _unmerged(model: HybridModel) -> dict[Role, Ints]:
    tables = {"partial match": model.classes, "event": model.event_classes}
    return {(of, name): np.arange(table.count) for of, by_name in tables.items() for name, table in by_name.items()}


def _worth(model: HybridModel, role: Role) -> tuple[Floats, Floats]:
    """Return the contribution and the consumption of the classes of a variable: float64[classes, slices]."""
    flow, (of, name) = model.flow, role
    lost, spent, event_lost, event_spent = flow.cascade(model.costs).weights()  # the first two are sums of later slices
    if of == "event":
        member = [variable.name for variable in pattern_variables(model.query.pattern)].index(name)
        of_member = slice(member * flow.event_stride, member * flow.event_stride + model.event_classes[name].count)
        return event_lost[of_member, None], event_spent[of_member, None]
    states = [state for state, variable in enumerate(model.variables) if variable == name]
    shape, count = (flow.states, flow.stride, flow.slices), model.classes[name].count
    by_slice = [sums - np.pad(sums[:, 1:], ((0, 0), (0, 1))) for sums in (lost, spent)]
    lost, spent = (values.reshape(shape)[states, :count].sum(axis=0) for values in by_slice)
    return lost, spent


class _Pool:
    """Classes of one variable, to be merged.

    Attributes
    ----------
    least
        Contribution that is lost by the next merge; infinite if no classes are left to be merged.
    """

    def __init__(self, contribution: Floats, consumption: Floats) -> None:
        self._contribution, self._consumption = contribution.copy(), consumption.copy()
        self._into = np.arange(len(contribution))
        self._loss = np.stack([self._losses(number) for number in range(len(contribution))])
        self._find()

    @property
    def labels(self) -> Ints:
        """Number of the merged class of each class, from 0 on."""
        return np.unique(self._into, return_inverse=True)[1].astype(np.int64)

    def _losses(self, one: int) -> Floats:
        """Return the contribution that is lost by merging a class with each other one.

        Classes that consume nothing did not occur in the history and are kept; they are only merged with each other.
        """
        own, others = self._consumption[one], self._consumption
        both = np.maximum(own + others, 1e-300)
        difference = np.abs(self._contribution * own - self._contribution[one] * others)
        losses = (difference / both).sum(axis=1)
        losses[(others.sum(axis=1) > 0) != (own.sum() > 0)] = np.inf
        losses[(self._into != np.arange(len(losses))) | (np.arange(len(losses)) == one)] = np.inf
        return np.asarray(losses, np.float64)

    def _find(self) -> None:
        self._next = divmod(int(np.argmin(self._loss)), len(self._loss))
        self.least = float(self._loss[self._next])

    def merge(self) -> None:
        """Merge the two classes that lose least."""
        kept, gone = sorted(self._next)
        self._into[self._into == gone] = kept
        for sums in (self._contribution, self._consumption):
            sums[kept] += sums[gone]
        self._loss[gone], self._loss[:, gone] = np.inf, np.inf
        self._loss[kept] = self._loss[:, kept] = self._losses(kept)
        self._find()


def _relabelled(classes: Classes | Tree, labels: Ints) -> Classes | Tree:
    other = int(labels[classes.other])
    if isinstance(classes, Tree):
        value = np.where(classes.feature < 0, labels[np.minimum(classes.value, len(labels) - 1)], classes.value)
        return replace(classes, value=value.astype(np.uint8), other=other)
    return replace(classes, table=labels[classes.table].astype(np.uint8), other=other)


def _merged_values(values: pa.Table, labels: Mapping[Role, Ints]) -> pa.Table:
    """Merge rows of the table of values: means weighted by members; percentiles, too, are averaged."""
    rows: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in values.to_pylist():
        of_role = labels.get((row["of"], row["variable"]))
        row["class"] = row["class"] if of_role is None else int(of_role[row["class"]])
        key = row["of"], row["variable"], row["class"]
        rows[key] = row if key not in rows else _averaged(rows[key], row)
    merged_rows = sorted(rows.values(), key=lambda row: (row["of"], row["variable"], row["class"]))
    return pa.Table.from_pylist(merged_rows, values.schema)


def _averaged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    members = one["members"] + other["members"]
    weights = (one["members"], other["members"]) if members else (1, 1)
    averages = {
        name: np.average([one[name], other[name]], axis=0, weights=weights).tolist()
        for name, value in one.items() if isinstance(value, list)
    }  # fmt: skip
    return one | averages | {"members": members}


def _measured_decision(model: HybridModel) -> float:
    """Return the median time in ns of choosing drops, and of converting them for the matcher."""
    flow = model.flow
    order, sizes = DropOrder(model.steps(True, True), flow), TableSizes(flow.event_stride, flow.stride)
    times = []
    for demand in _DEMANDS.tolist():
        began = perf_counter_ns()
        for selection in (order.choose(demand, sizes), order.choose(demand / 2, sizes)):
            for table in (selection.binds, selection.cells):
                np.rint(np.clip(0.99 * table, 0.0, 1.0) * 2.0**32).astype(np.int64)
        times.append(perf_counter_ns() - began)
    return float(np.median(times))
