"""References by their spelling: what is possible if more is known than a strategy can know."""

from __future__ import annotations

from fastcep.evaluate.informed import Informed
from fastcep.evaluate.oracle import Oracle
from fastcep.evaluate.protocols import Fits, Knows, Makes, Reference

__all__ = ["REFERENCES"]

#: By name; each stands for itself wherever its name is given.
REFERENCES: dict[str, Reference | Makes | Fits | Knows] = {"oracle": Oracle(), "informed": Informed()}
