"""Load shedding: what is dropped when it is too much, and when that is.

Shedders say what to drop: `RandomEvents` and others whole events, `RandomMatches` and others partial matches. Detectors
say when. `fastcep.overload.protocols` has what an engine's control tells them and wants to know.
"""

from fastcep.overload.protocols import Classes, Detector, DetectorReading, DropPlan, Load, QueryView, Shedder
from fastcep.shedding.classes import FixedClasses
from fastcep.shedding.detectors import MemoryUse, QueueLength, SmoothedLatency
from fastcep.shedding.events import PatternWeightedEvents, RandomEvents, SelectivityEvents, TypeWeightedEvents
from fastcep.shedding.fit import fit
from fastcep.shedding.hybrid import Hybrid, HybridFit, HybridInput, HybridState
from fastcep.shedding.matches import BernoulliMatches, RandomMatches, SelectivityMatches
from fastcep.shedding.model import Model, load_model
from fastcep.shedding.names import by_name, detector_by_name
from fastcep.shedding.prediction import PredictedLatency
from fastcep.shedding.utility import below, lowest

__all__ = [
    "BernoulliMatches",
    "Classes",
    "Detector",
    "DetectorReading",
    "DropPlan",
    "FixedClasses",
    "Hybrid",
    "HybridFit",
    "HybridInput",
    "HybridState",
    "Load",
    "MemoryUse",
    "Model",
    "PatternWeightedEvents",
    "PredictedLatency",
    "QueryView",
    "QueueLength",
    "RandomEvents",
    "RandomMatches",
    "SelectivityEvents",
    "SelectivityMatches",
    "Shedder",
    "SmoothedLatency",
    "TypeWeightedEvents",
    "below",
    "by_name",
    "detector_by_name",
    "fit",
    "load_model",
    "lowest",
]
