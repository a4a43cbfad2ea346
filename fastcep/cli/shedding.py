"""The options of ``fastcep run`` about overload."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastcep.errors import ValidationError
from fastcep.shedding import by_name, detector_by_name
from fastcep.shedding.names import SHEDDERS

__all__ = ["SheddingOptions"]


@dataclass(frozen=True)
class SheddingOptions:
    """What is measured, and what may be dropped.

    Attributes
    ----------
    latency_bound
        A duration as text.
    shedder, detector
        Their spellings; None for none, or the shedder's usual one.
    seed
        Of what the shedder draws.
    clock
        ``wall`` or ``virtual``.
    cost_table
        ``measured``, ``paper`` or a file.
    on_memory_limit
        ``raise`` or ``shed``.
    index
        By which equalities rows are found.
    models
        Folders of models for the shedder.
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

    def engine(self) -> dict[str, Any]:
        """The options of the engine.

        Raises
        ------
        ValidationError
            If there is no such shedder or detector, or no use for a seed.
        """
        if self.shedder is None and self.seed is not None:
            raise ValidationError("--seed is what a shedder draws by; give --shedder NAME")
        if self.models and not self._learns():
            raise ValidationError("--model is for a shedder that learns; give --shedder hybrid, hyi or hys")
        if not self.models and self._learns():
            raise ValidationError(
                f"--shedder {self.shedder} needs a model; make one with fastcep fit, and give --model FOLDER"
            )
        more = {"model": list(self.models)} if self.models else {}
        return {
            "latency_bound": self.latency_bound,
            "shedder": None if self.shedder is None else by_name(self.shedder, seed=self.seed or 0, **more),
            "detector": None if self.detector is None else detector_by_name(self.detector),
            "clock": self.clock,
            "cost_table": self.cost_table,
            "on_memory_limit": self.on_memory_limit,
            "index": self.index,
        }

    def _learns(self) -> bool:
        kind = SHEDDERS.get(self.shedder or "")
        return kind is not None and "model" in inspect.signature(kind).parameters

    def settings(self) -> dict[str, Any]:
        """What a run that goes on has to have as the run before, as the options are written."""
        return {
            "--latency-bound": self.latency_bound, "--shedder": self.shedder, "--detector": self.detector,
            "--seed": self.seed, "--clock": self.clock, "--cost-table": self.cost_table,
            "--on-memory-limit": self.on_memory_limit, "--index": self.index,
            "--model": [str(model) for model in self.models] or None,
        }  # fmt: skip
