"""Hybrid load shedding: classes of events and partial matches, fitted on history, and what they are worth."""

from __future__ import annotations

from fastcep.shedding.hybrid.shedder import Hybrid, HybridInput, HybridState

__all__ = ["Hybrid", "HybridInput", "HybridState"]
