"""The reference *informed*: sheds by the true expectations of the generator that the events come from.

It is told which generator that is, draws a long stream of its own from it, and observes the query on that. So for
each class of events and of partial matches, told apart by all that the rest of the query wants to know of them, it
knows the contribution and the consumption that are to be expected (up to the error of a sample of some hundred
thousand partial matches), and in which order classes are best dropped (`fastcep.evaluate.groups`). A demand for a
share of the work is met by the first steps of that order, the last of them by chance. It knows nothing of the events
that are to come: no shedder that is fitted on history can expect to know more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.engine.overload.observe import observe
from fastcep.engine.overload.protocols import Classes, Orders, Shedder, View
from fastcep.errors import ModelError, ValidationError
from fastcep.evaluate.features import event_features, features
from fastcep.evaluate.generators import Generator, generator_of
from fastcep.evaluate.groups import Step, drops
from fastcep.evaluate.protocols import Knows
from fastcep.evaluate.stream import Stream
from fastcep.events import EventBatch, StringTable
from fastcep.query import ast
from fastcep.shedding.baseline import Baseline

if TYPE_CHECKING:
    from fastcep.evaluate.setting import Setting

__all__ = ["Expected", "Informed", "InformedShedder"]

Floats = npt.NDArray[np.float64]

#: The stream that is drawn has a seed that no other one is likely to have, and about so many partial matches.
_SEED = 1_000_003
_RECORDS = 500_000
_MOST = 4_000_000  # events, however few partial matches come of them
_PILOT = 5_000  # events by which it is found how many there are

#: Into how many slices the window is cut where decisions cost nothing. Else they are few, and what is to be dropped
#: from some age on would live until the next one: then it is dropped by class alone.
_SLICES = 4


@dataclass(frozen=True)
class Expected:
    """What is known of a query: its classes, and in which order they are best dropped."""

    query: str
    slices: int
    classes: Mapping[str, Classes]
    event_classes: Mapping[str, Classes]
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, query: ast.Query, generator: Generator, setting: Setting) -> Expected:
        """Draw from the generator and observe the query."""
        if not isinstance(query.window, ast.TimeWindow | ast.CountWindow):
            raise ValidationError(
                f"shedders: 'informed' is for queries WITHIN a time or number of events; {query.name!r} is none"
            )
        own = features(query, generator.values)
        of_events = event_features(query, generator.values)
        pilot = len(observe(query, generator.draw(_PILOT, _SEED), index=setting.index).records[0].parents)
        table = generator.draw(int(min(_PILOT * max(1.0, _RECORDS / max(pilot, 1)), _MOST)), _SEED)
        (record,) = observe(
            query, table, cost_table=setting.costs, index=setting.index, classes=own, event_classes=of_events
        ).records
        times = EventBatch.from_data(query.schema, table, StringTable(), "events").time
        slices = _SLICES if setting.clock == "virtual" and not setting.costs.decision else 1
        return cls(query.name, slices, own, of_events, tuple(drops(record, times, slices, setting.costs)))


class Informed(Knows):
    """The strategy ``informed``: knows a generator."""

    name = "informed"
    label = "informed (knows the generator)"
    reference = True

    def knowing(self, queries: Sequence[ast.Query], stream: Stream, setting: Setting) -> Made:
        """Find out what can be known of queries over a stream."""
        generator = generator_of(stream.table, queries[0].schema)
        _check_gaps(stream, Stream.of(generator.draw(_PILOT, _SEED), queries[0].schema), generator.name)
        return Made(tuple(Expected.of(query, generator, setting) for query in queries))


def _check_gaps(stream: Stream, drawn: Stream, name: str) -> None:
    """Refuse events that come faster or slower than the generator's: what is to be expected depends on it."""
    if len(stream) < 2:
        return
    gap, own = stream.span / (len(stream) - 1), drawn.span / (len(drawn) - 1)
    if abs(gap / own - 1) > 0.05 + 5 / len(stream) ** 0.5:
        raise ValidationError(
            f"shedders: 'informed' knows the generator {name}, where two events are {own:,.0f} ns apart in the mean, "
            f"and these are {gap:,.0f} ns; leave it out"
        )


