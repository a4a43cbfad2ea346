"""Shedder that refuses partial matches by class, with fixed probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastcep.errors import ModelError, ValidationError
from fastcep.events.schema import difference, suggestion
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.protocols import Classes, Floats, QueryView
from fastcep.query import ast, to_text
from fastcep.query.patterns import pattern_variables, positive_variables
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.options import as_probability
from fastcep.shedding.state_paths import state_paths

__all__ = ["FixedClasses"]


class FixedClasses(Baseline):
    """Refuses births by class with the user's probabilities, whenever the demand is above 0.

    Parameters
    ----------
    classes
        Classes of partial matches, by the variable bound last (``"g.a"`` in a group).
    refuse
        Probability of refusing a birth, for each class of a variable; a single one for a variable without classes.
    seed
        Seed of all random decisions.
    query
        The only query that it may shed for; None: any query that has these variables.

    Raises
    ------
    ValidationError
        If classes and probabilities do not fit together.
    """

    name = "classes"
    drops_matches = True

    def __init__(
        self,
        classes: Mapping[str, Classes],
        refuse: Mapping[str, Sequence[float]],
        seed: int = 0,
        query: ast.Query | None = None,
    ) -> None:
        super().__init__(seed)
        self._classes = dict(classes)
        for variable, table in self._classes.items():
            _check_table(variable, table)
        self._refuse = {name: _checked(name, values, self._classes.get(name)) for name, values in refuse.items()}
        self._query = query

    def check(self, query: ast.Query) -> None:
        """Raise `ModelError` for a query or schema other than its own, and for a query that lacks a variable."""
        if self._query is not None and query.schema != self._query.schema:
            differing = difference(query.schema, self._query.schema)
            raise ModelError(
                f"shedder 'classes' is not for query {query.name!r}, whose schema differs: {differing}; "
                "create one for this query"
            )
        if self._query is not None and to_text(query) != to_text(self._query):
            raise ModelError(
                f"shedder 'classes' is for query {self._query.name!r}, not for {query.name!r}; create one for this "
                f"query. It was created for:\n{to_text(self._query)}"
            )
        names = [variable.name for variable in positive_variables(query.pattern)]
        for variable in (*self._classes, *self._refuse):
            if variable not in names:
                raise ModelError(
                    f"shedder 'classes' has classes for {variable!r}, which query {query.name!r} does not bind"
                    f"{suggestion(variable, names)}"
                )

    def classes(self, query: ast.Query) -> Mapping[str, Classes]:
        """Return the classes of partial matches, by the variable bound last."""
        return self._classes

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the user's probabilities if the demand is above 0.

        The expected share of matches kept assumes that all births are equally likely to lead to a match.
        """
        return [self._drop_plan(view) if demand > 0 else DropPlan() for view in views]

    def _drop_plan(self, view: QueryView) -> DropPlan:
        names = [variable.name for variable in pattern_variables(view.plan.query.pattern)]
        paths = state_paths(view.plan)
        births = np.zeros((len(paths.stored), view.classes))
        for number, state in enumerate(view.plan.states):
            probabilities = self._refuse.get(names[state.variable], ())
            if paths.stored[number]:
                births[number, : len(probabilities)] = probabilities
        counted = (view.counted["born"] + view.counted["refused"]).astype(float)
        kept = paths.match_survival(paths.survival(1 - _mean_by_state(births, counted)))
        return DropPlan(births=births, kept=kept)

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        tables = {
            name: {
                "features": list(classes.features), "low": list(classes.low), "table": classes.table.tolist(),
                "other": classes.other,
            }
            for name, classes in self._classes.items()
        }  # fmt: skip
        refuse = {name: list(probabilities) for name, probabilities in self._refuse.items()}
        text = None if self._query is None else to_text(self._query)
        return super().spec() | {"classes": tables, "refuse": refuse, "query": text}


def _check_table(variable: str, classes: Classes) -> None:
    if not len(classes.features) == len(classes.low) == classes.table.ndim:
        raise ValidationError(
            f"shedder 'classes': {variable!r} has {len(classes.features)} features, {len(classes.low)} smallest values "
            f"and a table of {classes.table.ndim} dimensions; expected equal numbers"
        )
    table = classes.table
    if table.size == 0:
        raise ValidationError(f"shedder 'classes': the table of {variable!r} is empty, of the shape {table.shape}")
    if any(not -(2**63) <= low < 2**63 for low in classes.low):
        raise ValidationError(f"shedder 'classes': smallest values of {variable!r}: {classes.low}, expected int64")
    if table.dtype != np.uint8 or not 0 <= classes.other <= 255:
        raise ValidationError(f"shedder 'classes': the table of {variable!r} is of {table.dtype}, expected uint8")


def _checked(variable: str, probabilities: Sequence[float], classes: Classes | None) -> tuple[float, ...]:
    option = f"refuse[{variable!r}]"
    count = 1 if classes is None else classes.count
    if len(probabilities) != count:
        raise ValidationError(
            f"shedder 'classes': {option} has {len(probabilities)} probabilities, expected {count}, one per class"
        )
    return tuple(as_probability("shedder 'classes'", option, float(value)) for value in probabilities)


def _mean_by_state(probabilities: Floats, counted: Floats) -> Floats:
    """Return the mean probability per state over its births; over its classes, if it had none so far."""
    weights = np.where(counted.sum(axis=1, keepdims=True) > 0, counted, 1.0)
    return np.asarray((probabilities * weights).sum(axis=1) / weights.sum(axis=1))
