"""Counts over a stream, or over pieces of one, to fit the models of pSPICE and eSPICE.

`transition_counts` counts the transitions of partial matches between states, `position_counts` the positions in their
windows at which events occur and take part in matches. Both are pure functions of a piece of a stream.
`added_transitions` and `added_positions` add up the tables of the pieces to that of the stream.
"""

from fastcep.shedding.counts.matrix import matrix, mean_times, state_names
from fastcep.shedding.counts.positions import added as added_positions
from fastcep.shedding.counts.positions import position_counts, size_counts, window_sizes
from fastcep.shedding.counts.transitions import added as added_transitions
from fastcep.shedding.counts.transitions import transition_counts, window_size

__all__ = [
    "added_positions",
    "added_transitions",
    "matrix",
    "mean_times",
    "position_counts",
    "size_counts",
    "state_names",
    "transition_counts",
    "window_size",
    "window_sizes",
]