@dataclass(frozen=True)
class Made:
    """Makes shedders that know what to expect."""

    expected: tuple[Expected, ...]

    def __call__(self, seed: int, /) -> Shedder:
        """Make a new one."""
        return InformedShedder(self.expected, seed)


class InformedShedder(Baseline):
    """Drops classes of events and of partial matches in a given order, as many as a demand asks for.

    Parameters
    ----------
    expected
        Of each query.
    seed
        Of what is drawn.
    """

    name = "informed"
    drops_matches = True

    def __init__(self, expected: Sequence[Expected], seed: int = 0) -> None:
        super().__init__(seed)
        self._expected = {item.query: item for item in expected}
        self.slices = max(item.slices for item in expected)
        self._tables: dict[str, _Tables] = {}
        self._dropped: dict[str, int] = {}

    def check(self, query: ast.Query) -> None:
        """Refuse a query of which nothing is known: `ModelError`."""
        if query.name not in self._expected:
            raise ModelError(f"shedder 'informed' knows {', '.join(map(repr, self._expected))}, not {query.name!r}")

    def classes(self, query: ast.Query) -> Mapping[str, Classes]:
        """How partial matches are told apart."""
        return self._expected[query.name].classes

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes]:
        """How events are told apart."""
        return self._expected[query.name].event_classes

    def decide(self, demand: float, before: float, views: Sequence[View]) -> Sequence[Orders]:
        """Drop the first classes of each query's order, as many as save the share ``demand`` of the work."""
        if demand <= 0:
            self._dropped = {}
            return [Orders() for _ in views]
        return [self._order(demand, view) for view in views]

    def _order(self, demand: float, view: View) -> Orders:
        name = view.plan.query.name
        if name not in self._tables:
            self._tables[name] = _Tables(self._expected[name].steps, view)
        own, last = self._tables[name], self._dropped.get(name, 0)
        level, part = own.at(demand)
        falls = own.drops[level]
        orders = Orders(
            binds=own.mixed(own.binds, level, part), births=own.mixed(own.births, level, part),
            kept=float((1 - part) * own.kept[level] + part * own.kept[min(level + 1, own.last)]),
        )  # fmt: skip
        if falls.any() and (level > last or own.ages[level]):
            orders.drops = falls
            orders.left = float(min(1.0, own.kept[level] / max(own.kept[min(last, level)], 1e-9)))
        self._dropped[name] = level
        return orders

    def state(self) -> dict[str, Any]:
        """How many levels of each query's order it has dropped."""
        return {"dropped": dict(self._dropped)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        self._dropped = dict(state["dropped"])


class _Tables:
    """The chances after each *level*: steps that save something together. Level 0 drops nothing."""

    def __init__(self, steps: Sequence[Step], view: View) -> None:
        plan = view.plan
        binds = np.zeros((len(plan.negated), view.event_classes))
        cut = np.full((len(plan.states), view.classes), view.slices)
        saved, kept = [0.0], [1.0]
        self.binds, cuts = [binds.copy()], [cut.copy()]
        for number, step in enumerate(steps):
            if step.events:
                binds[step.of, step.number] = 1.0
            else:
                cut[step.of, step.number] = step.slice
            if number + 1 < len(steps) and steps[number + 1].saved <= max(step.saved, saved[-1]):
                continue
            saved.append(step.saved)
            kept.append(step.kept)
            self.binds.append(binds.copy())
            cuts.append(cut.copy())
        self.saved, self.kept, self.last = np.array(saved), np.array(kept), len(saved) - 1
        self.births = [(own == 0).astype(float) for own in cuts]
        slices = np.arange(view.slices)
        self.drops = [(slices >= own[:, :, None]).astype(float) for own in cuts]
        self.ages = [bool(((own > 0) & (own < view.slices)).any()) for own in cuts]

    def at(self, demand: float) -> tuple[int, float]:
        """The last level that saves no more than a share, and how much of the next one saves the rest of it."""
        level = int(np.searchsorted(self.saved, demand, "right")) - 1
        if level >= self.last:
            return self.last, 0.0
        return level, float((demand - self.saved[level]) / (self.saved[level + 1] - self.saved[level]))

    def mixed(self, tables: Sequence[Floats], level: int, part: float) -> Floats:
        """Between the tables of two levels."""
        return (1 - part) * tables[level] + part * tables[min(level + 1, self.last)]
