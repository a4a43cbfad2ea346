"""A query under overload control: how partial matches are told apart, and what its matcher is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh64_hexdigest

from fastcep._core.matcher.matcher import Matcher
from fastcep._core.matcher.shedding_controls import FLOW_FIELDS, FLOW_SET, Shedding
from fastcep.overload.protocols import Classes, DropPlan, Shedder, Tree
from fastcep.overload.validation import Shape, check_orders, checked_classes, checked_slices
from fastcep.plan import Plan
from fastcep.plan.plan import AFTER_EVENTS, AFTER_TIME
from fastcep.query import ast
from fastcep.query.patterns import leaves_of
from fastcep.stored import (
    AMOUNT,
    COUNT,
    INT64,
    MOST,
    NUMBER,
    SHARE,
    Misfit,
    grid,
    listed,
    or_null,
    record,
    sequence,
    whole,
)  # fmt: skip

__all__ = ["QueryShedding", "check_flow_keys"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]
Table = tuple[Ints, Ints, Bytes, int] | tuple[Bytes, int]  #: low, size, table, other, or nodes, other: `Shedding.begin`

#: Events of a window of which nobody knows how many it has.
_UNKNOWN = 1024.0

_KEY = whole(0, (1 << 64) - 1)


class QueryShedding:
    """A query, and what its matcher was told last.

    Parameters
    ----------
    plan, matcher
        The query's.
    shedder
        Tells its partial matches apart; None: nothing is dropped.

    Attributes
    ----------
    shedding
        The matcher's side.
    orders
        What it was told last; the same object again is nothing new.
    events
        How many events a window has, by those between the last two decisions.
    given
        How many events its matcher was given.
    slices
        Into how many slices of time its window is cut.
    """

    def __init__(self, plan: Plan, matcher: Matcher, shedder: Shedder | None) -> None:
        self.plan, self.matcher, self.weight = plan, matcher, plan.query.weight
        self.shedding = Shedding(matcher)
        self.orders = DropPlan()
        self.events = _UNKNOWN
        self.given = int(matcher.events)
        classes = {} if shedder is None else checked_classes(shedder, plan.query, "classes")
        self._names = [leaf.name for leaf in leaves_of(plan.query.pattern)]
        self._classes = self._tables(classes)
        events = {} if shedder is None else checked_classes(shedder, plan.query, "event_classes")
        self._event_classes = [
            _table(events[name]) if name in events and plan.event_features[member] else None
            for member, name in enumerate(self._names)
        ]
        self.slices = 1 if shedder is None else checked_slices(shedder, plan.query)
        self.shedding.begin(self._classes, 0 if shedder is None else shedder.seed, self._event_classes)
        if shedder is not None and shedder.observes:
            self.shedding.observe()

    def _tables(self, classes: Mapping[str, Classes | Tree]) -> list[Table | None]:
        """The table of each state's classes."""
        found: list[Table | None] = []
        for state in self.plan.states:
            own = classes.get(self._names[state.member]) if state.features else None
            found.append(None if own is None else _table(own))
        return found

    def classes(self) -> list[Any]:
        """How its partial matches are told apart, as JSON has it: those of another engine must be so, too."""
        told = [
            None if item is None else [own if isinstance(own, int) else xxh64_hexdigest(own.tobytes()) for own in item]
            for item in (*self._classes, *self._event_classes)
        ]
        return told if any(told) else []

    def check(self, orders: DropPlan, shedder: Shedder) -> None:
        """Refuse orders that the matcher cannot carry out; what stands already has been checked."""
        if orders is self.orders:
            return
        types, cells = len(self.plan.type_members), (len(self.plan.states), self.shedding.stride)
        shapes: dict[str, tuple[Shape, ...]] = {
            "events": ((types,),),
            "binds": ((len(self._names), self.shedding.event_stride),),
            "windows": ((types, None),) if self.plan.windows is not None and self.plan.windows.isolated else (),
            "births": (cells, (*cells, self.slices)),
            "drops": ((*cells, self.slices),),
        }
        check_orders(shedder, self.plan.query.name, orders, shapes)

    def carry_out(self, orders: DropPlan, salt: int) -> int:
        """Tell the matcher what is dropped from now on; returns how many partial matches were looked at.

        ``salt`` is another number each time. What stands already costs nothing.
        """
        if orders is self.orders:
            return 0
        shedding, old = self.shedding, self.orders
        types = len(self.plan.type_members)
        if orders.counts and not old.counts:
            shedding.count_flows(self.slices)
        elif old.counts and not orders.counts:
            shedding.stop_flows()
        if orders.counts:
            shedding.count_share(orders.counts)
        if orders.events is not None or old.events is not None:
            shedding.drop_events(_chances(orders.events, (types,)))
        if orders.binds is not None or old.binds is not None:
            shedding.withhold(_chances(orders.binds, (len(self._names), shedding.event_stride)))
        if orders.windows is not None or old.windows is not None:
            shedding.drop_in_windows(None if orders.windows is None else _chances(orders.windows), orders.bin)
        if orders.births is not None or old.births is not None:
            births = _chances(orders.births, (len(self.plan.states), shedding.stride))
            if births.ndim == 2:  # children are counted by slices
                births = np.repeat(births[:, :, None], self.slices if orders.counts else 1, axis=2)
            shedding.refuse_births(births)
        self.orders = orders
        if orders.drops is None or not orders.drops.any():
            return 0
        return shedding.drop_rows(_chances(orders.drops), 0 if orders.steady else salt)

    def window_events(self, events: int, passed: int) -> float:
        """How many events a window has, if so many came while ``passed`` ns of the stream passed."""
        window, windows = self.plan.query.window, self.plan.windows
        if isinstance(window, ast.CountWindow):
            return window.events
        span = window.nanoseconds if isinstance(window, ast.TimeWindow) else 0
        if windows is not None and windows.closing == AFTER_EVENTS:
            return windows.length
        if windows is not None and windows.closing == AFTER_TIME:
            span = windows.length
        return events * span / passed if passed > 0 and span > 0 else _UNKNOWN

    def metrics(self) -> dict[str, Any]:
        """What was dropped: events by type, births and partial matches by variable and class.

        ``withheld``: events that were not tried for a variable, by its class; of those told apart.
        """
        counted = self.shedding.counted()
        by_class: dict[str, dict[str, list[int]]] = {}
        for number, state in enumerate(self.plan.states):
            if state.indexes:
                own = by_class.setdefault(self._names[state.member], {"born": [], "refused": [], "dropped": []})
                for what, values in own.items():
                    more = counted[what][number].tolist()
                    values[:] = [a + b for a, b in zip(values, more, strict=True)] if values else more
        types = self.plan.query.schema.type_names
        return {
            "kept": self.orders.known_kept(),
            "dropped_events": dict(zip(types, counted["dropped_events"].tolist(), strict=True)),
            "partial_matches": by_class,
            "withheld": {
                name: counted["withheld"][member].tolist()
                for member, name in enumerate(self._names)
                if self._event_classes[member] is not None
            },
        }

    def state(self) -> dict[str, Any]:
        """What a snapshot has of it, as JSON has it."""
        orders = self.orders
        tables = {name: None if getattr(orders, name) is None else getattr(orders, name).tolist() for name in _TABLES}
        counted = {name: values.tolist() for name, values in self.shedding.counted().items()}
        more: dict[str, Any] = {
            "counted": counted, "totals": list(self.shedding.totals), "window": self.events, "given": self.given,
            "cut": self.shedding.cut_state(),
        }  # fmt: skip
        if orders.counts:
            keys, counts, squares, lost, asked = found = self.shedding.flows()
            self.shedding.resume_flows(*found)
            more["flows"] = [keys.tolist(), counts.tolist(), squares.tolist(), lost, asked.tolist()]
        return {**tables, **{name: getattr(orders, name) for name in _NUMBERS}, **more}

    def _check(self, state: Mapping[str, Any]) -> None:
        """Refuse what is no state of this query: `Misfit`."""
        shedding, members, types = self.shedding, len(self._names), len(self.plan.type_members)
        counted = {name: grid(COUNT, *values.shape) for name, values in shedding.counted().items()}
        by_class = (len(self.plan.states), shedding.stride)
        births = grid(SHARE, *by_class, *_sizes(state.get("births"))[2:][:1])
        places = max([1, *_sizes(state.get("windows"))[1:]])
        asked = grid(AMOUNT, members, shedding.event_stride)
        record(
            {
                "events": or_null(grid(SHARE, types)),
                "binds": or_null(grid(SHARE, members, shedding.event_stride)),
                "windows": or_null(grid(SHARE, types, places)),
                "births": or_null(births),
                "bin": whole(1, MOST), "kept": or_null(SHARE), "left": or_null(SHARE), "saved": NUMBER, "counts": SHARE,
                "counted": record(counted), "totals": grid(COUNT, 3), "window": AMOUNT, "given": COUNT,
            },
            {
                "cut": sequence(INT64, INT64, NUMBER, grid(COUNT, *shedding.tried.shape)),
                "flows": sequence(listed(_KEY), listed(AMOUNT), listed(AMOUNT), AMOUNT, asked),
            },
        )(dict(state), f"control, query {self.plan.query.name!r}")  # fmt: skip
        if "flows" in state:
            keys, counts, squares, *_ = state["flows"]
            check_flow_keys(
                keys, (counts, squares), len(self.plan.states), shedding.stride, members, shedding.event_stride,
                self.slices,
            )  # fmt: skip
            if not state["counts"]:
                raise Misfit("flows", "children that were counted", "none where no share of the events is counted")

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`; `Misfit` if it is no state of this query."""
        self._check(state)
        counted = {name: np.array(values, np.int64) for name, values in state["counted"].items()}
        self.shedding.resume(counted, state["totals"])
        if "cut" in state:  # which older snapshots lack
            self.shedding.resume_cut(state["cut"])
        tables = {name: None if state[name] is None else np.array(state[name], np.float64) for name in _TABLES}
        orders = DropPlan(**{name: state[name] for name in _NUMBERS})
        for name, table in tables.items():
            setattr(orders, name, table)
        self.carry_out(orders, 0)
        if "flows" in state:
            keys, counts, squares, lost, asked = state["flows"]
            self.shedding.resume_flows(
                np.array(keys, np.uint64), np.array(counts, float), np.array(squares, float), lost,
                np.array(asked, float).reshape(-1, self.shedding.event_stride),
            )  # fmt: skip
        self.events, self.given = state["window"], state["given"]

    def follow(self, other: QueryShedding) -> None:
        """Go on as the same query with another matcher."""
        self.restore(other.state())
        self.given += int(self.matcher.events) - int(other.matcher.events)


#: Orders that stand until the next ones.
_TABLES = ("events", "binds", "windows", "births")
_NUMBERS = ("bin", "kept", "left", "saved", "counts")


def _sizes(value: Any) -> list[int]:
    """The lengths of lists in lists, by the first of each."""
    return [len(value), *_sizes(value[0])] if isinstance(value, list) and value else []


def check_flow_keys(
    keys: Sequence[int], counts: Sequence[Sequence[float]], states: int, stride: int, members: int, event_stride: int,
    slices: int,
) -> None:  # fmt: skip
    """Refuse keys of `Shedding.flows` that are not in order, or of a state, class, variable or slice that there is not.

    Raises
    ------
    Misfit
        Says which field of which key.
    """
    most = {
        "source": states, "source_class": stride - 1, "slice": slices - 1, "member": members - 1,
        "event_class": event_stride - 1, "target": states - 1, "target_class": stride - 1,
    }  # fmt: skip
    if any(len(own) != len(keys) for own in counts) or list(keys) != sorted(set(keys)):
        raise Misfit("flows", f"{len(keys)} keys, perhaps not in order", "as many counts, and ascending keys")
    for number, key in enumerate(keys):
        for name, (at, bits) in FLOW_FIELDS.items():
            if key >> at & ((1 << bits) - 1) > most[name]:
                raise Misfit(f"flows, key {number}, {name}", f"{key >> at & ((1 << bits) - 1)}", f"0 to {most[name]}")
        if not key & FLOW_SET:
            raise Misfit(f"flows, key {number}", f"{key}", "a key that is set")


def _table(own: Classes | Tree) -> Table:
    if isinstance(own, Tree):
        return own.nodes.view(np.uint8), own.other
    size = np.array(own.table.shape, np.int64)
    return np.array(own.low, np.int64), size, np.ascontiguousarray(own.table).reshape(-1), own.other


def _chances(shares: Floats | None, shape: tuple[int, ...] = ()) -> Ints:
    """Chances from 0 to 1 as the matcher draws them, in 2^32."""
    if shares is None:
        return np.zeros(shape, np.int64)
    return np.ascontiguousarray(np.rint(np.clip(shares, 0.0, 1.0) * 2.0**32).astype(np.int64))
