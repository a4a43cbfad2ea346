"""Experiments: what strategies of load shedding find of what there is to be found, and at what price."""

from fastcep.evaluate.experiment import evaluate
from fastcep.evaluate.outcome import Outcome
from fastcep.evaluate.protocols import Reference, ShedderFactory, ShedderFit
from fastcep.evaluate.report import Report
from fastcep.evaluate.targets import Target
from fastcep.evaluate.trial import Trial, Truth

__all__ = ["Outcome", "Reference", "Report", "ShedderFactory", "ShedderFit", "Target", "Trial", "Truth", "evaluate"]
