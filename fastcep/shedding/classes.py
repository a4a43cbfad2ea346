"""A shedder that refuses the partial matches of given classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastcep.errors import ModelError, ValidationError
from fastcep.events.schema import difference, suggestion
from fastcep.overload.protocols import Classes, DropPlan, Floats, QueryView
from fastcep.query import ast, to_text
from fastcep.query.patterns import leaves_of, positive_leaves
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.options import as_chance
from fastcep.shedding.state_paths import ways_of

__all__ = ["FixedClasses"]


class FixedClasses(Baseline):
    """Refuses births by class, with chances that the user gives, whenever anything is demanded, however much.

    Parameters
    ----------
    classes
        How partial matches are told apart, by the variable bound last (``"g.a"`` in a group).
    refuse
        By such a variable the chance of each class to be refused; one chance for a variable without classes.
    seed
        Of what is drawn.
    query
        The only query that it may shed for; None: every one that has these variables.

    Raises
    ------
    ValidationError
        If the classes or chances do not fit each other.
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
        for variable, of in self._classes.items():
            _check_table(variable, of)
        self._refuse = {name: _chances(name, chances, self._classes.get(name)) for name, chances in refuse.items()}
        self._query = query

    def check(self, query: ast.Query) -> None:
        """Refuse another query or schema than it was made for, and one that has not all variables: `ModelError`."""
        if self._query is not None and query.schema != self._query.schema:
            what = difference(query.schema, self._query.schema)
            raise ModelError(
                f"shedder 'classes' is not of query {query.name!r}, whose schema differs: {what}; make one for it"
            )
        if self._query is not None and to_text(query) != to_text(self._query):
            raise ModelError(
                f"shedder 'classes' is of query {self._query.name!r}, not of {query.name!r}; make one for this query. "
                f"It was made for:\n{to_text(self._query)}"
            )
        names = [leaf.name for leaf in positive_leaves(query.pattern)]
        for variable in (*self._classes, *self._refuse):
            if variable not in names:
                raise ModelError(
                    f"shedder 'classes' has classes of {variable!r}, a variable that query {query.name!r} does not bind"
                    f"{suggestion(variable, names)}"
                )

    def classes(self, query: ast.Query) -> Mapping[str, Classes]:
        """How partial matches are told apart, by the variable bound last."""
        return self._classes

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Refuse births as the user wants it, if anything is demanded.

        What is expected to be left takes it that all births are equally likely to lead to a match.
        """
        return [self._order(view) if demand > 0 else DropPlan() for view in views]

    def _order(self, view: QueryView) -> DropPlan:
        ways, names = ways_of(view.plan), [leaf.name for leaf in leaves_of(view.plan.query.pattern)]
        births = np.zeros((len(ways.stored), view.classes))
        for number, state in enumerate(view.plan.states):
            chances = self._refuse.get(names[state.member], ())
            if ways.stored[number]:
                births[number, : len(chances)] = chances
        counted = (view.counted["born"] + view.counted["refused"]).astype(float)
        kept = ways.of_matches(ways.along(1 - _mean(births, counted)))
        return DropPlan(births=births, kept=kept)

    def spec(self) -> dict[str, Any]:
        """Its name and options, as JSON has them."""
        classes = {
            name: {
                "features": list(of.features), "low": list(of.low), "table": of.table.tolist(), "other": of.other,
            }
            for name, of in self._classes.items()
        }  # fmt: skip
        refuse = {name: list(chances) for name, chances in self._refuse.items()}
        text = None if self._query is None else to_text(self._query)
        return super().spec() | {"classes": classes, "refuse": refuse, "query": text}


def _check_table(variable: str, of: Classes) -> None:
    if not len(of.features) == len(of.low) == of.table.ndim:
        raise ValidationError(
            f"shedder 'classes': {variable!r} has {len(of.features)} features, {len(of.low)} smallest values and a "
            f"table of {of.table.ndim} dimensions; expected as many of each"
        )
    if of.table.size == 0:
        raise ValidationError(f"shedder 'classes': the table of {variable!r} is empty, of the shape {of.table.shape}")
    if any(not -(2**63) <= low < 2**63 for low in of.low):
        raise ValidationError(f"shedder 'classes': the smallest values of {variable!r} are {of.low}, expected int64")
    if of.table.dtype != np.uint8 or not 0 <= of.other <= 255:
        raise ValidationError(f"shedder 'classes': the table of {variable!r} is of {of.table.dtype}, expected uint8")


def _chances(variable: str, chances: Sequence[float], of: Classes | None) -> tuple[float, ...]:
    count = 1 if of is None else of.count
    if len(chances) != count:
        raise ValidationError(
            f"shedder 'classes': refuse[{variable!r}] has {len(chances)} chances, expected {count}, one per class"
        )
    return tuple(as_chance("shedder 'classes'", f"refuse[{variable!r}]", float(chance)) for chance in chances)


def _mean(chances: Floats, counted: Floats) -> Floats:
    """By state the mean chance of a birth; of the classes, as long as there was none."""
    weights = np.where(counted.sum(axis=1, keepdims=True) > 0, counted, 1.0)
    return np.asarray((chances * weights).sum(axis=1) / weights.sum(axis=1))
