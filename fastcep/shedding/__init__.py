"""Load shedding: shedders, detectors and models.

Shedders choose what to drop: events (`RandomEvents` and others) or partial matches (`RandomMatches` and others).
Detectors report overload. `fastcep.overload.protocols` defines their interfaces.
"""

from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.match_counts import MatchRate
from fastcep.overload.protocols import Classes, Detector, QueryView, Shedder
from fastcep.shedding.auto import Auto
from fastcep.shedding.classes import FixedClasses
from fastcep.shedding.detectors import MemoryUse, QueueLength, SmoothedLatency
from fastcep.shedding.espice import ESpice, cumulative_utility, utility_threshold
from fastcep.shedding.events import PatternWeightedEvents, RandomEvents, SelectivityEvents, TypeWeightedEvents
from fastcep.shedding.fit import fit
from fastcep.shedding.hybrid import Hybrid, HybridFit, HybridInput, HybridState
from fastcep.shedding.matches import BernoulliMatches, RandomMatches, SelectivityMatches
from fastcep.shedding.model import Model, load_model
from fastcep.shedding.names import by_name, detector_by_name
from fastcep.shedding.prediction import PredictedLatency
from fastcep.shedding.pspice import PSpice, completion_probability, remaining_time
from fastcep.shedding.utility import below, lowest

__all__ = [
    "Auto",
    "BernoulliMatches",
    "Classes",
    "Detector",
    "DetectorReading",
    "DropPlan",
    "ESpice",
    "FixedClasses",
    "Hybrid",
    "HybridFit",
    "HybridInput",
    "HybridState",
    "Load",
    "MatchRate",
    "MemoryUse",
    "Model",
    "PSpice",
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
    "completion_probability",
    "cumulative_utility",
    "detector_by_name",
    "fit",
    "load_model",
    "lowest",
    "remaining_time",
    "utility_threshold",
]
