"""The compiled clairvoyant search equals its definition, evaluated in plain Python on small records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from reference.matcher import Event
from strategies import queries as strategies
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness
from support.shedding.shed_runs import query
from support.state_transfer import quiet

import fastcep as fc
from fastcep._core.fit.clairvoyant import Clairvoyant
from fastcep.datasets import ds1
from fastcep.evaluation.clairvoyant_input import clairvoyant_of, matches_of_records
from fastcep.evaluation.oracle import Oracle
from fastcep.plan import INDEXES
from fastcep.query.patterns import pattern_variables
from fastcep.shedding.lineage import Lineage, observe

TABLE = fc.CostTable("mixed", event=2, relevant=3, visited=5, created=7, refused=11, match=13)
P = dict(zip(("event", "relevant", "visited", "created", "refused", "match"), (2, 3, 5, 7, 11, 13), strict=True))


class Definition:
    """Costs of a set of kept matches, by definition."""

    def __init__(self, record: Lineage, number: int, matched: list[int], kept: set[int]) -> None:
        self.record, self.number, self.matched, self.kept = record, number, matched, kept
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

    def worth(self, records: Iterable[int]) -> int:
        """Return the number of matches that these records are, those that are not kept aside."""
        return sum(self.matched[r] for r in records if r in self.kept)

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
                    cost += P["match"] * self.worth({r}) + P["created"] * (r in self.last)
                    parent = self.parents[r]
                    arrives = parent < 0 or (parent in self.last and self.last[parent] >= e)
                    cost += P["refused"] * (refused and r in self.places and r not in self.last and arrives)
            event_costs.append(cost)
        return event_costs

    def consumption(self, r: int) -> int:
        if r not in self.last:
            return 0
        below = sum(P["match"] * self.worth({c}) + self.consumption(c) for c in self.children[r])
        return P["created"] + P["visited"] * self.visits(r) + below

    def items(self) -> Iterator[tuple[float, frozenset[int]]]:
        """Yield for each row and event the ratio of lost matches to saved cost, and the lost matches."""
        for r in self.last:
            lost = frozenset(m for m, chain in self.chains.items() if r in chain and m != r)
            yield self.worth(lost) / self.consumption(r), lost
        for e in self.used:
            own = [r for r in self.needed if self.events[r] == e]
            lost = frozenset(m for m, chain in self.chains.items() if chain & set(own))
            saved = sum(P["match"] * self.worth({r}) + self.consumption(r) for r in own)
            yield self.worth(lost) / (P["relevant"] + P["visited"] * self.visited_rows(e) + saved), lost


@dataclass(frozen=True)
class Observed:
    """Record of a case, the number of its events, and the number of matches of each record."""

    record: Lineage
    events: int
    matched: list[int]

    def clairvoyant(self) -> Clairvoyant:
        return clairvoyant_of(self.record, self.events, TABLE, np.array(self.matched, np.int64))

    def definition(self, kept: set[int]) -> Definition:
        return Definition(self.record, self.events, self.matched, kept)

    def bindings(self, r: int) -> list[tuple[str, int]]:
        """Return the variables and sequence numbers that a record binds."""
        names = [variable.name for variable in pattern_variables(self.record.plan.query.pattern)]
        bound = []
        while r >= 0:
            bound.append((names[self.record.variables[r]], int(self.record.events[r])))
            r = int(self.record.parents[r])
        return sorted(bound)


def observed(case: Case, index: str) -> Observed:
    """Return the record of a case that the oracle supports."""
    Oracle().check([case.query])
    batch = next(iter(harness.batches(case.query.schema, case.events)))
    observation = quiet(observe, case.query, batch, cost_table=TABLE, index=index)
    (record,), events = observation.records, len(observation.costs)
    matched = matches_of_records(record, observation.matches, np.arange(events)).tolist()
    assert sum(matched) == len(observation.matches)
    return Observed(record, events, matched)


def is_supported(case: Case) -> bool:
    try:
        Oracle().check([case.query])
    except fc.ValidationError:
        return False
    return is_planned(case.query) and bool(case.events) and case.query.schema.sequence is None


CASES = st.one_of(strategies.cases(), query_cases("stores")).filter(is_supported)


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(CASES, st.sampled_from(INDEXES), st.randoms())
def test_costs_are_those_of_the_definition(case: Case, index: str, random: Random) -> None:
    seen = observed(case, index)
    assume(len(seen.record.matches) <= 60)
    clairvoyant = seen.clairvoyant()
    for share in (1.0, 0.5):
        kept = {m for m in seen.record.matches.tolist() if random.random() <= share}
        mask = np.zeros(len(seen.matched), np.uint8)
        mask[list(kept)] = 1
        event("some kept" if kept else "none kept")
        assert (clairvoyant.costs(mask) / 1000).tolist() == seen.definition(kept).costs()


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(CASES, st.sampled_from(INDEXES))
def test_the_least_valuable_is_dropped_first(case: Case, index: str) -> None:
    """Each step loses the matches of an item with the lowest ratio; totals are the costs of the remaining matches."""
    seen = observed(case, index)
    assume(0 < len(seen.record.matches) <= 25)
    lost, totals, left = seen.clairvoyant().order()
    event(f"{min(len(totals), 6)} steps")
    kept = set(seen.record.matches.tolist())
    for step in range(1, len(totals) + 1):
        definition = seen.definition(kept)
        assert (totals[step - 1], left[step - 1]) == (
            1000 * sum(definition.costs(refused=False)),
            definition.worth(kept),
        )
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


# ------------------------------------------------------------------------------------------------- explicit windows

SCHEMA = fc.Schema({name: {"k": "int64", "p": "int64"} for name in "ABCOXN"}, time="ts", type="type", time_unit="ns")
PATTERNS = [
    "SEQ(A a, B b, C c) WHERE a.k <= c.k", "SEQ(A a, B+ b[], C c)", "SEQ(A a, ANY(2, B b[] DISTINCT k))",
    "OR(SEQ(A a, B b), SEQ(A e, C c))", "ANY(2, A a, B b, C c)", "SEQ(A a, B? b, C c)",
]  # fmt: skip
WINDOWS = [
    "WINDOW OPEN EVERY 4 EVENTS CLOSE AFTER 12 EVENTS", "WINDOW OPEN ON O o CLOSE AFTER 14ns PARTITION BY p",
    "WINDOW OPEN ON O o CLOSE ON X x", "WINDOW OPEN ON O o CLOSE ON X x WHERE x.k = o.k", "WITHIN 10 EVENTS",
]  # fmt: skip
ONLY_MATCHES = fc.CostTable("matches", event=0, relevant=0, visited=0, created=0, refused=0, match=1)


def window_case(pattern: str, window: str, strategy: str, seed: int) -> Case:
    random = Random(seed)
    kinds = random.choices("ABCOX", [3, 4, 4, 2, 1], k=48)
    line = " ".join(f"{kind}(k={random.randrange(2)},p={random.randrange(2)})" for kind in kinds)
    text = f"PATTERN {pattern} {window} STRATEGY {strategy}"
    return Case(fc.parse(text, SCHEMA, name="q"), line, harness.stream(SCHEMA, line), [48])


def bound(bindings: dict[str, Any]) -> tuple[int | None, list[tuple[str, int]]]:
    """Return the window of a match, and its bindings as `Observed.bindings` does."""
    window = bindings.get("window_id")
    return window, sorted(
        (name, number) for name, value in bindings.items() if name != "window_id" and value is not None
        for number in (value if isinstance(value, list) else [value])
    )  # fmt: skip


def in_reference(case: Case, events: Sequence[Event]) -> list[tuple[int | None, list[tuple[str, int]]]]:
    return [bound(bindings) for bindings in harness.expected(case.query, SCHEMA, events)]


@pytest.mark.sample(8)
@pytest.mark.parametrize("strategy", ["skip_till_any", "skip_till_next"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_explicit_windows(pattern: str, window: str, strategy: str) -> None:
    """A record is one match per window; the events of the kept matches suffice to find them; costs are exact."""
    largest = 0
    for seed in range(4):
        case, random = window_case(pattern, window, strategy, seed), Random(seed)
        seen = observed(case, "full")
        truth = in_reference(case, case.events)
        windows = Counter(str(bindings) for _, bindings in truth)
        records = [r for r, number in enumerate(seen.matched) if number]
        assert windows == Counter({str(seen.bindings(r)): seen.matched[r] for r in records})
        largest = max([largest, *seen.matched])
        batch = next(iter(harness.batches(SCHEMA, case.events)))
        assert observe(case.query, batch, cost_table=ONLY_MATCHES).costs.sum() == len(truth)
        for share in (1.0, 0.6, 0.3):
            kept = {r for r in records if random.random() < share}
            definition = seen.definition(kept)
            mask = np.zeros(len(seen.matched), np.uint8)
            mask[list(kept)] = 1
            assert (seen.clairvoyant().costs(mask) / 1000).tolist() == definition.costs()
            rest = [
                one if one.seq in definition.used or one.type in "OX" else replace(one, type="N") for one in case.events
            ]
            wanted = [str(seen.bindings(r)) for r in kept for _ in range(seen.matched[r])]
            found = Counter(str(bindings) for _, bindings in in_reference(case, rest))
            assert Counter(wanted) <= found
    assert (largest > 1) == window.startswith("WINDOW")
