"""Names of strategies: the shedders of fastcep, and strategies that are fitted on a history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

import fastcep as fc
from fastcep.evaluation import ShedderFit
from fastcep.shedding.hybrid import Hybrid, HybridInput, HybridState
from fastcep.shedding.names import SHEDDERS

__all__ = [
    "BASELINES", "COUNTING", "CUTTING", "HYBRID", "INPUT", "OURS", "STATE", "FittedStrategy", "available",
    "needs_history", "strategies",
]  # fmt: skip

INPUT, STATE = ("ri", "si"), ("rs", "ss")
BASELINES = (*INPUT, *STATE)
HYBRID = "hybrid"
OURS = (HYBRID, "hyi", "hys")
#: Hybrid whose cost model gives every partial match the same cost.
COUNTING = "hybrid-count"
#: Hybrid that may stop the work for a single event early.
CUTTING = "hybrid-cut"
_KINDS: Mapping[str, type[Hybrid]] = {"hybrid": Hybrid, "hyi": HybridInput, "hys": HybridState}
#: From a name to the shedder's name in fastcep, options of the fit that differ, and options of the shedder.
_FITTED: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    **{name: (name, {}, {"cut": False}) for name in OURS},
    COUNTING: (HYBRID, {"cost_table": fc.CostTable("a partial match", created=1.0)}, {"cut": False}),
    CUTTING: (HYBRID, {}, {"cut": True}),
}
#: Options of the fit that the paper uses for Q1, Q2 and Q4.
_DEFAULT_FIT = {"slices": 4, "clusters": 10}


class FittedStrategy(ShedderFit):
    """Strategy that is fitted on a history; the strategies of one evaluation share their models.

    Parameters
    ----------
    name
        Name of this module.
    model
        Options of the fit that replace the paper's.
    models
        Cache of the models that were fitted in this evaluation, by options.
    """

    def __init__(self, name: str, model: Mapping[str, Any], models: dict[str, Any]) -> None:
        self.name = self.label = name
        self._kind, fit_options, self._shedder_options = _FITTED[name]
        self._fit_options, self._models = {**_DEFAULT_FIT, **model, **fit_options}, models

    def fit(self, queries: Sequence[fc.Query], history: pa.Table, **options: Any) -> Callable[[int], Any]:
        """Fit a model for each query, or reuse models that another strategy fitted with the same options."""
        key = repr(sorted(self._fit_options.items()))
        if key not in self._models:
            merged = {**options, **self._fit_options}
            self._models[key] = tuple(fc.fit(query, history, kind=HYBRID, **merged) for query in queries)
        return partial(_KINDS[self._kind], self._models[key], **self._shedder_options)


def needs_history(name: str) -> bool:
    """Return whether this strategy is fitted on a history."""
    return name in _FITTED


def available(names: Sequence[str]) -> tuple[str, ...]:
    """Return the strategies that this version of fastcep has."""
    return tuple(name for name in names if _FITTED.get(name, (name,))[0] in SHEDDERS)


def strategies(names: Sequence[str], model: Mapping[str, Any]) -> list[Any]:
    """Return the available strategies in the form that `fastcep.evaluate` takes.

    Parameters
    ----------
    names
        Names of this module, or of shedders.
    model
        Options of the fit.
    """
    models: dict[str, Any] = {}
    return [FittedStrategy(name, model, models) if needs_history(name) else name for name in available(names)]
