"""Keep a flow up with the stream while load is shed (hybrid, section V-B).

The matcher counts children by what they come of; what was dropped is made up for by what was let through nevertheless,
a small share of all that is dropped, which stands for the rest. Whenever a slice of the window has passed, the counts
are held against the flow. As long as they differ by chance only, or by little, it stays as it is: an order that
follows noise would lose matches. Else both are averaged, so that old news halve with every slice; and two windows later
what is counted weighs the less, the more windows have been since. How often rows are looked at is not counted, which
would cost more than it tells: it goes with how many there are, and with how many events look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.matcher.shedding_controls import FLOW_FIELDS, FLOW_SET
from fastcep.overload.query_shedding import check_flow_keys
from fastcep.shedding.hybrid.flow import Flow
from fastcep.stored import AMOUNT, COUNT, grid, listed, or_null, record, sequence, whole

if TYPE_CHECKING:
    from fastcep._core.matcher.shedding_controls import Flows

__all__ = ["AdaptedFlow"]

Keys = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: A difference counts if it is this share of what there is, and so many deviations from what was to be expected.
_MUCH, _CHANCE = 0.2, 5.0
#: For so many windows after a difference news count as much as all that was known; then the less, the more is known.
_ALERT = 2.0
#: After so many windows the stream is known again.
_KNOWN = 20.0
#: So many children tell something; old ones do not fade before there are as many.
_ENOUGH = 100.0
#: What is a smaller share of all children is forgotten, so that the flow does not grow with the stream.
_TRACE = 1e-7
#: What stands for more than so many is dropped for the most part.
_RARE = 2.0


class AdaptedFlow:
    """The flow of a query, and how it has changed.

    Parameters
    ----------
    flow
        Of history.
    weight
        Of what is counted, against what was known.

    Attributes
    ----------
    flow
        As it is known now, per as many events as history had.
    drift
        The share of the children by which the last counts differed: 0 as in the flow, 1 nothing alike.
    changes
        How often the flow has changed.
    lost
        How many children had no room in the counts.
    """

    def __init__(self, flow: Flow, weight: float = 0.5) -> None:
        self._history, self._weight = flow, weight
        self.drift, self.changes, self.lost = 0.0, 0, 0.0
        self._keys = _keys_of(flow)
        order = np.argsort(self._keys)
        self._keys = self._keys[order]
        self._made = flow.child["made"][order]
        self._asked = flow.asked
        self.flow = flow
        self._parts = _Parts(flow)
        self._recent = _Recent()
        self._news: float | None = None  # windows since the stream was found to differ from what was known

    @property
    def alert(self) -> bool:
        """Whether the stream has changed a short while ago."""
        return self._news is not None and self._news < _ALERT

    def learn(
        self, counted: Flows, events: int, window: float, binds: Floats, cells: Floats, share: float = 1.0
    ) -> bool:
        """Take what was counted over so many events into account; returns whether the flow has changed.

        ``window`` is how many events a window has; ``binds`` and ``cells`` are the chances by which was dropped;
        ``share`` is that of the events whose children were counted.
        """
        self.lost += counted[3]
        recent = self._recent
        recent.add(counted, events, 0.5 ** (2 * events / max(window, 1.0)) if recent.number > _ENOUGH else 1.0)
        if recent.events <= 0 or not len(recent.keys):
            return False
        by = self._history.events / recent.events
        every = np.union1d(self._keys, recent.keys)
        old, new = _aligned(every, self._keys, self._made), _aligned(every, recent.keys, recent.counts)
        squares = _aligned(every, recent.keys, recent.squares)
        stands = self._parts.stands(every, old, binds, cells)
        differs = self._differs(every, old / by, new, squares, stands, share)
        if recent.number < _ENOUGH or not (differs or self._news is not None):
            return False
        if differs:
            self._news = 0.0
        assert self._news is not None
        weight = self._weight if self._news < _ALERT else min(self._weight, 1 / (_ALERT + self._news))
        self._news += events / window
        if self._news > _KNOWN:
            self._news = None
        made = (1 - weight) * old + weight * by * new
        rest = made > _TRACE * made.sum()
        self._keys, self._made = every[rest], made[rest]
        self._asked = (1 - weight) * self._asked + weight * by * recent.asked
        self._settle()
        return True

    def _differs(
        self, keys: Keys, expected: Floats, counted: Floats, squares: Floats, stands: Floats, share: float
    ) -> bool:
        """Whether counts differ from a flow, by pools of what is kept and what is dropped, and their classes.

        Children come in clumps: of one partial match as many as events extend it, of one event as many as it extends.
        So what they may differ by is as if there were fewer of them, each of which counts for a clump. Of one event all
        are counted, or none. And they vary from window to window as they did in history. Squares of differences are
        added up over classes: it shows when these change places.
        """
        made = expected * self._history.events / self._recent.events
        pool, per_match, per_event = self._parts.pools(keys, made, stands > _RARE)
        clump = 1 + share * per_match + per_event
        pairs, own = np.unique(pool * 256 + _field(keys, "source_class"), return_inverse=True)
        of, want, got = pairs // 256, np.bincount(own, expected), np.bincount(own, counted)
        alone = np.bincount(own, np.maximum(squares, expected * stands / share))
        spread = np.maximum(alone * clump[of], alone + np.maximum(want, got) * self._parts.varies(keys, own))
        by_event = np.bincount(pool, squares) * (1 + (1 - share) * per_event)
        sums = np.bincount(pool, counted)
        self._recent.number = float((sums[by_event > 0] ** 2 / by_event[by_event > 0]).sum())
        apart, both = np.abs(got - want), np.bincount(of, got + want)
        self.drift = float(np.abs(sums - np.bincount(pool, expected)).sum() / both.sum())
        by_chance = np.bincount(of) + _CHANCE**2
        much = np.bincount(of, apart) > _MUCH * both
        return bool((much & (np.bincount(of, apart**2 / np.maximum(spread, 1e-9)) > by_chance)).any())

    def _settle(self) -> None:
        self.changes += 1
        self.flow = self._parts.flow(self._history, self._keys, self._made, self._asked)

    def state(self) -> dict[str, Any]:
        """What it has learned, as JSON has it."""
        return {
            "keys": self._keys.tolist(), "made": self._made.tolist(), "asked": self._asked.tolist(),
            "drift": self.drift, "changes": self.changes, "lost": self.lost, "recent": self._recent.state(),
            "news": self._news,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`; `Misfit` if it is none of this flow."""
        asked, keys = grid(AMOUNT, len(self._history.asked)), listed(whole(0, (1 << 64) - 1))
        record({
            "keys": keys, "made": listed(AMOUNT), "asked": asked, "drift": AMOUNT, "changes": COUNT, "lost": AMOUNT,
            "recent": sequence(keys, listed(AMOUNT), listed(AMOUNT), or_null(asked), AMOUNT, AMOUNT),
            "news": or_null(AMOUNT),
        })(dict(state), "control.shedder.learned")  # fmt: skip
        flow, recent = self._history, state["recent"]
        for known, counts in ((state["keys"], (state["made"],)), (recent[0], recent[1:3])):
            check_flow_keys(known, counts, flow.states, flow.stride, flow.members, flow.event_stride, flow.slices)
        self._keys, self._made = np.array(state["keys"], np.uint64), np.array(state["made"], np.float64)
        self._asked = np.array(state["asked"], np.float64)
        if state["changes"]:
            self._settle()
        self.drift, self.changes, self.lost = state["drift"], state["changes"], state["lost"]
        self._recent, self._news = _Recent.of(state["recent"]), state["news"]


