"""The strategies of an evaluation: from what a user gives to what makes shedders."""

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

__all__ = ["CopyFactory", "NamedFactory", "Strategy", "strategies_of"]


@dataclass(frozen=True)
class Strategy:
    """A strategy under evaluation.

    Attributes
    ----------
    name, label
        A word, and what people understand.
    reference
        Whether it knows more than a strategy can.
    makes
        Makes its shedders; None for what tells by itself what comes out, and for what has not learned yet.
    fits
        Learns; None if it need not.
    tells
        Tells by itself what comes out.
    knows
        Finds out what no strategy can know; None if it need not, or has.
    """

    name: str
    label: str
    reference: bool = False
    makes: ShedderFactory | None = None
    fits: ShedderFit | None = None
    tells: Reference | None = None
    knows: ReferenceFit | None = None

    def fitted(self, queries: Sequence[ast.Query], history: pa.Table, setting: Setting) -> Strategy:
        """Let it learn, if it does."""
        if self.fits is None:
            return self
        makes = self.fits.fit(queries, history, cost_table=setting.costs, index=setting.index)
        if not callable(makes):
            raise ValidationError(
                f"strategy {self.name!r}: fit() gave {makes!r}, expected a function that makes a shedder for a seed"
            )
        return replace(self, makes=makes, fits=None)

    def knowing(self, queries: Sequence[ast.Query], stream: Stream, setting: Setting) -> Strategy:
        """Let it find out, if it does."""
        if self.knows is None:
            return self
        return replace(self, makes=self.knows.knowing(queries, stream, setting), knows=None)

    def shedder(self, seed: int) -> Shedder:
        """Make a shedder."""
        assert self.makes is not None
        made = self.makes(seed)
        if isinstance(made, type) or not hasattr(made, "decide"):
            raise ValidationError(f"strategy {self.name!r} made {made!r}, expected a shedder")
        return made


@dataclass(frozen=True)
class NamedFactory:
    """Makes shedders by their spelling."""

    spelling: str
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, seed: int, /) -> Shedder:
        """Make a new one."""
        return by_name(self.spelling, seed=seed, **dict(self.options))


@dataclass(frozen=True)
class CopyFactory:
    """Gives copies of a shedder as it is; what it draws by is its own seed."""

    shedder: Shedder

    def __call__(self, seed: int, /) -> Shedder:
        """Copy it."""
        return copy.deepcopy(self.shedder)


def strategies_of(shedders: Any, seeds: Sequence[int], model: str | None) -> tuple[Strategy, ...]:
    """Find what is meant by each of the shedders.

    Parameters
    ----------
    shedders
        What a user gave: one, or a sequence.
    seeds
        Of what is drawn.
    model
        A folder for those that take one.

    Raises
    ------
    ValidationError
        If there is none, one is no strategy, two have one name, or none takes the model.
    """
    alone = isinstance(shedders, str) or not isinstance(shedders, Sequence)
    given = [shedders] if alone else list(shedders)
    if not given:
        raise ValidationError("shedders=[]: expected one or several, such as ['ri', 'rs']")
    found = tuple(_strategy(item, seeds, model) for item in given)
    for number, strategy in enumerate(found):
        if strategy.name in [other.name for other in found[:number]]:
            raise ValidationError(
                f"shedders: {strategy.name!r} is there twice; name each once, and give what you make a name of its own"
            )
    if model is not None and not any(_takes_model(item) for item in given):
        raise ValidationError(f"model={model!r}: none of the shedders takes a model; leave it out")
    return found


def _strategy(item: Any, seeds: Sequence[int], model: str | None) -> Strategy:
    if isinstance(item, str):
        return _spelled(item, model)
    if hasattr(item, "outcome"):
        return Strategy(item.name, _label(item), True, tells=item)
    if hasattr(item, "knowing"):
        return Strategy(item.name, _label(item), _is_reference(item), knows=item)
    if not isinstance(item, type) and hasattr(item, "decide"):  # though others of its class may be fitted
        return _own(item, seeds)
    if hasattr(item, "fit"):
        return Strategy(item.name, _label(item), _is_reference(item), fits=item)
    if callable(item):
        _check_seed(item)
        return Strategy(_name(item), _label(item), _is_reference(item), makes=item)
    raise ValidationError(
        f"shedders: found {item!r}; expected a spelling such as 'ri', a function that makes a shedder for a seed, a "
        "shedder, or an object with fit(queries, history)"
    )


def _check_seed(item: Any) -> None:
    """Refuse what cannot be called with a seed and nothing else."""
    try:
        inspect.signature(item).bind(0)
    except TypeError as error:
        raise ValidationError(
            f"shedders: {_name(item)!r} cannot be called with a seed alone ({error}); give a function that makes a "
            "shedder for a seed, such as lambda seed: …"
        ) from None
    except ValueError:  # it does not tell how it is called
        return


def _spelled(spelling: str, model: str | None) -> Strategy:
    if spelling in REFERENCES:
        return _strategy(REFERENCES[spelling](), (), model)
    kind = SHEDDERS.get(spelling)
    if kind is not None and model is not None and _takes_model(spelling):
        return Strategy(spelling, _label(kind), makes=NamedFactory(spelling, (("model", model),)))
    if kind is not None and hasattr(kind, "fit"):
        return Strategy(spelling, _label(kind), fits=cast(ShedderFit, kind))
    named = NamedFactory(spelling)
    try:
        named(0)
    except ValidationError as error:
        raise ValidationError(f"shedders: {error}") from None
    assert kind is not None
    return Strategy(spelling, _label(kind), makes=named)


def _own(shedder: Shedder, seeds: Sequence[int]) -> Strategy:
    if list(seeds) != [shedder.seed]:
        raise ValidationError(
            f"shedders: {shedder!r} draws by its own seed={shedder.seed}, and seeds are {list(seeds)}: give "
            f"seeds=[{shedder.seed}], or a function that makes it for a seed"
        )
    return Strategy(shedder.name, _label(shedder), _is_reference(shedder), makes=CopyFactory(shedder))


def _takes_model(item: Any) -> bool:
    kind = SHEDDERS.get(item) if isinstance(item, str) else None
    return kind is not None and "model" in inspect.signature(kind).parameters


def _is_reference(item: Any) -> bool:
    return bool(getattr(item, "reference", False))


def _name(item: Any) -> str:
    name = getattr(item, "name", None) or getattr(item, "__name__", None) or type(item).__name__
    return str(name)


def _label(item: Any) -> str:
    """What it says of itself, or the words of its class's or function's name."""
    label = getattr(item, "label", None)
    if isinstance(label, str):
        return label
    name = getattr(item, "__name__", None) or type(item).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(name)).replace("_", " ").strip().lower()
