"""Counts of clauses and paths that were drawn together, and the pairs that are rejected."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from matrix.clauses import ALTERNATIVES, CLAUSES
from matrix.refusals import NEVER, Refusal
from matrix.runs import PATHS

Pair = tuple[str, str]


@dataclass
class Tally:
    """Counts of one run of the matrix.

    Attributes
    ----------
    queries
        Number of queries that were run.
    matches
        Number of their matches, by the reference matcher.
    together
        How often two clauses were in one query, or a query with a clause took a path.
    refused
        How often a pair was rejected, with the reason.
    """

    queries: int = 0
    matches: int = 0
    together: Counter[Pair] = field(default_factory=Counter)
    refused: Counter[tuple[Pair, str]] = field(default_factory=lambda: Counter(dict.fromkeys(_never(), 0)))

    def note(self, clauses: Iterable[str], paths: Iterable[str]) -> None:
        """Count a query that was run."""
        self.queries += 1
        ordered = [clause for clause in CLAUSES if clause in set(clauses)]
        self.together.update(itertools.combinations(ordered, 2))
        self.together.update(itertools.product(ordered, paths))

    def refuse(self, present: Iterable[str], refusal: Refusal) -> None:
        """Count a rejection for the pairs that were present, in the order of the table."""
        own = set(present) | set(refusal.others)
        for one, other in itertools.product(refusal.ones, refusal.others):
            if one in own and other in own:
                self.refused[_ordered(one, other), refusal.reason] += 1

    def reason(self, pair: Pair) -> str | None:
        """Return the reason why a pair cannot be drawn; None if nothing rejected it."""
        return next((reason for (own, reason), _ in self.refused.items() if own == pair), None)

    def empty(self) -> list[Pair]:
        """Return the pairs that were neither drawn nor rejected."""
        return [pair for pair in all_pairs() if not self.together[pair] and self.reason(pair) is None]


def _never() -> Iterator[tuple[Pair, str]]:
    for refusal in NEVER:
        for one, other in itertools.product(refusal.ones, refusal.others):
            yield _ordered(one, other), refusal.reason


def _ordered(one: str, other: str) -> Pair:
    names = [*CLAUSES, *PATHS]
    first, second = sorted((one, other), key=names.index)
    return first, second


def all_pairs() -> list[Pair]:
    """Return all pairs of clauses that are not alternatives, and all pairs of a clause and a path."""
    clauses = [pair for pair in itertools.combinations(CLAUSES, 2) if not alternatives(*pair)]
    return clauses + list(itertools.product(CLAUSES, PATHS))


def alternatives(one: str, other: str) -> bool:
    """Return True if a query can have only one of two clauses."""
    return any(one in group and other in group for group in ALTERNATIVES)
