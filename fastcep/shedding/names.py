"""Create detectors by their spelling; `fastcep.overload.names` has the shedders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastcep.overload.names import SHEDDERS, by_name, make
from fastcep.overload.protocols import Detector
from fastcep.shedding.detectors import MemoryUse, QueueLength, SmoothedLatency
from fastcep.shedding.prediction import PredictedLatency

__all__ = ["DETECTORS", "SHEDDERS", "by_name", "detector_by_name"]

DETECTORS: Mapping[str, type[Detector]] = {
    kind.name: kind for kind in (SmoothedLatency, QueueLength, PredictedLatency, MemoryUse)
}


def detector_by_name(spelling: str, **options: Any) -> Detector:
    """Create a detector by its spelling, such as ``"latency"``; see `by_name`."""
    detector: Detector = make("detector", DETECTORS, spelling, options)
    return detector
