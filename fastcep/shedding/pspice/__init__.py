"""pSPICE: the utility of partial matches from a Markov chain and a Markov reward process."""

from fastcep.shedding.pspice.markov import completion_probability, remaining_time
from fastcep.shedding.pspice.model import PSpiceModel
from fastcep.shedding.pspice.shedder import PSpice, PSpiceProbability

__all__ = ["PSpice", "PSpiceModel", "PSpiceProbability", "completion_probability", "remaining_time"]
