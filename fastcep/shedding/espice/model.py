"""Model of eSPICE: how many events of each type are at each position of a window, and how many are in matches.

Data flow: position counts of the history become the model; `ESpiceModel.cells` converts it to the size of the current
windows; `fastcep.shedding.espice.drop_table` orders these cells by utility.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.errors import ModelError, ValidationError
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables
from fastcep.shedding.counts.tables import metadata_of
from fastcep.shedding.espice.cumulative import BEST
from fastcep.shedding.espice.effect import Effect
from fastcep.shedding.espice.information import mutual_information
from fastcep.shedding.model import Model
from fastcep.stored import AMOUNT, Misfit, record, whole

__all__ = ["KIND", "Cells", "ESpiceModel"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KIND = "espice"
_NUMBERS = record({"positions": whole(1), "bin": whole(1), "windows": whole(1), "information": AMOUNT, "base": AMOUNT})
_COUNTS: dict[str, pa.DataType] = {
    "type": pa.string(), "position": pa.int64(), "events": pa.int64(), "matched": pa.int64(),
}  # fmt: skip
#: Largest number of cells of a model, so that a damaged one cannot exhaust the memory.
_MOST_CELLS = 1 << 26


@dataclass(frozen=True)
class Cells:
    """Cells of a model for windows of a size, by type and bin of positions.

    Attributes
    ----------
    size
        Number of events in a window.
    bin
        Number of events in a bin; the last bin may be smaller.
    events, matched
        Expected number per window of the events that can be bound, and of events in matches (an event counts once per
        match): float64[types, bins].
    rate
        Matches per event: float64[types, bins].
    utility
        Utility from 0 to 100: int64[types, bins].
    """

    size: float
    bin: int
    events: Floats
    matched: Floats
    rate: Floats
    utility: Ints


@dataclass(frozen=True)
class ESpiceModel:
    """Model of a query for `ESpice` (eSPICE, section 3.3).

    Attributes
    ----------
    query
        Query that the model was fitted for.
    positions
        N, the number of positions: the mean number of events in a window of the history.
    bin
        Number of positions in a bin.
    windows
        Number of windows in the history.
    counts
        Position counts of the history, see `fastcep.shedding.counts.position_counts`.
    parameters
        Parameters of the fit.
    effect
        Effect of drops on the work and on the matches. None: every event costs the same in each of its windows.
    """

    query: ast.Query
    positions: int
    bin: int
    windows: int
    counts: pa.Table
    parameters: Mapping[str, Any] = field(default_factory=dict)
    effect: Effect | None = None

    @property
    def bins(self) -> int:
        """Number of bins."""
        return ceil(self.positions / self.bin)

    @cached_property
    def events(self) -> Floats:
        """Number of events that can be bound, per window: float64[types, bins]. The position shares of the paper."""
        return self._table("events")

    @cached_property
    def matched(self) -> Floats:
        """Number of events in matches, per window: float64[types, bins]."""
        return self._table("matched")

    @cached_property
    def rate(self) -> Floats:
        """Matches per event: float64[types, bins].

        In a cell without events in the history it is the mean of the type; for a type without events, the largest.
        """
        of_type = _quotient(self.matched.sum(axis=1), self.events.sum(axis=1), np.inf)
        rate = _quotient(self.matched, self.events, of_type[:, None])
        return np.asarray(np.minimum(rate, rate[np.isfinite(rate)].max(initial=0.0)))

    @cached_property
    def negated(self) -> npt.NDArray[np.bool_]:
        """Mask of the types that a negated variable can bind: bool[types]. Dropping them could cause false matches."""
        names = {
            name for variable in pattern_variables(self.query.pattern) if variable.negated
            for name in variable.declaration.types
        }  # fmt: skip
        return np.array([name in names for name in self.query.schema.type_names], bool)

    @cached_property
    def information(self) -> float:
        """Mutual information in bits between type and position of an event and its part in matches, see `fit`."""
        bindable = self.events > 0
        return mutual_information(self.events[bindable] * self.windows, self.matched[bindable] * self.windows)

    def utility(self, *, literal: bool = False) -> Ints:
        """Return the utility of an event by type and bin: int64[types, bins] from 0 to 100.

        Parameters
        ----------
        literal
            Take the number of matches of the cell (eSPICE, section 3.3), not the matches per event of the cell. The
            number is low for rare types, also for those that every match needs.
        """
        return self._scaled(self.matched if literal else self.rate, literal)

    def cells(self, size: float, *, literal: bool = False) -> Cells:
        """Return the cells for windows of a number of events (eSPICE, section 3.6).

        Positions are scaled by ``size / positions``. Where a bin covers several cells of the model, or parts of them,
        it gets their mean.
        """
        if size == self.positions:
            return Cells(size, self.bin, self.events, self.matched, self.rate, self.utility(literal=literal))
        bin_size = max(1, round(self.bin * size / self.positions))
        ends = np.minimum(np.arange(ceil(size / bin_size) + 1) * (bin_size * self.positions / size), self.positions)
        widths = np.diff(ends)
        events, matched, spread = (self._rebinned(values, ends) for values in (self.events, self.matched, self.rate))
        rate = _quotient(matched, events, spread * self.bin / widths)  # without events: mean of the rates covered
        factor = size / self.positions
        count = matched * self.bin / widths
        utility = self._scaled(count if literal else rate, literal)
        return Cells(size, bin_size, events * factor, matched * factor, rate, utility)

    def parts(self, number: int) -> tuple[Floats, Floats]:
        """Return `events` and `matched` by type and part of a window, for equal parts: float64[types, number] each."""
        ends = np.linspace(0.0, self.positions, number + 1)
        return self._rebinned(self.events, ends), self._rebinned(self.matched, ends)

    @property
    def _ends(self) -> Floats:
        """Limits of the bins in positions: float64[bins + 1]."""
        return np.asarray(np.minimum(np.arange(self.bins + 1) * float(self.bin), self.positions))

    def _rebinned(self, values: Floats, ends: Floats) -> Floats:
        """Distribute values by bin to bins with other limits: float64[types, len(ends) - 1]."""
        sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
        at = np.interp(ends, self._ends, np.arange(self.bins + 1))  # linear in the bin, so one look-up for all types
        low = np.minimum(at.astype(np.int64), self.bins - 1)
        return np.diff(sums[:, low] + (at - low) * (sums[:, low + 1] - sums[:, low]), axis=1)

    def _scaled(self, values: Floats, literal: bool) -> Ints:
        """Return values relative to the largest of the model as utilities; a value above 0 is at least 1."""
        largest = float((self.matched if literal else self.rate).max(initial=0.0))
        utility = np.rint(BEST * values / largest) if largest > 0 else np.zeros(values.shape)
        utility = np.where(values > 0, np.clip(utility, 1, BEST), 0)
        return np.asarray(np.where(self.negated[:, None], BEST, utility), np.int64)

    def _table(self, column: str) -> Floats:
        """Return a column of the counts by type and bin, per window."""
        names = self.query.schema.type_names
        table = np.zeros((len(names), self.bins))
        rows = pc.index_in(self.counts["type"], value_set=pa.array(names, pa.string())).to_numpy()
        table[rows, self.counts["position"].to_numpy()] = self.counts[column].to_numpy()
        return table / self.windows

    def stored(self) -> Model:
        """Return the model in the form that is stored on disk."""
        numbers: dict[str, Any] = {
            "positions": self.positions, "bin": self.bin, "windows": self.windows, "information": self.information,
            "base": 0.0 if self.effect is None else self.effect.base,
        }  # fmt: skip
        parts = {"positions": self.counts} | ({} if self.effect is None else {"effect": self.effect.table()})
        return Model(KIND, self.query, dict(self.parameters), numbers, parts)

    @classmethod
    def of(cls, model: Model) -> ESpiceModel:
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
            numbers = model.numbers
            counts = _checked_counts(model.parts.get("positions"), model.query, numbers)
            effect = Effect.of(model.parts["effect"], numbers["base"]) if "effect" in model.parts else None
        except Misfit as fault:
            raise ModelError(
                f"model {KIND!r} of query {model.query.name!r} is malformed: {fault}; fit a new one with fastcep.fit()"
            ) from None
        return cls(
            model.query, numbers["positions"], numbers["bin"], numbers["windows"], counts, model.parameters, effect
        )


def _quotient(above: Floats, below: Floats, otherwise: npt.ArrayLike) -> Floats:
    """Divide; return ``otherwise`` where the divisor is 0."""
    out = np.broadcast_to(np.asarray(otherwise, np.float64), above.shape).copy()
    return np.asarray(np.divide(above, below, out=out, where=below > 0))


def _checked_counts(counts: pa.Table | None, query: ast.Query, numbers: Mapping[str, Any]) -> pa.Table:
    """Return the part ``positions``; raise `Misfit` if it is not a table of `position_counts` for this query."""
    if counts is None or list(zip(counts.schema.names, counts.schema.types, strict=True)) != list(_COUNTS.items()):
        raise Misfit("parts", "no table 'positions'", f"one with the columns {', '.join(_COUNTS)}")
    try:
        metadata = metadata_of("model", counts, "positions")
        bins, types = metadata["bins"], tuple(metadata["types"])
    except (ValidationError, LookupError, TypeError, ValueError):
        raise Misfit("positions", "other metadata", "those of position_counts") from None
    if bins != numbers["bin"] or types != tuple(query.schema.type_names):
        raise Misfit("positions", f"bins of {bins!r} and the types {types}", "those of the model and its schema")
    if any(counts[name].null_count for name in counts.column_names):
        raise Misfit("positions", "nulls", "none")
    if not set(counts["type"].to_pylist()) <= set(types):
        raise Misfit("positions.type", "an unknown type", f"one of {', '.join(types)}")
    width = ceil(numbers["positions"] / numbers["bin"])
    if width * len(types) > _MOST_CELLS:
        raise Misfit("numbers", f"{width * len(types):,} cells", f"at most {_MOST_CELLS:,}")
    position, events, matched = (counts[name].to_numpy() for name in ("position", "events", "matched"))
    if not ((position >= 0) & (position < width)).all() or not ((events > 0) & (matched >= 0)).all():
        raise Misfit("positions", "a number that is out of range", f"positions below {width}, events above 0, matched")
    if not (matched > 0).any():
        raise Misfit("positions.matched", "no match", "the matches of the history")
    return counts
