"""Run queries over a stream and record the lineage of all partial matches.

The lineage attributes contribution and cost to partial matches, to fit models and to determine what could have been
dropped (`fastcep.evaluate`). ``fastcep._core.shed.lineage`` defines the record; this module runs an engine that keeps
it, and collects its arrays.
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
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.protocols import Classes, Detector, QueryView, Shedder
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

#: Latency bound in ns that no event exceeds.
_NEVER = 1e15


@dataclass(frozen=True)
class Lineage:
    """Lineage of the partial matches and matches of a query. All arrays are int64; positions count from 0.

    Attributes
    ----------
    plan
        Plan of the query, which numbers the states.
    parents, events, edges, classes
        Per record (a partial match or match): the record that it extends (-1: none), the position of the event bound
        last, the edge of the plan, and its class plus 256 times the class of the event. A record comes after its
        parent; records are in the order of their events.
    placed, places
        Per row of an index: its record, and the id of its bucket.
    probes, probed, asked, visited
        Per probe of a bucket: the id of the bucket, the position of the probing event, the edge of the plan plus 2^32
        times the class of the event, and the number of rows visited.
    matches
        Per match, in the order of the output: its record.
    values
        Concatenated values of the records by edges with features: per record a bit mask of the nulls, then the
        features, floats as their bits.
    tried, tried_for, event_values
        Per event and variable that it was tried for, in order: its position, the variable and, for variables with
        features, the features as in `values`.
    reported
        Number of matches that the query reported. A record can be reported in several windows, or in none.
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
    reported: int

    def features(self, state: int) -> tuple[Ints, Floats, Bits]:
        """Return the records of a state that have features, the features [record, feature], and the mask of nulls."""
        counts = np.array([_feature_count(edge, self.plan) for edge in self.plan.edges], np.int64)[self.edges]
        records = np.flatnonzero((self.states == state) & (counts > 0))
        return records, *_decoded(self.values, counts, records, self.plan.states[state].features)

    def event_features(self, variable: int) -> tuple[Ints, Floats, Bits]:
        """Return the positions of the events tried for a variable, their features, and the mask of nulls."""
        plan = self.plan
        columns = plan.event_features or ((),) * len(plan.negated)
        counts = np.array([len(of_variable) for of_variable in columns], np.int64)[self.tried_for]
        entries = np.flatnonzero(self.tried_for == variable)
        dtypes = "".join(plan.columns[column].dtype for column in columns[variable])
        return self.tried[entries], *_decoded(self.event_values, counts, entries, dtypes)

    @property
    def states(self) -> Ints:
        """State of each record."""
        return np.array([edge.target for edge in self.plan.edges], np.int64)[self.edges]

    @property
    def variables(self) -> Ints:
        """Variable that each record has bound last."""
        return np.asarray(self._variable_of[self.edges])

    @property
    def asked_for(self) -> Ints:
        """Variable that the event of each probe was tried for."""
        return np.asarray(self._variable_of[self.asked & 0xFFFFFFFF])

    @property
    def _variable_of(self) -> Ints:
        return np.array([edge.variable for edge in self.plan.edges], np.int64)


@dataclass(frozen=True)
class LineageRun:
    """Result of `observe`.

    Attributes
    ----------
    records
        Lineage of each query.
    costs
        Cost of each event on the virtual clock in ns: float64[n].
    matches
        All matches, see ``Matches.to_arrow``.
    """

    records: tuple[Lineage, ...]
    costs: Floats
    matches: pa.Table


def _feature_count(edge: EdgePlan, plan: Plan) -> int:
    return 0 if edge.features is None else len(plan.states[edge.target].features)


def _decoded(words: Ints, counts: Ints, items: Ints, dtypes: str) -> tuple[Floats, Bits]:
    """Return values and nulls of some items of a list that holds, per item i, a null mask and ``counts[i]`` values."""
    values = np.zeros((len(items), len(dtypes)))
    null = np.zeros((len(items), len(dtypes)), bool)
    if not dtypes:
        return values, null
    sizes = counts + (counts > 0)
    start = (np.cumsum(sizes) - sizes)[items]
    for number, dtype in enumerate(dtypes):
        column = words[start + 1 + number]
        values[:, number] = column.view(np.float64) if dtype == "f" else column
        null[:, number] = words[start] >> number & 1
    return values, null


class _NoOverload(Detector):
    """Detector that never reports overload."""

    name = "calm"

    def read(self, load: Load) -> DetectorReading:
        """Report no overload."""
        return DetectorReading(0.0, amount=0.0)

    def spec(self) -> dict[str, Any]:
        """Return its name."""
        return {"name": self.name}


class _Observer(Shedder):
    """Shedder that drops nothing and has the lineage recorded."""

    name = "observer"
    observes = True
    drops_matches = True

    def __init__(self, classes: Mapping[str, Classes], event_classes: Mapping[str, Classes]) -> None:
        self._classes, self._event_classes = classes, event_classes

    def classes(self, query: ast.Query) -> Mapping[str, Classes]:
        """Return the classes of partial matches."""
        return self._classes

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes]:
        """Return the classes of events."""
        return self._event_classes

    def detector(self, of: str) -> Detector:
        """Return a detector that never reports overload."""
        return _NoOverload()

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return empty drop plans."""
        return [DropPlan() for _ in views]

    def spec(self) -> dict[str, Any]:
        """Return its name."""
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
    """Run queries over a stream on the virtual clock, with the row store, and record all partial matches.

    Parameters
    ----------
    queries
        One query or several.
    events
        Events as ``Engine.process`` accepts them. The whole record is held in memory: about 32 bytes per partial match
        or match, 16 per row, and 32 per probe of a bucket.
    cost_table, index
        As for `Engine`.
    classes, event_classes
        Classes of partial matches, and of events, by variable; see `Shedder`.

    Returns
    -------
    LineageRun
        The lineage of each query, the cost of each event, and the matches.
    """
    engine = Engine(
        queries, latency_bound=_NEVER, clock="virtual", cost_table=cost_table, index=index,
        shedder=_Observer(classes or {}, event_classes or {}), detector=_NoOverload(),
    )  # fmt: skip
    costs: list[Floats] = []
    engine.listen(lambda processing, _: costs.append(processing))
    matches = engine.process(events).to_arrow()
    control = engine._stream.queries.control
    assert control is not None
    records = tuple(
        Lineage(query.plan, **query.shedding.observed(), reported=int(query.matcher.matches))
        for query in control.queries
    )
    return LineageRun(records, np.concatenate(costs) if costs else np.empty(0), matches)
