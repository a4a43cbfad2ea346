"""Options of ``fastcep run`` for load shedding, and options of single shedders for ``run`` and ``evaluate``."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastcep.errors import ValidationError
from fastcep.shedding import by_name, detector_by_name
from fastcep.shedding.names import SHEDDERS

__all__ = ["ShedderOptions", "SheddingOptions", "has_option"]


@dataclass(frozen=True)
class ShedderOptions:
    """Options that only some shedders have.

    Attributes
    ----------
    f
        Share of the longest queue at which ``espice`` begins to shed: a number as text, or ``auto``; None: the default.
    literal
        Whether ``espice`` follows the paper to the letter.
    """

    f: str | None = None
    literal: bool = False

    def given(self) -> dict[str, Any]:
        """Return the options that were given, by name; raise `ValidationError` if f is not a number."""
        return ({} if self.f is None else {"f": _share(self.f)}) | ({"literal": True} if self.literal else {})

    def of(self, spelling: str) -> dict[str, Any]:
        """Return the given options for a shedder; raise `ValidationError` for one that it does not have."""
        given = self.given()
        for name in given:
            if not has_option(spelling, name):
                raise ValidationError(
                    f"--{name}: shedder {spelling!r} has no such option; leave it out, or give --shedder espice"
                )
        return given


@dataclass(frozen=True)
class SheddingOptions:
    """Latency bound, clock, shedder and related options.

    Attributes
    ----------
    latency_bound
        Duration as text, such as ``500us``; None measures no latency.
    shedder
        Name of the shedder; None: ``auto`` with a latency bound. ``none`` drops nothing.
    detector
        Name of the detector; None: the default detector of the shedder.
    seed
        Random seed of the shedder; None is 0.
    clock
        ``wall`` or ``virtual``.
    cost_table
        ``measured``, ``paper`` or the path of a file.
    on_memory_limit
        ``raise`` or ``shed``.
    index
        Equalities that index partial matches: ``full``, ``key`` or ``off``.
    models
        Folders of models for the shedder.
    own
        Options that only some shedders have.
    """

    latency_bound: str | None = None
    shedder: str | None = None
    detector: str | None = None
    seed: int | None = None
    clock: str = "wall"
    cost_table: str = "measured"
    on_memory_limit: str = "raise"
    index: str = "full"
    models: tuple[Path, ...] = ()
    own: ShedderOptions = field(default_factory=ShedderOptions)

    def engine(self) -> dict[str, Any]:
        """Return the options of the engine.

        Raises
        ------
        ValidationError
            If the shedder or detector is unknown, or a seed, model or option does not fit the shedder.
        """
        spelling = self.shedder or "auto"
        if self.shedder is None and not self._sheds:
            spelling = "none"
        if spelling == "none" and self.seed is not None:
            raise ValidationError("--seed needs a shedder; give --shedder NAME")
        if self.models and not self._takes_model(spelling):
            raise ValidationError(
                "--model needs a shedder that uses one; give --shedder hybrid, hyi, hys, pspice, pspice--, espice or "
                "auto"
            )
        if not self.models and self._takes_model(spelling) and spelling != "auto":
            raise ValidationError(
                f"--shedder {self.shedder} needs a model; create one with fastcep fit, and give --model FOLDER"
            )
        options = self.own.of(spelling)
        model_option = {"model": list(self.models)} if self.models else {}
        shedder = None if spelling == "none" else by_name(spelling, seed=self.seed or 0, **model_option, **options)
        detector = None if self.detector is None else detector_by_name(self.detector)
        if shedder is not None and self.detector == "queue" and options.get("f") == "auto":
            detector = shedder.detector("queue")  # the one that knows how to choose f
        return {
            "latency_bound": self.latency_bound,
            "shedder": shedder,
            "detector": detector,
            "clock": self.clock,
            "cost_table": self.cost_table,
            "on_memory_limit": self.on_memory_limit,
            "index": self.index,
        }

    @property
    def _sheds(self) -> bool:
        """True if there is anything to shed for."""
        return self.latency_bound is not None or self.on_memory_limit == "shed"

    @staticmethod
    def _takes_model(spelling: str) -> bool:
        return has_option(spelling, "model")

    def settings(self) -> dict[str, Any]:
        """Return the options that must not change when a run resumes, by option name."""
        return {
            "--latency-bound": self.latency_bound, "--shedder": self.shedder, "--detector": self.detector,
            "--seed": self.seed, "--clock": self.clock, "--cost-table": self.cost_table,
            "--on-memory-limit": self.on_memory_limit, "--index": self.index,
            "--model": [str(model) for model in self.models] or None,
            "--f": self.own.f, "--literal": self.own.literal or None,
        }  # fmt: skip


def has_option(spelling: str, name: str) -> bool:
    """Return whether a shedder is known and has an option."""
    return spelling in SHEDDERS and name in inspect.signature(SHEDDERS[spelling]).parameters


def _share(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValidationError(f"--f {text}: expected a number above 0 and below 1, such as 0.8, or auto") from None
