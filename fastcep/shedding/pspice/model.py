"""Model of pSPICE: completion probability and remaining time of each state, by the remaining events of the window.

Invariant: both are 0 if no event remains, except the probability of a state that is already a match.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.errors import ModelError
from fastcep.query import ast
from fastcep.shedding.counts import matrix, mean_times, state_names
from fastcep.shedding.model import Model
from fastcep.shedding.pspice.markov import completion_probability, remaining_time
from fastcep.stored import AMOUNT, TEXT, Misfit, listed, record, whole

__all__ = ["PSpiceModel"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KIND = "pspice"
_NUMBERS = record({"bin": whole(1), "window": AMOUNT, "states": listed(TEXT)})
_UTILITY = pa.schema([
    ("state", pa.int32()), ("state_name", pa.string()), ("remaining", pa.int64()), ("probability", pa.float64()),
    ("time", pa.float64()),
])  # fmt: skip


@dataclass(frozen=True)
class PSpiceModel:
    """Model of a query for `PSpice` (pSPICE, section III-C).

    Attributes
    ----------
    query
        Query that the model was fitted for.
    states
        Names of the states of its plan, in the order of the plan.
    bin
        Number of events between two rows of the tables.
    window
        Mean number of events in a window of the history.
    probability, time
        Completion probability, and expected time until the window ends in ns: float64[rows, states]. Row r is for
        ``r * bin`` remaining events. Under skip_till_any: expected number of matches, and time of all descendants.
    counts
        Transition counts of the history, see `fastcep.shedding.counts.transition_counts`.
    parameters
        Parameters of the fit.
    """

    query: ast.Query
    states: tuple[str, ...]
    bin: int
    window: float
    probability: Floats
    time: Floats
    counts: pa.Table
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_counts(
        cls, query: ast.Query, counts: pa.Table, bin_size: int, rows: int, window: float, parameters: Mapping[str, Any]
    ) -> PSpiceModel:
        """Compute the model from transition counts, for ``rows`` bins of ``bin_size`` events."""
        names = state_names(counts)
        steps, times = matrix(counts), mean_times(counts)
        remaining = np.arange(rows + 1) * bin_size
        # Rows and columns of the matrix: start, the states, gone under skip_till_next, match.
        places = slice(1, len(names) - 1 - ("gone" in names))
        probability = completion_probability(steps, remaining)[:, places]
        time = remaining_time(steps, times, remaining)[:, places]
        return cls(query, names[places], bin_size, window, probability, time, counts, parameters)

    def at(self, remaining: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return completion probability and remaining time for numbers of remaining events.

        Both are interpolated between two rows. Interpolating their quotient would be wrong by a factor for few events
        (ALGORITHMS: pspice, utility).

        Parameters
        ----------
        remaining
            float64[n], from 0 on. Beyond the last row, its values are used.

        Returns
        -------
        probability, time
            float64[n, states] each.
        """
        place = np.clip(np.asarray(remaining, np.float64) / self.bin, 0.0, len(self.probability) - 1)
        low = np.minimum(place.astype(np.int64), max(len(self.probability) - 2, 0))
        share = (place - low)[:, None]
        high = np.minimum(low + 1, len(self.probability) - 1)
        probability, time = (
            (1 - share) * table[low] + share * table[high] for table in (self.probability, self.time)
        )
        return probability, time

    def stored(self) -> Model:
        """Return the model in the form that is stored on disk."""
        rows, states = self.probability.shape
        number = np.tile(np.arange(states, dtype=np.int32), rows)
        utility = pa.table(
            [
                number, pa.array([self.states[state] for state in number.tolist()], pa.string()),
                np.repeat(np.arange(rows, dtype=np.int64) * self.bin, states), self.probability.ravel(),
                self.time.ravel(),
            ],
            schema=_UTILITY,
        )  # fmt: skip
        numbers: dict[str, Any] = {"bin": self.bin, "window": self.window, "states": list(self.states)}
        return Model(KIND, self.query, dict(self.parameters), numbers, {"utility": utility, "transitions": self.counts})

    @classmethod
    def of(cls, model: Model) -> PSpiceModel:
        """Read a model that `stored` returned.

        Raises
        ------
        ModelError
            If the model is of another kind, or its content is malformed.
        """
        if model.kind != KIND:
            raise ModelError(
                f"a model of kind {model.kind!r}, expected {KIND!r}: fit one with fastcep.fit(query, history, "
                f"kind={KIND!r})"
            )
        try:
            _NUMBERS(model.numbers, "numbers")
            states, counts = tuple(model.numbers["states"]), model.parts.get("transitions")
            probability, time = _tables(model.parts.get("utility"), states, model.numbers["bin"])
            if counts is None:
                raise Misfit("parts", "no 'transitions'", "the counts of transitions")
        except Misfit as fault:
            raise ModelError(
                f"model {KIND!r} of query {model.query.name!r} is malformed: {fault}; fit a new one with fastcep.fit()"
            ) from None
        numbers = model.numbers
        return cls(
            model.query, states, numbers["bin"], numbers["window"], probability, time, counts, model.parameters
        )  # fmt: skip


def _tables(utility: pa.Table | None, states: tuple[str, ...], bin_size: int) -> tuple[Floats, Floats]:
    """Return the columns of the part ``utility`` as tables; raise `Misfit` if its rows are not those of `stored`."""
    if utility is None or utility.schema.remove_metadata() != _UTILITY or not states or not len(utility):
        raise Misfit("parts", "no table 'utility'", f"one with the columns {', '.join(_UTILITY.names)}")
    rows = len(utility) // len(states)
    remaining = np.repeat(np.arange(rows, dtype=np.int64) * bin_size, len(states))
    if len(utility) % len(states) or not np.array_equal(utility["remaining"].to_numpy(), remaining):
        raise Misfit("utility.remaining", "other rows", f"a row per state for each {bin_size:,} events")
    tables = tuple(utility[name].to_numpy().reshape(rows, len(states)) for name in ("probability", "time"))
    if not all((np.isfinite(table) & (table >= 0)).all() for table in tables):
        raise Misfit("utility", "a value that is negative or not finite", "numbers from 0 on")
    return tables[0], tables[1]
