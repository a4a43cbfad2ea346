"""Names of strategies: the shedders of fastcep, and strategies that are fitted on a history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

import fastcep as fc
from fastcep.evaluation import ShedderFit
from fastcep.shedding.espice import ESpice
from fastcep.shedding.hybrid import Hybrid, HybridInput, HybridState
from fastcep.shedding.names import SHEDDERS
from fastcep.shedding.pspice import PSpice, PSpiceProbability

__all__ = [
    "BASELINES", "COUNTING", "CUTTING", "ESPICE", "ESPICE_LITERAL", "FIXED", "HYBRID", "INPUT", "OURS", "PSPICE",
    "PSPICE_PROBABILITY", "RENEWED", "STATE", "FittedStrategy", "available", "needs_history", "strategies",
]  # fmt: skip

INPUT, STATE = ("ri", "si"), ("rs", "ss")
BASELINES = (*INPUT, *STATE)
HYBRID = "hybrid"
OURS = (HYBRID, "hyi", "hys")
#: Hybrid whose cost model gives every partial match the same cost.
COUNTING = "hybrid-count"
#: Hybrid that may stop the work for a single event early.
CUTTING = "hybrid-cut"
PSPICE, PSPICE_PROBABILITY = "pspice", "pspice--"
#: pSPICE whose model is fitted again after every 30,000 events, and pSPICE that keeps its first model.
RENEWED, FIXED = "pspice-renewed", "pspice-fixed"
#: Number of events after which a model is fitted again: never.
_NEVER = 1_000_000_000
#: eSPICE, and eSPICE that drops everything up to the threshold, as in the paper.
ESPICE, ESPICE_LITERAL = "espice", "espice-literal"


@dataclass(frozen=True)
class _Fitted:
    """A strategy that is fitted.

    Attributes
    ----------
    shedder
        Class of its shedders.
    model
        Kind of its model.
    fit_options, shedder_options
        Options of the fit that differ, and options of the shedder.
    """

    shedder: type[Hybrid] | type[PSpice] | type[ESpice]
    model: str
    fit_options: Mapping[str, Any] = field(default_factory=dict)
    shedder_options: Mapping[str, Any] = field(default_factory=dict)


class _FixedPSpice(PSpice):
    """pSPICE that keeps its first model, whatever changes."""

    def has_changed(self) -> bool:
        return False


_UNCUT = {"cut": False}
_FITTED: Mapping[str, _Fitted] = {
    HYBRID: _Fitted(Hybrid, HYBRID, shedder_options=_UNCUT),
    "hyi": _Fitted(HybridInput, HYBRID, shedder_options=_UNCUT),
    "hys": _Fitted(HybridState, HYBRID, shedder_options=_UNCUT),
    COUNTING: _Fitted(Hybrid, HYBRID, {"cost_table": fc.CostTable("a partial match", created=1.0)}, _UNCUT),
    CUTTING: _Fitted(Hybrid, HYBRID, shedder_options={"cut": True}),
    PSPICE: _Fitted(PSpice, PSPICE),
    PSPICE_PROBABILITY: _Fitted(PSpiceProbability, PSPICE),
    RENEWED: _Fitted(PSpice, PSPICE, shedder_options={"history": 20_000, "renew": 30_000}),
    FIXED: _Fitted(_FixedPSpice, PSPICE, shedder_options={"renew": _NEVER}),
    ESPICE: _Fitted(ESpice, ESPICE),
    ESPICE_LITERAL: _Fitted(ESpice, ESPICE, shedder_options={"literal": True}),
}
#: Options of the fit by kind of model; those of hybrid are the paper's for Q1, Q2 and Q4.
_DEFAULT_FIT: Mapping[str, Mapping[str, Any]] = {HYBRID: {"slices": 4, "clusters": 10}, PSPICE: {}, ESPICE: {}}


class FittedStrategy(ShedderFit):
    """Strategy that is fitted on a history; the strategies of one evaluation share their models.

    Parameters
    ----------
    name
        Name of this module.
    model
        Options of the fit that replace the paper's.
    models
        Cache of the models that were fitted in this evaluation, by kind and options.
    equal_costs
        Whether events cost the same in each of their windows; an option of the fit of eSPICE.
    """

    def __init__(
        self, name: str, model: Mapping[str, Any], models: dict[str, Any], *, equal_costs: bool = False
    ) -> None:
        self.name = self.label = name
        self._fitted = _FITTED[name]
        self._fit_options = {**_DEFAULT_FIT[self._fitted.model], **model, **self._fitted.fit_options}
        if equal_costs and self._fitted.model == ESPICE:
            self._fit_options["equal_costs"] = True
        self._models = models

    def fit(self, queries: Sequence[fc.Query], history: pa.Table, **options: Any) -> Callable[[int], Any]:
        """Fit a model for each query, or reuse models that another strategy fitted with the same options."""
        kind = self._fitted.model
        key = repr((kind, sorted(self._fit_options.items())))
        if key not in self._models:
            merged = {**options, **self._fit_options}
            self._models[key] = tuple(fc.fit(query, history, kind=kind, **merged) for query in queries)
        return partial(self._fitted.shedder, self._models[key], **self._fitted.shedder_options)


def needs_history(name: str) -> bool:
    """Return whether this strategy is fitted on a history."""
    return name in _FITTED


def available(names: Sequence[str]) -> tuple[str, ...]:
    """Return the strategies that this version of fastcep has."""
    return tuple(name for name in names if (_FITTED[name].shedder.name if name in _FITTED else name) in SHEDDERS)


def strategies(names: Sequence[str], model: Mapping[str, Any], *, equal_costs: bool = False) -> list[Any]:
    """Return the available strategies in the form that `fastcep.evaluate` takes.

    Parameters
    ----------
    names
        Names of this module, or of shedders.
    model
        Options of the fit.
    equal_costs
        Whether events cost the same in each of their windows, as in the paper of eSPICE.
    """
    models: dict[str, Any] = {}
    return [
        FittedStrategy(name, model, models, equal_costs=equal_costs) if needs_history(name) else name
        for name in available(names)
    ]
