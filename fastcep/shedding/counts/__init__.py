"""What the models of pSPICE and eSPICE are fitted from: counts over a stream, or over pieces of one, that add up.

`transition_counts` says how partial matches went from state to state, `position_counts` where in their windows events
stood and took part in matches. Both are pure functions of a piece of a stream; `added_transitions` and
`added_positions` make the table of the whole of those of the pieces.
"""

from fastcep.shedding.counts.matrix import matrix, mean_times, state_names
from fastcep.shedding.counts.positions import added as added_positions
from fastcep.shedding.counts.positions import position_counts, window_sizes
from fastcep.shedding.counts.transitions import added as added_transitions
from fastcep.shedding.counts.transitions import transition_counts

__all__ = [
    "added_positions",
    "added_transitions",
    "matrix",
    "mean_times",
    "position_counts",
    "state_names",
    "transition_counts",
    "window_sizes",
]
