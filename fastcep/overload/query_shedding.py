"""Query under overload control: its classes, and the drop plan in force in its matcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh64_hexdigest

from fastcep._core.matcher.matcher import Matcher
from fastcep._core.matcher.shedding_controls import FLOW_FIELDS, FLOW_SET, Shedding
from fastcep.overload.drop_plan import DropPlan, drops, drops_anything, largest_weights
from fastcep.overload.match_counts import MatchRate
from fastcep.overload.protocols import Classes, Shedder, Tree
from fastcep.overload.recall import RecallEstimate
from fastcep.overload.survival import survival
from fastcep.overload.tree_grid import grid_of
from fastcep.overload.validation import Shape, check_drop_plan, checked_classes, checked_match_rate, checked_slices
from fastcep.plan import Plan
from fastcep.plan.plan import AFTER_EVENTS, AFTER_TIME
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables
from fastcep.stored import (
    AMOUNT,
    COUNT,
    FLAG,
    INT64,
    MOST,
    NUMBER,
    SHARE,
    Misfit,
    anything,
    grid,
    listed,
    or_null,
    record,
    sequence,
    whole,
)  # fmt: skip

if TYPE_CHECKING:
    from fastcep._core.shed.classify import Table

__all__ = ["QueryShedding", "check_flow_keys"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: Assumed number of events in a window of unknown size.
_UNKNOWN = 1024.0

#: Number of windows for which partial matches are weighed after the last drop; windows may become longer.
_WEIGHED = 2.0

_KEY = whole(0, (1 << 64) - 1)


class QueryShedding:
    """A query and the drop plan in force.

    Parameters
    ----------
    plan, matcher
        Plan and matcher of the query.
    shedder
        Shedder that defines its classes; None: nothing is dropped.

    Attributes
    ----------
    shedding
        Shedding controls of the matcher.
    drop_plan
        Drop plan in force; applying the same object again does nothing.
    window_size
        Number of events in a window; if it is a time, estimated between the last two decisions.
    received
        Number of events passed to the matcher.
    slices
        Number of slices of time in its window.
    weight
        Weight of the query.
    recall
        Estimate of its recall.
    """

    def __init__(self, plan: Plan, matcher: Matcher, shedder: Shedder | None) -> None:
        self.plan, self.matcher, self.weight = plan, matcher, plan.query.weight
        self._rate: MatchRate | None = None
        self.shedding = Shedding(matcher)
        self.drop_plan = DropPlan()
        self._largest: tuple[float, float] | None = (1.0, 1.0)  # weights of the drop plan, see `largest_weights`
        self.window_size = self.window_events(0, 0)
        self.received = int(matcher.events)
        self.recall = RecallEstimate(int(matcher.matches))
        self._weighed = self.shedding.weighed
        self._weighs_until: int | None = None  # number of received events at which weighing ends; None: no end known
        self._weighs = self._weighs_always = False
        self._unseen_until = 0  # number of received events up to which matches may have been dropped for certain
        classes = {} if shedder is None else checked_classes(shedder, plan.query, "classes")
        self._names = [variable.name for variable in pattern_variables(plan.query.pattern)]
        self._classes = self._tables(classes)
        event_classes = {} if shedder is None else checked_classes(shedder, plan.query, "event_classes")
        self._event_classes = [
            _table(event_classes[name]) if name in event_classes and plan.event_features[number] else None
            for number, name in enumerate(self._names)
        ]
        self.slices = 1 if shedder is None else checked_slices(shedder, plan.query)
        self.shedding.begin(self._classes, 0 if shedder is None else shedder.seed, self._event_classes)
        if shedder is not None and shedder.observes:
            self.shedding.observe()

    def _tables(self, classes: Mapping[str, Classes | Tree]) -> list[Table | None]:
        """Return the class table of each state."""
        tables: list[Table | None] = []
        for state in self.plan.states:
            state_classes = classes.get(self._names[state.variable]) if state.features else None
            tables.append(None if state_classes is None else _table(state_classes))
        return tables

    def classes(self) -> list[Any]:
        """Return fingerprints of its class tables as JSON values, to compare them with those of another engine."""
        fingerprints = [
            None if table is None else [item if isinstance(item, int) else xxh64_hexdigest(item.tobytes())
                                        for item in table if isinstance(item, int | np.ndarray)]  # without grids
            for table in (*self._classes, *self._event_classes)
        ]  # fmt: skip
        return fingerprints if any(fingerprints) else []

    def check(self, drop_plan: DropPlan, shedder: Shedder) -> None:
        """Raise an error for a drop plan that does not fit the matcher, and note the match rate of the shedder.

        The plan in force has already been checked.
        """
        rate = checked_match_rate(shedder, self.plan.query)
        if rate is None and self._rate is not None:
            self.recall.withdraw_history()
        self._rate = rate
        if drop_plan is self.drop_plan:
            return
        types, cells = len(self.plan.type_variables), (len(self.plan.states), self.shedding.stride)
        shapes: dict[str, tuple[Shape, ...]] = {
            "events": ((types,),),
            "binds": ((len(self._names), self.shedding.event_stride),),
            "windows": ((types, None),) if self.has_isolated_windows else (),
            "births": (cells, (*cells, self.slices)),
            "drops": ((*cells, self.slices),),
        }
        check_drop_plan(shedder, self.plan.query.name, drop_plan, shapes)

    def apply(self, drop_plan: DropPlan, salt: int) -> int:
        """Put a drop plan in force in the matcher; return the number of partial matches visited.

        ``salt`` must be a different number each time. Applying the plan in force costs nothing.
        """
        self._note_certain_drops()
        if drop_plan is self.drop_plan:
            return 0
        shedding, old = self.shedding, self.drop_plan
        self._start_weighing(drop_plan)
        types = len(self.plan.type_variables)
        if drop_plan.counts and not old.counts:
            shedding.count_flows(self.slices)
        elif old.counts and not drop_plan.counts:
            shedding.stop_flows()
        if drop_plan.counts:
            shedding.count_share(drop_plan.counts)
        if drop_plan.events is not None or old.events is not None:
            shedding.drop_events(_probabilities(drop_plan.events, (types,)))
        if drop_plan.binds is not None or old.binds is not None:
            shedding.withhold(_probabilities(drop_plan.binds, (len(self._names), shedding.event_stride)))
        if drop_plan.windows is not None or old.windows is not None:
            windows = None if drop_plan.windows is None else _probabilities(drop_plan.windows)
            shedding.drop_in_windows(windows, drop_plan.bin)
        if drop_plan.whole_windows or old.whole_windows:
            shedding.drop_whole_windows(round(min(drop_plan.whole_windows, 1.0) * 2**32))
        if drop_plan.births is not None or old.births is not None:
            births = _probabilities(drop_plan.births, (len(self.plan.states), shedding.stride))
            if births.ndim == 2:  # if children are counted, the matcher needs probabilities by slice
                births = np.repeat(births[:, :, None], self.slices if drop_plan.counts else 1, axis=2)
            shedding.refuse_births(births)
        self.drop_plan, self._largest = drop_plan, largest_weights(drop_plan)
        if drop_plan.drops is None or not drop_plan.drops.any():
            return 0
        return shedding.drop_rows(_probabilities(drop_plan.drops), 0 if drop_plan.steady else salt)

    def _start_weighing(self, drop_plan: DropPlan) -> None:
        """Weigh partial matches while something is dropped, and for two windows afterwards."""
        if drops_anything(drop_plan):
            self._weighs_until = None
            if not self._weighs:
                self._weighs = True
                self.shedding.weigh(True)
        elif self._weighs and not self._weighs_always:
            self._weighs_until = self.received + round(_WEIGHED * self.window_size)

    def weigh_always(self, always: bool) -> None:
        """Weigh partial matches also while nothing is dropped (or no longer): the work for an event is limited."""
        self._weighs_always = always
        if not always:
            self._start_weighing(self.drop_plan)
            return
        self._weighs_until = None
        if not self._weighs:
            self._weighs = True
            self.shedding.weigh(True)

    def record_decision(self, events: int, limited: bool) -> None:
        """Update the estimate of the recall at a decision, after `apply`.

        Parameters
        ----------
        events
            Number of events since the last decision.
        limited
            Whether the work for an event was stopped by its limit since the last decision.
        """
        plan = self.drop_plan
        if self.recall.advance(events, limited, self.window_size, self._match_rate()):
            self._count(self.recall, self.window_size, self.received < self._unseen_until)
            self._weighed = self.shedding.weighed
            self.shedding.forget_largest_weight()
        self._note_certain_drops()
        self.recall.follow_plan(self._kept(), plan.known_left(), self._largest or (1.0, 1.0), plan.error)
        if self._weighs_until is not None and self.received >= self._weighs_until:
            self._weighs, self._weighs_until = False, None
            self.shedding.weigh(False)

    def _note_certain_drops(self) -> None:
        """Note until when matches may be missing, if the drop plan in force drops something for certain."""
        if self._largest is None:
            self._unseen_until = self.received + round(_WEIGHED * self.window_size)

    def recall_until_now(self, events: int, limited: bool) -> RecallEstimate:
        """Return the estimate of the recall with the events since the last decision; see `record_decision`."""
        recall = deepcopy(self.recall)
        if events:
            recall.advance(events, limited, self.window_size, self._match_rate())
            certain = self._largest is None or self.received < self._unseen_until
            self._count(recall, max(self.window_size, events), certain)
        return recall

    def _match_rate(self) -> MatchRate | None:
        """Return the match rate of the history; None if it is unknown, or the size of windows is."""
        length, span = self._window_length()
        if self._rate is None or length <= 0 >= span:
            return None
        return self._rate._replace(window=length) if length > 0 else self._rate

    def _count(self, recall: RecallEstimate, window: float, certain: bool) -> None:
        """Count the matches since the last count; ``certain`` as in `RecallEstimate.count`."""
        count, weight, square = (new - old for new, old in zip(self.shedding.weighed, self._weighed, strict=True))
        taken = int(self.matcher.events)
        recall.count(
            int(self.matcher.matches), taken, self.received - taken, window, (count, weight, square),
            self.shedding.largest_weight, certain=certain,
        )  # fmt: skip

    def _kept(self) -> float | None:
        """Return the share of the matches that the drop plan keeps; if only events are dropped, it can be computed."""
        plan, query = self.drop_plan, self.plan.query
        kept = plan.known_kept()
        if kept is not None or plan.events is None or any(map(drops, (plan.binds, plan.windows, plan.births))) or (
            plan.whole_windows
        ):
            return kept
        keep, seen = 1 - plan.events, self.shedding.counted()["seen"].astype(np.float64)
        number = {name: place for place, name in enumerate(query.schema.type_names)}

        def keep_any(types: tuple[str, ...]) -> float:
            chosen = [number[name] for name in types]
            return float(np.average(keep[chosen], weights=seen[chosen] if seen[chosen].any() else None))

        return survival(query.pattern, keep_any)

    @property
    def weighs(self) -> bool:
        """True while partial matches are weighed: something is dropped, or was dropped recently."""
        return self._weighs

    @property
    def has_isolated_windows(self) -> bool:
        """True if each window has its own partial matches, so that events can be dropped from single windows."""
        return self.plan.windows is not None and self.plan.windows.isolated

    @property
    def drops_partial_matches(self) -> bool:
        """True if the drop plan in force refuses births or drops live partial matches."""
        return drops(self.drop_plan.births) or drops(self.drop_plan.drops)

    def window_events(self, events: float, passed: float) -> float:
        """Estimate the number of events in a window, given ``events`` events in ``passed`` ns of the stream."""
        length, span = self._window_length()
        if length > 0:
            return length
        return events * span / passed if passed > 0 and span > 0 else _UNKNOWN

    def windows_passed(self, events: int, passed: int) -> float:
        """Return how many windows have passed in ``events`` events and ``passed`` ns of the stream."""
        length, span = self._window_length()
        return passed / span if span > 0 else events / (length or _UNKNOWN)

    def _window_length(self) -> tuple[float, float]:
        """Return the length of a window in events and in ns; 0 for the one that does not end it."""
        window, windows = self.plan.query.window, self.plan.windows
        if isinstance(window, ast.CountWindow):
            return window.events, 0
        if windows is not None and windows.closing == AFTER_EVENTS:
            return windows.length, 0
        if windows is not None and windows.closing == AFTER_TIME:
            return 0, windows.length
        return 0, window.nanoseconds if isinstance(window, ast.TimeWindow) else 0

    def metrics(self, recall: RecallEstimate) -> dict[str, Any]:
        """Return an estimate of the recall, and drop counts: events by type, births and partial matches by class.

        ``withheld`` counts the events that were not tried for a variable, by event class, for variables with classes.
        """
        counted = self.shedding.counted()
        by_class: dict[str, dict[str, list[int]]] = {}
        for number, state in enumerate(self.plan.states):
            if state.indexes:
                counts = by_class.setdefault(self._names[state.variable], {"born": [], "refused": [], "dropped": []})
                for key, totals in counts.items():
                    of_state = counted[key][number].tolist()
                    totals[:] = [a + b for a, b in zip(totals, of_state, strict=True)] if totals else of_state
        types = self.plan.query.schema.type_names
        return {
            "kept": self._kept(),
            "matches": recall.total.metrics(),
            "recent_matches": recall.recent.metrics(),
            "dropped_events": dict(zip(types, counted["dropped_events"].tolist(), strict=True)),
            "partial_matches": by_class,
            "withheld": {
                name: counted["withheld"][number].tolist()
                for number, name in enumerate(self._names)
                if self._event_classes[number] is not None
            },
        }

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot as JSON values."""
        drop_plan = self.drop_plan
        tables = {name: getattr(drop_plan, name) for name in _TABLES}
        counted = {name: values.tolist() for name, values in self.shedding.counted().items()}
        counters: dict[str, Any] = {
            "counted": counted, "totals": list(self.shedding.totals[:3]), "dropped_windows": self.shedding.totals[3],
            "window": self.window_size,
            "given": self.received, "cut": self.shedding.cut_state(), "recall": self.recall.state(),
            "weighed": [
                list(self.shedding.weighed), list(self._weighed), self._weighs, self._weighs_until, self._unseen_until,
            ],
        }  # fmt: skip
        if drop_plan.counts:
            keys, counts, squares, lost, asked = flows = self.shedding.flows()
            self.shedding.resume_flows(*flows)
            counters["flows"] = [keys.tolist(), counts.tolist(), squares.tolist(), lost, asked.tolist()]
        lists = {name: None if table is None else table.tolist() for name, table in tables.items()}
        return {**lists, **{name: getattr(drop_plan, name) for name in _NUMBERS}, **counters}

    def _check_state(self, state: Mapping[str, Any]) -> None:
        """Raise `Misfit` if this is not a state of this query."""
        shedding, variables, types = self.shedding, len(self._names), len(self.plan.type_variables)
        counted = {name: grid(COUNT, *values.shape) for name, values in shedding.counted().items()}
        by_class = (len(self.plan.states), shedding.stride)
        births = grid(SHARE, *by_class, *_sizes(state.get("births"))[2:][:1])
        places = max([1, *_sizes(state.get("windows"))[1:]])
        asked = grid(AMOUNT, variables, shedding.event_stride)
        entries = len(state["cut"]) if type(state.get("cut")) is list else 0  # older snapshots have five to seven
        further = [COUNT] * (entries >= 7) + [COUNT, sequence(*[AMOUNT] * len(shedding.reached[2]))] * (entries >= 9)
        record(
            {
                "events": or_null(grid(SHARE, types)),
                "binds": or_null(grid(SHARE, variables, shedding.event_stride)),
                "windows": or_null(grid(SHARE, types, places)),
                "births": or_null(births),
                "bin": whole(1, MOST), "kept": or_null(SHARE), "left": or_null(SHARE), "saved": NUMBER, "counts": SHARE,
                "counted": record(counted), "totals": grid(COUNT, 3), "window": AMOUNT, "given": COUNT,
            },
            {
                "error": AMOUNT, "recall": anything, "whole_windows": SHARE, "dropped_windows": COUNT,
                "weighed": sequence(grid(AMOUNT, 3), grid(AMOUNT, 3), FLAG, or_null(COUNT), COUNT),
                "cut": sequence(
                    INT64, INT64, NUMBER, *[grid(AMOUNT, *shedding.tried.shape)] * 2,
                    COUNT, *further, optional=1,
                ),
                "flows": sequence(listed(_KEY), listed(AMOUNT), listed(AMOUNT), AMOUNT, asked),
            },
        )(dict(state), f"control, query {self.plan.query.name!r}")  # fmt: skip
        if "flows" in state:
            keys, counts, squares, *_ = state["flows"]
            check_flow_keys(
                keys, (counts, squares), len(self.plan.states), shedding.stride, variables, shedding.event_stride,
                self.slices,
            )  # fmt: skip
            if not state["counts"]:
                raise Misfit("flows", "counted children", "none, as no share of the events is counted")

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`; raise `Misfit` if it is not a state of this query."""
        self._check_state(state)
        counted = {name: np.array(values, np.int64) for name, values in state["counted"].items()}
        self.shedding.resume(counted, (*state["totals"], state.get("dropped_windows", 0)))
        if "cut" in state:  # older snapshots lack it
            self.shedding.resume_cut(state["cut"])
        tables = {name: None if state[name] is None else np.array(state[name], np.float64) for name in _TABLES}
        drop_plan = DropPlan(**{name: state[name] for name in _NUMBERS if name in state})
        for name, table in tables.items():
            setattr(drop_plan, name, table)
        self.apply(drop_plan, 0)
        if "weighed" in state:  # older snapshots lack it
            weighed, before, self._weighs, self._weighs_until, self._unseen_until = state["weighed"]
            self.shedding.resume_weighed(weighed, self._weighs)
            self._weighed = tuple(before)
            self.recall.restore(state["recall"])
            self._rate = self.recall.rate
        if "flows" in state:
            keys, counts, squares, lost, asked = state["flows"]
            self.shedding.resume_flows(
                np.array(keys, np.uint64), np.array(counts, float), np.array(squares, float), lost,
                np.array(asked, float).reshape(-1, self.shedding.event_stride),
            )  # fmt: skip
        self.window_size, self.received = state["window"], state["given"]

    def follow(self, other: QueryShedding) -> None:
        """Take over the state of the same query with another matcher."""
        self.restore(other.state())
        self.received += int(self.matcher.events) - int(other.matcher.events)
        self.recall.shift(int(self.matcher.matches) - int(other.matcher.matches))

    def follow_estimate(self, other: QueryShedding) -> None:
        """Take over the estimate of the same query with another plan."""
        self.recall = other.recall
        self.recall.shift(int(self.matcher.matches) - int(other.matcher.matches))

    def follow_counts(self, other: QueryShedding) -> None:
        """Take over the counts by type, and the size of the window, of the same query with another plan."""
        counted, earlier = self.shedding.counted(), other.shedding.counted()
        by_type = {name: earlier[name] for name in ("dropped_events", "seen", "tried", "yielded")}
        self.shedding.resume({**counted, **by_type}, (0, other.shedding.totals[1], 0, other.shedding.totals[3]))
        self.window_size = other.window_size


#: Fields of a drop plan that stay in force until the next plan.
_TABLES = ("events", "binds", "windows", "births")
_NUMBERS = ("bin", "whole_windows", "kept", "left", "saved", "counts", "error")


def _sizes(value: Any) -> list[int]:
    """Return the shape of nested lists, following the first element of each."""
    return [len(value), *_sizes(value[0])] if isinstance(value, list) and value else []


def check_flow_keys(
    keys: Sequence[int], counts: Sequence[Sequence[float]], states: int, stride: int, variables: int, event_stride: int,
    slices: int,
) -> None:  # fmt: skip
    """Check that keys of `Shedding.flows` ascend and have states, classes, variables and slices in range.

    Raises
    ------
    Misfit
        The error names key and field.
    """
    largest = {
        "source": states, "source_class": stride - 1, "slice": slices - 1, "member": variables - 1,
        "event_class": event_stride - 1, "target": states - 1, "target_class": stride - 1,
    }  # fmt: skip
    if any(len(values) != len(keys) for values in counts) or list(keys) != sorted(set(keys)):
        raise Misfit("flows", f"{len(keys)} keys, perhaps not in order", "as many counts, and ascending keys")
    for number, key in enumerate(keys):
        for name, (shift, bits) in FLOW_FIELDS.items():
            value = key >> shift & ((1 << bits) - 1)
            if value > largest[name]:
                raise Misfit(f"flows, key {number}, {name}", f"{value}", f"0 to {largest[name]}")
        if not key & FLOW_SET:
            raise Misfit(f"flows, key {number}", f"{key}", "a key that is set")


def _table(classes: Classes | Tree) -> Table:
    if isinstance(classes, Tree):
        return classes.nodes.view(np.uint8), grid_of(classes), classes.other
    size = np.array(classes.table.shape, np.int64)
    return np.array(classes.low, np.int64), size, np.ascontiguousarray(classes.table).reshape(-1), classes.other


def _probabilities(shares: Floats | None, shape: tuple[int, ...] = ()) -> Ints:
    """Convert probabilities from 0 to 1 to the matcher's integers, in units of 2**-32; zeros of ``shape`` for None."""
    if shares is None:
        return np.zeros(shape, np.int64)
    return np.ascontiguousarray(np.rint(np.clip(shares, 0.0, 1.0) * 2.0**32).astype(np.int64))
