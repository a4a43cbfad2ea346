"""What the words for strategies mean: those of fastcep, and those that learn from history."""

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
    "BASELINES", "COUNTING", "CUTTING", "HYBRID", "INPUT", "OURS", "STATE", "Learned", "learns", "strategies", "there",
]  # fmt: skip

INPUT, STATE = ("ri", "si"), ("rs", "ss")
BASELINES = (*INPUT, *STATE)
HYBRID = "hybrid"
OURS = (HYBRID, "hyi", "hys")
#: Hybrid to which every partial match costs the same.
COUNTING = "hybrid-count"
#: Hybrid that cuts off the work for single events.
CUTTING = "hybrid-cut"
_KINDS: Mapping[str, type[Hybrid]] = {"hybrid": Hybrid, "hyi": HybridInput, "hys": HybridState}
#: By word: the spelling, what is fitted otherwise, and options of the shedder.
_LEARNED: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    **{name: (name, {}, {}) for name in OURS},
    COUNTING: (HYBRID, {"cost_table": fc.CostTable("a partial match", created=1.0)}, {}),
    CUTTING: (HYBRID, {}, {"cut": True}),
}
#: Of the paper, for Q1, Q2 and Q4.
_USUAL = {"slices": 4, "clusters": 10}


class Learned(ShedderFit):
    """One of the strategies that learn; those of one evaluation share what they learn.

    Parameters
    ----------
    name
        A word of this module.
    model
        How to fit, in place of what the paper does.
    found
        What was learned in this evaluation.
    """

    def __init__(self, name: str, model: Mapping[str, Any], found: dict[str, Any]) -> None:
        self.name = self.label = name
        self._spelling, own, self._shedder = _LEARNED[name]
        self._options, self._found = {**_USUAL, **model, **own}, found

    def fit(self, queries: Sequence[fc.Query], history: pa.Table, **given: Any) -> Callable[[int], Any]:
        """Fit a model, or take the one that another strategy has fitted by the same options."""
        key = repr(sorted(self._options.items()))
        if key not in self._found:
            options = {**given, **self._options}
            self._found[key] = tuple(fc.fit(query, history, kind=HYBRID, **options) for query in queries)
        return partial(_KINDS[self._spelling], self._found[key], **self._shedder)


def learns(name: str) -> bool:
    """Whether this strategy learns from history."""
    return name in _LEARNED


def there(names: Sequence[str]) -> tuple[str, ...]:
    """Those of the strategies that are built already."""
    return tuple(name for name in names if _LEARNED.get(name, (name,))[0] in SHEDDERS)


def strategies(names: Sequence[str], model: Mapping[str, Any]) -> list[Any]:
    """What `fastcep.evaluate` takes, of those that are there.

    Parameters
    ----------
    names
        Words of this module, or spellings.
    model
        How those that learn are fitted.
    """
    found: dict[str, Any] = {}
    return [Learned(name, model, found) if learns(name) else name for name in there(names)]
