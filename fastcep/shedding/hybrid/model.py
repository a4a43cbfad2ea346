"""The model of hybrid shedding: how classes are told apart, and how one comes of the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from xxhash import xxh64_hexdigest

from fastcep.engine.overload.costs import CostTable
from fastcep.engine.overload.protocols import Classes, Tree
from fastcep.errors import ModelError
from fastcep.query import ast, to_text
from fastcep.shedding.hybrid.flow import Flow
from fastcep.shedding.hybrid.stored import classes_from_table, classes_to_table
from fastcep.shedding.model import Model

__all__ = ["HybridModel"]

_MATCHES, _EVENTS = "partial matches ", "events "
_SIZES = ("events", "states", "stride", "members", "event_stride", "slices")


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
    prices: CostTable
    parameters: Mapping[str, Any]

    @property
    def hash(self) -> str:
        """Of what decides what is shed."""
        flow = self.flow
        told = (*self.classes.values(), *self.event_classes.values())
        tables = [*map(classes_to_table, told), flow.children, flow.looks]
        text = [to_text(self.query), *self.classes, *self.event_classes, self.prices.hash, str(flow.asked.tolist())]
        for table in tables:
            text += [str(table.schema.metadata), str(table.to_pydict())]
        return xxh64_hexdigest("\n".join(text).encode())

    def stored(self) -> Model:
        """As it is kept on disk."""
        flow = self.flow
        parts = {_MATCHES + name: classes_to_table(own) for name, own in self.classes.items()}
        parts |= {_EVENTS + name: classes_to_table(own) for name, own in self.event_classes.items()}
        parts |= {"children": flow.children, "looks": flow.looks, "values": self.values}
        parts["asked"] = pa.table({"events": flow.asked})
        numbers: dict[str, Any] = {name: getattr(flow, name) for name in _SIZES}
        numbers |= {"prices": self.prices.nanoseconds, "cost_table": self.prices.name}
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
            flow = Flow(
                **{name: numbers[name] for name in _SIZES},
                children=parts["children"], looks=parts["looks"],
                asked=parts["asked"].column("events").to_numpy().astype(np.float64),
            )  # fmt: skip
            prices = CostTable(numbers["cost_table"], **numbers["prices"])
            found = cls(
                model.query, _named(parts, _MATCHES), _named(parts, _EVENTS), flow, parts["values"], prices,
                model.parameters,
            )  # fmt: skip
            found._check()
        except (LookupError, TypeError, ValueError, AssertionError, pa.ArrowException) as error:
            raise ModelError(
                f"the model of query {model.query.name!r} does not fit together ({error!r}); fit it again"
            ) from None
        return found

    def _check(self) -> None:
        """Refuse numbers of groups, slices and kinds that there are none of."""
        flow = self.flow
        assert len(flow.asked) == flow.members * flow.event_stride
        assert all(own.count <= flow.stride for own in self.classes.values())
        assert all(own.count <= flow.event_stride for own in self.event_classes.values())
        flow.cascade(self.prices)


def _named(parts: Mapping[str, pa.Table], prefix: str) -> dict[str, Classes | Tree]:
    return {
        name.removeprefix(prefix): classes_from_table(part) for name, part in parts.items() if name.startswith(prefix)
    }
