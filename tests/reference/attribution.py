"""Contribution and consumption by their definition, computed for one partial match after the other; slow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from fastcep.events import EventBatch, StringTable
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables
from fastcep.shedding.lineage import Lineage


def is_output_ordered(query: ast.Query) -> bool:
    """Whether all rows live as long as their window, and matches are told as they come."""
    return (
        not any(variable.negated for variable in pattern_variables(query.pattern))
        and not isinstance(query.pattern, ast.Periodic)
        and query.select == "each" and query.consume == "zero" and query.limit is None
        and not isinstance(query.window, ast.ExplicitWindow) and query.strategy == "skip_till_any"
    )  # fmt: skip


def times_of(query: ast.Query, events: Any) -> Any:
    """Return the times of the events of a piece of a stream, ns."""
    return EventBatch.from_data(query.schema, events, StringTable(), "events").time


def slice_of(window: ast.Window, times: Any, start: int, event: int, slices: int) -> int:
    """Return the slice of the window of a start in which another event comes; -1 after the end of the window."""
    if isinstance(window, ast.CountWindow):
        age, span = event - start, window.events
        return -1 if age >= span else age * slices // span
    if isinstance(window, ast.TimeWindow):
        age, span = int(times[event] - times[start]), window.nanoseconds
        if age > span:
            return -1
        return min(slices - 1, age * slices // span) if span else 0
    return 0


class Definition:
    """Contribution and consumption of a record, for comparison with an `Account`.

    Attributes
    ----------
    visits
        Number of visits, by record, slice and probe.
    contribution, consumption
        By record and slice.
    """

    def __init__(self, record: Lineage, times: Any, slices: int, table: fc.CostTable) -> None:
        n, window = len(record.parents), record.plan.query.window
        self.chains = [_chain(record, number) for number in range(n)]
        starts = [int(record.events[chain[-1]]) for chain in self.chains]
        self.born = [slice_of(window, times, starts[r], int(record.events[r]), slices) for r in range(n)]
        stored = set(record.placed.tolist())
        self.own = np.zeros((n, slices))
        self.visits: list[tuple[int, int, int]] = []  # record, slice, probe
        rows = list(zip(record.placed.tolist(), record.places.tolist(), strict=True))
        for number, (name, at) in enumerate(zip(record.probes.tolist(), record.probed.tolist(), strict=True)):
            for r, place in rows:
                s = slice_of(window, times, starts[r], at, slices)
                if place == name and record.events[r] < at and s >= 0:
                    self.visits.append((r, s, number))
                    self.own[r, s] += table.visited
        self.contribution, self.consumption = np.zeros((n, slices)), self.own.copy()
        for r in range(n):
            made = np.zeros(slices)
            made[self.born[r]] = table.created * (r in stored) + table.match * int(np.sum(record.matches == r))
            self.consumption[r] += made
            for ancestor in self.chains[r][1:]:
                self.contribution[ancestor, self.born[r]] += int(np.sum(record.matches == r))
                self.consumption[ancestor] += self.own[r] + made


def _chain(record: Lineage, number: int) -> list[int]:
    """Return a record and its ancestors, from the record back."""
    found = []
    while number >= 0:
        found.append(number)
        number = int(record.parents[number])
    return found


def lists(table: pa.Table, name: str) -> Any:
    """Return a column of lists as an array."""
    return np.array(table[name].to_pylist(), float)
