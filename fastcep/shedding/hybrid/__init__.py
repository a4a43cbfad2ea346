"""Hybrid load shedding: classes of events and partial matches, fitted on history, and what they are worth."""

from __future__ import annotations

from fastcep.shedding.hybrid.shedder import Hybrid, HybridFit, HybridInput, HybridState

__all__ = ["Hybrid", "HybridFit", "HybridInput", "HybridState"]
