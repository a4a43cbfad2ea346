"""Flows between groups, and the shares that remain after drops, in plain Python: see ``fastcep._core.fit.cascade``.

Shares are the fixed points of a given number of rounds. Nothing is computed in place, and nothing is reused.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fastcep._core.fit.cascade import Cascade

ROUNDS = 200


@dataclass
class Plain:
    """A flow: children as (source, slice, kind, target, stored, matched), looks as (group, slice, kind, looked)."""

    children: list[tuple[int, int, int, int, float, float]]
    looks: list[tuple[int, int, int, float]]
    groups: int
    slices: int
    kinds: int
    prices: tuple[float, float, float]  # of a visit, of a match, and of a birth that is refused
    rows: list[float]  # by group, of one
    withheld: set[int] = field(default_factory=set)
    cut: dict[int, int] = field(default_factory=dict)

    def cascade(self, events: bool = True, rows: bool = True) -> Cascade:
        of = list(zip(*self.children, strict=True)) or [()] * 6
        look = list(zip(*self.looks, strict=True)) or [()] * 4
        ints = [np.array(column, np.int32) for column in (*of[:4], *look[:3])]
        return Cascade(
            *ints[:4], np.array(of[4], float), np.array(of[5], float), *ints[4:], np.array(look[3], float),
            self.groups, self.slices, self.kinds, np.array(self.prices), np.array(self.rows), events, rows,
        )  # fmt: skip

    def drop(self, events: bool, item: int, at: int) -> None:
        if events:
            self.withheld.add(item)
        else:
            self.cut[item] = min(at, self.until(item))

    def until(self, group: int) -> int:
        return self.cut.get(group, self.slices)

    # ------------------------------------------------------------------------------------------------- populations

    def births(self) -> dict[tuple[int, int], float]:
        found: dict[tuple[int, int], float] = defaultdict(float)
        for _, s, _, target, stored, _ in self.children:
            found[target, s] += stored
        return found

    def present(self, born: Any) -> dict[tuple[int, int], float]:
        """Return the mean size of a group in a slice, where the given share of each birth remains."""
        births = self.births()
        found = {}
        for g in range(self.groups):
            for s in range(self.slices):
                whole = sum(births[g, before] * born(g, before) for before in range(s))
                found[g, s] = whole + births[g, s] * born(g, s) * self.share(g, s)
        return found

    def share(self, group: int, s: int) -> float:
        """Return the mean lifetime in the slice of birth, as a share of it: 1 for starts of matches, otherwise 0.5."""
        own = [(source, stored) for source, at, _, target, stored, _ in self.children if (target, at) == (group, s)]
        whole = sum(stored for _, stored in own)
        return sum(stored * (1.0 if source < 0 else 0.5) for source, stored in own) / whole if whole > 0 else 1.0

    def left(self) -> tuple[Any, Any]:
        """Return the shares of births and of populations that remain."""
        births, there = self.births(), self.present(lambda g, s: 1.0)
        born = dict.fromkeys(there, 1.0)
        alive = dict(born)
        for _ in range(ROUNDS):
            made: dict[tuple[int, int], float] = defaultdict(float)
            for source, s, kind, target, stored, _ in self.children:
                if kind not in self.withheld:
                    made[target, s] += stored * (1.0 if source < 0 else alive[source, s])
            born = {
                (g, s): made[g, s] / births[g, s] if births[g, s] > 0 and s < self.until(g) else 0.0 for g, s in there
            }
            now = self.present(lambda g, s: born[g, s])  # noqa: B023 - used at once
            alive = {(g, s): now[g, s] / of if of > 0 and s < self.until(g) else 0.0 for (g, s), of in there.items()}
        return born, alive

    def expected(self) -> tuple[Any, Any, Any, Any]:
        """Return the matches and the work that come from a population in a slice, and from one that is born in it."""
        visit, match, refused = self.prices
        there = self.present(lambda g, s: 1.0)
        worth: dict[tuple[int, int], float] = dict.fromkeys(there, 0.0)
        burden = dict(worth)
        good, work = dict(worth), dict(worth)
        for _ in range(ROUNDS):
            good, work = dict.fromkeys(there, 0.0), dict.fromkeys(there, 0.0)
            for group, s, kind, looked in self.looks:
                work[group, s] += visit * looked * (kind not in self.withheld)
            for source, s, kind, target, stored, matched in self.children:
                if source < 0 or kind in self.withheld:
                    continue
                lives = stored if s < self.until(target) else 0.0
                good[source, s] += matched + lives * worth[target, s]
                own = match * matched + refused * (stored - lives)
                work[source, s] += own + lives * (self.rows[target] + burden[target, s])
            for total, of in ((worth, good), (burden, work)):
                for g, s in there:
                    parts = [
                        (self.share(g, s) if later == s else 1.0) * of[g, later] / there[g, later]
                        for later in range(s, self.until(g)) if there[g, later] > 0
                    ]  # fmt: skip
                    total[g, s] = sum(parts)
        return good, work, worth, burden

    # ---------------------------------------------------------------------------------------------------- what is left

    def weights(self) -> tuple[float, float, Any, Any, Any, Any]:
        """Return the cost, the matches, and the result of `Cascade.weights`."""
        visit, match, refused = self.prices
        _, alive = self.left()
        good, work, worth, burden = self.expected()
        cost = found = 0.0
        lost, spent = np.zeros((2, self.groups, self.slices))
        event_lost, event_spent = np.zeros((2, self.kinds))
        for group, s, kind, looked in self.looks:
            if kind not in self.withheld:
                cost += visit * looked * alive[group, s]
                event_spent[kind] += visit * looked * alive[group, s]
        for source, s, kind, target, stored, matched in self.children:
            if kind in self.withheld:
                continue
            by = 1.0 if source < 0 else alive[source, s]
            lives = by * stored if s < self.until(target) else 0.0
            own = match * by * matched + self.rows[target] * lives + refused * (by * stored - lives)
            cost, found = cost + own, found + by * matched
            event_lost[kind] += by * matched + lives * worth[target, s]
            event_spent[kind] += own + lives * burden[target, s]
            spent[target, s] += lives * max(0.0, self.rows[target] - refused)
        for g in range(self.groups):
            for s in range(self.slices):
                lost[g, s] += alive[g, s] * good[g, s]
                spent[g, s] += alive[g, s] * work[g, s]
        behind = [np.cumsum(of[:, ::-1], axis=1)[:, ::-1] for of in (lost, spent)]
        return cost, found, *behind, event_lost, event_spent


@st.composite
def flows(draw: Any) -> Plain:
    """Draw groups that come from earlier ones, some also from themselves with small flows, so that shares converge."""
    groups, slices, kinds = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    numbers = st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0])
    children: list[tuple[int, int, int, int, float, float]] = []
    for target in range(groups):
        for s in range(slices):
            others = 0.0
            for source in range(-1, target):
                if source < 0 and s > 0:
                    continue  # what begins a match does in the first slice
                for kind in range(kinds):
                    if draw(st.booleans()):
                        stored, matched = draw(numbers), draw(numbers)
                        others += stored
                        children.append((source, s, kind, target, stored, matched))
            if others and draw(st.booleans()):
                children.append((target, s, draw(st.integers(0, kinds - 1)), target, others / 2, draw(numbers)))
    cells = [(g, s, k) for g in range(groups) for s in range(slices) for k in range(kinds)]
    looks = [(*cell, draw(st.sampled_from([1.0, 4.0, 20.0]))) for cell in cells if draw(st.booleans())]
    prices = draw(st.sampled_from([(1.0, 0.0, 0.0), (2.0, 3.0, 1.0), (1.0, 5.0, 4.0), (0.0, 0.0, 0.0)]))
    rows = [draw(st.sampled_from([1.0, 2.0, 7.0])) for _ in range(groups)]
    return Plain(sorted(children), looks, groups, slices, kinds, prices, rows)
