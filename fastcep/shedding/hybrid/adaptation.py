"""Online adaptation of a flow to the stream while load is shed (hybrid, section V-B).

The matcher counts children by source. A small share of all drops is let through, and each child counted there is
weighted by the inverse of its probability. After each slice of the window the counts are compared with the flow:

* If they differ only by chance, or only a little, the flow stays as it is. A drop order that follows noise would lose
  matches.
* Otherwise both are averaged, so that the weight of old counts halves with every slice. From two windows after the
  change on, the weight of new counts decreases with the number of windows since the change.

Visits of rows are not counted, because that would cost more than it is worth. They are taken to be proportional to the
number of rows and to the number of probing events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.overload.query_shedding import check_flow_keys
from fastcep.shedding.hybrid.change_test import ChangeTest
from fastcep.shedding.hybrid.flow import Flow
from fastcep.shedding.hybrid.flow_keys import FlowParts, aligned, field_of, keys_of
from fastcep.stored import AMOUNT, COUNT, anything, grid, listed, or_null, record, sequence, whole

if TYPE_CHECKING:
    from fastcep._core.matcher.shedding_controls import Flows

__all__ = ["AdaptedFlow"]

Keys = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Smallest difference that counts as a change: as a share of the counts, and in standard deviations.
_MUCH, _CHANCE = 0.2, 5.0
#: Number of windows after a change in which new counts weigh as much as all old ones; then their weight decreases.
_ALERT = 2.0
#: Effective number of matches counted after a change from which on the flow knows where matches come from.
_SEEN = 25.0
#: Number of windows after which a change is over.
_SETTLED = 20.0
#: Number of independent children that are significant; counts do not decay before there are as many.
_ENOUGH = 100.0
#: Children of a smaller share of all are removed, so that the flow does not grow with the stream.
_TRACE = 1e-7
#: Inverse keep probability from which on children count as mostly dropped.
_RARE = 2.0


class AdaptedFlow:
    """Flow of a query that follows changes of the stream.

    Parameters
    ----------
    flow
        Flow of the history.
    weight
        Weight of new counts against the present flow.

    Attributes
    ----------
    flow
        Present flow, scaled to the number of events of the history.
    drift
        Share of the children by which the last counts differed from the flow: 0 for equal, 1 for nothing in common.
    changes
        Number of changes of the flow.
    lost
        Number of children for which the counters had no room.
    """

    def __init__(self, flow: Flow, weight: float = 0.5) -> None:
        self._history, self._weight = flow, weight
        self.drift, self.changes, self.lost = 0.0, 0, 0.0
        self._keys = keys_of(flow)
        order = np.argsort(self._keys)
        self._keys = self._keys[order]
        self._made = flow.child["made"][order]
        self._asked = flow.asked
        self.flow = flow
        self._parts = FlowParts(flow)
        self._recent, self._fresh = _Recent(), _Recent()  # with decay, and those of the present window
        self._test = ChangeTest()
        self._matches = 0.0, 0.0  # sum of the weights of the matches since the change, and of their squares
        self._since_change: float | None = None  # windows since the last change; None: no recent change

    @property
    def error(self) -> float:
        """Standard deviation of a share that the flow predicts, as a share of it.

        It is the drift, as far as the drift is significant: during a change, and while evidence of one accumulates.
        """
        return min(1.0, self.drift) * (1.0 if self._since_change is not None else min(1.0, self._test.level))

    @property
    def recently_changed(self) -> bool:
        """True in the first windows after a change of the stream, and until enough matches were counted since."""
        since = self._since_change  # a thread that learns may set it to None
        if since is None:
            return False
        weight, square = self._matches
        return since < _ALERT or weight**2 < _SEEN * square or not weight

    @property
    def is_reliable(self) -> bool:
        """False after a change of the stream, until the flow has settled."""
        return self._since_change is None

    def learn(
        self, counted: Flows, events: int, window: float, binds: Floats, cells: Floats, share: float = 1.0
    ) -> bool:
        """Update the flow from counts; return whether it has changed.

        Parameters
        ----------
        counted
            Counts of children, see `QueryView.flows`.
        events
            Number of events of the counts.
        window
            Number of events in a window.
        binds, cells
            Drop probabilities in force, by variable and event class, and by state, class and slice.
        share
            Share of the events whose children were counted.
        """
        self.lost += counted[3]
        recent = self._recent
        shifted = self._has_shifted(counted, events, window, binds, cells, share)
        recent.add(counted, events, 0.5 ** (2 * events / max(window, 1.0)) if recent.number > _ENOUGH else 1.0)
        if recent.events <= 0 or not len(recent.keys):
            return False
        scale = self._history.events / recent.events
        every = np.union1d(self._keys, recent.keys)
        old, new = aligned(every, self._keys, self._made), aligned(every, recent.keys, recent.counts)
        squares = aligned(every, recent.keys, recent.squares)
        multiplicity = self._parts.multiplicity(every, old, binds, cells)
        differs = self._differs(every, old / scale, new, squares, multiplicity, share) or shifted
        if differs:
            self._matches = self._matches if self._since_change is not None else (0.0, 0.0)
            self._since_change = 0.0
        if self._since_change is not None:
            matched = self._parts.matched[field_of(counted[0], "target")]
            weight, square = self._matches
            self._matches = weight + float(matched @ counted[1]), square + float(matched @ counted[2])
        if recent.number < _ENOUGH or self._since_change is None:
            return False
        weight = self._weight if self._since_change < _ALERT else min(self._weight, 1 / (_ALERT + self._since_change))
        self._since_change += events / window
        if self._since_change > _SETTLED:
            self._since_change = None
        made = (1 - weight) * old + weight * scale * new
        significant = made > _TRACE * made.sum()
        self._keys, self._made = every[significant], made[significant]
        self._asked = (1 - weight) * self._asked + weight * scale * recent.asked
        self._rebuild()
        return True

    def _has_shifted(
        self, counted: Flows, events: int, window: float, binds: Floats, cells: Floats, share: float
    ) -> bool:
        """Add counts to those of the present window; at its end, return whether the stream has changed."""
        fresh = self._fresh
        fresh.add(counted, events, 1.0)
        if fresh.events < window:
            return False
        self._fresh = _Recent()
        every = np.union1d(self._keys, fresh.keys)
        made = aligned(every, self._keys, self._made)
        multiplicity = self._parts.multiplicity(every, made, binds, cells)
        often = multiplicity <= _RARE
        if not often.any():
            return False
        differences = self._differences(
            every[often], made[often] * fresh.events / self._history.events,
            aligned(every, fresh.keys, fresh.counts)[often], aligned(every, fresh.keys, fresh.squares)[often],
            self._parts.multiplicity(every, made, binds, cells, mean_weight=True)[often], share, fresh.events,
        )  # fmt: skip
        pool, group = differences.number // 256, differences.pool
        _, first = np.unique(group, return_index=True)
        columns = differences.found, differences.wanted, differences.variance
        pooled = [np.bincount(group, values).astype(np.float64) for values in columns]
        numbers = np.concatenate([2 * differences.number, 2 * pool[first] * 256 + 1])
        found, wanted, variance = (np.concatenate(pair) for pair in zip(columns, pooled, strict=True))
        return self._test.step(numbers, found, wanted, variance)

    def _differences(
        self, keys: Keys, expected: Floats, counted: Floats, squares: Floats, multiplicity: Floats, share: float,
        events: float,
    ) -> _Differences:  # fmt: skip
        """Return counts and expected counts by cell: the pool (see `FlowParts.pools`) and the class of the source.

        Children occur in clusters: a partial match has as many as events extend it, an event as many as partial matches
        that it extends. The variance of a count is therefore that of fewer, larger units. Either all children of an
        event are counted, or none. Counts also vary from window to window as in the history.
        """
        made = expected * self._history.events / events
        pool, names, per_match, per_event = self._parts.pools(keys, made, multiplicity > _RARE)
        cluster = 1 + share * per_match + per_event
        pairs, cell = np.unique(pool * 256 + field_of(keys, "source_class"), return_inverse=True)
        pool_of = pairs // 256
        wanted, found = (np.bincount(cell, values).astype(np.float64) for values in (expected, counted))
        single = np.bincount(cell, np.maximum(squares, expected * multiplicity / share))
        by_window = single + np.maximum(wanted, found) * self._parts.dispersion(keys, cell)
        variance = np.maximum(single * cluster[pool_of], by_window)
        by_event = np.bincount(pool, squares) * (1 + (1 - share) * per_event)
        sums = np.bincount(pool, counted)
        number = float((sums[by_event > 0] ** 2 / by_event[by_event > 0]).sum())
        return _Differences(names[pool_of] * 256 + pairs % 256, pool_of, wanted, found, variance, number)

    def _differs(
        self, keys: Keys, expected: Floats, counted: Floats, squares: Floats, multiplicity: Floats, share: float
    ) -> bool:
        """Return whether recent counts differ significantly from the flow, in any pool of children.

        Squared differences are added up over the classes of a pool, so that an exchange of classes is detected.
        """
        cells = self._differences(keys, expected, counted, squares, multiplicity, share, self._recent.events)
        self._recent.number = cells.effective
        difference, both = np.abs(cells.found - cells.wanted), np.bincount(cells.pool, cells.found + cells.wanted)
        shift = np.abs(np.bincount(cells.pool, cells.found) - np.bincount(cells.pool, cells.wanted))
        self.drift = float(shift.sum() / both.sum())
        by_chance = np.bincount(cells.pool) + _CHANCE**2
        much = np.bincount(cells.pool, difference) > _MUCH * both
        squared = np.bincount(cells.pool, difference**2 / np.maximum(cells.variance, 1e-9))
        return bool((much & (squared > by_chance)).any())

    def _rebuild(self) -> None:
        self.changes += 1
        self.flow = self._parts.flow(self._history, self._keys, self._made, self._asked)

    def state(self) -> dict[str, Any]:
        """Return the learned state as JSON values."""
        return {
            "keys": self._keys.tolist(), "made": self._made.tolist(), "asked": self._asked.tolist(),
            "drift": self.drift, "changes": self.changes, "lost": self.lost, "recent": self._recent.state(),
            "news": self._since_change, "fresh": self._fresh.state(), "test": self._test.state(),
            "matches": list(self._matches),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`; raise `Misfit` if it is not a state of this flow."""
        asked, keys = grid(AMOUNT, len(self._history.asked)), listed(whole(0, (1 << 64) - 1))
        counts = sequence(keys, listed(AMOUNT), listed(AMOUNT), or_null(asked), AMOUNT, AMOUNT)
        record({
            "keys": keys, "made": listed(AMOUNT), "asked": asked, "drift": AMOUNT, "changes": COUNT, "lost": AMOUNT,
            "recent": counts,
            "news": or_null(AMOUNT), "matches": sequence(AMOUNT, AMOUNT),
            "fresh": counts, "test": record({"level": AMOUNT, "charts": anything}),
        })(dict(state), "control.shedder.learned")  # fmt: skip
        flow, recent, fresh = self._history, state["recent"], state["fresh"]
        for flow_keys, made in (
            (state["keys"], (state["made"],)), (recent[0], recent[1:3]), (fresh[0], fresh[1:3]),
        ):  # fmt: skip
            check_flow_keys(flow_keys, made, flow.states, flow.stride, flow.members, flow.event_stride, flow.slices)
        self._keys, self._made = np.array(state["keys"], np.uint64), np.array(state["made"], np.float64)
        self._asked = np.array(state["asked"], np.float64)
        if state["changes"]:
            self._rebuild()
        self.drift, self.changes, self.lost = state["drift"], state["changes"], state["lost"]
        self._recent, self._since_change = _Recent.of(state["recent"]), state["news"]
        self._fresh = _Recent.of(state["fresh"])
        self._test.restore(state["test"])
        self._matches = state["matches"][0], state["matches"][1]


