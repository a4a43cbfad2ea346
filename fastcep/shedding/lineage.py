"""Run queries over a stream and keep a record of all their partial matches: what came of each, and what it cost.

What is recorded, and how, says ``fastcep._core.shed.lineage``; this makes an engine that does it, and puts its lists
together.
The record is for afterwards: to fit models, and to know what could have been dropped (`fastcep.evaluate`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.engine.engine import Engine
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.overload.protocols import Classes, Detector, DetectorReading, DropPlan, Load, QueryView, Shedder
from fastcep.plan import Plan
from fastcep.plan.plan import EdgePlan
from fastcep.query import ast

if TYPE_CHECKING:
    import pyarrow as pa

    from fastcep.query import Query

__all__ = ["Lineage", "observe"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.bool_]

#: No event can be this late, so that nothing is ever demanded; ns.
_NEVER = 1e15


@dataclass(frozen=True)
class Lineage:
    """The record of a query. All arrays are int64; positions are places in the stream, from 0 on.

    Attributes
    ----------
    plan
        The query's; states are numbered as in it.
    parents, events, edges, classes
        Per record: the one that it extends (-1: none), the position of the event that it binds last, the edge of the
        plan that it came by, its class and, times 256, that of the event. A record comes after its parent, and records
        are in the order of their events.
    placed, places
        Per row of an index its record, and the name of the bucket in which it stands.
    probes, probed, asked, visited
        Per look into a bucket: its name, the position of the event that looked, the edge of the plan and, times 2^32,
        the class of the event, and how many rows it found.
    matches
        Per match, in the order of the output, its record.
    values
        One after the other for every record by an edge with features: a bit for each that is null, and the features;
        those of reals as their bits.
    tried, tried_for, event_values
        Per event and variable that it was tried for, in order: its position, the variable, and, for the variables that
        have some, its features as in `values`.
    """

    plan: Plan
    parents: Ints
    events: Ints
    edges: Ints
    classes: Ints
    placed: Ints
    places: Ints
    probes: Ints
    probed: Ints
    asked: Ints
    visited: Ints
    matches: Ints
    values: Ints
    tried: Ints
    tried_for: Ints
    event_values: Ints

    def features(self, state: int) -> tuple[Ints, Floats, Bits]:
        """The records of a state whose features are known, these as [record, feature], and which are null."""
        counts = np.array([_features_of(edge, self.plan) for edge in self.plan.edges], np.int64)[self.edges]
        own = np.flatnonzero((self.states == state) & (counts > 0))
        return own, *_decoded(self.values, counts, own, self.plan.states[state].features)

    def event_features(self, member: int) -> tuple[Ints, Floats, Bits]:
        """The positions of the events that were tried for a variable, their features, and which are null."""
        plan = self.plan
        columns = plan.event_features or ((),) * len(plan.negated)
        counts = np.array([len(own) for own in columns], np.int64)[self.tried_for]
        own = np.flatnonzero(self.tried_for == member)
        dtypes = "".join(plan.columns[column].dtype for column in columns[member])
        return self.tried[own], *_decoded(self.event_values, counts, own, dtypes)

    @property
    def states(self) -> Ints:
        """Per record its state."""
        return np.array([edge.target for edge in self.plan.edges], np.int64)[self.edges]

    @property
    def members(self) -> Ints:
        """Per record the variable that it has bound last."""
        return np.asarray(self._member_of[self.edges])

    @property
    def asked_for(self) -> Ints:
        """Per look into a bucket the variable that the event was tried for."""
        return np.asarray(self._member_of[self.asked & 0xFFFFFFFF])

    @property
    def _member_of(self) -> Ints:
        return np.array([edge.member for edge in self.plan.edges], np.int64)


@dataclass(frozen=True)
class LineageRun:
    """What `observe` found.

    Attributes
    ----------
    records
        Of each query.
    costs
        Per event what it cost on the virtual clock, ns: float64[n].
    matches
        All matches, see ``Matches.to_arrow``.
    """

    records: tuple[Lineage, ...]
    costs: Floats
    matches: pa.Table


def _features_of(edge: EdgePlan, plan: Plan) -> int:
    return 0 if edge.features is None else len(plan.states[edge.target].features)


def _decoded(words: Ints, counts: Ints, own: Ints, dtypes: str) -> tuple[Floats, Bits]:
    """Of a list with ``counts[i]`` values and their null bits for each item i, the values of some items."""
    values = np.zeros((len(own), len(dtypes)))
    null = np.zeros((len(own), len(dtypes)), bool)
    if not dtypes:
        return values, null
    sizes = counts + (counts > 0)
    at = (np.cumsum(sizes) - sizes)[own]
    for number, dtype in enumerate(dtypes):
        found = words[at + 1 + number]
        values[:, number] = found.view(np.float64) if dtype == "f" else found
        null[:, number] = words[at] >> number & 1
    return values, null


class _Calm(Detector):
    """Never sees too much."""

    name = "calm"

    def read(self, load: Load) -> DetectorReading:
        """Nothing is too much."""
        return DetectorReading(0.0, amount=0.0)

    def spec(self) -> dict[str, Any]:
        """Its name."""
        return {"name": self.name}


class _Observer(Shedder):
    """Drops nothing and has everything recorded."""

    name = "observer"
    observes = True
    drops_matches = True

    def __init__(self, classes: Mapping[str, Classes], event_classes: Mapping[str, Classes]) -> None:
        self._classes, self._event_classes = classes, event_classes

    def classes(self, query: ast.Query) -> Mapping[str, Classes]:
        """Those asked for."""
        return self._classes

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes]:
        """Those asked for."""
        return self._event_classes

    def detector(self, of: str) -> Detector:
        """One that never asks for anything."""
        return _Calm()

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Nothing is dropped."""
        return [DropPlan() for _ in views]

    def spec(self) -> dict[str, Any]:
        """Its name."""
        return {"name": self.name}


def observe(
    queries: Query | Sequence[Query],
    events: Any,
    *,
    cost_table: CostTable | str = "paper",
    index: Index = "full",
    classes: Mapping[str, Classes] | None = None,
    event_classes: Mapping[str, Classes] | None = None,
) -> LineageRun:
    """Run queries over a stream on the virtual clock and record all partial matches, in rows.

    Parameters
    ----------
    queries
        One or several.
    events
        What ``Engine.process`` takes. All of the record is held in memory: about 32 bytes per partial match and match
        that is found, 16 per row, and 32 per look into a bucket.
    cost_table, index
        As for `Engine`.
    classes, event_classes
        How partial matches, and events, are told apart, by variable; see `Shedder`.

    Returns
    -------
    Observed
        The record of each query, what each event cost, and the matches.
    """
    engine = Engine(
        queries, latency_bound=_NEVER, clock="virtual", cost_table=cost_table, index=index,
        shedder=_Observer(classes or {}, event_classes or {}), detector=_Calm(),
    )  # fmt: skip
    costs: list[Floats] = []
    engine.listen(lambda processing, _: costs.append(processing))
    matches = engine.process(events).to_arrow()
    control = engine._stream.queries.control
    assert control is not None
    records = tuple(Lineage(query.plan, **query.shedding.observed()) for query in control.queries)
    return LineageRun(records, np.concatenate(costs) if costs else np.empty(0), matches)
