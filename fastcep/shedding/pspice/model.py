"""Model of pSPICE: completion probability and remaining time of each state, by the remaining events of the window.

Invariant: both are 0 if no event remains, except the probability of a state that is already a match.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.errors import ModelError, ValidationError
from fastcep.overload.match_counts import MatchRate
from fastcep.query import ast
from fastcep.shedding.counts import matrix, mean_times, state_names
from fastcep.shedding.counts.chain_states import ChainStates
from fastcep.shedding.counts.lifetimes import MATCH, START
from fastcep.shedding.counts.matrix import dense
from fastcep.shedding.counts.tables import metadata_of
from fastcep.shedding.model import Model
from fastcep.shedding.pspice.children import Children
from fastcep.shedding.pspice.markov import completion_probability, remaining_time
from fastcep.shedding.pspice.overlap import Overlap
from fastcep.stored import TEXT, Misfit, listed, number, record, whole

__all__ = ["PSpiceModel"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KIND = "pspice"
_NUMBERS = record({"bin": whole(1), "window": number(1.0), "states": listed(TEXT), "counted_window": number(0.0)})
_UTILITY: dict[str, pa.DataType] = {
    "state": pa.int32(), "state_name": pa.string(), "remaining": pa.int64(), "probability": pa.float64(),
    "time": pa.float64(),
}  # fmt: skip
_COUNTS: dict[str, pa.DataType] = {
    "source": pa.int32(), "target": pa.int32(), "source_name": pa.string(), "target_name": pa.string(),
    "observations": pa.int64(), "stayed": pa.int64(), "met": pa.int64(), "time": pa.float64(),
}  # fmt: skip


@dataclass(frozen=True)
class Chain:
    """Transitions of the partial matches of m states at an event, as means of the history.

    Attributes
    ----------
    stays
        Share that stays in its state: float64[m].
    children
        Mean number of partial matches created, by state of the parent and of the child: float64[m, m].
    matches
        Mean number of matches completed: float64[m].
    stay_work, birth_work, match_work
        Mean time in ns for a partial match itself, for the creation of its children by state, and for its matches:
        float64[m], float64[m, m], float64[m].
    births, begin_work
        Number of partial matches that events create alone, and the time for that in ns, by state: float64[m].
    begin_matches
        Number of matches that events complete alone.
    events, met
        Number of events of the history, and under explicit windows the sum of the sizes of these (else the same).
    fixed
        Time in ns that all events take whatever is dropped.
    """

    stays: Floats
    children: Floats
    matches: Floats
    stay_work: Floats
    birth_work: Floats
    match_work: Floats
    births: Floats
    begin_work: Floats
    begin_matches: float
    events: float
    met: float
    fixed: float


@dataclass(frozen=True)
class PSpiceModel:
    """Model of a query for `PSpice` (pSPICE, section III-C).

    Attributes
    ----------
    query
        Query that the model was fitted for.
    states
        Names of the states of its Markov chain, see `chain_states`.
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
    children
        Children of partial matches by age on the history; None if they were not counted.
    """

    query: ast.Query
    states: tuple[str, ...]
    bin: int
    window: float
    probability: Floats
    time: Floats
    counts: pa.Table
    parameters: Mapping[str, Any] = field(default_factory=dict)
    children: Children | None = None

    @classmethod
    def of_counts(
        cls, query: ast.Query, counts: pa.Table, bin_size: int, rows: int, window: float, parameters: Mapping[str, Any]
    ) -> PSpiceModel:
        """Compute the model from transition counts, for ``rows`` bins of ``bin_size`` events."""
        names = state_names(counts)
        steps, times = matrix(counts), mean_times(counts)
        remaining = np.arange(rows + 1) * bin_size
        places = _places(names)
        probability = completion_probability(steps, remaining)[:, places]
        time = remaining_time(steps, times, remaining)[:, places]
        return cls(query, names[places], bin_size, window, probability, time, counts, parameters)

    def chain(self) -> Chain:
        """Return the transitions of its states at an event."""
        names = state_names(self.counts)
        observed, stayed, events_met, time = dense(self.counts, names)
        metadata = metadata_of("chain", self.counts, "transitions")
        own, stayed_by_state = _places(names), stayed.diagonal()
        met = events_met.diagonal()
        ever = met > 0  # a state that never met an event keeps its partial matches
        mean = np.divide(1.0, met, out=np.zeros(len(met)), where=ever)
        children = (observed - np.diag(stayed_by_state)) * mean[:, None]
        spent = time * mean[:, None]
        between = spent[own, own].copy()
        np.fill_diagonal(between, 0.0)
        match_work = self.match_time() * children[own, -1]
        return Chain(
            stays=np.where(ever, stayed_by_state * mean, 1.0)[own], children=children[own, own],
            matches=children[own, -1], stay_work=spent.sum(axis=1)[own] - between.sum(axis=1) - match_work,
            birth_work=between, match_work=match_work, births=observed[0, own], begin_work=time[0, own],
            begin_matches=float(observed[0, -1]), events=float(metadata["stream"]["events"]),
            met=float(met[0]), fixed=float(time[0].sum() - time[0, own].sum()),
        )  # fmt: skip

    @cached_property
    def chain_states(self) -> ChainStates:
        """States of the Markov chain, and the states and classes of the plan to which they belong."""
        return ChainStates(self.query, metadata_of("chain_states", self.counts, "transitions")["plan_states"])

    def knows_age(self) -> bool:
        """Return whether the matcher knows the age of a partial match; under CLOSE ON it does not."""
        window = self.query.window
        return not isinstance(window, ast.ExplicitWindow) or not window.closing.types

    @cached_property
    def match_rate(self) -> MatchRate:
        """Match rate of the history."""
        events = metadata_of("match_rate", self.counts, "transitions")["stream"]["events"]
        is_match = self.counts["target"].to_numpy() == MATCH
        return MatchRate(events, int(self.counts["observations"].to_numpy()[is_match].sum()), self.window)

    def match_time(self) -> float:
        """Return the time in ns that a match takes alone."""
        return float(metadata_of("match_time", self.counts, "transitions")["match_time"])

    def overlap(self, window: float, *, shared: bool = True) -> Overlap:
        """Return the overlap of windows of a number of events.

        Parameters
        ----------
        window
            Number of events in a window.
        shared
            Whether the matcher has a partial match once for all its windows, not once in each.
        """
        chain = self.chain()
        return Overlap.of(self.query.window, window, chain.met / chain.events) if shared else Overlap(window)

    def expected_matches(self, remaining: Floats, overlap: Overlap) -> Floats:
        """Return the expected number of matches of a partial match in all its windows.

        Parameters
        ----------
        remaining
            Number of events that remain in the latest of its windows: float64[n].
        overlap
            Overlap of the windows.

        Returns
        -------
        numpy.ndarray
            float64[n, states].
        """
        earlier, number = overlap.weights()
        left = remaining[None, :] - earlier[:, None]
        probability = self.at(np.maximum(left, 0.0).ravel())[0].reshape(*left.shape, -1)
        return np.asarray(np.einsum("k,kns->ns", number, probability * (left >= 0)[:, :, None]))

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
        probability, time = ((1 - share) * table[low] + share * table[high] for table in (self.probability, self.time))
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
            schema=pa.schema(list(_UTILITY.items())),
        )  # fmt: skip
        numbers: dict[str, Any] = {"bin": self.bin, "window": self.window, "states": list(self.states)}
        numbers["counted_window"] = 0.0 if self.children is None else self.children.window
        parts = {"utility": utility, "transitions": self.counts}
        return Model(
            KIND, self.query, dict(self.parameters), numbers,
            parts if self.children is None else parts | self.children.tables(),
        )  # fmt: skip

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
            numbers, states = model.numbers, tuple(model.numbers["states"])
            probability, time = _tables(model.parts.get("utility"), states, numbers["bin"])
            counts = _checked_counts(model.query, model.parts.get("transitions"), states)
            counted = numbers["counted_window"]
            read = cls(
                model.query, states, numbers["bin"], numbers["window"], probability, time, counts, model.parameters,
                Children.of(model.parts, len(states), counted) if counted else None,
            )  # fmt: skip
            if not read.chain().met > 0:
                raise Misfit("transitions", "no event", "the events of the history")
        except Misfit as fault:
            raise ModelError(
                f"model {KIND!r} of query {model.query.name!r} is malformed: {fault}; fit a new one with fastcep.fit()"
            ) from None
        return read


def _places(names: tuple[str, ...]) -> slice:
    """Return the place of the plan's states among start, the states, gone (under skip_till_next) and match."""
    return slice(1, len(names) - 1 - ("gone" in names))


