"""Keys of counted children, and the parts of a flow that adaptation does not change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.matcher.shedding_controls import FLOW_FIELDS, FLOW_SET
from fastcep.shedding.hybrid.flow import Flow

__all__ = ["FlowParts", "aligned", "field_of", "keys_of"]

Keys = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Lower limit of a keep probability.
_RAREST = 1e-9


class FlowParts:
    """Parts of a flow that do not change.

    These are the shares of the children of a state that are stored and that are matches, and the number of visits per
    row and probing event.
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
        ones = np.ones((groups + 1, flow.states))
        self._dispersion = ones if flow.dispersion is None else flow.dispersion
        self.asked, self.states, self.stride, self.members = flow.asked, flow.states, flow.stride, flow.members

    def multiplicity(
        self, keys: Keys, made: Floats, binds: Floats, cells: Floats, mean_weight: bool = False
    ) -> Floats:  # fmt: skip
        """Return how many children a counted one of each key represents: the inverse of its keep probability.

        The probability is that of the child and all its ancestors. ``made`` is the number of children per key, by which
        the probabilities of parents are averaged; with ``mean_weight``, their inverses are averaged instead. A few
        children of large weight hardly raise the former, but they have most of the variance.
        """
        source, age = field_of(keys, "source"), np.minimum(field_of(keys, "slice"), cells.shape[2] - 1)
        begins, row = source == 0, np.maximum(source - 1, 0)
        keep = 1 - binds[field_of(keys, "member"), field_of(keys, "event_class")]
        keep *= np.where(begins, 1.0, 1 - cells[row, field_of(keys, "source_class"), age])
        factor = 1 / np.maximum(keep, _RAREST) if mean_weight else keep
        parent = row * self.stride + field_of(keys, "source_class")
        group = field_of(keys, "target") * self.stride + field_of(keys, "target_class")
        total, inherited, product = np.bincount(group, made, len(self.births)), np.ones(len(self.births)), factor
        for _ in range(self.states):
            product = factor * np.where(begins, 1.0, inherited[parent])
            mean = np.bincount(group, made * product, len(total)) / np.maximum(total, 1e-9)
            inherited = np.where(total > 0, mean, 1.0)
        return product if mean_weight else 1 / np.maximum(product, _RAREST)

    def dispersion(self, keys: Keys, cell: Ints) -> Floats:
        """Return the dispersion (see `Flow`) of cells of keys; the keys of a cell have one source and target."""
        _, first = np.unique(cell, return_index=True)
        source = field_of(keys[first], "source")
        row = np.where(source > 0, (source - 1) * self.stride + field_of(keys[first], "source_class") + 1, 0)
        return self._dispersion[row, field_of(keys[first], "target")]

    def pools(self, keys: Keys, made: Floats, rare: npt.NDArray[np.bool_]) -> tuple[Ints, Ints, Floats, Floats]:
        """Return the pool of each key; per pool its name and the siblings of a child by partial match and by event.

        Children of one source and target state form two pools, those mostly dropped (``rare``) and the others. Children
        that begin a match have a pool per class.
        """
        source, target = field_of(keys, "source"), field_of(keys, "target")
        begins = source == 0
        part = np.where(begins, field_of(keys, "target_class"), rare)
        names, first, pool = np.unique(
            (source * self.states + target) * 256 + part, return_index=True, return_inverse=True
        )
        group = np.maximum(source - 1, 0) * self.stride + field_of(keys, "source_class")
        kind = field_of(keys, "member") * (len(self.asked) // self.members) + field_of(keys, "event_class")
        extends = ~begins[first]
        per_match, per_event = _siblings(pool, group, made, self.births), _siblings(pool, kind, made, self.asked)
        return pool, names, extends * per_match, extends * per_event

    def flow(self, history: Flow, keys: Keys, made: Floats, asked: Floats) -> Flow:
        """Return the flow of the history with other children and numbers of events."""
        field = {name: field_of(keys, name) for name in FLOW_FIELDS}
        stride, groups = history.stride, history.states * history.stride
        source = np.where(field["source"] > 0, (field["source"] - 1) * stride + field["source_class"], -1)
        target = field["target"] * stride + field["target_class"]
        kind = field["member"] * history.event_stride + field["event_class"]
        stored, matched = made * self.stored[field["target"]], made * self.matched[field["target"]]
        key_columns = [column.astype(np.int32) for column in (source, field["slice"], kind, target)]
        table = pa.table([*key_columns, made, stored, matched], names=history.children.column_names)
        children = table.sort_by([(name, "ascending") for name in ("source", "slice", "kind", "target")])
        visits = self._visits(history, np.bincount(target, stored, groups).astype(np.float64), asked)
        group, age, kinds = (index.astype(np.int32) for index in np.nonzero(visits))
        return replace(
            history, children=children, asked=asked,
            looks=pa.table([group, age, kinds, visits[group, age, kinds]], names=history.looks.column_names),
        )  # fmt: skip

    def _visits(self, history: Flow, births: Floats, asked: Floats) -> Floats:
        """Return the visits of rows, from the visits per row and event in the history, or from their mean."""
        shape = (history.states, history.stride, history.slices, history.members, history.event_stride)
        visits, events = self.looks.reshape(shape), self.asked.reshape(shape[3:])
        rows = self.births.reshape(shape[:2])
        rate = visits / np.maximum(rows, 1e-9)[:, :, None, None, None] / np.maximum(events, 1e-9)
        rows_of_state = np.maximum(rows.sum(axis=1), 1e-9)[:, None, None, None, None]
        events_of_member = np.maximum(events.sum(axis=1), 1e-9)[:, None]
        mean_rate = visits.sum(axis=(1, 4), keepdims=True) / rows_of_state / events_of_member
        per_row = np.maximum(rows, 1e-9)[:, :, None, None, None]
        row_rate = visits.sum(axis=4, keepdims=True) / per_row / events_of_member
        has_rows = rows[:, :, None, None, None] > 0
        rate = np.where(has_rows, np.where(events > 0, rate, row_rate), mean_rate)
        scaled = rate * births.reshape(shape[:2])[:, :, None, None, None] * asked.reshape(shape[3:])
        return scaled.reshape(self.looks.shape)


def _siblings(pool: Ints, origin: Ints, made: Floats, count: npt.NDArray[Any]) -> Floats:
    """Return for each pool the mean number of children of one origin, given the ``count`` of each kind of origin."""
    pairs, pair = np.unique(pool * len(count) + origin, return_inverse=True)
    total, pool_of = np.bincount(pair, made), pairs // len(count)
    per_origin = total / np.maximum(count[pairs % len(count)], 1.0)
    return np.bincount(pool_of, total * per_origin) / np.maximum(np.bincount(pool_of, total), 1e-9)


def field_of(keys: Keys, name: str) -> Ints:
    """Return a field of each key, see `FLOW_FIELDS`."""
    shift, bits = FLOW_FIELDS[name]
    return ((keys >> np.uint64(shift)) & np.uint64((1 << bits) - 1)).astype(np.int64)


def keys_of(flow: Flow) -> Keys:
    """Return the key of each sort of child of a flow."""
    child = {name: flow.child[name].astype(np.int64) for name in ("source", "slice", "kind", "target")}
    begins = child["source"] < 0
    fields = {
        "source": np.where(begins, 0, child["source"] // flow.stride + 1),
        "source_class": np.where(begins, 0, child["source"] % flow.stride),
        "slice": child["slice"],
        "member": child["kind"] // flow.event_stride,
        "event_class": child["kind"] % flow.event_stride,
        "target": child["target"] // flow.stride,
        "target_class": child["target"] % flow.stride,
    }
    keys = np.full(len(begins), FLOW_SET, np.uint64)
    for name, values in fields.items():
        keys |= values.astype(np.uint64) << np.uint64(FLOW_FIELDS[name][0])
    return keys


def aligned(every: Keys, keys: Keys, values: Floats) -> Floats:
    """Return the values of ``keys`` at their places among all keys; 0 for the others."""
    aligned = np.zeros(len(every))
    aligned[np.searchsorted(every, keys)] = values
    return aligned