class _Recent:
    """What was counted lately: old counts fade.

    ``number`` is as how many children it counts that stand for themselves, and of whose events all are counted.
    """

    def __init__(self) -> None:
        self.keys = np.empty(0, np.uint64)
        self.counts, self.squares = np.empty((2, 0))
        self.asked: Floats | float = 0.0
        self.events = self.number = 0.0

    def add(self, counted: Flows, events: int, fades: float) -> None:
        """Add counts; of what was there, a share is left."""
        keys, counts, squares, _, asked = counted
        every = np.union1d(self.keys, keys)
        self.counts = fades * _aligned(every, self.keys, self.counts) + _aligned(every, keys, counts)
        self.squares = fades * _aligned(every, self.keys, self.squares) + _aligned(every, keys, squares)
        rest = self.counts > _TRACE * self.counts.sum()
        self.keys, self.counts, self.squares = every[rest], self.counts[rest], self.squares[rest]
        self.asked = fades * self.asked + asked.reshape(-1)
        self.events = fades * self.events + events

    def state(self) -> list[Any]:
        """As JSON has it."""
        asked = None if isinstance(self.asked, float) else self.asked.tolist()
        return [self.keys.tolist(), self.counts.tolist(), self.squares.tolist(), asked, self.events, self.number]

    @classmethod
    def of(cls, state: list[Any]) -> _Recent:
        """From `state`."""
        own = cls()
        own.keys = np.array(state[0], np.uint64)
        own.counts, own.squares = np.array(state[1], float), np.array(state[2], float)
        own.asked = 0.0 if state[3] is None else np.array(state[3], float)
        own.events, own.number = state[4], state[5]
        return own