def _tables(utility: pa.Table | None, states: tuple[str, ...], bin_size: int) -> tuple[Floats, Floats]:
    """Return the columns of the part ``utility`` as tables; raise `Misfit` if its rows are not those of `stored`."""
    utility = _with_columns("utility", utility, _UTILITY)
    if not states or not len(utility):
        raise Misfit("utility", "no rows", "a row for each state")
    rows = len(utility) // len(states)
    remaining = np.repeat(np.arange(rows, dtype=np.int64) * bin_size, len(states))
    if len(utility) % len(states) or not np.array_equal(utility["remaining"].to_numpy(), remaining):
        raise Misfit("utility.remaining", "other rows", f"a row per state for each {bin_size:,} events")
    numbers = np.tile(np.arange(len(states)), rows)
    if (
        not np.array_equal(utility["state"].to_numpy(), numbers)
        or utility["state_name"].to_pylist() != [*states] * rows
    ):
        raise Misfit("utility.state", "other states", f"{', '.join(states)}, in this order")
    tables = tuple(utility[name].to_numpy().reshape(rows, len(states)) for name in ("probability", "time"))
    if not all((np.isfinite(table) & (table >= 0)).all() for table in tables):
        raise Misfit("utility", "a value that is negative or not finite", "numbers from 0 on")
    return tables[0], tables[1]


