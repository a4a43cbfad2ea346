"""Run queries over a stream and keep a record of all their partial matches: what came of each, and what it cost.

What is recorded, and how, says ``fastcep._core.observe``; this makes an engine that does it, and puts its lists
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
from fastcep.engine.overload.costs import CostTable
from fastcep.engine.overload.protocols import Classes, Detector, Load, Orders, Reading, Shedder, View
from fastcep.plan import Plan
from fastcep.query import ast

if TYPE_CHECKING:
    import pyarrow as pa

    from fastcep.query import Query

__all__ = ["Observation", "observe"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: No event can be this late, so that nothing is ever demanded; ns.
_NEVER = 1e15


@dataclass(frozen=True)
class Observation:
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

    @property
    def states(self) -> Ints:
        """Per record its state."""
        return np.array([edge.target for edge in self.plan.edges], np.int64)[self.edges]

    @property
    def members(self) -> Ints:
        """Per record the variable that it has bound last."""
        return np.array([edge.member for edge in self.plan.edges], np.int64)[self.edges]


@dataclass(frozen=True)
class Observed:
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

    records: tuple[Observation, ...]
    costs: Floats
    matches: pa.Table


class _Calm(Detector):
    """Never sees too much."""

    name = "calm"

    def read(self, load: Load) -> Reading:
        """Nothing is too much."""
        return Reading(0.0, amount=0.0)

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

    def decide(self, demand: float, before: float, views: Sequence[View]) -> Sequence[Orders]:
        """Nothing is dropped."""
        return [Orders() for _ in views]

    def spec(self) -> dict[str, Any]:
        """Its name."""
        return {"name": self.name}


def observe(
    queries: Query | Sequence[Query],
    events: Any,
    *,
    cost_table: CostTable | str = "paper",
    index: str = "full",
    classes: Mapping[str, Classes] | None = None,
    event_classes: Mapping[str, Classes] | None = None,
) -> Observed:
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
    control = engine._queries.control
    assert control is not None
    records = tuple(Observation(query.plan, **query.shedding.observed()) for query in control.queries)
    return Observed(records, np.concatenate(costs) if costs else np.empty(0), matches)
