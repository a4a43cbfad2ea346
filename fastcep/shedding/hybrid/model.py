"""The model of hybrid shedding: how classes are told apart, and how one comes of the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.errors import ModelError, ValidationError
from fastcep.overload.costs import OPERATIONS, CostTable
from fastcep.overload.protocols import Classes, Tree
from fastcep.query import ast
from fastcep.shedding.hybrid.flow import Flow
from fastcep.shedding.hybrid.stored_classes import classes_from_table, classes_to_table
from fastcep.shedding.model import Model
from fastcep.stored import AMOUNT, FLAG, TEXT, Misfit, listed, number, record, whole

__all__ = ["HybridModel"]

Floats = npt.NDArray[np.float64]

_MATCHES, _EVENTS = "partial matches ", "events "
_SIZES = ("events", "states", "stride", "members", "event_stride", "slices", "memory")
_CLASSES = whole(1, 256)
_NUMBERS = record({
    "events": number(1e-9), "states": whole(1, 1 << 12), "stride": _CLASSES, "members": whole(1, 64),
    "event_stride": _CLASSES, "slices": _CLASSES, "memory": FLAG, "prices": record(dict.fromkeys(OPERATIONS, AMOUNT)),
    "cost_table": TEXT, "variables": listed(TEXT),
})  # fmt: skip
_MOST = 1e100  # of a count, so that sums and products of a few are finite
_COUNTS = {"events": pa.float64()}
_LISTS = dict.fromkeys(("contribution", "consumption", "mean_contribution", "mean_consumption"), pa.list_(pa.float64()))
#: Columns of the parts that are no classes; what is in ``varies`` may be missing.
_PARTS: dict[str, dict[str, Any]] = {
    "children": dict.fromkeys(("source", "slice", "kind", "target"), pa.int32())
    | dict.fromkeys(("made", "stored", "matched"), pa.float64()),
    "looks": dict.fromkeys(("group", "slice", "kind"), pa.int32()) | {"looked": pa.float64()},
    "asked": _COUNTS,
    "lengths": _COUNTS,
    "varies": {"by_mean": pa.float64()},
    "values": {"variable": pa.string(), "of": pa.string(), "class": pa.int64(), "members": pa.int64()} | _LISTS,
}


@dataclass(frozen=True)
class HybridModel:
    """A model of one query.

    Attributes
    ----------
    query
        That it was fitted for.
    classes, event_classes
        By variable how the partial matches that have bound it last are told apart, and the events that may be bound to
        it; those of a variable that is not there are all of one class.
    flow
        How partial matches come of each other.
    values
        What classes are worth, for people: a row per variable and class.
    variables
        By state the variable that its partial matches have bound last.
    prices
        What operations cost.
    parameters
        Of the fit.
    """

    query: ast.Query
    classes: Mapping[str, Classes | Tree]
    event_classes: Mapping[str, Classes | Tree]
    flow: Flow
    values: pa.Table
    variables: tuple[str, ...]
    prices: CostTable
    parameters: Mapping[str, Any]

    @cached_property
    def more(self) -> Floats:
        """How much more than its mean counts of a group's contribution, by the percentile: float64[groups, slices]."""
        flow = self.flow
        found = np.ones((flow.states, flow.stride, flow.slices))
        rows = self.values.filter(pc.equal(self.values["of"], pa.scalar("partial match"))).to_pylist()
        for state, variable in enumerate(self.variables):
            for row in rows:
                if row["variable"] == variable:
                    typical, mean = np.array(row["contribution"]), np.array(row["mean_contribution"])
                    some = (mean > 0) & (typical > 0)  # few of a class may contribute, and yet it is worth something
                    found[state, row["class"]] = np.where(some, typical / np.where(some, mean, 1), 1.0)
        return found.reshape(-1, flow.slices)

    def stored(self) -> Model:
        """As it is kept on disk."""
        flow = self.flow
        parts = {_MATCHES + name: classes_to_table(own) for name, own in self.classes.items()}
        parts |= {_EVENTS + name: classes_to_table(own) for name, own in self.event_classes.items()}
        parts |= {"children": flow.children, "looks": flow.looks, "values": self.values}
        parts["asked"] = pa.table({"events": flow.asked})
        parts["lengths"] = pa.table({"events": flow.lengths})
        if flow.varies is not None:
            parts["varies"] = pa.table({"by_mean": flow.varies.reshape(-1)})
        numbers: dict[str, Any] = {name: getattr(flow, name) for name in _SIZES}
        numbers |= {"prices": self.prices.nanoseconds, "cost_table": self.prices.name}
        numbers["variables"] = list(self.variables)
        return Model("hybrid", self.query, dict(self.parameters), numbers, parts)

    @classmethod
    def of(cls, model: Model) -> HybridModel:
        """From what was kept.

        Raises
        ------
        ModelError
            It is of another kind, or its parts do not fit each other.
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
                varies=_varies(parts, numbers["states"]),
            )  # fmt: skip
            prices = CostTable(numbers["cost_table"], **numbers["prices"])
            found = cls(
                model.query, _named(parts, _MATCHES), _named(parts, _EVENTS), flow, parts["values"],
                tuple(numbers["variables"]), prices,
                model.parameters,
            )  # fmt: skip
            found._check()
        except (LookupError, TypeError, ValueError, ArithmeticError, ValidationError, AssertionError) as error:
            what = str(error) if isinstance(error, Misfit) else repr(error)
            raise ModelError(
                f"the model of query {model.query.name!r} does not fit together ({what}); fit it again"
            ) from None
        return found

    def _check(self) -> None:
        """Refuse numbers of groups, slices and kinds that there are none of."""
        flow = self.flow
        groups = flow.states * flow.stride
        sizes = [
            ("numbers.variables", len(self.variables), flow.states),
            ("part 'lengths'", len(flow.lengths), flow.states),
            ("part 'asked'", len(flow.asked), flow.members * flow.event_stride),
            ("part 'varies'", 0 if flow.varies is None else len(flow.varies), 0 if flow.varies is None else 1 + groups),
        ]
        for name, found, expected in sizes:
            if found != expected:
                raise Misfit(name, f"{found} entries", f"{expected}")
        for kinds, most in ((self.classes, flow.stride), (self.event_classes, flow.event_stride)):
            for name, own in kinds.items():
                if own.count > most:
                    raise Misfit(f"classes of {name!r}", f"{own.count}", f"at most {most}")
        if self.values.num_columns:
            whole(groups, groups)(len(self.more), "part 'values'")
        flow.cascade(self.prices)


def _check_parts(parts: Mapping[str, pa.Table], slices: int) -> None:
    """Refuse parts with other columns, of other types, or with what is no count: `Misfit`."""
    for name, part in parts.items():
        if name.startswith((_MATCHES, _EVENTS)):
            continue
        types = dict(zip(part.schema.names, part.schema.types, strict=True))
        if types != _PARTS.get(name) and (types or name != "values"):  # which may have nothing to tell
            expected = _PARTS.get(name, "one of another name")
            raise Misfit(f"part {name!r}", f"the columns {types}"[:500], f"{expected}"[:500])
        for column in types:
            values: Any = part[column].combine_chunks()
            wrong = values.null_count > 0
            if pa.types.is_list(values.type):  # of numbers per slice, or of one
                wrong |= not set(pc.list_value_length(values).to_pylist()) <= {1, slices}
                values = values.flatten()
            wrong |= values.null_count > 0
            if pa.types.is_floating(values.type) and not wrong:
                numbers = values.to_numpy()
                wrong = not ((numbers >= 0) & (numbers <= _MOST)).all()
            if wrong:
                what = "a null, a list of another length, or what is no count"
                raise Misfit(f"part {name!r}, {column}", what, "numbers from 0 on")
    classes = parts["values"]["class"].to_numpy() if parts["values"].num_columns else np.empty(0, np.int64)
    if len(classes) and not 0 <= classes.min() <= classes.max() < 256:
        raise Misfit("part 'values', class", f"{classes.min()} to {classes.max()}", "0 to 255")


def _named(parts: Mapping[str, pa.Table], prefix: str) -> dict[str, Classes | Tree]:
    return {
        name.removeprefix(prefix): classes_from_table(part) for name, part in parts.items() if name.startswith(prefix)
    }


def _varies(parts: Mapping[str, pa.Table], states: int) -> Floats | None:
    if "varies" not in parts:
        return None
    return parts["varies"].column("by_mean").to_numpy().astype(np.float64).reshape(-1, states)
