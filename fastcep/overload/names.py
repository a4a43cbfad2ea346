"""Shedders and kinds of models by name: those of fastcep, and those that other packages register as entry points.

A package registers a class of shedders under the group ``fastcep.shedders``, and a function that fits models under the
group ``fastcep.models``::

    [project.entry-points."fastcep.shedders"]
    pspice = "my_package.pspice:PSpice"

Classes are imported when they are first used.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from os import PathLike
from typing import Any, TypeVar

from fastcep.errors import ValidationError
from fastcep.events.schema import suggestion
from fastcep.overload.protocols import Shedder

__all__ = ["MODELS", "REFERENCES", "SHEDDERS", "Registry", "as_shedder", "by_name", "check_options", "make"]

T = TypeVar("T")

#: Names of the references of `fastcep.evaluate`, which use knowledge of the future.
REFERENCES = ("oracle", "informed")


class Registry(Mapping[str, Any]):
    """Objects by name, imported when they are first used.

    Parameters
    ----------
    role
        What the objects are, for messages.
    group
        Group of entry points that adds to them.
    built_in
        Place of each object of fastcep, as ``"module:name"``. Other packages cannot replace them.
    """

    def __init__(self, role: str, group: str, built_in: Mapping[str, str]) -> None:
        self._role, self._group, self._built_in = role, group, built_in

    @cached_property
    def _places(self) -> Mapping[str, EntryPoint]:
        added = {entry.name: entry for entry in entry_points(group=self._group)}
        own = {name: EntryPoint(name, place, self._group) for name, place in self._built_in.items()}
        return own | {name: entry for name, entry in added.items() if name not in own}

    def __getitem__(self, name: str) -> Any:
        """Return the object; raise KeyError for an unknown name, and ValidationError if it cannot be imported."""
        place = self._places[name]
        try:
            return place.load()
        except Exception as error:
            package = "" if place.dist is None else f" of package {place.dist.name!r}"
            raise ValidationError(
                f"{self._role} {name!r}{package} cannot be loaded from {place.value!r}: "
                f"{type(error).__name__}: {error}; repair or uninstall the package"
            ) from error

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


#: Classes of shedders by spelling.
SHEDDERS = Registry("shedder", "fastcep.shedders", {
    "ri": "fastcep.shedding.events:RandomEvents",
    "si": "fastcep.shedding.events:SelectivityEvents",
    "rs": "fastcep.shedding.matches:RandomMatches",
    "ss": "fastcep.shedding.matches:SelectivityMatches",
    "pm-bl": "fastcep.shedding.matches:BernoulliMatches",
    "e-bl": "fastcep.shedding.events:TypeWeightedEvents",
    "bl": "fastcep.shedding.events:PatternWeightedEvents",
    "classes": "fastcep.shedding.classes:FixedClasses",
    "hybrid": "fastcep.shedding.hybrid:Hybrid",
    "hyi": "fastcep.shedding.hybrid:HybridInput",
    "hys": "fastcep.shedding.hybrid:HybridState",
    "pspice": "fastcep.shedding.pspice:PSpice",
    "pspice--": "fastcep.shedding.pspice:PSpiceProbability",
    "espice": "fastcep.shedding.espice:ESpice",
    "auto": "fastcep.shedding.auto:Auto",
})  # fmt: skip

#: Functions that fit models, by kind: they take query, history and options, and return a `Model`.
MODELS = Registry("model", "fastcep.models", {
    "hybrid": "fastcep.shedding.hybrid.fit:fit_model",
    "pspice": "fastcep.shedding.pspice.fit:fit_model",
    "espice": "fastcep.shedding.espice.fit:fit_model",
})  # fmt: skip


def by_name(spelling: str, **options: Any) -> Shedder:
    """Create a shedder by its spelling.

    Parameters
    ----------
    spelling
        Spelling such as ``"ri"``, of fastcep or of another package.
    **options
        Options of the class.

    Returns
    -------
    Shedder
        A new shedder.

    Raises
    ------
    ValidationError
        If the spelling or an option is unknown, or a required option is missing.
    """
    if spelling not in SHEDDERS and spelling in REFERENCES:
        raise ValidationError(
            f"{spelling!r} is not a shedder but a reference for comparisons: give it to fc.evaluate, and "
            "here one of "
            f"{', '.join(map(repr, SHEDDERS))}"
        )
    shedder: Shedder = make("shedder", SHEDDERS, spelling, options)
    return shedder


def as_shedder(shedder: Shedder | str | None, model: Any, *, needed: bool) -> Shedder | None:
    """Return the shedder that a user gives by its spelling, as an object, or None.

    Parameters
    ----------
    shedder
        The option ``shedder`` of an engine.
    model
        Its option ``model``: a model, a folder or a list of these; None: none.
    needed
        Whether there is anything to shed for; without it ``"auto"`` is no shedder.

    Raises
    ------
    ValidationError
        If the spelling is unknown, or a model is missing or not used.
    """
    if not isinstance(shedder, str):
        if model is not None:
            raise ValidationError(
                f"model={_shown(model)} needs the name of a shedder that takes a model: give shedder='hybrid' or "
                "'auto', or give the model to the shedder: fc.shedding.Hybrid(model)"
            )
        return shedder
    if shedder == "none" or (shedder == "auto" and not needed):
        if model is not None:
            remedy = "give latency_bound='…'" if shedder == "auto" else "give shedder='hybrid'"
            raise ValidationError(
                f"model={_shown(model)} is not used, because nothing is shed: {remedy}, or leave model out"
            )
        return None
    if model is None:
        return by_name(shedder)
    if shedder in SHEDDERS and "model" not in inspect.signature(SHEDDERS[shedder]).parameters:
        raise ValidationError(f"model={_shown(model)}: shedder {shedder!r} takes no model; leave it out")
    return by_name(shedder, model=model)


def make(role: str, classes: Mapping[str, Any], spelling: str, options: Mapping[str, Any]) -> Any:
    """Create an object of the class with this spelling; raise `ValidationError` for unknown or missing options."""
    if not isinstance(spelling, str) or spelling not in classes:
        close = suggestion(spelling, classes)
        known = close if "did you mean" in close else f"; there is {', '.join(map(repr, classes))}"
        raise ValidationError(f"unknown {role} {spelling!r}{known}")
    kind = classes[spelling]
    parameters = inspect.signature(kind).parameters
    check_options(f"{role} {spelling!r}", parameters, options)
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty and name not in options
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]  # fmt: skip
    if missing:
        hint = "; fit a model with fastcep.fit(), and give it or its folder as model=…" if "model" in missing else ""
        raise ValidationError(f"{role} {spelling!r} needs {' and '.join(missing)}{hint}")
    return kind(**options)


def check_options(owner: str, known: Collection[str], options: Iterable[str]) -> None:
    """Raise `ValidationError` for an option that is not known."""
    for option in options:
        if option not in known:
            raise ValidationError(f"{owner} has no option {option!r}{suggestion(option, known)}")


def _shown(model: Any) -> str:
    """Return a short text for a model."""
    return repr(str(model)) if isinstance(model, str | PathLike) else f"<{type(model).__name__}>"
