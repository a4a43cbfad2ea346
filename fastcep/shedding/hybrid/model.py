"""Model of hybrid shedding: classes of partial matches and events, and the flow between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.errors import ModelError, ValidationError
from fastcep.overload.costs import OPERATIONS, CostTable
from fastcep.overload.match_counts import MatchRate
from fastcep.overload.protocols import Classes, Tree
from fastcep.query import ast
from fastcep.shedding.hybrid.flow import Flow, Step
from fastcep.shedding.hybrid.stored_classes import classes_from_table, classes_to_table
from fastcep.shedding.model import Model
from fastcep.stored import AMOUNT, FLAG, TEXT, Misfit, anything, by_name, listed, number, record, whole

__all__ = ["HybridModel"]

Floats = npt.NDArray[np.float64]

_MATCHES, _EVENTS = "partial matches ", "events "
_SIZES = ("events", "states", "stride", "members", "event_stride", "slices", "memory")
_CLASSES = whole(1, 256)
_NUMBERS = record({
    "events": number(1e-9), "states": whole(1, 1 << 12), "stride": _CLASSES, "members": whole(1, 64),
    "event_stride": _CLASSES, "slices": _CLASSES, "memory": FLAG, "prices": record(dict.fromkeys(OPERATIONS, AMOUNT)),
    "cost_table": TEXT, "variables": listed(TEXT),
}, {
    "validation": by_name(anything),
    "match_rate": record({"events": number(1e-9), "matches": AMOUNT, "window": AMOUNT}),
})  # fmt: skip
_MOST = 1e100  # largest count, so that sums and products of a few counts are finite
_ALL = 1 + 1e-6  # largest share, up to rounding
_COUNTS = {"events": pa.float64()}
_LISTS = dict.fromkeys(("contribution", "consumption", "mean_contribution", "mean_consumption"), pa.list_(pa.float64()))
#: By shedder, whether it drops events, and partial matches.
_SHEDDERS = {"hybrid": (True, True), "hyi": (True, False), "hys": (False, True)}
#: Columns of the parts other than classes; the parts ``varies`` and ``drop order`` may be missing.
_PARTS: dict[str, dict[str, Any]] = {
    "children": dict.fromkeys(("source", "slice", "kind", "target"), pa.int32())
    | dict.fromkeys(("made", "stored", "matched"), pa.float64()),
    "looks": dict.fromkeys(("group", "slice", "kind"), pa.int32()) | {"looked": pa.float64()},
    "asked": _COUNTS,
    "lengths": _COUNTS,
    "varies": {"by_mean": pa.float64()},
    "drop order": {"shedder": pa.string(), "events": pa.bool_()}
    | dict.fromkeys(("owner", "number", "slice"), pa.int32()) | dict.fromkeys(("saved", "kept"), pa.float64()),
    "values": {"variable": pa.string(), "of": pa.string(), "class": pa.int64(), "members": pa.int64()} | _LISTS,
}
_ORDER = pa.schema(_PARTS["drop order"])


@dataclass(frozen=True)
class HybridModel:
    """Model of one query.

    Attributes
    ----------
    query
        Query that the model was fitted for.
    classes, event_classes
        Classes, by variable, of the partial matches that have bound it last, and of the events that may be bound to it.
        A missing variable has a single class.
    flow
        Flow of partial matches between classes.
    values
        Contribution and consumption of the classes, for users: a row per variable and class.
    variables
        Variable that the partial matches of each state have bound last.
    costs
        Costs of operations.
    parameters
        Parameters of the fit.
    measured
        Measured times in ns, see `Model.measured`.
    validation
        Report of the validation, see `Model.validation`; None if there was none.
    match_rate
        Match rate of the history; None for older models.
    """

    query: ast.Query
    classes: Mapping[str, Classes | Tree]
    event_classes: Mapping[str, Classes | Tree]
    flow: Flow
    values: pa.Table
    variables: tuple[str, ...]
    costs: CostTable
    parameters: Mapping[str, Any]
    measured: Mapping[str, float] = field(default_factory=dict)
    validation: Mapping[str, Any] | None = None
    match_rate: MatchRate | None = None
    _orders: dict[tuple[bool, bool], Sequence[Step]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def history_is_too_short(self) -> bool:
        """True if the history was too short to validate the model."""
        return self.validation is not None and "held_out_recall" not in self.validation

    def steps(self, events: bool, rows: bool) -> Sequence[Step]:
        """Return the order of dropping events, partial matches, or both; it is computed once, if it is not stored."""
        if (events, rows) not in self._orders:
            self._orders[events, rows] = self.flow.steps(self.costs, events, rows)
        return self._orders[events, rows]

    @cached_property
    def percentile_factor(self) -> Floats:
        """Ratio of the percentile to the mean of each group's contribution: float64[groups, slices]."""
        flow = self.flow
        factor = np.ones((flow.states, flow.stride, flow.slices))
        rows = self.values.filter(pc.equal(self.values["of"], pa.scalar("partial match"))).to_pylist()
        for state, variable in enumerate(self.variables):
            for row in rows:
                if row["variable"] == variable:
                    percentile, mean = np.array(row["contribution"]), np.array(row["mean_contribution"])
                    positive = (mean > 0) & (percentile > 0)  # the percentile is 0 if only few members contribute
                    factor[state, row["class"]] = np.where(positive, percentile / np.where(positive, mean, 1), 1.0)
        return factor.reshape(-1, flow.slices)

    def stored(self) -> Model:
        """Return the model in the form that is stored on disk."""
        flow = self.flow
        parts = {_MATCHES + name: classes_to_table(classes) for name, classes in self.classes.items()}
        parts |= {_EVENTS + name: classes_to_table(classes) for name, classes in self.event_classes.items()}
        parts |= {"children": flow.children, "looks": flow.looks, "values": self.values}
        parts["asked"] = pa.table({"events": flow.asked})
        parts["lengths"] = pa.table({"events": flow.lengths})
        if flow.dispersion is not None:
            parts["varies"] = pa.table({"by_mean": flow.dispersion.reshape(-1)})
        parts["drop order"] = pa.concat_tables([
            pa.Table.from_pylist([{"shedder": name, **asdict(step)} for step in self.steps(*drops)], _ORDER)
            for name, drops in _SHEDDERS.items()
        ])  # fmt: skip
        numbers: dict[str, Any] = {name: getattr(flow, name) for name in _SIZES}
        numbers |= {"prices": self.costs.nanoseconds, "cost_table": self.costs.name}
        numbers["variables"] = list(self.variables)
        numbers |= {} if self.validation is None else {"validation": dict(self.validation)}
        numbers |= {} if self.match_rate is None else {"match_rate": self.match_rate._asdict()}
        return Model("hybrid", self.query, dict(self.parameters), numbers, parts, dict(self.measured))

    @classmethod
    def of(cls, model: Model) -> HybridModel:
        """Create the model from its stored form.

        Raises
        ------
        ModelError
            If the model is of another kind, or its parts are inconsistent.
        """
        if model.kind != "hybrid":
            raise ModelError(f"found a model of kind {model.kind!r}, expected 'hybrid'; fit one with kind='hybrid'")
        try:
            parts, numbers = model.parts, model.numbers
            _NUMBERS(numbers, "numbers")
            _check_parts(parts, numbers["slices"])
            flow = Flow(
                **{name: numbers[name] for name in _SIZES},
                children=parts["children"], looks=parts["looks"],
                asked=parts["asked"].column("events").to_numpy().astype(np.float64),
                lengths=parts["lengths"].column("events").to_numpy().astype(np.float64),
                dispersion=_dispersion(parts, numbers["states"]),
            )  # fmt: skip
            costs = CostTable(numbers["cost_table"], **numbers["prices"])
            result = cls(
                model.query, _named(parts, _MATCHES), _named(parts, _EVENTS), flow, parts["values"],
                tuple(numbers["variables"]), costs,
                model.parameters, model.measured, numbers.get("validation"),
                MatchRate(**numbers["match_rate"]) if "match_rate" in numbers else None, _orders(parts, flow),
            )  # fmt: skip
            result._check()
        except (LookupError, TypeError, ValueError, ArithmeticError, ValidationError, AssertionError) as error:
            problem = str(error) if isinstance(error, Misfit) else repr(error)
            raise ModelError(
                f"the model of query {model.query.name!r} is inconsistent ({problem}); fit it again"
            ) from None
        return result

    def _check(self) -> None:
        """Raise an error for numbers of groups, slices or kinds out of range."""
        flow = self.flow
        groups = flow.states * flow.stride
        sizes = [
            ("numbers.variables", len(self.variables), flow.states),
            ("part 'lengths'", len(flow.lengths), flow.states),
            ("part 'asked'", len(flow.asked), flow.members * flow.event_stride),
        ]
        if flow.dispersion is not None:
            sizes.append(("part 'varies'", len(flow.dispersion), 1 + groups))
        for name, found, expected in sizes:
            if found != expected:
                raise Misfit(name, f"{found} entries", f"{expected}")
        for by_variable, most in ((self.classes, flow.stride), (self.event_classes, flow.event_stride)):
            for name, classes in by_variable.items():
                if classes.count > most:
                    raise Misfit(f"classes of {name!r}", f"{classes.count}", f"at most {most}")
        if self.values.num_columns:
            whole(groups, groups)(len(self.percentile_factor), "part 'values'")
        flow.cascade(self.costs)


