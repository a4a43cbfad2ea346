"""Experiments that compare load shedding strategies: their recall, precision, latency and overhead."""

from fastcep.evaluation.experiment import evaluate
from fastcep.evaluation.outcome import Outcome
from fastcep.evaluation.protocols import Reference, ShedderFactory, ShedderFit
from fastcep.evaluation.report import Report
from fastcep.evaluation.targets import Target
from fastcep.evaluation.trial import Trial, Truth

__all__ = ["Outcome", "Reference", "Report", "ShedderFactory", "ShedderFit", "Target", "Trial", "Truth", "evaluate"]