def _checked_counts(query: ast.Query, counts: pa.Table | None, states: tuple[str, ...]) -> pa.Table:
    """Return the part ``transitions``; raise `Misfit` if it is not a table of `transition_counts` for these states."""
    counts = _with_columns("transitions", counts, _COUNTS)
    try:
        metadata = metadata_of("model", counts, "transitions")
        described = tuple(metadata["states"]), metadata["strategy"], metadata["stream"]["events"]
        match_time = metadata["match_time"]
        of_chain = tuple(ChainStates(query, metadata["plan_states"]).names)
    except (ValidationError, LookupError, TypeError, ValueError):
        raise Misfit("transitions", "other metadata", "those of transition_counts") from None
    if described[0] != states or of_chain != states or described[1] not in ("skip_till_any", "skip_till_next"):
        raise Misfit("transitions", f"states {described[0]} under {described[1]!r}", f"{states}")
    whole(1)(described[2], "transitions.stream.events")
    number(0.0)(match_time, "transitions.match_time")
    if any(counts[name].null_count for name in counts.column_names):
        raise Misfit("transitions", "nulls", "none")
    source, target, observations, stayed, met, time = (
        counts[name].to_numpy() for name in ("source", "target", "observations", "stayed", "met", "time")
    )
    for column, least in ((source, START), (target, MATCH)):
        if not ((column >= least) & (column < len(states))).all():
            raise Misfit("transitions", "an unknown state", f"numbers from {least} to {len(states) - 1}")
    is_known = (stayed >= 0) & (stayed <= observations) & (met >= stayed) & np.isfinite(time) & (time >= 0)
    if not is_known.all():
        raise Misfit(
            "transitions", "a count or time that is out of range", "0 <= stayed <= observations and met, and 0 <= time"
        )
    return counts


def _with_columns(name: str, part: pa.Table | None, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Return a part; raise `Misfit` if it is missing, or has other columns or types."""
    if part is None or list(zip(part.schema.names, part.schema.types, strict=True)) != list(columns.items()):
        raise Misfit("parts", f"no table {name!r}", f"one with the columns {', '.join(columns)}")
    return part
