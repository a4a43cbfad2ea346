"""Experiments: what strategies of load shedding find of what there is to be found, and at what price."""

from fastcep.evaluate.experiment import evaluate
from fastcep.evaluate.outcome import Outcome
from fastcep.evaluate.protocols import Fits, Makes, Reference
from fastcep.evaluate.report import Report
from fastcep.evaluate.targets import Target
from fastcep.evaluate.trial import Trial, Truth

__all__ = ["Fits", "Makes", "Outcome", "Reference", "Report", "Target", "Trial", "Truth", "evaluate"]