def _check_parts(parts: Mapping[str, pa.Table], slices: int) -> None:
    """Raise `Misfit` for parts with unexpected columns or types, or with values that are not counts."""
    for name, part in parts.items():
        if name.startswith((_MATCHES, _EVENTS)):
            continue
        types = dict(zip(part.schema.names, part.schema.types, strict=True))
        if types != _PARTS.get(name) and (types or name != "values"):  # values may have no columns
            expected = _PARTS.get(name, "one of another name")
            raise Misfit(f"part {name!r}", f"the columns {types}"[:500], f"{expected}"[:500])
        for column in types:
            values: Any = part[column].combine_chunks()
            wrong = values.null_count > 0
            if pa.types.is_list(values.type):  # lists have a number per slice, or one number
                wrong |= not set(pc.list_value_length(values).to_pylist()) <= {1, slices}
                values = values.flatten()
            wrong |= values.null_count > 0
            if pa.types.is_floating(values.type) and not wrong:
                numbers = values.to_numpy()
                wrong = not ((numbers >= 0) & (numbers <= _MOST)).all()
            if wrong:
                problem = "a null, a list of another length, or an invalid count"
                raise Misfit(f"part {name!r}, {column}", problem, "numbers from 0 on")
    classes = parts["values"]["class"].to_numpy() if parts["values"].num_columns else np.empty(0, np.int64)
    if len(classes) and not 0 <= classes.min() <= classes.max() < 256:
        raise Misfit("part 'values', class", f"{classes.min()} to {classes.max()}", "0 to 255")


