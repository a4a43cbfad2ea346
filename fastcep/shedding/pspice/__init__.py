"""pSPICE: the utility of partial matches from a Markov chain and a Markov reward process."""

from fastcep.shedding.pspice.markov import completion_probability, remaining_time

__all__ = ["completion_probability", "remaining_time"]
