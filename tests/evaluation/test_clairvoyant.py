"""The compiled clairvoyant search equals its definition, evaluated in plain Python on small records."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from strategies import queries as strategies
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness
from support.shedding.shed_runs import query
from support.state_transfer import quiet

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.evaluation.clairvoyant_input import clairvoyant_of
from fastcep.plan import INDEXES
from fastcep.query import ast
from fastcep.query.patterns import is_monotonic
from fastcep.shedding.lineage import Lineage, observe

TABLE = fc.CostTable("mixed", event=2, relevant=3, visited=5, created=7, refused=11, match=13)
P = dict(zip(("event", "relevant", "visited", "created", "refused", "match"), (2, 3, 5, 7, 11, 13), strict=True))


class Definition:
    """Costs of a set of kept matches, by definition."""

    def __init__(self, record: Lineage, number: int, kept: set[int]) -> None:
        self.record, self.number, self.kept = record, number, kept
        self.parents, self.events = record.parents.tolist(), record.events.tolist()
        self.places: dict[int, list[int]] = {}
        for row, place in zip(record.placed.tolist(), record.places.tolist(), strict=True):
            self.places.setdefault(row, []).append(place)
        self.probes = list(zip(record.probes.tolist(), record.probed.tolist(), strict=True))
        self.chains = {match: self._chain(match) for match in kept}
        self.needed = set().union(*self.chains.values())
        self.used = {self.events[r] for r in self.needed}
        self.children: dict[int, list[int]] = {}
        for r in sorted(self.needed):
            self.children.setdefault(self.parents[r], []).append(r)
        self.last = {r: max(self.events[c] for c in self.children[r])
                     for r in self.needed if r in self.places and r in self.children}  # fmt: skip

    def _chain(self, r: int) -> set[int]:
        chain = set()
        while r >= 0:
            chain.add(r)
            r = self.parents[r]
        return chain

    def visits(self, r: int) -> int:
        """Return the number of visits of a row."""
        return sum(
            1 for place in self.places[r] for name, at in self.probes
            if name == place and self.events[r] < at <= self.last[r] and at in self.used
        )  # fmt: skip

    def visited_rows(self, e: int) -> int:
        """Return the number of rows that an event visits."""
        return sum(
            1 for name, at in self.probes if at == e
            for r, last in self.last.items() if name in self.places[r] and self.events[r] < e <= last
        )  # fmt: skip

    def costs(self, refused: bool = True) -> list[int]:
        event_costs = []
        for e in range(self.number):
            cost = P["event"]
            if e in self.used:
                cost += P["relevant"] + P["visited"] * self.visited_rows(e)
                for r in np.flatnonzero(self.record.events == e).tolist():
                    cost += P["match"] * (r in self.kept) + P["created"] * (r in self.last)
                    parent = self.parents[r]
                    arrives = parent < 0 or (parent in self.last and self.last[parent] >= e)
                    cost += P["refused"] * (refused and r in self.places and r not in self.last and arrives)
            event_costs.append(cost)
        return event_costs

    def consumption(self, r: int) -> int:
        if r not in self.last:
            return 0
        below = sum(P["match"] * (c in self.kept) + self.consumption(c) for c in self.children[r])
        return P["created"] + P["visited"] * self.visits(r) + below

    def items(self) -> Iterator[tuple[float, frozenset[int]]]:
        """Yield for each row and event the ratio of lost matches to saved cost, and the lost matches."""
        for r in self.last:
            lost = frozenset(m for m, chain in self.chains.items() if r in chain and m != r)
            yield len(lost) / self.consumption(r), lost
        for e in self.used:
            own = [r for r in self.needed if self.events[r] == e]
            lost = frozenset(m for m, chain in self.chains.items() if chain & set(own))
            saved = sum(P["match"] * (r in self.kept) + self.consumption(r) for r in own)
            yield len(lost) / (P["relevant"] + P["visited"] * self.visited_rows(e) + saved), lost


def observed(case: Case, index: str) -> tuple[Lineage, int]:
    """Return the record, and the number of events."""
    assume(is_planned(case.query) and is_monotonic(case.query) and case.events)
    assume(not isinstance(case.query.window, ast.ExplicitWindow))
    batch = next(iter(harness.batches(case.query.schema, case.events)))
    observation = quiet(observe, case.query, batch, cost_table=TABLE, index=index)
    return observation.records[0], len(observation.costs)


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.one_of(strategies.cases(), query_cases("stores")), st.sampled_from(INDEXES), st.randoms())
def test_costs_are_those_of_the_definition(case: Case, index: str, random: Random) -> None:
    record, events = observed(case, index)
    assume(len(record.matches) <= 60)
    clairvoyant = clairvoyant_of(record, events, TABLE)
    for share in (1.0, 0.5):
        kept = {m for m in record.matches.tolist() if random.random() <= share}
        mask = np.zeros(len(record.parents), np.uint8)
        mask[list(kept)] = 1
        event("some kept" if kept else "none kept")
        assert (clairvoyant.costs(mask) / 1000).tolist() == Definition(record, events, kept).costs()


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.one_of(strategies.cases(), query_cases("stores")), st.sampled_from(INDEXES))
def test_the_least_valuable_is_dropped_first(case: Case, index: str) -> None:
    """Each step loses the matches of an item with the lowest ratio; totals are the costs of the remaining matches."""
    record, events = observed(case, index)
    assume(0 < len(record.matches) <= 25)
    lost, totals, left = clairvoyant_of(record, events, TABLE).order()
    event(f"{min(len(totals), 6)} steps")
    kept = set(record.matches.tolist())
    for step in range(1, len(totals) + 1):
        definition = Definition(record, events, kept)
        assert (totals[step - 1], left[step - 1]) == (1000 * sum(definition.costs(refused=False)), len(kept))
        dropped = set(np.flatnonzero(lost == step).tolist())
        if step == len(totals):
            assert not kept and not dropped
            break
        items = list(definition.items())
        least = min(ratio for ratio, _ in items)
        assert dropped in [set(of) for ratio, of in items if ratio <= least * (1 + 1e-9)]
        kept -= dropped


@pytest.mark.parametrize("index", ["key", "full"])
def test_nothing_is_wasted_on_what_leads_to_no_match(index: str) -> None:
    """With all matches kept, Q1 costs less than half; no event costs more than in an engine without shedding."""
    observation = observe(query(), ds1(events=5_000, seed=4), index=index)
    (record,) = observation.records
    matched = np.zeros(len(record.parents), np.uint8)
    matched[record.matches] = 1
    costs = clairvoyant_of(record, 5_000, fc.CostTable.named("paper")).costs(matched) / 1000
    assert (costs <= observation.costs).all() and 0 < costs.sum() < 0.5 * observation.costs.sum()