@dataclass(frozen=True)
class _Differences:
    """Counts by cell, in arrays of equal length.

    Attributes
    ----------
    number, pool
        Permanent number of the cell, and index of its pool.
    wanted, found, variance
        Expected and counted children, and the variance of their difference.
    effective
        Effective number of counted children, see `_Recent`.
    """

    number: Ints
    pool: Ints
    wanted: Floats
    found: Floats
    variance: Floats
    effective: float


class _Recent:
    """Recent counts, with exponential decay.

    ``number`` is the effective number of children: as many unweighted children, of fully counted events, would have the
    same variance.
    """

    def __init__(self) -> None:
        self.keys = np.empty(0, np.uint64)
        self.counts, self.squares = np.empty((2, 0))
        self.asked: Floats | float = 0.0
        self.events = self.number = 0.0

    def add(self, counted: Flows, events: int, decay: float) -> None:
        """Multiply the present counts by ``decay``, and add new ones."""
        keys, counts, squares, _, asked = counted
        every = np.union1d(self.keys, keys)
        self.counts = decay * aligned(every, self.keys, self.counts) + aligned(every, keys, counts)
        self.squares = decay * aligned(every, self.keys, self.squares) + aligned(every, keys, squares)
        significant = self.counts > _TRACE * self.counts.sum()
        self.keys, self.counts, self.squares = every[significant], self.counts[significant], self.squares[significant]
        self.asked = decay * self.asked + asked.reshape(-1)
        self.events = decay * self.events + events

    def state(self) -> list[Any]:
        """Return the state as JSON values."""
        asked = None if isinstance(self.asked, float) else self.asked.tolist()
        return [self.keys.tolist(), self.counts.tolist(), self.squares.tolist(), asked, self.events, self.number]

    @classmethod
    def of(cls, state: list[Any]) -> _Recent:
        """Create it from a `state`."""
        recent = cls()
        recent.keys = np.array(state[0], np.uint64)
        recent.counts, recent.squares = np.array(state[1], float), np.array(state[2], float)
        recent.asked = 0.0 if state[3] is None else np.array(state[3], float)
        recent.events, recent.number = state[4], state[5]
        return recent