class _Parts:
    """What of a flow does not change: which share of the children of a state is stored, and which are matches; how
    often a row is looked at per event that looks.
    """

    def __init__(self, flow: Flow) -> None:
        child, look = flow.child, flow.look
        states = child["target"] // flow.stride
        made = np.maximum(np.bincount(states, child["made"], flow.states), 1e-9)
        self.stored = np.bincount(states, child["stored"], flow.states) / made
        self.matched = np.bincount(states, child["matched"], flow.states) / made
        groups = flow.states * flow.stride
        self.births = np.bincount(child["target"], child["stored"], groups)
        kinds = flow.members * flow.event_stride
        self.looks = np.zeros((groups, flow.slices, kinds))
        self.looks[look["group"], look["slice"], look["kind"]] = look["looked"]
        none = np.ones((groups + 1, flow.states))
        self._varies = none if flow.varies is None else flow.varies
        self.asked, self.states, self.stride, self.members = flow.asked, flow.states, flow.stride, flow.members

    def stands(self, keys: Keys, made: Floats, binds: Floats, cells: Floats) -> Floats:
        """For how many children one of each kind stands, by the chances with which it and its parents were kept.

        ``made`` is how many there are of each kind; with which chance a parent was kept is a mean by it.
        """
        source, at = _field(keys, "source"), np.minimum(_field(keys, "slice"), cells.shape[2] - 1)
        begins, row = source == 0, np.maximum(source - 1, 0)
        own = 1 - binds[_field(keys, "member"), _field(keys, "event_class")]
        own *= np.where(begins, 1.0, 1 - cells[row, _field(keys, "source_class"), at])
        parent = row * self.stride + _field(keys, "source_class")
        group = _field(keys, "target") * self.stride + _field(keys, "target_class")
        there, inherited, kept = np.bincount(group, made, len(self.births)), np.ones(len(self.births)), own
        for _ in range(self.states):
            kept = own * np.where(begins, 1.0, inherited[parent])
            inherited = np.where(there > 0, np.bincount(group, made * kept, len(there)) / np.maximum(there, 1e-9), 1.0)
        return 1 / np.maximum(kept, 1e-9)

    def varies(self, keys: Keys, own: Ints) -> Floats:
        """How much the numbers of groups of keys, which have one source and target each, vary from window to window."""
        _, first = np.unique(own, return_index=True)
        source = _field(keys[first], "source")
        row = np.where(source > 0, (source - 1) * self.stride + _field(keys[first], "source_class") + 1, 0)
        return self._varies[row, _field(keys[first], "target")]

    def pools(self, keys: Keys, made: Floats, rare: npt.NDArray[np.bool_]) -> tuple[Ints, Floats, Floats]:
        """Of kinds of children their pool; of each pool, among how many that come of the same partial match a child is,
        and of the same event.
        """
        source, target = _field(keys, "source"), _field(keys, "target")
        begins = source == 0
        by = np.where(begins, _field(keys, "target_class"), rare)
        _, first, pool = np.unique((source * self.states + target) * 256 + by, return_index=True, return_inverse=True)
        group = np.maximum(source - 1, 0) * self.stride + _field(keys, "source_class")
        kind = _field(keys, "member") * (len(self.asked) // self.members) + _field(keys, "event_class")
        extends = ~begins[first]
        return pool, extends * _among(pool, group, made, self.births), extends * _among(pool, kind, made, self.asked)

    def flow(self, history: Flow, keys: Keys, made: Floats, asked: Floats) -> Flow:
        """A flow with other children and events."""
        field = {name: _field(keys, name) for name in FLOW_FIELDS}
        stride, groups = history.stride, history.states * history.stride
        source = np.where(field["source"] > 0, (field["source"] - 1) * stride + field["source_class"], -1)
        target = field["target"] * stride + field["target_class"]
        kind = field["member"] * history.event_stride + field["event_class"]
        stored, matched = made * self.stored[field["target"]], made * self.matched[field["target"]]
        of = [column.astype(np.int32) for column in (source, field["slice"], kind, target)]
        table = pa.table([*of, made, stored, matched], names=history.children.column_names)
        children = table.sort_by([(name, "ascending") for name in ("source", "slice", "kind", "target")])
        looks = self._looks(history, np.bincount(target, stored, groups).astype(np.float64), asked)
        group, at, kinds = (index.astype(np.int32) for index in np.nonzero(looks))
        return replace(
            history, children=children, asked=asked,
            looks=pa.table([group, at, kinds, looks[group, at, kinds]], names=history.looks.column_names),
        )  # fmt: skip

    def _looks(self, history: Flow, births: Floats, asked: Floats) -> Floats:
        """How often rows are looked at: per row and event that looks as in history, or as the mean of what it had."""
        by = (history.states, history.stride, history.slices, history.members, history.event_stride)
        looks, events = self.looks.reshape(by), self.asked.reshape(by[3:])
        rows = self.births.reshape(by[:2])
        each = looks / np.maximum(rows, 1e-9)[:, :, None, None, None] / np.maximum(events, 1e-9)
        rows_of = np.maximum(rows.sum(axis=1), 1e-9)[:, None, None, None, None]
        events_of = np.maximum(events.sum(axis=1), 1e-9)[:, None]
        usual = looks.sum(axis=(1, 4), keepdims=True) / rows_of / events_of
        by_row = looks.sum(axis=4, keepdims=True) / np.maximum(rows, 1e-9)[:, :, None, None, None] / events_of
        known = rows[:, :, None, None, None] > 0
        each = np.where(known, np.where(events > 0, each, by_row), usual)
        return (each * births.reshape(by[:2])[:, :, None, None, None] * asked.reshape(by[3:])).reshape(self.looks.shape)


def _among(pool: Ints, own: Ints, made: Floats, there: npt.NDArray[Any]) -> Floats:
    """Among how many children of the same one a child of each pool is, where ``there`` are so many to have some."""
    pairs, at = np.unique(pool * len(there) + own, return_inverse=True)
    total, of = np.bincount(at, made), pairs // len(there)
    share = total / np.maximum(there[pairs % len(there)], 1.0)
    return np.bincount(of, total * share) / np.maximum(np.bincount(of, total), 1e-9)


def _field(keys: Keys, name: str) -> Ints:
    at, bits = FLOW_FIELDS[name]
    return ((keys >> np.uint64(at)) & np.uint64((1 << bits) - 1)).astype(np.int64)


def _keys_of(flow: Flow) -> Keys:
    child = {name: flow.child[name].astype(np.int64) for name in ("source", "slice", "kind", "target")}
    begins = child["source"] < 0
    found = {
        "source": np.where(begins, 0, child["source"] // flow.stride + 1),
        "source_class": np.where(begins, 0, child["source"] % flow.stride),
        "slice": child["slice"],
        "member": child["kind"] // flow.event_stride,
        "event_class": child["kind"] % flow.event_stride,
        "target": child["target"] // flow.stride,
        "target_class": child["target"] % flow.stride,
    }
    keys = np.full(len(begins), FLOW_SET, np.uint64)
    for name, values in found.items():
        keys |= values.astype(np.uint64) << np.uint64(FLOW_FIELDS[name][0])
    return keys


def _aligned(every: Keys, keys: Keys, values: Floats) -> Floats:
    """The values under some keys among all of them; 0 for the others."""
    found = np.zeros(len(every))
    found[np.searchsorted(every, keys)] = values
    return found
