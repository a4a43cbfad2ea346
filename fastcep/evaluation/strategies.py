"""Strategies of an evaluation: convert the shedders that a user passes to factories."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.evaluation.protocols import Reference, ReferenceFit, ShedderFactory, ShedderFit
from fastcep.evaluation.references import REFERENCES
from fastcep.overload.protocols import Shedder
from fastcep.query import ast
from fastcep.shedding import by_name
from fastcep.shedding.names import SHEDDERS

if TYPE_CHECKING:
    from fastcep.evaluation.setting import Setting
    from fastcep.evaluation.stream import Stream

__all__ = ["CopyFactory", "NamedFactory", "Strategy", "label_of", "strategies_of"]


@dataclass(frozen=True)
class Strategy:
    """Strategy under evaluation.

    Attributes
    ----------
    name, label
        Name, and a longer description.
    reference
        Whether it uses knowledge that a strategy cannot have.
    factory
        Factory of its shedders; None if it is `direct`, or has not learned yet.
    fit
        Object that learns from history; None if it needs no fit, or is fitted.
    direct
        Reference that computes its outcome itself; None for others.
    reference_fit
        Reference that must be prepared; None for others, or if it is prepared.
    """

    name: str
    label: str
    reference: bool = False
    factory: ShedderFactory | None = None
    fit: ShedderFit | None = None
    direct: Reference | None = None
    reference_fit: ReferenceFit | None = None

    def fitted(self, queries: Sequence[ast.Query], history: pa.Table, setting: Setting) -> Strategy:
        """Return the strategy fitted on history; unchanged if it needs no fit."""
        if self.fit is None:
            return self
        factory = self.fit.fit(queries, history, cost_table=setting.costs, index=setting.index)
        if not callable(factory):
            raise ValidationError(
                f"strategy {self.name!r}: fit() returned {factory!r}, expected a function from a seed to a shedder"
            )
        return replace(self, factory=factory, fit=None)

    def prepared(self, queries: Sequence[ast.Query], stream: Stream, setting: Setting) -> Strategy:
        """Return the strategy prepared for a stream; unchanged if it needs no preparation."""
        if self.reference_fit is None:
            return self
        factory = self.reference_fit.prepare(queries, stream, setting)
        return replace(self, factory=factory, reference_fit=None)

    def shedder(self, seed: int) -> Shedder:
        """Return a new shedder for a seed."""
        assert self.factory is not None
        shedder = self.factory(seed)
        if isinstance(shedder, type) or not hasattr(shedder, "decide"):
            raise ValidationError(f"strategy {self.name!r} returned {shedder!r}, expected a shedder")
        return shedder


@dataclass(frozen=True)
class NamedFactory:
    """Factory of shedders by name."""

    spelling: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """Name in the report."""
        return self.spelling

    @property
    def label(self) -> str:
        """Label of the shedders."""
        return label_of(SHEDDERS[self.spelling])

    def __call__(self, seed: int, /) -> Shedder:
        """Return a new shedder."""
        return by_name(self.spelling, seed=seed, **dict(self.options))


@dataclass(frozen=True)
class CopyFactory:
    """Factory of copies of a shedder, which keep its seed."""

    shedder: Shedder

    def __call__(self, seed: int, /) -> Shedder:
        """Return a copy of the shedder."""
        return copy.deepcopy(self.shedder)


def strategies_of(shedders: Any, seeds: Sequence[int], model: str | None) -> tuple[Strategy, ...]:
    """Convert the shedders that a user passes to strategies.

    Parameters
    ----------
    shedders
        One shedder specification, or a sequence of them; see `evaluate`.
    seeds
        Random seeds.
    model
        Folder with a model, for the shedders that need one; None without a model.

    Raises
    ------
    ValidationError
        If there is no shedder, an item is not a strategy, names are not unique, or no shedder uses the model.
    """
    is_single = isinstance(shedders, str) or not isinstance(shedders, Sequence)
    items = [shedders] if is_single else list(shedders)
    if not items:
        raise ValidationError("shedders=[]: expected one or several, such as ['ri', 'rs']")
    strategies = tuple(_strategy(item, seeds, model) for item in items)
    for number, strategy in enumerate(strategies):
        if strategy.name in [other.name for other in strategies[:number]]:
            raise ValidationError(
                f"shedders: found {strategy.name!r} twice; give each shedder once, and your own ones distinct names"
            )
    if model is not None and not any(_takes_model(item) for item in items):
        raise ValidationError(f"model={model!r}: none of the shedders takes a model; omit it")
    return strategies


def _strategy(item: Any, seeds: Sequence[int], model: str | None) -> Strategy:
    if isinstance(item, str):
        return _named(item, model)
    if hasattr(item, "outcome"):
        return Strategy(item.name, label_of(item), True, direct=item)
    if hasattr(item, "prepare"):
        return Strategy(item.name, label_of(item), _is_reference(item), reference_fit=item)
    if not isinstance(item, type) and hasattr(item, "decide"):  # a shedder, even if its class has a `fit`
        return _shedder_object(item, seeds)
    if hasattr(item, "fit"):
        return Strategy(item.name, label_of(item), _is_reference(item), fit=item)
    if callable(item):
        _check_seed(item)
        return Strategy(_name(item), label_of(item), _is_reference(item), factory=item)
    raise ValidationError(
        f"shedders: found {item!r}; expected a name such as 'ri', a function from a seed to a shedder, a shedder, or "
        "an object with fit(queries, history)"
    )


def _check_seed(item: Any) -> None:
    """Reject callables that cannot be called with only a seed."""
    try:
        inspect.signature(item).bind(0)
    except TypeError as error:
        raise ValidationError(
            f"shedders: {_name(item)!r} cannot be called with only a seed ({error}); give a function from a seed to a "
            "shedder, such as lambda seed: …"
        ) from None
    except ValueError:  # no signature available
        return


def _named(spelling: str, model: str | None) -> Strategy:
    if spelling in REFERENCES:
        return _strategy(REFERENCES[spelling](), (), model)
    kind = SHEDDERS.get(spelling)
    if kind is not None and model is not None and _takes_model(spelling):
        return Strategy(spelling, label_of(kind), factory=NamedFactory(spelling, (("model", model),)))
    if kind is not None and hasattr(kind, "fit"):
        return Strategy(spelling, label_of(kind), fit=cast(ShedderFit, kind))
    factory = NamedFactory(spelling)
    try:
        factory(0)
    except ValidationError as error:
        raise ValidationError(f"shedders: {error}") from None
    assert kind is not None
    return Strategy(spelling, label_of(kind), factory=factory)


def _shedder_object(shedder: Shedder, seeds: Sequence[int]) -> Strategy:
    if list(seeds) != [shedder.seed]:
        raise ValidationError(
            f"shedders: {shedder!r} has seed={shedder.seed}, and seeds are {list(seeds)}: give seeds=[{shedder.seed}], "
            "or a function from a seed to a shedder"
        )
    return Strategy(shedder.name, label_of(shedder), _is_reference(shedder), factory=CopyFactory(shedder))


def _takes_model(item: Any) -> bool:
    kind = SHEDDERS.get(item) if isinstance(item, str) else None
    return kind is not None and "model" in inspect.signature(kind).parameters


def _is_reference(item: Any) -> bool:
    return bool(getattr(item, "reference", False))


def _name(item: Any) -> str:
    name = getattr(item, "name", None) or getattr(item, "__name__", None) or type(item).__name__
    return str(name)


def label_of(item: Any) -> str:
    """Return the label of a strategy, by default the words in the name of its class or function."""
    label = getattr(item, "label", None)
    if isinstance(label, str):
        return label
    name = getattr(item, "__name__", None) or type(item).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(name)).replace("_", " ").strip().lower()
