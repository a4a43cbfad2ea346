"""Hybrid load shedding: drop classes of events and partial matches by a model fitted on history."""

from __future__ import annotations

from fastcep.shedding.hybrid.shedder import Hybrid, HybridFit, HybridInput, HybridState

__all__ = ["Hybrid", "HybridFit", "HybridInput", "HybridState"]
