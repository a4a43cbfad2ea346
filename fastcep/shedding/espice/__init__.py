"""eSPICE: the utility of events by type and position in their windows."""

from fastcep.shedding.espice.cumulative import cumulative_utility, utility_threshold
from fastcep.shedding.espice.model import ESpiceModel
from fastcep.shedding.espice.shedder import ESpice

__all__ = ["ESpice", "ESpiceModel", "cumulative_utility", "utility_threshold"]
