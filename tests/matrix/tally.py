"""How often clauses and paths were drawn together, and which pairs are refused."""

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
        Queries that were run.
    matches
        Matches that they have, by the reference matcher.
    together
        How often two clauses stood in one query, or a query with a clause took a path.
    refused
        How often a pair was refused, with the reason.
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
        """Count a refusal for the pairs that were present, in the order of the table."""
        own = set(present) | set(refusal.others)
        for one, other in itertools.product(refusal.ones, refusal.others):
            if one in own and other in own:
                self.refused[_ordered(one, other), refusal.reason] += 1

    def reason(self, pair: Pair) -> str | None:
        """Why a pair cannot be drawn; None if nothing refused it."""
        return next((reason for (own, reason), _ in self.refused.items() if own == pair), None)

    def empty(self) -> list[Pair]:
        """The pairs that were neither drawn nor refused."""
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
    """All pairs of clauses that are no alternatives, and all of a clause with a path."""
    clauses = [pair for pair in itertools.combinations(CLAUSES, 2) if not alternatives(*pair)]
    return clauses + list(itertools.product(CLAUSES, PATHS))


def alternatives(one: str, other: str) -> bool:
    """Whether a query can only have one of two clauses."""
    return any(one in group and other in group for group in ALTERNATIVES)