def _named(parts: Mapping[str, pa.Table], prefix: str) -> dict[str, Classes | Tree]:
    return {
        name.removeprefix(prefix): classes_from_table(part) for name, part in parts.items() if name.startswith(prefix)
    }


def _dispersion(parts: Mapping[str, pa.Table], states: int) -> Floats | None:
    if "varies" not in parts:
        return None
    return parts["varies"].column("by_mean").to_numpy().astype(np.float64).reshape(-1, states)


def _orders(parts: Mapping[str, pa.Table], flow: Flow) -> dict[tuple[bool, bool], Sequence[Step]]:
    """Read the drop orders; raise `Misfit` if they name classes that the flow does not have."""
    if "drop order" not in parts:
        return {}
    orders: dict[str, list[Step]] = {name: [] for name in _SHEDDERS}
    for place, row in enumerate(parts["drop order"].to_pylist()):
        shedder, step = row.pop("shedder"), Step(**row)
        owners, numbers = (flow.members, flow.event_stride) if step.events else (flow.states, flow.stride)
        inside = 0 <= step.owner < owners and 0 <= step.number < numbers and 0 <= step.slice < flow.slices
        if shedder not in orders or not inside or max(step.saved, step.kept) > _ALL:
            raise Misfit(f"part 'drop order', row {place}", f"{shedder!r}, {step}", "a class of the model")
        orders[shedder].append(step)
    return {_SHEDDERS[name]: steps for name, steps in orders.items()}
